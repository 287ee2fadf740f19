"""The network below one upstream connection: trio sockets and TLS, as httpcore wants them, and what is known of their progress.

Layer: upstream. Source: behaviour.md §6 (connect and header timeouts, the silent re-send). httpcore keeps neither the socket whose TLS
handshake was cancelled nor whether anything of an answer came; the link knows both, and moves the deadline of the exchange along.
"""

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any

import httpcore
import trio

OpenTcp = Callable[[str, int], Awaitable[trio.abc.HalfCloseableStream]]
"""Connects to host and port; raises OSError."""


class Phase(Enum):
    """How far an exchange has come."""

    CONNECTING = 0
    SECURING = 1
    """TLS handshake."""
    SENT = 2
    """Connected; the request is being sent or was."""


class Link(httpcore.AsyncNetworkBackend):
    """One connection's network. `tls_layers` handshakes come before the request (two through an https proxy)."""

    def __init__(self, open_tcp: OpenTcp, *, tls_layers: int) -> None:
        self.phase = Phase.CONNECTING
        self.has_received = False
        """Whether any byte came since the exchange began."""
        self.problem = ""
        """What went wrong below HTTP, in words fit for a client."""
        self._open_tcp = open_tcp
        self._tls_left = tls_layers
        self._stream: trio.abc.Stream | None = None
        self._scope: trio.CancelScope | None = None
        self._header_timeout_s = 0.0

    def begin(self, scope: trio.CancelScope, *, connect_timeout_s: float, header_timeout_s: float) -> None:
        """Start an exchange, whose `scope` is given the deadline of the phase it is in."""
        self._scope = scope
        self._header_timeout_s = header_timeout_s
        self.has_received = False
        self.problem = ""
        scope.deadline = trio.current_time() + (header_timeout_s if self.phase is Phase.SENT else connect_timeout_s)

    async def close(self) -> None:
        """Close the socket at once, whatever httpcore knows of it."""
        if self._stream is not None:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect; the time is bounded by the exchange's scope, not by `timeout`."""
        del timeout, local_address, socket_options
        try:
            self._stream = stream = await self._open_tcp(host, port)
        except (OSError, UnicodeError, ValueError) as error:
            self.problem = _why_not_connected(error)
            raise httpcore.ConnectError(self.problem) from None
        if isinstance(stream, trio.SocketStream):
            with contextlib.suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return LinkStream(self, stream)

    async def start_tls(self, stream: trio.abc.Stream, context: ssl.SSLContext, server_hostname: str | None) -> "LinkStream":
        """Do one handshake on what is connected."""
        self.phase = Phase.SECURING
        self._stream = secured = trio.SSLStream(stream, context, server_hostname=server_hostname, https_compatible=True)
        try:
            await secured.do_handshake()
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, ValueError) as error:
            self.problem = _why_not_secured(error)
            raise httpcore.ConnectError(self.problem) from None
        self._tls_left -= 1
        self.phase = Phase.CONNECTING
        return LinkStream(self, secured)

    def note_write(self) -> None:
        """Bytes of the request go out: from here the answer's head is waited for."""
        if self._tls_left <= 0 and self._scope is not None:
            self.phase = Phase.SENT
            self._scope.deadline = trio.current_time() + self._header_timeout_s

    def end_head(self) -> None:
        """The head is here: the exchange's deadline is met."""
        self._scope = None

    async def sleep(self, seconds: float) -> None:
        """Wait, for httpcore's own retries (which are not used)."""
        await trio.sleep(seconds)


class LinkStream(httpcore.AsyncNetworkStream):
    """A trio stream in httpcore's terms."""

    def __init__(self, link: Link, stream: trio.abc.Stream) -> None:
        self._link = link
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes; b"" at the end."""
        del timeout
        try:
            received = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise httpcore.ReadError from None
        if received:
            self._link.has_received = True
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write everything."""
        del timeout
        if not buffer:
            return
        self._link.note_write()
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise httpcore.WriteError from None
        self._link.note_write()

    async def aclose(self) -> None:
        """Close without waiting for the peer."""
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stream)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Go on over TLS."""
        del timeout
        return await self._link.start_tls(self._stream, ssl_context, server_hostname)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks about: whether the peer has sent something, or hung up, on an idle connection."""
        if info != "is_readable":
            return None
        base: object = self._stream
        while isinstance(base, trio.SSLStream):
            base = base.transport_stream
        return isinstance(base, trio.SocketStream) and base.socket.is_readable()


def _why_not_connected(error: BaseException) -> str:
    """The reason without the address, which is the operator's business."""
    causes = [error, *_leaves(error.__cause__)]
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "its name could not be resolved"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "it refused the connection"
    return "it could not be reached"


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [] if error is None else [error]


def _why_not_secured(error: BaseException) -> str:
    cause = error if isinstance(error, ssl.SSLError) else error.__cause__
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return "the TLS handshake failed"
    if "ostname mismatch" in cause.verify_message or "IP address mismatch" in cause.verify_message:
        return "its certificate is for another name"
    return f"its certificate could not be verified ({cause.verify_message})"
