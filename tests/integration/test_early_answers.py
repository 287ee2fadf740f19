"""Upstreams that answer before they have read the body: the head ends the wait for a head, whatever of the body has gone out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from support.transports import KINDS, AnyTransport, make_transport

LONG = bytes(range(256)) * 32_000
"""More than the buffers of a connection hold."""
Serve = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def served(kind: str, serve: Serve) -> AsyncIterator[tuple[AnyTransport, int]]:
    async def contained(stream: trio.SocketStream) -> None:
        try:
            await serve(stream)
        except trio.BrokenResourceError:
            return

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, contained, listeners)
        transport = HttpxTransport(environ={}) if kind == "httpx" else make_transport(kind)
        with trio.fail_after(20):
            yield transport, listeners[0].socket.getsockname()[1]
        await transport.aclose()
        nursery.cancel_scope.cancel()


def asking(port: int, header_timeout_s: float = 3.0) -> UpstreamRequest:
    return UpstreamRequest("POST", f"http://127.0.0.1:{port}/", [], LONG, 5.0, header_timeout_s)


def answer(status: int, body: bytes = b"early", informational: bytes = b"") -> bytes:
    return informational + b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("informational", [b"", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"])
@pytest.mark.parametrize("status", [200, 413])
async def test_an_answer_of_a_server_that_never_reads_the_body_is_handed_on(kind: str, status: int, informational: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(2000)
        for byte in answer(status, informational=informational):
            await stream.send_all(bytes([byte]))
        await trio.sleep_forever()

    async with served(kind, serve) as (transport, port):
        response = await transport.send(asking(port))
        body = b""
        while chunk := await response.read():
            body += chunk
        await response.aclose()
        assert (response.status, body) == (status, b"early")
        assert (transport.pool.idle_count, transport.pool.in_use_count) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_reads_on_behind_its_early_success_gets_the_whole_body(kind: str) -> None:
    received = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal received
        received = -len((await stream.receive_some(1 << 16)).partition(b"\r\n\r\n")[0]) - 4 + (1 << 16)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
        while received < len(LONG):
            received += len(await stream.receive_some(1 << 16))
        await stream.send_all(b"early")
        await trio.sleep_forever()

    async with served(kind, serve) as (transport, port):
        response = await transport.send(asking(port))
        assert await response.read() == b"early"
        await response.aclose()
    assert received >= len(LONG)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-"])
async def test_a_server_that_does_not_end_its_head_is_still_a_header_timeout(kind: str, begun: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(2000)
        await stream.send_all(begun)
        await trio.sleep_forever()

    async with served(kind, serve) as (transport, port):
        with pytest.raises(TransportError) as caught:
            await transport.send(asking(port, 0.1))
        assert caught.value.fault is TransportFault.HEADER_TIMEOUT
        assert transport.pool.in_use_count == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n\r\n", b"x" * 150_000])
async def test_what_is_no_answer_is_a_fault_at_once(kind: str, said: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(2000)
        await stream.send_all(said)
        await stream.send_eof()
        while await stream.receive_some(1 << 16):
            pass

    async with served(kind, serve) as (transport, port):
        with pytest.raises(TransportError) as caught:
            await transport.send(asking(port))
        assert caught.value.fault is TransportFault.PROTOCOL
