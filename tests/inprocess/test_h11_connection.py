"""One connection over streams in memory and in virtual time: every deadline to the second."""

import contextlib
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from hypercorn.trio.worker_context import WorkerContext

from gomodel_trio.errors import ClientGone
from gomodel_trio.gateway.http import Handler, Request, Responder
from gomodel_trio.listen.asgi import AsgiApp
from gomodel_trio.listen.h11_connection import Connection, ConnectionLimits
from gomodel_trio.listen.hypercorn_door import hypercorn_config


class Ended:
    """When the connection ended, and the errors told."""

    def __init__(self) -> None:
        self.at_s: float | None = None
        self.errors: list[BaseException] = []
        self.context = WorkerContext(None)
        self.connection: Connection


@contextlib.asynccontextmanager
async def served(handler: Handler, server: trio.abc.HalfCloseableStream, limits: ConnectionLimits | None = None) -> AsyncIterator[Ended]:
    ended = Ended()
    bounds = limits or ConnectionLimits()

    async def run() -> None:
        started = trio.current_time()
        await ended.connection.run()
        ended.at_s = trio.current_time() - started
        await trio.aclose_forcefully(server)

    ended.connection = Connection(
        AsgiApp(handler, ended.errors.append),
        server,
        config=hypercorn_config(bounds),
        context=ended.context,
        limits=bounds,
        on_error=ended.errors.append,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield ended
        nursery.cancel_scope.cancel()


async def read_all(stream: trio.abc.HalfCloseableStream) -> bytes:
    received = b""
    while chunk := await stream.receive_some(65536):
        received += bytes(chunk)
    return received


async def echo(request: Request, responder: Responder) -> None:
    await responder.send(200, [], await request.read_body(10_000))


async def test_an_idle_connection_is_closed_after_75_seconds(autojump_clock: trio.testing.MockClock) -> None:
    client, server = trio.testing.memory_stream_pair()
    async with served(echo, server) as ended:
        assert await read_all(client) == b""
        await trio.testing.wait_all_tasks_blocked()
        assert ended.at_s == 75.0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: 1\r\n" * 7 + b"\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: 1\r\n" * 8 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (200 - 32) + b"\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (201 - 32) + b"\r\n\r\n", b"431"),
        (b"GET /" + b"a" * 200 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"431"),
    ],
)
async def test_a_head_over_a_limit_is_a_431_even_if_it_came_at_once(head: bytes, status: bytes) -> None:
    async def answer(request: Request, responder: Responder) -> None:
        await responder.send(200, [], b"")

    client, server = trio.testing.memory_stream_pair()
    async with served(answer, server, ConnectionLimits(head_bytes=200, header_count=8)):
        await client.send_all(head)
        assert (await client.receive_some(65536)).startswith(b"HTTP/1.1 " + status)


async def test_keep_alive_counts_from_the_end_of_the_last_answer(autojump_clock: trio.testing.MockClock) -> None:
    async def slow(request: Request, responder: Responder) -> None:
        await trio.sleep(100)
        await responder.send(200, [], b"")

    client, server = trio.testing.memory_stream_pair()
    async with served(slow, server) as ended:
        await trio.sleep(50)
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await read_all(client)).startswith(b"HTTP/1.1 200")
        await trio.testing.wait_all_tasks_blocked()
        assert ended.at_s == 50.0 + 100.0 + 75.0


async def test_a_head_has_30_seconds_from_its_first_byte(autojump_clock: trio.testing.MockClock) -> None:
    client, server = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with served(echo, server):
        await trio.sleep(10)
        for byte in b"GET / HTTP/1.1\r\nx: ":
            await client.send_all(bytes([byte]))
            await trio.sleep(1)
        assert (await read_all(client)).startswith(b"HTTP/1.1 408")
        assert trio.current_time() - began == 10.0 + 30.0


async def test_a_pause_in_a_body_may_last_30_seconds(autojump_clock: trio.testing.MockClock) -> None:
    client, server = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with served(echo, server) as ended:
        await client.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        for _ in range(3):
            await trio.sleep(29)
            await client.send_all(b"a")
        assert (await read_all(client)).startswith(b"HTTP/1.1 408")
        assert trio.current_time() - began == 29 * 3 + 30
    assert ended.errors == []


async def test_a_whole_body_may_take_600_seconds(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    client, server = trio.testing.memory_stream_pair()
    async with served(echo, server), trio.open_nursery() as nursery:
        await client.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n\r\n")

        async def drip() -> None:
            with contextlib.suppress(trio.BrokenResourceError):
                while True:
                    await client.send_all(b"a")
                    await trio.sleep(20)

        nursery.start_soon(drip)
        with trio.fail_after(601):
            received = await client.receive_some(100)
        assert bytes(received).startswith(b"HTTP/1.1 408")
        assert trio.current_time() - began == 600.0
        nursery.cancel_scope.cancel()


async def test_a_handler_may_think_for_an_hour(autojump_clock: trio.testing.MockClock) -> None:
    async def think(request: Request, responder: Responder) -> None:
        await request.read_body(10)
        await trio.sleep(3600)
        await responder.start(200, [])
        await trio.sleep(3600)
        await responder.write(b"so")
        await responder.end()

    client, server = trio.testing.memory_stream_pair()
    async with served(think, server):
        await client.send_all(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\na")
        assert (await read_all(client)).endswith(b"2\r\nso\r\n0\r\n\r\n")


async def test_a_write_that_nobody_reads_is_given_up_after_300_seconds(autojump_clock: trio.testing.MockClock) -> None:
    told: list[tuple[float, bool]] = []

    async def write_on(request: Request, responder: Responder) -> None:
        began = trio.current_time()
        try:
            await responder.start(200, [])
            while True:
                await responder.write(b"a")
        finally:
            told.append((trio.current_time() - began, request.is_disconnected))

    client, server = trio.testing.lockstep_stream_pair()
    async with served(write_on, server) as ended:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(301)
        assert ended.at_s is not None
    assert told == [(300.0, True)]
    assert ended.errors == []


async def test_a_blocked_write_ends_with_the_client(autojump_clock: trio.testing.MockClock) -> None:
    told: list[float] = []

    async def write_on(request: Request, responder: Responder) -> None:
        try:
            await responder.send(200, [], b"a" * 100)
        finally:
            told.append(trio.current_time())

    client, server = trio.testing.lockstep_stream_pair()
    async with served(write_on, server):
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(5)
        hung_up = trio.current_time()
        await client.send_stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert told == [hung_up]


async def test_a_drain_waits_for_the_request_that_runs_and_serves_no_further_one(autojump_clock: trio.testing.MockClock) -> None:
    async def slow(request: Request, responder: Responder) -> None:
        await trio.sleep(20)
        await responder.send(200, [], b"done")

    client, server = trio.testing.memory_stream_pair()
    async with served(slow, server) as ended:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(5)
        await ended.context.terminated.set()
        ended.connection.begin_drain()
        answer = await read_all(client)
        assert answer.count(b"HTTP/1.1 200") == 1
        assert b"connection: close" in answer
        assert answer.endswith(b"done")


async def test_a_handler_that_leaves_its_body_unread_does_not_block_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    async def answer_at_once(request: Request, responder: Responder) -> None:
        await trio.sleep(1)
        await responder.send(401, [], b"no")

    client, server = trio.testing.memory_stream_pair()
    async with served(answer_at_once, server) as ended:
        await client.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n")
        for _ in range(20):
            await client.send_all(b"a" * 65536)
            await trio.lowlevel.checkpoint()
        assert (await read_all(client)).endswith(b"no")
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert ended.at_s == 1.0
    assert ended.errors == []


async def test_a_handler_that_raises_client_gone_ends_the_connection_without_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async def leave(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        raise ClientGone

    client, server = trio.testing.memory_stream_pair()
    async with served(leave, server) as ended:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await read_all(client)).endswith(b"\r\n\r\n")
    assert ended.errors == []


async def test_an_application_that_fails_ends_only_its_connection(autojump_clock: trio.testing.MockClock) -> None:
    async def broken_headers(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"bad name", b"1")])

    client, server = trio.testing.memory_stream_pair()
    async with served(broken_headers, server) as ended:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await read_all(client)).startswith(b"HTTP/1.1 500")
    assert [type(error).__name__ for error in ended.errors] == ["LocalProtocolError"]
