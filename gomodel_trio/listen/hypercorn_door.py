"""The front door: an ASGI application on listening sockets, with hypercorn's HTTP/1.1, until it is told to drain.

Layer: listen. Source: behaviour.md §6 (drain), §9 (HOST, PORT); architecture.md rule 7. hypercorn's own `serve` ends the process when one
connection fails in its nursery and never ends while one client stops reading; so its protocol runs in connections of ours.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from gomodel_trio.listen.asgi import AsgiApp, OnError
from gomodel_trio.listen.h1_head import encode_error
from gomodel_trio.listen.h11_connection import Connection, ConnectionLimits
from gomodel_trio.listen.sockets import open_listeners, port_of

_TURNED_AWAY_S = 1.0


async def serve_hypercorn(
    app: AsgiApp,
    *,
    host: str,
    port: int,
    shutdown_trigger: Callable[[], Awaitable[object]],
    drain_timeout_s: float,
    on_error: OnError,
    limits: ConnectionLimits | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown_trigger` returns, then drain and return; reports the bound port once clients can connect.

    Draining closes the listeners and the idle connections at once; running requests get `drain_timeout_s`, then are cancelled (a handler
    may still shield a short last write) and their connections closed.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    listeners = await open_listeners(host, port)
    bounds = limits if limits is not None else ConnectionLimits()
    config = hypercorn_config(bounds)
    context = WorkerContext(None)
    running: set[Connection] = set()

    async def serve_connection(stream: trio.SocketStream) -> None:
        if len(running) >= bounds.connections:
            return await _turn_away(stream)
        connection = Connection(app, stream, config=config, context=context, limits=bounds, on_error=on_error)
        running.add(connection)
        try:
            await connection.run()
        finally:
            running.discard(connection)

    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(_accept, serve_connection, listeners, connections)
            task_status.started(port_of(listeners))
            await shutdown_trigger()
            accepting.cancel_scope.cancel()
        await context.terminated.set()
        for connection in tuple(running):
            connection.begin_drain()
        connections.cancel_scope.deadline = trio.current_time() + drain_timeout_s


def hypercorn_config(limits: ConnectionLimits) -> Config:
    """hypercorn's configuration: quiet, nameless, and bounded where hypercorn does the bounding."""
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.head_bytes
    config.keep_alive_max_requests = 1_000_000_000
    return config


async def _turn_away(stream: trio.SocketStream) -> None:
    """Say why; the caller closes."""
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(_TURNED_AWAY_S):
        await stream.send_all(encode_error(503, "The gateway has too many connections."))


async def _accept(
    serve_connection: Callable[[trio.SocketStream], Awaitable[object]],
    listeners: list[trio.SocketListener],
    connections: trio.Nursery,
) -> None:
    await trio.serve_listeners(serve_connection, listeners, handler_nursery=connections)
