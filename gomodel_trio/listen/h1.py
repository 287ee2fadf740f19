"""The fast front door: HTTP/1.1 over trio sockets, cleartext or TLS, from the listening sockets to the end of the drain.

Layer: listen. Source: behaviour.md §6 (drain), §9 (HOST, PORT); performance.md; accept(2) (errors that are the client's).

    nursery: hang-ups, deadlines, the drain's last resort
      └ nursery: one task a connection
          └ nursery: one task a listening socket
"""

import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.h1_connection import Door, H1Connection, OnError
from gomodel_trio.listen.h1_head import encode_error
from gomodel_trio.listen.h1_limits import H1Limits
from gomodel_trio.listen.h1_socket import H1Socket
from gomodel_trio.listen.sockets import open_listeners, port_of
from gomodel_trio.listen.tls import TlsFiles

_ACCEPTED_AT_ONCE: Final = 64
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXHAUSTED_PAUSE_S: Final = 0.1
_LAST_RESORT_S: Final = 0.1
"""After the drain: how long handlers may shield their last words before their connections are broken."""
_TURNED_AWAY_AT_ONCE: Final = 64
_TURNED_AWAY_S: Final = 1.0


async def serve_h1(
    handler: Handler,
    *,
    host: str,
    port: int,
    shutdown_trigger: Callable[[], Awaitable[object]],
    drain_timeout_s: float,
    on_error: OnError,
    limits: H1Limits | None = None,
    tls: TlsFiles | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown_trigger` returns, then drain and return; reports the bound port once clients can connect.

    Draining closes the listeners and the idle connections at once; running requests get `drain_timeout_s`, then are cancelled (a handler
    may still shield a short last write) and their connections closed.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    listeners = await open_listeners(host, port)
    bound_port = port_of(listeners)
    sockets = [socket.socket(fileno=listener.socket.detach()) for listener in listeners]
    server = _Server(Door(handler, limits if limits is not None else H1Limits(), on_error), tls)
    try:
        async with trio.open_nursery() as watching:
            watching.start_soon(server.door.hang_ups.run)
            watching.start_soon(server.door.deadlines.run)
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as accepting:
                    for sock in sockets:
                        accepting.start_soon(server.accept, sock, connections)
                    task_status.started(bound_port)
                    await shutdown_trigger()
                    accepting.cancel_scope.cancel()
                _close(sockets)
                server.begin_drain()
                connections.cancel_scope.deadline = trio.current_time() + drain_timeout_s
                watching.start_soon(server.sever_after, drain_timeout_s + _LAST_RESORT_S)
            watching.cancel_scope.cancel()
    finally:
        _close(sockets)
        server.door.hang_ups.close()


class _Server:
    """The connections that are open, and the way to more."""

    def __init__(self, door: Door, tls: TlsFiles | None) -> None:
        self.door = door
        self._tls = tls
        self._running: set[H1Connection] = set()
        self._turned_away = 0

    async def accept(self, listener: socket.socket, connections: trio.Nursery) -> None:
        """Accept for ever. What is wrong with one connection, or for the moment with the machine, does not end it."""
        is_exhausted = False
        while True:
            await trio.lowlevel.wait_readable(listener.fileno())
            try:
                for _ in range(_ACCEPTED_AT_ONCE):
                    sock, address = listener.accept()
                    is_exhausted = False
                    self._admit(sock, address, connections)
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    if not is_exhausted:
                        self.door.on_error(error)
                    is_exhausted = True
                    await trio.sleep(_EXHAUSTED_PAUSE_S)
                # Everything else is the fate of the one connection (ECONNABORTED, EPROTO, ENETDOWN, …).

    def begin_drain(self) -> None:
        """Close what is idle; what runs ends with its answer."""
        self.door.is_draining = True
        for connection in tuple(self._running):
            connection.begin_drain()

    async def sever_after(self, delay_s: float) -> None:
        """Break the connections of handlers that still shield a write then."""
        await trio.sleep(delay_s)
        for connection in self._running:
            connection.sever()

    def _admit(self, sock: socket.socket, address: Any, connections: trio.Nursery) -> None:
        try:
            sock.setblocking(False)
            if len(self._running) >= self.door.limits.connections:
                self._turn_away(sock, connections)
                return
            sock = self._tls.wrap(sock) if self._tls is not None else sock
        except (OSError, ValueError):  # ssl's word for a client that is gone already
            sock.close()
            return
        connection = H1Connection(self.door, H1Socket(sock), _peer(address))
        self._running.add(connection)
        connections.start_soon(self._serve, connection)

    async def _serve(self, connection: H1Connection) -> None:
        try:
            await connection.run()
        finally:
            self._running.discard(connection)

    def _turn_away(self, sock: socket.socket, connections: trio.Nursery) -> None:
        if self._tls is not None or self._turned_away >= _TURNED_AWAY_AT_ONCE:
            sock.close()
            return
        self._turned_away += 1
        connections.start_soon(self._apologize, H1Socket(sock))

    async def _apologize(self, sock: H1Socket) -> None:
        """Answer whatever was asked with 503, and let the client read it."""
        try:
            sock.send_now(encode_error(503, "The gateway has too many connections."))
            sock.end_sending(is_complete=True)
            with trio.move_on_after(_TURNED_AWAY_S):
                while await sock.discard():
                    pass
        except OSError:
            pass
        finally:
            self._turned_away -= 1
            sock.close(resets=False)


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        if sock.fileno() >= 0:
            trio.lowlevel.notify_closing(sock.fileno())
            sock.close()


def _peer(address: Any) -> str:
    """The client's address without the port; an IPv4 address seen through an IPv6 socket is written as IPv4."""
    host = str(address[0])
    return host[7:] if host.startswith("::ffff:") and "." in host else host
