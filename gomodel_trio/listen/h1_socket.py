"""A connected socket that never blocks, plain or TLS: reads and writes that try first and wait only where they must.

Layer: listen. Source: performance.md (optimistic I/O, one checkpoint in 16 operations); ssl's notes on non-blocking sockets.
"""

import contextlib
import socket
import ssl
import struct
from typing import Final

import trio

from gomodel_trio.listen.tls import say_goodbye

_RESET: Final = struct.pack("ii", 1, 0)
_FAIRNESS: Final = 15
"""One operation in 16 lets the other tasks run, and meets its cancellation, even if it never has to wait."""


class H1Socket:
    """Reads and writes of one task. What a cancelled write left unsent goes out ahead of the next one, so that framing stays intact."""

    __slots__ = ("_operations", "_sock", "fd", "is_tls", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._operations = 0
        self.fd = sock.fileno()
        self.is_tls = isinstance(sock, ssl.SSLSocket)
        self.unsent = bytearray()

    def is_turn_over(self) -> bool:
        """Count an operation; whether it is time to let others run."""
        self._operations += 1
        return not self._operations & _FAIRNESS

    async def handshake(self) -> None:
        """Do TLS's handshake, if this is TLS. Raises OSError."""
        sock = self._sock
        while isinstance(sock, ssl.SSLSocket):
            try:
                sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self.fd)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self.fd)

    async def receive(self, most_bytes: int, *, waits_first: bool = False) -> bytes:
        """Read what there is; b"" at the end or where the connection is broken. `waits_first`: nothing can be here yet."""
        if waits_first and not self.is_tls:  # TLS may hold decrypted bytes that make no socket readable
            await trio.lowlevel.wait_readable(self.fd)
        elif self.is_turn_over():
            await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._sock.recv(most_bytes)
            except (BlockingIOError, ssl.SSLWantReadError):
                await trio.lowlevel.wait_readable(self.fd)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self.fd)
            except OSError:
                return b""

    def send_now(self, data: bytes) -> bool:
        """Send without waiting; whether all is gone. What is not stays in `unsent`. Raises OSError."""
        if self.unsent:
            self.unsent += data
            return False
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        if sent == len(data):
            return True
        self.unsent += memoryview(data)[sent:]
        return False

    async def flush(self) -> None:
        """Send what is unsent, waiting for the client to read. Raises OSError."""
        wants_read = False
        while self.unsent:
            if wants_read:
                await trio.lowlevel.wait_readable(self.fd)
            else:
                await trio.lowlevel.wait_writable(self.fd)
            wants_read = False
            try:
                # TLS demands the same bytes again after a refusal, and gets them: only what was sent is taken off.
                del self.unsent[: self._sock.send(self.unsent)]
            except (BlockingIOError, ssl.SSLWantWriteError):
                pass
            except ssl.SSLWantReadError:
                wants_read = True

    def has_bytes(self) -> bool:
        """Whether something has come that nobody has read."""
        try:
            return bool(socket.socket.recv(self._sock, 1, socket.MSG_PEEK))
        except OSError:
            return False

    def end_sending(self, *, is_complete: bool) -> None:
        """Say that nothing more follows; an incomplete answer gets no goodbye of TLS's."""
        if is_complete:
            say_goodbye(self._sock)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def discard(self) -> int:
        """After `end_sending`: read and drop what there is, undecrypted; 0 at the end."""
        while True:
            try:
                return len(socket.socket.recv(self._sock, 65536))
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.fd)
            except OSError:
                return 0

    def sever(self) -> None:
        """Break the connection from outside of its task, which is woken where it waits."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self, *, resets: bool) -> None:
        """Close; with a reset, so that what is still under way is dropped and the client sees a failure."""
        if resets:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        trio.lowlevel.notify_closing(self.fd)
        self._sock.close()
