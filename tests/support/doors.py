"""Front doors on real sockets, opened for a test: the fast one and hypercorn's, behind one shape."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

import trio

from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.asgi import AsgiApp
from gomodel_trio.listen.h1 import serve_h1
from gomodel_trio.listen.h1_limits import H1Limits
from gomodel_trio.listen.h11_connection import ConnectionLimits
from gomodel_trio.listen.hypercorn_door import serve_hypercorn
from gomodel_trio.listen.tls import TlsFiles

PATIENCE_S = 10.0


class Door:
    """A running front door and what became of it."""

    def __init__(self) -> None:
        self.port = 0
        self.errors: list[BaseException] = []
        self.stop = trio.Event()
        self.stopped = trio.Event()

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> bytes:
        """Send, and read to the end of the connection."""
        stream = await self.connect()
        async with stream:
            await stream.send_all(data)
            return await read_all(stream)


async def read_all(stream: trio.SocketStream) -> bytes:
    received = b""
    with trio.fail_after(PATIENCE_S):
        while chunk := await stream.receive_some(65536):
            received += chunk
    return received


async def read_until(stream: trio.SocketStream, end: bytes) -> bytes:
    received = b""
    with trio.fail_after(PATIENCE_S):
        while end not in received:
            chunk = await stream.receive_some(65536)
            assert chunk, received
            received += chunk
    return received


class OpenDoor(Protocol):
    """Opens a door of one kind; `limits` are fields that both kinds of limits have."""

    def __call__(self, handler: Handler, *, drain_s: float = 5.0, **limits: Any) -> AbstractAsyncContextManager[Door]: ...


@contextlib.asynccontextmanager
async def open_h1(handler: Handler, *, drain_s: float = 5.0, tls: TlsFiles | None = None, **limits: Any) -> AsyncIterator[Door]:
    """Open the fast door."""
    here = Door()
    serve = partial(serve_h1, handler, limits=H1Limits(**limits), tls=tls)
    async with _open(here, serve, drain_s):
        yield here


@contextlib.asynccontextmanager
async def open_hypercorn(handler: Handler, *, drain_s: float = 5.0, **limits: Any) -> AsyncIterator[Door]:
    """Open hypercorn's."""
    here = Door()
    serve = partial(serve_hypercorn, AsgiApp(handler, here.errors.append), limits=ConnectionLimits(**limits))
    async with _open(here, serve, drain_s):
        yield here


@contextlib.asynccontextmanager
async def _open(here: Door, serve: Any, drain_s: float) -> AsyncIterator[None]:
    async def run(task_status: trio.TaskStatus[int]) -> None:
        await serve(
            host="127.0.0.1",
            port=0,
            shutdown_trigger=here.stop.wait,
            drain_timeout_s=drain_s,
            on_error=here.errors.append,
            task_status=task_status,
        )
        here.stopped.set()

    async with trio.open_nursery() as nursery:
        here.port = await nursery.start(run)
        yield
        nursery.cancel_scope.cancel()
