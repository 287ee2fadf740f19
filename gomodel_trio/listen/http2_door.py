"""The HTTP/2 front door: h2 behind the gateway's Request and Responder, cleartext by prior knowledge or TLS by ALPN, until the drain's end.

Layer: listen. Source: RFC 9113; behaviour.md §6 (drain), §9 (HOST); performance.md.

Why h2 itself and not hypercorn's `H2Protocol` (0.18, tried). Of that class hardly a method could stay: a full body queue stops the reader,
and with it every stream, hang-up and window; an answer that is given up ends without a reset, so its client waits for ever; DATA behind
an early answer, or a thousand PRIORITY frames, raise out of it and end the connection; a client's GOAWAY ends the streams that still run,
while a drain says none before the last answer; WebSockets are offered; nothing is counted. What would be left of it is the call of h2,
which is ours here, and the exchange needs no ASGI messages, queue and watcher beside each request.

    nursery: deadlines, the drain's last resort
      └ nursery: one task a connection (with a nursery for its requests)
          └ nursery: one task a listening socket
"""

import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.h1_socket import H1Socket
from gomodel_trio.listen.h2_connection import ALPN, Http2Connection, Http2Shared
from gomodel_trio.listen.h2_limits import Http2Limits
from gomodel_trio.listen.h2_stream import OnError
from gomodel_trio.listen.sockets import open_listeners, port_of
from gomodel_trio.listen.tls import TlsFiles

_LAST_WORDS_S: Final = 0.1
"""After the drain: how long handlers may shield their last words before their connections are broken."""
_LAST_RESORT_S: Final = 0.15
"""After the drain: when everything is cancelled."""
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2, what RFC 9113 §9.2.2 does not prohibit; TLS 1.3 has no others."""


class Http2TlsFiles(TlsFiles):
    """A certificate chain and its key, PEM, for HTTP/2 only: `h2` is all that ALPN offers.

    Raises:
        ConfigurationError: they cannot be read or do not belong together; it names the variable.
    """

    def _load(self) -> ssl.SSLContext:
        context = super()._load()
        context.set_alpn_protocols([ALPN])
        context.set_ciphers(_CIPHERS)
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context


async def serve_http2(
    handler: Handler,
    *,
    host: str,
    port: int,
    shutdown_trigger: Callable[[], Awaitable[object]],
    drain_timeout_s: float,
    on_error: OnError,
    limits: Http2Limits | None = None,
    tls: Http2TlsFiles | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown_trigger` returns, then drain and return; reports the bound port once clients can connect.

    Draining closes the listeners and the idle connections at once and says GOAWAY on the others, whose running requests get
    `drain_timeout_s`, then are cancelled (a handler may still shield a short last write) and reset.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    listeners = await open_listeners(host, port, port_variable="HTTP2_PORT")
    server = _Server(Http2Shared(handler, limits if limits is not None else Http2Limits(), on_error), tls)
    async with trio.open_nursery() as watching:
        watching.start_soon(server.shared.deadlines.run)
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(server.accept, listeners, connections)
                task_status.started(port_of(listeners))
                await shutdown_trigger()
                accepting.cancel_scope.cancel()
            server.begin_drain()
            connections.cancel_scope.deadline = trio.current_time() + drain_timeout_s + _LAST_RESORT_S
            watching.start_soon(server.end_after, drain_timeout_s)
        watching.cancel_scope.cancel()


class _Server:
    """The connections that are open, and the way to more."""

    def __init__(self, shared: Http2Shared, tls: Http2TlsFiles | None) -> None:
        self.shared = shared
        self._tls = tls
        self._running: set[Http2Connection] = set()

    async def accept(self, listeners: list[trio.SocketListener], connections: trio.Nursery) -> None:
        """Accept for ever."""
        await trio.serve_listeners(self._serve, listeners, handler_nursery=connections)

    def begin_drain(self) -> None:
        """Close what is idle; what runs ends with its answers."""
        self.shared.is_draining = True
        for connection in tuple(self._running):
            connection.begin_drain()

    async def end_after(self, delay_s: float) -> None:
        """Cancel what still runs then, and soon after break the connections of handlers that shield a write."""
        await trio.sleep(delay_s)
        for connection in tuple(self._running):
            connection.cut()
        await trio.sleep(_LAST_WORDS_S)
        for connection in tuple(self._running):
            connection.sever()

    async def _serve(self, stream: trio.SocketStream) -> None:
        if len(self._running) >= self.shared.limits.connections or self.shared.is_draining:
            return  # closed by the caller
        connection = self._connection(stream)
        if connection is None:
            return
        self._running.add(connection)
        try:
            await connection.run()
        finally:
            self._running.discard(connection)

    def _connection(self, stream: trio.SocketStream) -> Http2Connection | None:
        """Take the socket over; None where its client is gone already."""
        try:
            peer = _address(stream.socket.getpeername())
        except OSError:
            return None
        sock = socket.socket(fileno=stream.socket.detach())
        try:
            sock.setblocking(False)
            if self._tls is None:
                return Http2Connection(self.shared, H1Socket(sock), peer, None)
            secured = self._tls.wrap(sock)
            return Http2Connection(self.shared, H1Socket(secured), peer, secured)
        except (OSError, ValueError):  # ssl's words for a client that is gone already
            sock.close()
            return None


def _address(name: tuple[object, ...]) -> str:
    """The client's address without the port; an IPv4 address seen through an IPv6 socket is written as IPv4."""
    host = str(name[0])
    return host[7:] if host.startswith("::ffff:") and "." in host else host
