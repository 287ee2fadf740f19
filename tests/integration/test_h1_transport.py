"""The HTTP/1.1 transport on real sockets: TLS, addresses, long bodies, early answers, and what is left open."""

import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trustme

from gomodel_trio.upstream import dial
from gomodel_trio.upstream.h1 import H1Transport
from gomodel_trio.upstream.h1_parser import MAX_INFORMATIONAL
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault, UpstreamRequest
from support.transports import read_all

PATIENCE_S = 20.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LONG = os.urandom(1 << 16) * 80
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
Serve = Callable[[Stream], Awaitable[None]]


def request(
    port: int, body: bytes = b"{}", *, url: str = "http://127.0.0.1", headers: Headers | None = None, **changes: Any
) -> UpstreamRequest:
    times: dict[str, Any] = {"connect_timeout_s": 5.0, "header_timeout_s": 5.0, **changes}
    method = times.pop("method", "POST")
    return UpstreamRequest(method, f"{url}:{port}/", headers or [], body, **times)


async def receive_head(stream: Stream) -> tuple[bytes, bytes]:
    """A request's head, and what came of its body with it; b"" where the client is gone."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = bytes(await stream.receive_some(65536))
        if not chunk:
            return b"", b""
        received += chunk
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


async def receive_body(stream: Stream, head: bytes, rest: bytes) -> bytes:
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
    body = bytearray(rest)
    while len(body) < length:
        chunk = await stream.receive_some(65536)
        if not chunk:
            break
        body += chunk
    return bytes(body)


def answering(answer: bytes) -> Serve:
    """Takes whole requests and answers each alike."""

    async def serve(stream: Stream) -> None:
        while (taken := await receive_head(stream))[0]:
            await receive_body(stream, *taken)
            await stream.send_all(answer)

    return serve


@contextlib.asynccontextmanager
async def upstream(serve: Serve, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server; gives its port."""

    async def contained(stream: Stream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await serve(stream)

    async with trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE_S):
            if tls is None:
                plain = await nursery.start(partial(trio.serve_tcp, contained, 0, host=host))
                port = plain[0].socket.getsockname()[1]
            else:
                secured = await nursery.start(partial(trio.serve_ssl_over_tcp, contained, 0, tls, host=host, https_compatible=True))
                port = secured[0].transport_listener.socket.getsockname()[1]
            yield port
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def transport_to(**settings: Any) -> AsyncIterator[H1Transport]:
    """A transport that is closed at the end and has given up every place by then."""
    transport = H1Transport(**settings)
    yield transport
    await transport.aclose()
    assert (transport.pool.in_use_count, transport.pool.idle_count) == (0, 0)


async def until(is_true: Callable[[], bool]) -> None:
    """Look again and again; the caller bounds it."""
    while not is_true():  # noqa: ASYNC110 - what is looked at has no event
        await trio.sleep(0.005)


# ---- TLS ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def contexts(authority: trustme.CA, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's with a certificate for these names, and a client's that trusts it."""
    ours, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(ours)
    authority.issue_cert(*names).configure_cert(theirs)
    return theirs, ours


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_names_the_host_offers_http_1_1_and_resumes_its_session(authority: trustme.CA, version: ssl.TLSVersion) -> None:
    theirs, ours = contexts(authority, "localhost")
    theirs.maximum_version = version
    theirs.set_alpn_protocols(["h2", "http/1.1"])
    names: list[str | None] = []
    seen: list[tuple[str | None, bool]] = []

    def note(tls: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        names.append(name)

    theirs.sni_callback = note

    async def serve(stream: Stream) -> None:
        await receive_head(stream)
        assert isinstance(stream, trio.SSLStream)
        seen.append((stream.selected_alpn_protocol(), bool(stream.session_reused)))
        await stream.send_all(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

    async with upstream(serve, tls=theirs) as port, transport_to(ssl_context=ours) as transport:
        for _ in range(3):
            assert await read_all(transport, request(port, url="https://localhost")) == b"ok"
    assert names == ["localhost"] * 3
    assert seen == [("http/1.1", False), ("http/1.1", True), ("http/1.1", True)]


async def test_a_session_that_the_server_declines_is_replaced_by_a_newer_one(authority: trustme.CA) -> None:
    before, ours = contexts(authority, "localhost")
    after, _ = contexts(authority, "localhost")
    resumed: list[bool] = []

    async def serve(stream: Stream) -> None:
        await receive_head(stream)
        assert isinstance(stream, trio.SSLStream)
        resumed.append(bool(stream.session_reused))
        await stream.send_all(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

    async with upstream(serve, tls=before) as old_port, upstream(serve, tls=after) as new_port:
        ports = [old_port] * 3 + [new_port] * 3

        async def next_server(host: str, port: int) -> socket.socket:
            return await dial.connect_any([(socket.AF_INET, ("127.0.0.1", ports.pop(0)))])

        async with transport_to(ssl_context=ours, dial=next_server) as transport:
            for _ in range(6):
                assert await read_all(transport, request(old_port, url="https://localhost")) == b"ok"
    assert resumed == [False, True, True, False, True, True]


async def test_an_address_is_verified_as_one(authority: trustme.CA) -> None:
    theirs, ours = contexts(authority, "127.0.0.1")
    async with upstream(answering(OK), tls=theirs) as port, transport_to(ssl_context=ours) as transport:
        assert await read_all(transport, request(port, url="https://127.0.0.1")) == b"ok"
        with pytest.raises(TransportError) as caught:
            await transport.send(request(port, url="https://localhost"))
    assert caught.value.fault is TransportFault.TLS


@pytest.mark.parametrize("is_secure", [False, True])
async def test_long_bodies_go_both_ways_and_the_connection_stays(authority: trustme.CA, is_secure: bool) -> None:
    theirs, ours = contexts(authority, "localhost")

    async def echo(stream: Stream) -> None:
        while (taken := await receive_head(stream))[0]:
            await trio.sleep(0.05)  # until the sender has to wait
            body = await receive_body(stream, *taken)
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    url = "https://localhost" if is_secure else "http://127.0.0.1"
    async with upstream(echo, tls=theirs if is_secure else None) as port, transport_to(ssl_context=ours) as transport:
        for body in (LONG, LONG[:100_000], b"x" * 65_536, LONG):
            assert await read_all(transport, request(port, body, url=url)) == body
            assert transport.pool.idle_count == 1


async def test_a_kept_tls_connection_that_died_is_replaced_silently(authority: trustme.CA) -> None:
    theirs, ours = contexts(authority, "localhost")
    connections = 0

    async def serve(stream: Stream) -> None:
        nonlocal connections
        connections += 1
        while (await receive_head(stream))[0] and not (connections == 1 and transport.pool.in_use_count and is_second):
            await stream.send_all(OK)

    is_second = False
    async with upstream(serve, tls=theirs) as port, transport_to(ssl_context=ours) as transport:
        assert await read_all(transport, request(port, url="https://localhost")) == b"ok"
        is_second = True
        assert await read_all(transport, request(port, url="https://localhost")) == b"ok"
    assert connections == 2


async def test_a_hundred_cancelled_handshakes_leave_no_place_taken_and_no_socket(authority: trustme.CA) -> None:
    _, ours = contexts(authority, "localhost")
    gone = 0

    async def silent(stream: Stream) -> None:
        nonlocal gone
        while await stream.receive_some(65536):
            pass
        gone += 1

    async def cancelled(number: int) -> None:
        with trio.move_on_after(0.001 * (number % 20)):
            await transport.send(request(port, url="https://localhost"))

    async with upstream(silent) as port, upstream(answering(OK)) as other, transport_to(ssl_context=ours, max_connections=4) as transport:
        before = len(os.listdir("/proc/self/fd"))
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(cancelled, number)
        assert transport.pool.in_use_count == 0
        assert await read_all(transport, request(other)) == b"ok"
        await transport.aclose()
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


# ---- addresses ---------------------------------------------------------------------------------------------------------------------


class Resolver(trio.abc.HostnameResolver):
    """Says which addresses a name has, and counts how often it is asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.lookups = 0

    async def getaddrinfo(self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002, PLR0917
        self.lookups += 1
        await trio.sleep(0.01)
        found = [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self.addresses
        ]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


def resolving(*addresses: str) -> Resolver:
    """Resolve all names so until the test's run is over."""
    resolver = Resolver(*addresses)
    trio.socket.set_custom_hostname_resolver(resolver)
    return resolver


async def test_an_ipv6_address_is_connected_to() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    async with upstream(answering(OK), host="::1") as port, transport_to() as transport:
        assert await read_all(transport, request(port, url="http://[::1]")) == b"ok"


async def test_a_burst_of_connections_looks_a_name_up_once_and_a_dead_address_is_passed_over() -> None:
    resolver = resolving("127.0.0.2", "::1", "127.0.0.1")
    async with upstream(answering(OK)) as port, transport_to() as transport:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(read_all, transport, request(port, url="http://up.test"))
        assert resolver.lookups == 1
        assert 1 <= transport.pool.idle_count <= 20


async def test_a_silent_address_holds_up_for_a_quarter_of_a_second_only() -> None:
    resolving("127.0.0.3", "127.0.0.1")
    async with upstream(answering(OK)) as port, transport_to() as transport:
        with socket.socket() as full, contextlib.ExitStack() as fillers:
            full.bind(("127.0.0.3", port))
            full.listen(0)
            for _ in range(3):  # a full queue: further connections are not answered
                filler = fillers.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.3", port))
            began = trio.current_time()
            assert await read_all(transport, request(port, url="http://up.test")) == b"ok"
            assert dial.ATTEMPT_S <= trio.current_time() - began < 1.0 + dial.ATTEMPT_S


async def test_when_no_address_answers_the_reason_is_told_and_the_name_forgotten() -> None:
    resolver = resolving("127.0.0.2", "127.0.0.3")
    async with upstream(answering(OK)) as port, transport_to() as transport:
        with pytest.raises(TransportError) as caught:
            await transport.send(request(port, url="http://up.test"))
        assert (caught.value.fault, "refused" in caught.value.message) == (TransportFault.CONNECT, True)
        resolver.addresses = ("127.0.0.1",)
        assert await read_all(transport, request(port, url="http://up.test")) == b"ok"


async def test_an_unknown_name_and_an_impossible_one_are_connect_faults() -> None:
    resolving()
    async with transport_to() as transport:
        for host, words in (("up.test", "could not be resolved"), ("x" * 300, "could not be re")):
            with pytest.raises(TransportError) as caught:
                await transport.send(request(1, url=f"http://{host}"))
            assert caught.value.fault is TransportFault.CONNECT
            assert words in caught.value.message


async def test_too_many_names_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "MAX_NAMES", 2)
    resolver = resolving("127.0.0.1")
    async with upstream(answering(OK)) as port, transport_to() as transport:
        for host in ("a.test", "b.test", "c.test"):
            assert await read_all(transport, request(port, url=f"http://{host}")) == b"ok"
    assert resolver.lookups == 3


# ---- early answers -----------------------------------------------------------------------------------------------------------------

TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\n\r\nmuch"


@pytest.mark.parametrize("answer", [TOO_LARGE, b"HTTP/1.1 100 Continue\r\n\r\n" + TOO_LARGE])
@pytest.mark.parametrize("is_closed", [False, True])
async def test_an_answer_that_does_not_wait_for_the_body_is_returned_and_the_connection_closed(answer: bytes, is_closed: bool) -> None:
    async def serve(stream: Stream) -> None:
        await receive_head(stream)
        await stream.send_all(answer)
        if not is_closed:
            await trio.sleep_forever()
        assert isinstance(stream, trio.SocketStream)
        await stream.send_eof()
        while await stream.receive_some(65536):
            pass

    async with upstream(serve) as port, transport_to() as transport:
        response = await transport.send(request(port, LONG * 3))
        assert (response.status, await response.read(), await response.read()) == (413, b"much", b"")
        assert transport.pool.idle_count == 0


async def test_an_early_success_lets_the_body_go_on() -> None:
    received = 0

    async def serve(stream: Stream) -> None:
        nonlocal received
        head, rest = await receive_head(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
        await trio.sleep(0.05)
        received = len(await receive_body(stream, head, rest))
        await stream.send_all(b"ok")

    async with upstream(serve) as port, transport_to() as transport:
        assert await read_all(transport, request(port, LONG)) == b"ok"
    assert received == len(LONG)


async def test_a_connection_that_closes_under_a_long_body_is_a_reset() -> None:
    async def serve(stream: Stream) -> None:
        await receive_head(stream)

    async with upstream(serve) as port, transport_to() as transport:
        with pytest.raises(TransportError) as caught:
            await transport.send(request(port, LONG))
    assert caught.value.fault is TransportFault.RESET


async def test_a_server_that_takes_nothing_is_a_header_timeout() -> None:
    async def deaf(stream: Stream) -> None:
        await trio.sleep_forever()

    async with upstream(deaf) as port, transport_to() as transport:
        with pytest.raises(TransportError) as caught:
            await transport.send(request(port, LONG, header_timeout_s=0.1))
    assert caught.value.fault is TransportFault.HEADER_TIMEOUT


# ---- what is kept ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (OK, 1),
        (OK + b"garbage", 0),
        (OK + OK, 0),
        (OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), 0),
        (OK.replace(b"\r\n\r\n", b"\r\nkeep-alive: timeout=60\r\n\r\n"), 1),
        (OK.replace(b"\r\n\r\n", b"\r\nkeep-alive: timeout=1\r\n\r\n"), 0),
        (b"HTTP/1.1 100 x\r\n\r\n" * MAX_INFORMATIONAL + OK, 1),
    ],
)
async def test_a_connection_is_kept_only_if_it_can_serve_again(answer: bytes, is_kept: int) -> None:
    async with upstream(answering(answer)) as port, transport_to() as transport:
        for _ in range(2):
            assert await read_all(transport, request(port)) == b"ok"
            assert transport.pool.idle_count == is_kept


async def test_a_head_request_has_no_body_and_keeps_its_connection() -> None:
    async with upstream(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")) as port, transport_to() as transport:
        for _ in range(3):
            response = await transport.send(request(port, b"", method="HEAD"))
            assert (response.status, await response.read(), transport.pool.idle_count) == (200, b"", 1)


async def test_an_idle_connection_on_which_the_server_speaks_is_not_used() -> None:
    heads = 0

    async def serve(stream: Stream) -> None:
        nonlocal heads
        await receive_head(stream)
        heads += 1
        await stream.send_all(OK)
        await trio.sleep(0.01)
        await stream.send_all(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await trio.sleep_forever()

    async with upstream(serve) as port, transport_to() as transport:
        for number in (1, 2):
            assert await read_all(transport, request(port)) == b"ok"
            assert heads == number
            await trio.sleep(0.05)


async def test_connections_are_not_shared_between_credentials() -> None:
    async with upstream(answering(OK)) as port, transport_to() as transport:
        for number, credential in ((1, b"a"), (2, b"b"), (2, b"a"), (2, b"b")):
            assert await read_all(transport, request(port, headers=[(b"authorization", b"Bearer " + credential)])) == b"ok"
            assert transport.pool.idle_count == number


async def test_the_reaper_closes_what_has_expired_and_what_the_server_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gomodel_trio.upstream.h1_pool.REAP_S", 0.02)

    async def once(stream: Stream) -> None:
        await receive_head(stream)
        await stream.send_all(OK)

    async with (
        upstream(answering(OK)) as port,
        upstream(once) as closing,
        transport_to(keep_alive_s=0.2) as transport,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(transport.reap)
        assert await read_all(transport, request(closing)) == b"ok"
        assert await read_all(transport, request(port)) == b"ok"
        assert transport.pool.idle_count == 2
        await until(lambda: transport.pool.idle_count == 1)
        await until(lambda: transport.pool.idle_count == 0)
        nursery.cancel_scope.cancel()


async def test_closing_an_answer_wakes_whoever_reads_it() -> None:
    async def serve(stream: Stream) -> None:
        await receive_head(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        await trio.sleep_forever()

    async with upstream(serve) as port, transport_to() as transport:
        response = await transport.send(request(port))
        faults: list[TransportFault] = []

        async def read() -> None:
            with pytest.raises(TransportError) as caught:
                await response.read()
            faults.append(caught.value.fault)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await response.aclose()
        assert (faults, await response.read()) == ([TransportFault.RESET], b"")


async def test_a_chunk_before_a_fault_is_handed_over_first() -> None:
    async with (
        upstream(answering(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n")) as port,
        transport_to() as transport,
    ):
        response = await transport.send(request(port))
        assert await response.read() == b"ok"
        with pytest.raises(TransportError) as caught:
            await response.read()
        assert (caught.value.fault, await response.read()) == (TransportFault.PROTOCOL, b"")


async def test_a_long_answer_lets_other_tasks_run() -> None:
    async with (
        upstream(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(LONG) + LONG)) as port,
        transport_to() as transport,
    ):
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            assert await read_all(transport, request(port)) == LONG
            nursery.cancel_scope.cancel()
        assert turns >= len(LONG) // (64 << 10) // 16
