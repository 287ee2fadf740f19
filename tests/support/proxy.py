"""A proxy that does as it is told: CONNECT tunnels and forwarded requests, with credentials or without, over TLS or not."""

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial

import trio
from trio_util import AsyncValue

_UNKNOWN = b'HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm="x"\r\ncontent-length: 0\r\n\r\n'


class FakeProxy:
    """The proxy and what it was asked. All names lead to 127.0.0.1. `refusal`: what it answers instead of doing its work."""

    def __init__(self, credentials: str | None = None, refusal: bytes | None = None) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.open_count = AsyncValue(0)
        self.is_silent = False
        self._wanted = None if credentials is None else "Basic " + base64.b64encode(credentials.encode()).decode()
        self._refusal = refusal

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        self.open_count.value += 1
        try:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._serve(stream)
        finally:
            self.open_count.value -= 1

    async def _serve(self, stream: trio.abc.Stream) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            chunk = bytes(await stream.receive_some(65536))
            if not chunk:
                return
            received += chunk
        head, _, rest = received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.heads.append(head.decode())
        if self.is_silent:
            await trio.sleep_forever()
        given = next((line.partition(": ")[2] for line in lines if line.lower().startswith("proxy-authorization:")), None)
        if self._refusal is not None:
            await stream.send_all(self._refusal)
        elif self._wanted is not None and given != self._wanted:
            await stream.send_all(_UNKNOWN)
        else:
            await self._pass(stream, lines, rest)

    async def _pass(self, stream: trio.abc.Stream, lines: list[str], rest: bytes) -> None:
        method, target, version = lines[0].split(" ")
        where = target if method == "CONNECT" else target.split("/")[2]
        beyond = await trio.open_tcp_stream("127.0.0.1", int(where.rpartition(":")[2]))
        async with beyond:
            if method == "CONNECT":
                await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = [line for line in lines[1:] if not line.lower().startswith("proxy-")]
                path = "/" + target.split("/", 3)[3]
                rest = "\r\n".join([f"{method} {path} {version}", *kept, "", ""]).encode() + rest
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, stream, beyond, rest, nursery.cancel_scope)
                nursery.start_soon(_pump, beyond, stream, b"", nursery.cancel_scope)


async def _pump(source: trio.abc.Stream, sink: trio.abc.Stream, first: bytes, both: trio.CancelScope) -> None:
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        if first:
            await sink.send_all(first)
        while chunk := await source.receive_some(65536):
            await sink.send_all(chunk)
    both.cancel()


@contextlib.asynccontextmanager
async def open_proxy(proxy: FakeProxy, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeProxy]:
    """Run a proxy on a port of its own."""
    async with trio.open_nursery() as nursery:
        if tls is None:
            plain = await nursery.start(partial(trio.serve_tcp, proxy.serve, 0, host="127.0.0.1"))
            proxy.port = plain[0].socket.getsockname()[1]
        else:
            secure = await nursery.start(partial(trio.serve_ssl_over_tcp, proxy.serve, 0, tls, host="127.0.0.1", https_compatible=True))
            proxy.port = secure[0].transport_listener.socket.getsockname()[1]
        yield proxy
        nursery.cancel_scope.cancel()
