"""Both transports on real sockets: what is left open after cancellations, resets, TLS, and connections that the server closed."""

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import certifi
import pytest
import trio
import trustme
from trio_util import AsyncValue

from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from support.transports import KINDS, AnyTransport, close_expired, make_transport, read_all

PATIENCE_S = 10.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 1000\r\n\r\nwait"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"


def request(port: int, path: str = "/", scheme: str = "http", host: str = "127.0.0.1") -> UpstreamRequest:
    return UpstreamRequest("POST", f"{scheme}://{host}:{port}{path}", [], b"{}", 5.0, 5.0, 5.0)


class Upstream:
    """Answers by path, and counts the connections that are open."""

    def __init__(self) -> None:
        self.port = 0
        self.open = AsyncValue(0)
        self.most_open = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.open.value += 1
        self.most_open = max(self.open.value, self.most_open)
        try:
            with contextlib.suppress(trio.BrokenResourceError):
                received = b""
                while chunk := await stream.receive_some(65536):
                    received += chunk
                    if received.endswith(b"{}"):
                        await self.answer(stream, received.split()[1])
                        received = b""
        finally:
            self.open.value -= 1

    async def answer(self, stream: trio.SocketStream, path: bytes) -> None:
        match path:
            case b"/silent":
                assert await stream.receive_some(1) == b""
            case b"/busy":
                await stream.send_all(BUSY)
            case b"/stream":
                await stream.send_all(STREAM)
            case b"/reset":
                await stream.send_all(STREAM)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                await trio.sleep(0.05)
                await stream.aclose()
                raise trio.BrokenResourceError
            case b"/surplus":
                await stream.send_all(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL")
            case b"/last":
                await stream.send_all(OK)
                raise trio.BrokenResourceError
            case _:
                await stream.send_all(OK)


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    here = Upstream()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, here.serve, 0, host="127.0.0.1"))
        here.port = listeners[0].socket.getsockname()[1]
        yield here
        nursery.cancel_scope.cancel()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which transport."""
    return str(request.param)


async def connect_cancelled(transport: AnyTransport, port: int) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await transport.send(request(port))


async def cancelled_before_the_head(transport: AnyTransport, port: int) -> None:
    with trio.move_on_after(0.01):
        await transport.send(request(port, "/silent"))


async def closed_after_a_429(transport: AnyTransport, port: int) -> None:
    response = await transport.send(request(port, "/busy"))
    assert response.status == 429
    await response.aclose()


async def cancelled_in_the_body(transport: AnyTransport, port: int) -> None:
    response = await transport.send(request(port, "/stream"))
    with trio.move_on_after(0.02):
        while await response.read():
            pass
    await response.aclose()


async def closed_in_the_body(transport: AnyTransport, port: int) -> None:
    response = await transport.send(request(port, "/stream"))
    assert await response.read() == b"a"
    await response.aclose()


ENDINGS: list[Callable[[AnyTransport, int], Awaitable[None]]] = [
    connect_cancelled,
    cancelled_before_the_head,
    closed_after_a_429,
    cancelled_in_the_body,
    closed_in_the_body,
]


async def test_a_hundred_cancelled_requests_leave_no_socket_and_no_place_taken(kind: str) -> None:
    async with upstream() as there:
        transport = make_transport(kind, max_connections=4)
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(ENDINGS[number % len(ENDINGS)], transport, there.port)
            assert transport.pool.in_use_count == 0
            assert await read_all(transport, request(there.port)) == b"ok"
            await transport.aclose()
            await there.open.wait_value(0)
        assert there.most_open <= 8  # the server notices a close a little later than the pool makes it


async def test_a_cancellation_at_every_step_of_an_exchange_leaves_nothing(kind: str) -> None:
    async with upstream() as there:
        transport = make_transport(kind, max_connections=4)
        for steps in range(40):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def cancel_after(count: int, scope: trio.CancelScope) -> None:
                        for _ in range(count):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel_after, steps, scope)
                    await read_all(transport, request(there.port, "/stream"))
            assert transport.pool.in_use_count == 0
        await transport.aclose()
        with trio.fail_after(PATIENCE_S):
            await there.open.wait_value(0)


async def test_a_reset_in_the_body_is_told_as_such(kind: str) -> None:
    async with upstream() as there:
        with pytest.raises(TransportError) as caught:
            await read_all(make_transport(kind), request(there.port, "/reset"))
    assert caught.value.fault is TransportFault.RESET


async def test_a_refused_connection_is_a_connect_fault(kind: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(TransportError) as caught:
        await make_transport(kind).send(request(port))
    assert caught.value.fault is TransportFault.CONNECT
    assert "refused" in caught.value.message


async def test_a_kept_connection_that_the_server_closed_is_not_used_and_does_not_linger(kind: str) -> None:
    async with upstream() as there:
        transport = make_transport(kind)
        with trio.fail_after(PATIENCE_S):
            assert await read_all(transport, request(there.port, "/last")) == b"ok"
            await there.open.wait_value(0)
            assert await read_all(transport, request(there.port, "/last")) == b"ok"
            await there.open.wait_value(0)
            assert transport.pool.idle_count == 1
            await close_expired(transport)
            assert transport.pool.idle_count == 0


# ---- TLS ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context that trusts nobody else."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@contextlib.asynccontextmanager
async def tls_upstream(authority: trustme.CA) -> AsyncIterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some(65536):
                await stream.send_all(OK)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True))
        yield listeners[0].transport_listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_a_trusted_certificate_is_talked_to_and_the_connection_kept(kind: str, authority: trustme.CA) -> None:
    async with tls_upstream(authority) as port:
        context = trusting(authority)
        transport = make_transport(kind, ssl_context=context)
        for _ in range(2):
            assert await read_all(transport, request(port, scheme="https", host="localhost")) == b"ok"
        assert transport.pool.idle_count == 1
        await transport.aclose()


@pytest.mark.parametrize(("is_trusted", "host", "words"), [(False, "localhost", "verified"), (True, "127.0.0.1", "another name")])
async def test_a_certificate_that_does_not_hold_is_a_tls_fault(
    kind: str, authority: trustme.CA, is_trusted: bool, host: str, words: str
) -> None:
    async with tls_upstream(authority) as port:
        context = trusting(authority) if is_trusted else ssl.create_default_context(cafile=certifi.where())
        transport = make_transport(kind, ssl_context=context)
        with pytest.raises(TransportError) as caught:
            await transport.send(request(port, scheme="https", host=host))
        assert caught.value.fault is TransportFault.TLS
        assert words in caught.value.message
        assert host not in caught.value.message
        assert transport.pool.in_use_count == 0


async def test_plain_http_behind_https_is_a_tls_fault(kind: str) -> None:
    async with upstream() as there:
        with pytest.raises(TransportError) as caught:
            with trio.fail_after(PATIENCE_S):
                await make_transport(kind).send(UpstreamRequest("POST", f"https://127.0.0.1:{there.port}/", [], b"{}", 0.2, 5.0))
    assert caught.value.fault in (TransportFault.TLS, TransportFault.CONNECT_TIMEOUT)


async def test_a_tls_handshake_that_hangs_ends_with_the_connect_timeout_and_closes_its_socket(kind: str) -> None:
    closed = trio.Event()

    async def never_answer(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some(65536):
                pass
        closed.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, never_answer, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        transport = make_transport(kind)
        with pytest.raises(TransportError) as caught:
            await transport.send(UpstreamRequest("POST", f"https://127.0.0.1:{port}/", [], b"{}", 0.1, 5.0))
        assert caught.value.fault is TransportFault.CONNECT_TIMEOUT
        with trio.fail_after(PATIENCE_S):
            await closed.wait()
        nursery.cancel_scope.cancel()


async def test_what_comes_behind_an_answer_is_never_the_answer_to_the_next_request(kind: str) -> None:
    transport = make_transport(kind)
    async with upstream() as there:
        for _ in range(10):
            assert await read_all(transport, request(there.port, "/surplus")) == b"ok"
    await transport.aclose()
