"""What only the httpx transport does, over streams in memory: proxies of the environment."""

import contextlib
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from support.transports import read_all

Server = Callable[[trio.abc.HalfCloseableStream], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def request(url: str = "http://up.test/v1/chat/completions", **changes: float | None) -> UpstreamRequest:
    times = {"connect_timeout_s": 10.0, "header_timeout_s": 600.0, "idle_timeout_s": 300.0, **changes}
    return UpstreamRequest("POST", url, [(b"x-b", b"1"), (b"X-A", b"2")], b"{}", **times)  # type: ignore[arg-type]


class Upstream:
    """A server for each connection, in turn; the last one serves all further connections."""

    def __init__(self, nursery: trio.Nursery, *servers: Server) -> None:
        self.nursery = nursery
        self.servers = list(servers)
        self.connections = 0

    async def open_tcp(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        ours, theirs = trio.testing.memory_stream_pair()
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


async def refuse(host: str, port: int) -> trio.abc.HalfCloseableStream:
    raise ConnectionRefusedError


@pytest.fixture
def proxy_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("http_proxy", "http://user:pass@proxy.test:3128")
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3129")
    monkeypatch.setenv("NO_PROXY", "near.test,.local")


@pytest.mark.usefixtures("proxy_environment")
async def test_the_environment_names_a_proxy_and_the_exceptions() -> None:
    asked: list[tuple[str, int]] = []
    seen: list[bytes] = []

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        seen.append(await receive_request(stream))
        await stream.send_all(OK)

    async with trio.open_nursery() as nursery:
        upstream = Upstream(nursery, serve)

        async def open_tcp(host: str, port: int) -> trio.abc.HalfCloseableStream:
            asked.append((host, port))
            return await upstream.open_tcp(host, port)

        transport = HttpxTransport(open_tcp=open_tcp)
        for url in ("http://up.test/v1", "http://near.test/v1", "http://box.local:8000/v1"):
            assert await read_all(transport, request(url)) == b"ok"
        await transport.aclose()
    assert asked == [("proxy.test", 3128), ("near.test", 80), ("box.local", 8000)]
    assert seen[0].startswith(b"POST http://up.test/v1 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz\r\n" in seen[0]
    assert seen[1].startswith(b"POST /v1 HTTP/1.1\r\n")
    assert b"Proxy-Authorization" not in seen[1]


@pytest.mark.usefixtures("proxy_environment")
async def test_a_tunnel_that_the_proxy_refuses_is_a_connect_fault(autojump_clock: trio.testing.MockClock) -> None:
    async def refuse_tunnel(stream: trio.abc.HalfCloseableStream) -> None:
        assert bytes(await stream.receive_some(1000)).startswith(b"CONNECT up.test:443 HTTP/1.1\r\n")
        await stream.send_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    async def hang(stream: trio.abc.HalfCloseableStream) -> None:
        assert await stream.receive_some(1000)
        await trio.sleep(1000)

    async with trio.open_nursery() as nursery:
        transport = HttpxTransport(open_tcp=Upstream(nursery, refuse_tunnel, hang).open_tcp)
        for fault in (TransportFault.CONNECT, TransportFault.CONNECT_TIMEOUT):
            with pytest.raises(TransportError) as caught:
                await transport.send(request("https://up.test/v1"))
            assert caught.value.fault is fault
        assert transport.pool.in_use_count == 0
        nursery.cancel_scope.cancel()


async def test_a_proxy_that_cannot_be_used_is_a_connect_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("gopher://proxy.test", "http://[::1"):
        monkeypatch.setenv("http_proxy", address)
        transport = HttpxTransport(open_tcp=refuse)
        with pytest.raises(TransportError) as caught:
            await transport.send(request())
        assert (caught.value.fault, transport.pool.in_use_count) == (TransportFault.CONNECT, 0)
