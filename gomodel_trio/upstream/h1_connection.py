"""One HTTP/1.1 connection: sends a request, receives what answers it, and knows whether it can serve again.

Layer: upstream. Source: performance.md (optimistic non-blocking calls, waiting first where nothing can have come yet), RFC 9112 §9.
"""

import socket
import ssl
from typing import Final

import trio

from gomodel_trio.upstream.h1_parser import AnswerParser
from gomodel_trio.upstream.h1_request import Message

RECEIVE_BYTES: Final = 64 << 10
_JOINED_BYTES: Final = 64 << 10
"""Up to here head and body are joined for one send: copying is cheaper than a call that gathers."""
_SLICE_BYTES: Final = 64 << 10
"""So much is offered to the socket at once: a copy into TLS records, or into a buffer that is rarely larger."""
_RECORD_BYTES: Final = 16 << 10
"""The largest TLS record: one is read at a time."""
_FAIR: Final = 16
"""Every so many operations that did not have to wait the other tasks get their turn."""


class H1Connection:
    """A connected non-blocking socket with its parser. `buffer` may be shared: what it holds is used up before anything is awaited.

    `offered_session`: the one that the TLS handshake was to resume.
    """

    __slots__ = (
        "_buffer",
        "_fd",
        "_is_sent",
        "_operations",
        "_recv_into",
        "_socket",
        "_unsent",
        "_wants_write",
        "has_shown_session",
        "idle_until_s",
        "is_hot",
        "is_tls",
        "offered_session",
        "parser",
    )

    def __init__(self, connected: socket.socket, buffer: bytearray, *, offered_session: ssl.SSLSession | None = None) -> None:
        self.parser = AnswerParser()
        self.is_tls = isinstance(connected, ssl.SSLSocket)
        self.is_hot = False
        """More has probably come already."""
        self.offered_session = offered_session
        self.has_shown_session = False
        """Whether it has been looked at for a session that the next connection may resume."""
        self.idle_until_s = 0.0
        self._socket = connected
        self._recv_into = connected.recv_into
        self._fd = connected.fileno()
        self._buffer = memoryview(buffer)
        self._is_sent = False
        self._unsent: list[memoryview] = []
        """What of a request's body an early answer did not wait for; it goes out while that is being read."""
        self._wants_write = False
        self._operations = 0

    @property
    def session(self) -> ssl.SSLSession | None:
        """What lets the next connection to the same server skip most of the handshake."""
        return self._socket.session if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def is_resumed(self) -> bool:
        """Whether the server took the session that it was offered."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.session_reused)

    @property
    def can_serve_again(self) -> bool:
        """Whether request and answer are complete and both sides keep the connection."""
        parser = self.parser
        return self._is_sent and not self._unsent and parser.is_complete and parser.keeps_alive and not parser.has_extra and self._fd >= 0

    def is_alive(self) -> bool:
        """Whether an idle connection is as quiet as it should be: neither closed nor spoken on by the server."""
        try:
            # The raw socket's method: an SSLSocket's own takes no flags.
            if not socket.socket.recv(self._socket, 1, socket.MSG_PEEK) or not self.is_tls:
                return False
            self._recv_into(self._buffer)  # a session ticket or key update is consumed; anything else is out of place
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close at once; whoever waits on it is woken with ClosedResourceError."""
        if self._fd >= 0:
            trio.lowlevel.notify_closing(self._fd)
            self._fd = -1
            self._socket.close()
            self.parser.detach()

    async def ask(self, message: Message) -> None:
        """Send a request and receive until the answer's head is there, or `parser.fault` says why not."""
        parser = self.parser
        parser.begin(is_to_head=message.is_head)
        self._is_sent = True
        self._unsent = []
        head, body = message.head, message.body
        if len(head) + len(body) <= _JOINED_BYTES:
            unsent = self._send_now([memoryview(head + body if body else head)])
        elif self.is_tls:
            joined = _RECORD_BYTES - len(head) % _RECORD_BYTES
            unsent = self._send_now([memoryview(head + body[:joined]), memoryview(body)[joined:]])
        else:
            unsent = self._gather(head, body)
        if unsent:
            self._unsent = unsent
            await self._send_rest()
        while not parser.has_head and parser.fault is None:
            await self.wait()
            self.receive()

    def receive(self) -> bool:
        """Give the parser what has come, the end included; False if nothing has."""
        try:
            count = self._recv_into(self._buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            self.is_hot = False
            return False
        except ssl.SSLWantWriteError:
            self.is_hot = False
            self._wants_write = True
            return False
        except OSError:
            self.parser.feed_reset()
            return True
        if not count:
            self.parser.feed_end()
        elif self.is_tls:
            self._receive_records(count)
        else:
            self.is_hot = count == RECEIVE_BYTES
            self.parser.feed(self._buffer[:count])
        return True

    def _receive_records(self, count: int) -> None:
        """Receive what has come behind the first record, too: a busy upstream's events then go on in one write instead of one each."""
        end = None
        self.is_hot = False
        while end is None:
            if count > RECEIVE_BYTES - _RECORD_BYTES:
                self.is_hot = True
                break
            try:
                more = self._recv_into(self._buffer[count:])
                count += more
                end = None if more else self.parser.feed_end
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            except ssl.SSLWantWriteError:
                self._wants_write = True
                break
            except OSError:
                end = self.parser.feed_reset
        self.parser.feed(self._buffer[:count])
        if end is not None:
            end()

    async def receive_some(self) -> None:
        """Receive until there is a piece of the body, or it is over one way or another; at once what has probably come already."""
        parser = self.parser
        while not parser.parts and not parser.is_complete and parser.fault is None:
            if self.is_hot and self.receive():
                self._operations += 1
                if self._operations % _FAIR == 0:
                    await trio.lowlevel.checkpoint()
                continue
            await self.wait()
            self.receive()

    async def wait(self) -> None:
        """Wait until there is something to receive.

        Raises:
            trio.ClosedResourceError: the connection was closed meanwhile.
        """
        if self._fd < 0:
            raise trio.ClosedResourceError
        if self._wants_write:
            self._wants_write = False
            await trio.lowlevel.wait_writable(self._fd)
        elif self._unsent:
            await self._wait_and_send()
        else:
            await trio.lowlevel.wait_readable(self._fd)

    # ---- sending --------------------------------------------------------------------------------------------------------------------

    def _send_now(self, pieces: list[memoryview]) -> list[memoryview]:
        """Send what goes out at once; the rest comes back."""
        try:
            while pieces:
                # TLS wants a record that did not go out whole again as it was: where slices begin must not depend on how much went out.
                sent = self._socket.send(pieces[0][:_SLICE_BYTES])
                pieces[0] = pieces[0][sent:]
                if not pieces[0]:
                    del pieces[0]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return pieces
        except OSError:
            self._is_sent = False  # what the server said before it closed may still be there to be read
        return []

    def _gather(self, head: bytes, body: bytes) -> list[memoryview]:
        try:
            sent = self._socket.sendmsg([head, body])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._is_sent = False
            return []
        if sent < len(head):
            return [memoryview(head)[sent:], memoryview(body)]
        return [memoryview(body)[sent - len(head) :]] if sent < len(head) + len(body) else []

    async def _send_rest(self) -> None:
        """Send a long body until the answer begins: then the time for its head is over, whatever of the body has gone out.

        A refusal does not want the rest. A success may, and gets it while it is being read.
        """
        parser = self.parser
        while self._unsent and not parser.has_head and parser.fault is None:
            await self._wait_and_send()
            self.receive()
        if self._unsent and (parser.fault is not None or parser.status >= 300):
            self._unsent = []
            self._is_sent = False

    async def _wait_and_send(self) -> None:
        """Send on until there is something to receive, or everything has gone out.

        Raises:
            trio.ClosedResourceError
        """
        is_closed = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_all, nursery.cancel_scope)
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except trio.ClosedResourceError:  # past the nursery it would be a group
                is_closed = True
            nursery.cancel_scope.cancel()
        if is_closed:
            raise trio.ClosedResourceError
        self._unsent = self._send_now(self._unsent)  # both may be possible, and TLS may have waited for what came

    async def _send_all(self, waiting: trio.CancelScope) -> None:
        try:
            while self._unsent:
                await trio.lowlevel.wait_writable(self._fd)
                self._unsent = self._send_now(self._unsent)
        except trio.ClosedResourceError:
            return
        waiting.cancel()
