"""HTTP/2 upstreams on real sockets and TLS: exchanges, streams, windows, cancellation, farewells, hostile servers."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing
import trustme
from h2.errors import ErrorCodes

from gomodel_trio.upstream.h1_parser import MAX_INFORMATIONAL
from gomodel_trio.upstream.http2_connection import WINDOW_BYTES
from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault, UpstreamRequest
from support.h2_upstream import H2Upstream, Handler, Stream, open_h2_upstream
from support.transports import read_all

PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def request(port: int, path: str = "/", body: bytes = b"{}", headers: Headers | None = None, method: str = "POST") -> UpstreamRequest:
    return UpstreamRequest(method, f"https://localhost:{port}{path}", headers or [], body, 5.0, 5.0, 5.0)


@contextlib.asynccontextmanager
async def upstream(authority: trustme.CA, handler: Handler, max_connections: int = 300) -> AsyncIterator[tuple[H2Upstream, HttpxTransport]]:
    """A server and a transport that trusts it."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def open_tcp(host: str, port: int) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", port)

    with trio.fail_after(PATIENCE_S):
        async with open_h2_upstream(authority, handler) as there:
            transport = HttpxTransport(http2=True, environ={}, ssl_context=context, open_tcp=open_tcp, max_connections=max_connections)
            yield there, transport
            assert transport.pool.in_use_count == 0
            await transport.aclose()
            assert transport.pool.idle_count == 0


async def echo(stream: Stream) -> None:
    await stream.answer(stream.body or b"ok")


async def test_requests_go_as_they_are_and_share_one_connection(authority: trustme.CA) -> None:
    async with upstream(authority, echo) as (there, transport):
        headers = [(b"Authorization", b"Bearer k"), (b"X-B", b"1"), (b"x-a", b"2"), (b"Connection", b"close"), (b"te", b"gzip")]
        assert await read_all(transport, request(there.port, "/v1/chat?q=%2f", b'{"a": 1}', headers)) == b'{"a": 1}'
        assert await read_all(transport, request(there.port, "/v1/models", b"", [(b"authorization", b"Bearer k")], "GET")) == b"ok"
        assert transport.pool.idle_count == 1
    assert len(there.connections) == 1
    first, second = there.streams
    assert first.headers == [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", f"localhost:{there.port}".encode()),
        (b":path", b"/v1/chat?q=%2f"),
        (b"authorization", b"Bearer k"),
        (b"x-b", b"1"),
        (b"x-a", b"2"),
        (b"content-length", b"8"),
    ]
    assert (first.body, second.path, second.body) == (b'{"a": 1}', "/v1/models", b"")


async def test_other_credentials_get_a_connection_of_their_own(authority: trustme.CA) -> None:
    async with upstream(authority, echo) as (there, transport):
        for key in (b"one", b"two", b"one"):
            await read_all(transport, request(there.port, headers=[(b"x-api-key", key)]))
        assert len(there.connections) == 2


async def test_heads_come_in_lower_case_and_without_what_belongs_to_connections(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        stream.connection.h2.config.validate_outbound_headers = False
        stream.connection.h2.config.normalize_outbound_headers = False
        await stream.head(201, [(b"X-Up", b" a "), (b"connection", b"keep-alive"), (b"retry-after", b"1")], is_all=True)

    async with upstream(authority, answer) as (there, transport):
        response = await transport.send(request(there.port))
        assert (response.status, response.headers) == (201, [(b"x-up", b"a"), (b"retry-after", b"1")])
        assert await response.read() == b""
        assert await response.read() == b""
        await response.aclose()


async def test_a_server_that_does_not_speak_http2_is_spoken_to_in_http1(authority: trustme.CA) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    connections = 0

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some(65536):
                await trio.sleep(0.01)
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with upstream(authority, echo) as (_, transport), trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True))
        port = listeners[0].transport_listener.socket.getsockname()[1]
        async with trio.open_nursery() as asking:
            for _ in range(5):
                asking.start_soon(read_all, transport, request(port))
        assert connections == 5
        assert transport.pool.idle_count == 5
        await transport.aclose()
        nursery.cancel_scope.cancel()


async def test_concurrent_requests_open_one_connection_and_interleave(authority: trustme.CA) -> None:
    gate = trio.Event()

    async def answer(stream: Stream) -> None:
        await stream.head()
        await gate.wait()
        for number in range(20):
            await stream.data(f"{stream.path}:{number};".encode(), is_last=number == 19)
            await trio.lowlevel.checkpoint()

    bodies: dict[str, bytes] = {}

    async def ask(transport: HttpxTransport, port: int, path: str) -> None:
        bodies[path] = await read_all(transport, request(port, path))

    async with upstream(authority, answer) as (there, transport):
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, transport, there.port, f"/{number}")
            await there.until(lambda: len(there.streams) == 50)
            gate.set()
        assert len(there.connections) == 1
    assert bodies == {f"/{count}": b"".join(b"/%d:%d;" % (count, number) for number in range(20)) for count in range(50)}


async def test_each_chunk_of_a_stream_comes_at_once_while_others_are_silent(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        if stream.path == "/silent":
            await stream.until_reset()
        for _ in range(5):
            await stream.connection.until(lambda: bool(go.is_set()))
            await stream.data(b"x")
        await stream.data(b"y", is_last=True)

    go = trio.Event()
    go.set()
    async with upstream(authority, answer) as (there, transport):
        silent = [await transport.send(request(there.port, "/silent")) for _ in range(3)]

        async def hang(response: object) -> None:
            with contextlib.suppress(trio.Cancelled):
                await response.read()  # type: ignore[attr-defined]

        async with trio.open_nursery() as nursery:
            for response in silent:
                nursery.start_soon(hang, response)
            await trio.testing.wait_all_tasks_blocked()
            talking = await transport.send(request(there.port, "/talking"))
            body = b""
            while chunk := await talking.read():
                body += chunk
            assert body == b"xxxxxy"
            nursery.cancel_scope.cancel()
        for response in silent:
            await response.aclose()
        await there.until(lambda: sum(stream.reset_code == ErrorCodes.CANCEL for stream in there.streams) == 3)


async def test_more_requests_than_the_server_allows_streams_go_over_further_connections(authority: trustme.CA) -> None:
    async with upstream(authority, echo) as (there, transport):
        there.max_streams = 3
        held = [await transport.send(request(there.port)) for _ in range(7)]
        assert [len(connection.streams) for connection in there.connections] == [3, 3, 1]
        for response in held:
            assert await response.read() == b"{}"
            await response.aclose()
        assert await read_all(transport, request(there.port)) == b"{}"
        assert len(there.connections) == 3


@pytest.mark.parametrize(("count", "is_passed_over"), [(MAX_INFORMATIONAL, True), (MAX_INFORMATIONAL + 1, False)])
async def test_informational_answers_are_passed_over_up_to_a_bound(authority: trustme.CA, count: int, is_passed_over: bool) -> None:
    async def answer(stream: Stream) -> None:
        for _ in range(count):
            await stream.head(103, [(b"link", b"x")])
        await stream.answer()

    async with upstream(authority, answer) as (there, transport):
        if is_passed_over:
            assert await read_all(transport, request(there.port)) == b"ok"
            return
        with pytest.raises(TransportError) as caught:
            await transport.send(request(there.port))
        assert caught.value.fault is TransportFault.PROTOCOL


async def test_an_idle_connection_makes_room_for_one_to_another_origin(authority: trustme.CA) -> None:
    async with upstream(authority, echo, max_connections=1) as (there, transport):
        for key in (b"one", b"two", b"two"):
            await read_all(transport, request(there.port, headers=[(b"x-api-key", key)]))
            assert transport.pool.idle_count == 1
        assert len(there.connections) == 2
        await there.until(lambda: there.open_count == 1)


# ---- windows -----------------------------------------------------------------------------------------------------------------------


async def test_long_bodies_pass_both_ways_through_small_windows(authority: trustme.CA) -> None:
    body = bytes(range(256)) * 1200
    async with upstream(authority, echo) as (there, transport):
        there.window_bytes = 1000
        assert await read_all(transport, request(there.port, body=body)) == body


async def test_who_does_not_read_holds_back_his_own_stream_only(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        await stream.data(b"z" * (4 * WINDOW_BYTES if stream.path == "/slow" else 3 * WINDOW_BYTES), is_last=True, padding=7)

    async with upstream(authority, answer) as (there, transport):
        slow = [await transport.send(request(there.port, "/slow")) for _ in range(20)]
        assert len(await read_all(transport, request(there.port, "/quick"))) == 3 * WINDOW_BYTES
        await trio.testing.wait_all_tasks_blocked()
        assert all(stream.room() == 0 for stream in there.streams if stream.path == "/slow")
        assert len(await slow[0].read()) <= WINDOW_BYTES
        for response in slow:
            await response.aclose()
        assert len(await read_all(transport, request(there.port, "/quick"))) == 3 * WINDOW_BYTES


async def test_frames_of_nothing_but_padding_do_not_use_up_the_window(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        for _ in range(2 * WINDOW_BYTES // 16_000):
            for _ in range(63):
                await stream.connection.until(lambda: stream.room() > 256)
                stream.connection.h2.send_data(stream.id, b"", pad_length=255)
            await stream.connection.flush()
            await stream.data(b"a")
        await stream.data(b"b", is_last=True)

    async with upstream(authority, answer) as (there, transport):
        assert await read_all(transport, request(there.port)) == b"a" * 131 + b"b"


async def test_an_early_answer_ends_the_sending_of_a_long_body(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        await stream.answer(b"too large", 413)
        await stream.reset(ErrorCodes.NO_ERROR)

    async with upstream(authority, answer) as (there, transport):
        there.is_eager, there.is_reading = True, False
        response = await transport.send(request(there.port, body=b"a" * 10_000_000))
        assert response.status == 413
        assert await response.read() == b"too large"
        assert await response.read() == b""
        await response.aclose()
        assert len(there.connections) == 1


@pytest.mark.parametrize("is_reading", [False, True])
async def test_an_early_success_is_handed_on_and_gets_the_rest_of_the_body_while_it_is_read(
    authority: trustme.CA, is_reading: bool
) -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        if is_reading:
            await stream.connection.until(lambda: stream.is_complete)
        await stream.data(b"early", is_last=True)

    async with upstream(authority, answer) as (there, transport):
        there.is_eager, there.is_reading = True, is_reading
        response = await transport.send(request(there.port, body=b"a" * 3_000_000))
        assert (response.status, await response.read(), await response.read()) == (200, b"early", b"")
        await response.aclose()
        assert (len(there.streams[0].body) == 3_000_000) is is_reading


# ---- cancellation ------------------------------------------------------------------------------------------------------------------


async def test_a_cancelled_exchange_is_reset_and_leaves_the_others_alone(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        if stream.path == "/stays":
            await stream.head()
            await stream.data(b"a")
            await there.until(lambda: sum(stream.reset_code is not None for stream in there.streams) == 2)
            await stream.data(b"b", is_last=True)
        if stream.path == "/streams":
            await stream.head()
            await stream.data(b"a")
        await stream.until_reset()

    async def ask(path: str, scope: trio.CancelScope) -> None:
        with scope:
            await read_all(transport, request(there.port, path))

    async with upstream(authority, answer) as (there, transport):
        before_head, in_body = trio.CancelScope(), trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "/silent", before_head)
            nursery.start_soon(ask, "/streams", in_body)
            await there.until(lambda: len(there.streams) == 2)
            stays = await transport.send(request(there.port, "/stays"))
            assert await stays.read() == b"a"
            await trio.testing.wait_all_tasks_blocked()
            before_head.cancel()
            in_body.cancel()
        assert await stays.read() == b"b"
        assert await stays.read() == b""
        codes = {stream.path: stream.reset_code for stream in there.streams}
        assert codes == {"/silent": ErrorCodes.CANCEL, "/streams": ErrorCodes.CANCEL, "/stays": None}
        assert len(there.connections) == 1
        assert await read_all(transport, request(there.port, "/stays")) == b"ab"


async def test_a_cancellation_at_every_step_breaks_nobody_else(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        await stream.data(b"a" * 100_000, is_last=True)

    async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    async with upstream(authority, answer) as (there, transport):
        for steps in range(60):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(cancel_after, steps, scope)
                    await read_all(transport, request(there.port, body=b"q" * 50_000))
            assert transport.pool.in_use_count == 0
        assert await read_all(transport, request(there.port)) == b"a" * 100_000
        alive = [connection for connection in there.connections if not connection.is_closed]
        assert len(alive) == 1
        assert all(stream.is_complete or stream.reset_code == ErrorCodes.CANCEL for stream in alive[0].streams.values())


async def test_a_hundred_cancelled_exchanges_beside_one_that_goes_on(authority: trustme.CA) -> None:
    done = trio.Event()

    async def answer(stream: Stream) -> None:
        await stream.head()
        while stream.path == "/long" and not done.is_set():
            await stream.data(b"a" * 1000)
            await trio.lowlevel.checkpoint()
        await stream.data(b"a", is_last=stream.path == "/long")
        await stream.until_reset()

    async def ask_briefly(number: int) -> None:
        with trio.move_on_after(0.001 * (number % 10)):
            await read_all(transport, request(there.port, "/brief", b"b" * 20_000))

    async with upstream(authority, answer) as (there, transport):
        long = await transport.send(request(there.port, "/long"))
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask_briefly, number)
            for _ in range(50):
                assert set(await long.read()) == {ord("a")}
        done.set()
        while chunk := await long.read():
            assert set(chunk) == {ord("a")}
        assert there.open_count <= 2


async def test_timeouts_are_told_and_reset_the_stream_only(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        if stream.path == "/idle":
            await stream.head()
        await stream.until_reset()

    async with upstream(authority, answer) as (there, transport):
        with pytest.raises(TransportError) as caught:
            await transport.send(UpstreamRequest("POST", f"https://localhost:{there.port}/", [], b"{}", 5.0, 0.05))
        assert caught.value.fault is TransportFault.HEADER_TIMEOUT
        response = await transport.send(UpstreamRequest("POST", f"https://localhost:{there.port}/idle", [], b"{}", 5.0, 5.0, 0.05))
        with pytest.raises(TransportError) as caught:
            await response.read()
        assert caught.value.fault is TransportFault.IDLE_TIMEOUT
        await there.until(lambda: all(stream.reset_code == ErrorCodes.CANCEL for stream in there.streams))
        assert len(there.connections) == 1


# ---- endings of the server's -------------------------------------------------------------------------------------------------------


async def test_after_a_goaway_running_streams_end_well_and_new_ones_go_elsewhere(authority: trustme.CA) -> None:
    first_done = trio.Event()

    async def answer(stream: Stream) -> None:
        if stream.path == "/first":
            await stream.head()
            await stream.connection.goaway(stream.id)
            await stream.data(b"a")
            await first_done.wait()
            await stream.data(b"b", is_last=True)
        else:
            await stream.answer()

    async with upstream(authority, answer) as (there, transport):
        first = await transport.send(request(there.port, "/first"))
        assert await first.read() == b"a"
        assert await read_all(transport, request(there.port, "/second")) == b"ok"
        assert len(there.connections) == 2
        first_done.set()
        assert await first.read() == b"b"
        assert await first.read() == b""
        await there.until(lambda: there.open_count == 1)
        assert transport.pool.idle_count == 1


async def test_a_request_that_a_goaway_leaves_out_is_sent_once_more(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        if len(there.connections) == 1 and stream.path == "/refused":
            await stream.connection.goaway(stream.id - 2)
            await trio.sleep_forever()
        await stream.answer(stream.path.encode())

    async with upstream(authority, answer) as (there, transport):
        assert await read_all(transport, request(there.port, "/first")) == b"/first"
        assert await read_all(transport, request(there.port, "/refused")) == b"/refused"
        assert [len(connection.streams) for connection in there.connections] == [2, 1]
        await there.until(lambda: there.open_count == 1)


async def test_a_refused_stream_is_sent_once_more_and_only_once(authority: trustme.CA) -> None:
    async def answer(stream: Stream) -> None:
        if stream.path == "/always" or len(there.streams) == 1:
            await stream.reset(ErrorCodes.REFUSED_STREAM)
        else:
            await stream.answer()

    async with upstream(authority, answer) as (there, transport):
        assert await read_all(transport, request(there.port)) == b"ok"
        assert len(there.streams) == 2
        with pytest.raises(TransportError) as caught:
            await transport.send(request(there.port, "/always"))
        assert caught.value.fault is TransportFault.RESET
        assert "refused" in caught.value.message
        assert len(there.streams) == 4


@pytest.mark.parametrize("code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.NO_ERROR, ErrorCodes.ENHANCE_YOUR_CALM])
async def test_other_resets_are_told_and_not_repeated(authority: trustme.CA, code: ErrorCodes) -> None:
    async def answer(stream: Stream) -> None:
        if stream.path == "/body":
            await stream.head()
            await stream.data(b"a")
        await stream.reset(code)

    async with upstream(authority, answer) as (there, transport):
        with pytest.raises(TransportError) as caught:
            await transport.send(request(there.port))
        assert caught.value.fault is TransportFault.RESET
        with pytest.raises(TransportError) as caught:
            await read_all(transport, request(there.port, "/body"))
        assert caught.value.fault is TransportFault.RESET
        assert (len(there.streams), len(there.connections)) == (2, 1)


async def test_a_connection_that_died_while_idle_is_replaced_silently(authority: trustme.CA) -> None:
    async with upstream(authority, echo) as (there, transport):
        for expected in (1, 2, 3):
            assert await read_all(transport, request(there.port)) == b"{}"
            assert len(there.connections) == expected
            await there.connections[-1].close()


async def test_idle_connections_that_the_server_closed_or_told_to_go_do_not_linger(authority: trustme.CA) -> None:
    async with upstream(authority, echo) as (there, transport):
        await read_all(transport, request(there.port))
        there.connections[0].h2.ping(b"01234567")
        await there.connections[0].flush()
        await transport.pool.close_expired()
        assert transport.pool.idle_count == 1
        await there.connections[0].goaway(1)
        await transport.pool.close_expired()
        assert transport.pool.idle_count == 0
        await there.until(lambda: there.open_count == 0)
        await read_all(transport, request(there.port))
        await there.connections[1].close()
        await transport.pool.close_expired()
        assert transport.pool.idle_count == 0


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/close", TransportFault.RESET),
        ("/close-in-body", TransportFault.SHORT_BODY),
        ("/garbage", TransportFault.PROTOCOL),
        ("/garbage-in-body", TransportFault.PROTOCOL),
        ("/bad-header", TransportFault.PROTOCOL),
        ("/bad-status", TransportFault.PROTOCOL),
        ("/too-short", TransportFault.PROTOCOL),
    ],
)
async def test_a_connection_that_ends_badly_is_told_as_what_it_is(authority: trustme.CA, path: str, fault: TransportFault) -> None:
    async def answer(stream: Stream) -> None:
        stream.connection.h2.config.validate_outbound_headers = False
        match stream.path:
            case "/close":
                await stream.connection.close()
            case "/close-in-body":
                await stream.head()
                await stream.data(b"a")
                await stream.connection.close()
            case "/garbage":
                await stream.connection.send(b"HTTP/1.1 200 OK\r\n\r\n" * 10)
            case "/garbage-in-body":
                await stream.head()
                await stream.connection.send(b"\xff" * 100)
            case "/bad-header":
                await stream.head(200, [(b"x", b"a\r\nset-cookie: b")])
            case "/bad-status":
                stream.connection.h2.send_headers(stream.id, [(b":status", b"9")])
                await stream.connection.flush()
            case _:
                await stream.head(200, [(b"content-length", b"5")])
                await stream.data(b"a", is_last=True)
        await trio.sleep_forever()

    async with upstream(authority, answer) as (there, transport):
        with pytest.raises(TransportError) as caught:
            await read_all(transport, request(there.port, path))
        assert caught.value.fault is fault
        assert str(there.port) not in caught.value.message
        assert len(there.streams) == 1


async def test_a_server_that_chose_http2_and_does_not_speak_it_is_a_protocol_fault(authority: trustme.CA) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    context.set_alpn_protocols(["h2"])

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with upstream(authority, echo) as (_, transport), trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True))
        with pytest.raises(TransportError) as caught:
            await transport.send(request(listeners[0].transport_listener.socket.getsockname()[1]))
        assert caught.value.fault is TransportFault.PROTOCOL
        nursery.cancel_scope.cancel()


async def test_plain_upstreams_are_not_offered_http2() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        assert (await stream.receive_some(65536)).startswith(b"POST / HTTP/1.1\r\n")
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        transport = HttpxTransport(http2=True, environ={})
        port = listeners[0].socket.getsockname()[1]
        assert await read_all(transport, UpstreamRequest("POST", f"http://127.0.0.1:{port}/", [], b"{}", 5.0, 5.0)) == b"ok"
        await transport.aclose()
        nursery.cancel_scope.cancel()
