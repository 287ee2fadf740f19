"""Both transports over streams in memory and in virtual time: what it sends, which fault it names, and when."""

import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from support.transports import KINDS, AnyTransport, make_transport, read_all, stream_pair

Server = Callable[[trio.abc.HalfCloseableStream], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def request(url: str = "http://up.test/v1/chat/completions", **changes: float | None) -> UpstreamRequest:
    times = {"connect_timeout_s": 10.0, "header_timeout_s": 600.0, "idle_timeout_s": 300.0, **changes}
    return UpstreamRequest("POST", url, [(b"x-b", b"1"), (b"X-A", b"2")], b"{}", **times)  # type: ignore[arg-type]


class Upstream:
    """A server for each connection, in turn; the last one serves all further connections."""

    def __init__(self, kind: str, nursery: trio.Nursery, *servers: Server) -> None:
        self.kind = kind
        self.nursery = nursery
        self.servers = list(servers)
        self.connections = 0

    async def open_tcp(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        ours, theirs = stream_pair(self.kind)
        server = self.servers.pop(0) if len(self.servers) > 1 else self.servers[0]
        self.connections += 1

        async def serve() -> None:
            async with theirs:
                with contextlib.suppress(trio.BrokenResourceError):
                    await server(theirs)

        self.nursery.start_soon(serve)
        return ours


async def receive_request(stream: trio.abc.HalfCloseableStream) -> bytes:
    """One whole request; b"" where the client is gone."""
    received = b""
    while not received.endswith(b"\r\n\r\n{}"):
        chunk = bytes(await stream.receive_some(65536))
        if not chunk:
            return b""
        received += chunk
    return received


def answering(*pieces: bytes | float) -> Server:
    """Answers each request with the same bytes and pauses."""

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        while await receive_request(stream):
            for piece in pieces:
                if isinstance(piece, bytes):
                    await stream.send_all(piece)
                else:
                    await trio.sleep(piece)

    return serve


def answering_once(*pieces: bytes | float) -> Server:
    """Answers one request and closes."""

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        await receive_request(stream)
        for piece in pieces:
            if isinstance(piece, bytes):
                await stream.send_all(piece)
            else:
                await trio.sleep(piece)

    return serve


def transport_to(upstream: Upstream, max_connections: int = 100) -> AnyTransport:
    return make_transport(upstream.kind, open_tcp=upstream.open_tcp, max_connections=max_connections)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which transport."""
    return str(request.param)


async def test_exactly_the_given_headers_arrive_with_host_and_content_length(kind: str) -> None:
    seen: list[bytes] = []

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        seen.append(await receive_request(stream))
        await stream.send_all(OK)

    async with trio.open_nursery() as nursery:
        transport = transport_to(Upstream(kind, nursery, serve))
        assert await read_all(transport, request("http://up.test:8080/v1/x%20y?a=1&b=%2F")) == b"ok"
        await transport.aclose()
    assert seen == [b"POST /v1/x%20y?a=1&b=%2F HTTP/1.1\r\nHost: up.test:8080\r\nx-b: 1\r\nX-A: 2\r\nContent-Length: 2\r\n\r\n{}"]


async def test_the_body_comes_undecoded_chunk_by_chunk_and_ends_once(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n"
        transport = transport_to(Upstream(kind, nursery, answering(head + b"3\r\n\x1f\x8b!\r\n", 1.0, b"1\r\nz\r\n0\r\n\r\n")))
        response = await transport.send(request())
        assert response.status == 200
        assert (b"set-cookie", b"a=b") in response.headers
        assert [await response.read(), await response.read(), await response.read(), await response.read()] == [
            b"\x1f\x8b!",
            b"z",
            b"",
            b"",
        ]
        await transport.aclose()


async def test_redirects_are_handed_on_and_informational_answers_skipped(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        answer += b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://other.test/\r\ncontent-length: 0\r\n\r\n"
        upstream = Upstream(kind, nursery, answering(answer))
        transport = transport_to(upstream)
        response = await transport.send(request())
        assert (response.status, await response.read(), upstream.connections) == (307, b"", 1)
        await transport.aclose()


async def test_a_connection_is_kept_after_a_whole_answer_and_reused(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, answering(OK))
        transport = transport_to(upstream)
        for _ in range(3):
            assert await read_all(transport, request()) == b"ok"
        assert (upstream.connections, transport.pool.idle_count, transport.pool.in_use_count) == (1, 1, 0)
        await transport.aclose()
        assert transport.pool.idle_count == 0


async def fault_of(upstream: Upstream, message: UpstreamRequest | None = None) -> tuple[TransportFault, float]:
    """The fault, and when it was known."""
    transport = transport_to(upstream)
    began = trio.current_time()
    with pytest.raises(TransportError) as caught:
        await read_all(transport, message or request())
    assert "up.test" not in caught.value.message
    assert transport.pool.in_use_count == 0
    assert transport.pool.idle_count == 0
    return caught.value.fault, trio.current_time() - began


@pytest.mark.parametrize(
    ("server", "fault"),
    [
        (answering_once(b""), TransportFault.RESET),
        (answering_once(b"HTTP/1.1 200 OK\r\ncontent-le"), TransportFault.RESET),
        (answering_once(b"220 smtp ready\r\n\r\n"), TransportFault.PROTOCOL),
        (answering_once(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000), TransportFault.PROTOCOL),
        (answering_once(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"), TransportFault.SHORT_BODY),
        (answering_once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"), TransportFault.SHORT_BODY),
        (answering_once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n"), TransportFault.SHORT_BODY),
        (answering_once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), TransportFault.PROTOCOL),
        (answering_once(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"), TransportFault.PROTOCOL),
    ],
)
async def test_each_broken_answer_has_its_fault(kind: str, server: Server, fault: TransportFault) -> None:
    async with trio.open_nursery() as nursery:
        assert (await fault_of(Upstream(kind, nursery, server)))[0] is fault


async def test_a_body_without_length_ends_with_the_connection(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        transport = transport_to(Upstream(kind, nursery, answering_once(b"HTTP/1.0 200 OK\r\n\r\nall of it")))
        assert await read_all(transport, request()) == b"all of it"
        assert transport.pool.idle_count == 0


async def test_a_silent_upstream_is_a_header_timeout(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, answering_once(1000.0))
        assert await fault_of(upstream, request(header_timeout_s=20.0)) == (TransportFault.HEADER_TIMEOUT, 20.0)
        nursery.cancel_scope.cancel()


async def test_a_dripping_head_is_a_header_timeout_all_the_same(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, answering_once(*(b"HTTP/1.1 100 Continue\r\n\r\n", 5.0) * 10))
        assert await fault_of(upstream, request(header_timeout_s=20.0)) == (TransportFault.HEADER_TIMEOUT, 20.0)
        nursery.cancel_scope.cancel()


async def test_a_pause_in_the_body_is_an_idle_timeout(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"
        upstream = Upstream(kind, nursery, answering_once(head, 9.0, b"1\r\nb\r\n", 1000.0))
        assert await fault_of(upstream, request(idle_timeout_s=10.0)) == (TransportFault.IDLE_TIMEOUT, 19.0)
        nursery.cancel_scope.cancel()


async def test_without_an_idle_timeout_a_pause_may_last(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no"
        transport = transport_to(Upstream(kind, nursery, answering_once(head, 9000.0, b"k")))
        assert await read_all(transport, request(idle_timeout_s=None)) == b"ok"
        await transport.aclose()


async def test_connecting_has_its_own_timeout(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async def hang(host: str, port: int) -> trio.abc.HalfCloseableStream:
        await trio.sleep_forever()
        raise AssertionError

    began = trio.current_time()
    with pytest.raises(TransportError) as caught:
        await make_transport(kind, open_tcp=hang).send(request(connect_timeout_s=7.0))
    assert (caught.value.fault, caught.value.is_timeout) == (TransportFault.CONNECT_TIMEOUT, True)
    assert trio.current_time() - began == 7.0


async def test_an_unusable_url_is_a_connect_fault_without_the_url(kind: str) -> None:
    for url in ("", "up.test/v1", "ftp://up.test/", "http://", "http://[::1", "http://up.test:99999/", "http://up\x00.test/"):
        with pytest.raises(TransportError) as caught:
            await make_transport(kind, open_tcp=refuse).send(request(url))
        assert (caught.value.fault, "up.test" in caught.value.message) == (TransportFault.CONNECT, False)


async def refuse(host: str, port: int) -> trio.abc.HalfCloseableStream:
    raise ConnectionRefusedError


async def test_an_invalid_header_is_a_protocol_fault_that_does_not_show_it(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        transport = transport_to(Upstream(kind, nursery, answering(OK)))
        bad = UpstreamRequest("POST", "http://up.test/", [(b"authorization", b"Bearer canary\n")], b"{}", 1.0, 1.0)
        with pytest.raises(TransportError) as caught:
            await transport.send(bad)
    assert caught.value.fault is TransportFault.PROTOCOL
    assert "canary" not in caught.value.message
    assert caught.value.__context__ is None


# ---- the one silent re-send --------------------------------------------------------------------------------------------------------


def dying_on_second(*before_death: float) -> Server:
    """Answers one request, takes a second one and closes."""

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        await receive_request(stream)
        await stream.send_all(OK)
        await receive_request(stream)
        for pause in before_death:
            await trio.sleep(pause)

    return serve


async def test_a_kept_connection_that_died_is_replaced_silently_once(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, dying_on_second(), answering(OK))
        transport = transport_to(upstream)
        assert await read_all(transport, request()) == b"ok"
        assert await read_all(transport, request()) == b"ok"
        assert upstream.connections == 2
        await transport.aclose()


async def test_the_second_send_goes_over_a_new_connection_and_its_failure_is_told(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, dying_on_second(), answering_once(b""))
        transport = transport_to(upstream)
        assert await read_all(transport, request()) == b"ok"
        with pytest.raises(TransportError) as caught:
            await transport.send(request())
        assert (caught.value.fault, upstream.connections) == (TransportFault.RESET, 2)


async def test_a_new_connection_that_dies_is_not_sent_to_again(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, answering_once(b""))
        assert (await fault_of(upstream))[0] is TransportFault.RESET
        assert upstream.connections == 1


async def test_a_kept_connection_that_dies_within_its_answer_is_not_sent_to_again(kind: str) -> None:
    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        await receive_request(stream)
        await stream.send_all(OK)
        await receive_request(stream)
        await stream.send_all(b"HTTP/1.1 2")

    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, serve)
        transport = transport_to(upstream)
        assert await read_all(transport, request()) == b"ok"
        with pytest.raises(TransportError):
            await transport.send(request())
        assert upstream.connections == 1


async def test_an_upstream_that_dies_over_a_request_is_not_asked_again(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, dying_on_second(30.0), answering(OK))
        transport = transport_to(upstream)
        assert await read_all(transport, request()) == b"ok"
        with pytest.raises(TransportError) as caught:
            await transport.send(request())
        assert (caught.value.fault, upstream.connections) == (TransportFault.RESET, 1)


# ---- cancellation and the pool -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_s", [0.0, 1.0, 2.5, 3.5])
async def test_a_cancelled_exchange_closes_its_connection_and_frees_its_place(
    kind: str, after_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    closed = 0

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        nonlocal closed
        await receive_request(stream)
        await trio.sleep(2.0)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await trio.sleep(1.0)
        await stream.send_all(b"1\r\na\r\n")
        assert await stream.receive_some(1) == b""
        closed += 1

    async with trio.open_nursery() as nursery:
        transport = transport_to(Upstream(kind, nursery, serve), max_connections=1)
        with trio.move_on_after(after_s):
            await read_all(transport, request())
        assert transport.pool.in_use_count == 0
        nursery.cancel_scope.deadline = trio.current_time() + 10
        if after_s > 3:
            await trio.testing.wait_all_tasks_blocked()
            assert closed == 1


async def test_closing_in_the_middle_of_a_body_is_immediate_and_may_be_repeated(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"
        transport = transport_to(Upstream(kind, nursery, answering_once(head, 1000.0)))
        for is_begun in (True, False):
            began = trio.current_time()
            response = await transport.send(request())
            if is_begun:
                assert await response.read() == b"a"
            await response.aclose()
            await response.aclose()
            assert await response.read() == b""
            assert (trio.current_time() - began, transport.pool.in_use_count, transport.pool.idle_count) == (0.0, 0, 0)
        nursery.cancel_scope.cancel()


async def test_a_request_waits_for_a_place_no_longer_than_for_a_connection(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        begun = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no"
        transport = transport_to(Upstream(kind, nursery, answering_once(begun, 1000.0), answering(OK)), max_connections=1)
        first = await transport.send(request())
        with pytest.raises(TransportError) as caught:
            await transport.send(request(connect_timeout_s=3.0))
        assert caught.value.fault is TransportFault.CONNECT_TIMEOUT
        await first.aclose()
        assert await read_all(transport, request()) == b"ok"
        await transport.aclose()
        nursery.cancel_scope.cancel()


async def test_an_idle_connection_makes_room_for_another_origin(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        upstream = Upstream(kind, nursery, answering(OK))
        transport = transport_to(upstream, max_connections=1)
        assert await read_all(transport, request("http://a.test/")) == b"ok"
        assert await read_all(transport, request("http://b.test/")) == b"ok"
        assert transport.pool.idle_count == 1
        await transport.aclose()


# ---- names and proxies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known: up.test"), "name could not be resolved"),
        (ConnectionRefusedError(111, "up.test"), "refused the connection"),
        (OSError(113, "No route to host up.test"), "could not be reached"),
    ],
)
async def test_a_failed_connection_says_why_and_not_where(kind: str, error: OSError, words: str) -> None:
    async def fail(host: str, port: int) -> trio.abc.HalfCloseableStream:
        raise OSError("all attempts to connect to up.test failed") from ExceptionGroup("", [error])

    with pytest.raises(TransportError) as caught:
        await make_transport(kind, open_tcp=fail).send(request())
    assert caught.value.fault is TransportFault.CONNECT
    assert words in caught.value.message
    assert "up.test" not in caught.value.message


async def test_a_connection_that_fails_for_want_of_files_is_the_gateways_own_fault(kind: str) -> None:
    async def fail(host: str, port: int) -> trio.abc.HalfCloseableStream:
        raise OSError("all attempts to connect to up.test failed") from ExceptionGroup("", [OSError(24, "Too many open files")])

    transport = make_transport(kind, open_tcp=fail)
    with pytest.raises(TransportError) as caught:
        await transport.send(request())
    assert (caught.value.fault, transport.pool.in_use_count) == (TransportFault.LOCAL, 0)
