"""Proxies on real sockets: tunnels and forwarding, credentials, TLS to the proxy, HTTP/2 through it, exceptions, refusals."""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trustme

from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from support.h2_upstream import Stream, open_h2_upstream
from support.proxy import FakeProxy, open_proxy
from support.transports import read_all

PATIENCE_S = 10.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
SECRET = "s3cr%40t"
BASIC = "Basic dXNlcjpzM2NyQHQ="


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context that trusts nobody else."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def certified(authority: trustme.CA) -> ssl.SSLContext:
    """The context of a server `localhost`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


def request(url: str, connect_timeout_s: float = 5.0) -> UpstreamRequest:
    return UpstreamRequest("POST", url, [(b"x-a", b"1")], b"{}", connect_timeout_s, 5.0, 5.0)


@contextlib.asynccontextmanager
async def upstream(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """An HTTP/1.1 server; gives its port and what it received."""
    received: list[bytes] = []

    async def serve(stream: trio.abc.Stream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            message = b""
            while chunk := await stream.receive_some(65536):
                message += chunk
                if message.endswith(b"{}"):
                    received.append(message)
                    message = b""
                    await stream.send_all(OK)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            if tls is None:
                plain = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
                yield plain[0].socket.getsockname()[1], received
            else:
                secure = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, tls, host="127.0.0.1", https_compatible=True))
                yield secure[0].transport_listener.socket.getsockname()[1], received
            nursery.cancel_scope.cancel()


async def by_ipv4(host: str, port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


def transport_by(
    proxy_url: str | None, authority: trustme.CA, *, http2: bool = False, environ: dict[str, str] | None = None
) -> HttpxTransport:
    return HttpxTransport(proxy_url=proxy_url, environ=environ or {}, ssl_context=trusting(authority), open_tcp=by_ipv4, http2=http2)


async def test_a_tls_upstream_is_reached_by_a_tunnel_that_is_kept(authority: trustme.CA) -> None:
    async with upstream(certified(authority)) as (port, received), open_proxy(FakeProxy("user:s3cr@t")) as proxy:
        transport = transport_by(f"http://user:{SECRET}@localhost:{proxy.port}", authority)
        for _ in range(2):
            assert await read_all(transport, request(f"https://localhost:{port}/v1/chat")) == b"ok"
        await transport.aclose()
    head = [f"CONNECT localhost:{port} HTTP/1.1", f"Host: localhost:{port}", f"Proxy-Authorization: {BASIC}"]
    assert proxy.heads == ["\r\n".join(head)]
    assert [message.startswith(b"POST /v1/chat HTTP/1.1\r\n") for message in received] == [True, True]
    assert not any(b"roxy" in message or BASIC.encode() in message for message in received)


async def test_a_plain_upstream_is_reached_by_forwarding(authority: trustme.CA) -> None:
    async with upstream() as (port, received), open_proxy(FakeProxy("user:s3cr@t")) as proxy:
        transport = transport_by(f"http://user:{SECRET}@localhost:{proxy.port}", authority)
        assert await read_all(transport, request(f"http://localhost:{port}/v1/chat?a=b")) == b"ok"
        await transport.aclose()
    lines = proxy.heads[0].split("\r\n")
    assert lines[0] == f"POST http://localhost:{port}/v1/chat?a=b HTTP/1.1"
    assert f"Proxy-Authorization: {BASIC}" in lines
    assert f"Host: localhost:{port}" in lines
    assert [message.split(b"\r\n")[0] for message in received] == [b"POST /v1/chat?a=b HTTP/1.1"]


async def test_a_proxy_may_speak_tls_itself(authority: trustme.CA) -> None:
    fake = FakeProxy("user:s3cr@t")
    async with upstream(certified(authority)) as (port, _), upstream() as (plain_port, _), open_proxy(fake, certified(authority)) as proxy:
        transport = transport_by(f"https://user:{SECRET}@localhost:{proxy.port}", authority)
        assert await read_all(transport, request(f"https://localhost:{port}/")) == b"ok"
        assert await read_all(transport, request(f"http://localhost:{plain_port}/")) == b"ok"
        await transport.aclose()
    assert [head.split(" ")[0] for head in proxy.heads] == ["CONNECT", "POST"]


@pytest.mark.parametrize("is_secure", [False, True])
async def test_http2_goes_through_a_tunnel(authority: trustme.CA, is_secure: bool) -> None:
    async def answer(stream: Stream) -> None:
        await stream.answer(stream.path.encode())

    with trio.fail_after(PATIENCE_S):
        async with (
            open_h2_upstream(authority, answer) as there,
            open_proxy(FakeProxy(), certified(authority) if is_secure else None) as proxy,
        ):
            transport = transport_by(f"http{'s' if is_secure else ''}://localhost:{proxy.port}", authority, http2=True)
            for path in ("/a", "/b"):
                assert await read_all(transport, request(f"https://localhost:{there.port}{path}")) == path.encode()
            assert (len(there.connections), len(proxy.heads)) == (1, 1)
            assert "authorization" not in proxy.heads[0].lower()
            await transport.aclose()


async def test_the_environment_names_proxies_and_exceptions(authority: trustme.CA) -> None:
    async with upstream(certified(authority)) as (port, _), upstream() as (plain_port, _), open_proxy(FakeProxy()) as proxy:
        environ = {"HTTPS_PROXY": f"localhost:{proxy.port}", "no_proxy": f"example.test, localhost:{plain_port}", "ALL_PROXY": "socks5://x"}
        transport = transport_by(None, authority, environ=environ)
        assert await read_all(transport, request(f"https://localhost:{port}/")) == b"ok"
        assert await read_all(transport, request(f"http://localhost:{plain_port}/")) == b"ok"
        assert proxy.heads == [f"CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}"]
        with pytest.raises(TransportError) as caught:
            await transport.send(request("http://elsewhere.test/"))
        assert caught.value.message == "The upstream could not be asked: its proxy cannot be used."
        await transport.aclose()


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (None, "the proxy wants other credentials (407)"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno\n", "the proxy refused (502)"),
        (b"HTTP/1.1 403 http://user:s3cr@t@localhost\r\n\r\n", "the proxy refused (403)"),
        (b"HTTP/1.1 301 Moved\r\nlocation: http://user:s3cr@t@localhost\r\n\r\n", "the proxy refused (301)"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the proxy's answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nand more", "the proxy's answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy closed the connection"),
        (b"", "the proxy closed the connection"),
    ],
)
@pytest.mark.parametrize("is_secure", [False, True])
async def test_a_proxy_that_does_not_connect_is_a_connect_fault(
    authority: trustme.CA, refusal: bytes | None, words: str, is_secure: bool
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with open_proxy(FakeProxy("other", refusal), certified(authority) if is_secure else None) as proxy:
            transport = transport_by(f"http{'s' if is_secure else ''}://user:{SECRET}@localhost:{proxy.port}", authority)
            with pytest.raises(TransportError) as caught:
                await transport.send(request("https://localhost:9/"))
            assert caught.value.fault is TransportFault.CONNECT
            assert caught.value.message == f"The upstream could not be reached: {words}."
            assert transport.pool.in_use_count == 0
            await proxy.open_count.wait_value(0)


async def test_a_proxy_that_cannot_be_reached_is_a_connect_fault(authority: trustme.CA) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(TransportError) as caught:
        await transport_by(f"http://user:{SECRET}@localhost:{port}", authority).send(request("https://localhost:9/"))
    assert caught.value.fault is TransportFault.CONNECT
    assert caught.value.message == "The proxy to the upstream could not be reached: it refused the connection."


async def test_a_proxy_whose_certificate_does_not_hold_is_a_connect_fault(authority: trustme.CA) -> None:
    with trio.fail_after(PATIENCE_S):
        async with open_proxy(FakeProxy(), certified(trustme.CA())) as proxy, open_proxy(FakeProxy()) as plain:
            for port, words in ((proxy.port, "its certificate could not be verified"), (plain.port, "the TLS handshake failed")):
                with pytest.raises(TransportError) as caught:
                    await transport_by(f"https://localhost:{port}", authority).send(request("https://localhost:9/", 0.3))
                assert caught.value.fault in (TransportFault.CONNECT, TransportFault.CONNECT_TIMEOUT)
                if port == proxy.port:
                    assert words in caught.value.message


async def test_an_upstream_whose_certificate_does_not_hold_is_a_tls_fault_through_a_proxy_too(authority: trustme.CA) -> None:
    async with upstream(certified(trustme.CA())) as (port, _), open_proxy(FakeProxy()) as proxy:
        with pytest.raises(TransportError) as caught:
            await transport_by(f"http://localhost:{proxy.port}", authority).send(request(f"https://localhost:{port}/"))
        assert caught.value.fault is TransportFault.TLS


async def test_a_proxy_that_hangs_ends_with_the_connect_timeout_and_leaves_no_socket(authority: trustme.CA) -> None:
    with trio.fail_after(PATIENCE_S):
        async with open_proxy(FakeProxy()) as proxy:
            proxy.is_silent = True
            transport = transport_by(f"http://localhost:{proxy.port}", authority, http2=True)
            with pytest.raises(TransportError) as caught:
                await transport.send(request("https://localhost:9/", 0.05))
            assert caught.value.fault is TransportFault.CONNECT_TIMEOUT
            assert transport.pool.in_use_count == 0
