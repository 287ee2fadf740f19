"""Both transports behind one face, so that one suite runs over each: `httpx` over streams, `h1` over sockets."""

import socket
import ssl
from collections.abc import Awaitable, Callable

import trio

from gomodel_trio.upstream.h1 import H1Transport
from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import Transport, UpstreamRequest

KINDS = ("httpx", "h1")
Connect = Callable[[str, int], Awaitable[trio.abc.HalfCloseableStream]]
AnyTransport = HttpxTransport | H1Transport


def make_transport(
    kind: str, *, open_tcp: Connect | None = None, max_connections: int = 100, ssl_context: ssl.SSLContext | None = None
) -> AnyTransport:
    """A transport. `open_tcp` is how it connects: to trio's memory streams (httpx only) or to sockets."""
    if kind == "httpx":
        return HttpxTransport(open_tcp=open_tcp, environ={}, max_connections=max_connections, ssl_context=ssl_context)

    async def dial(host: str, port: int) -> socket.socket:
        assert open_tcp is not None
        stream = await open_tcp(host, port)
        assert isinstance(stream, trio.SocketStream)
        return plain_socket(stream)

    return H1Transport(dial=None if open_tcp is None else dial, max_connections=max_connections, ssl_context=ssl_context)


def plain_socket(stream: trio.SocketStream) -> socket.socket:
    """The stream's socket, which the stream gives up."""
    plain = socket.socket(fileno=stream.socket.detach())
    plain.setblocking(False)
    return plain


def stream_pair(kind: str) -> tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]:
    """Two connected ends that work in virtual time: what one sends the other has at once."""
    if kind == "httpx":
        return trio.testing.memory_stream_pair()
    ours, theirs = socket.socketpair()
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), trio.SocketStream(trio.socket.from_stdlib_socket(theirs))


async def close_expired(transport: AnyTransport) -> None:
    """What the reaper does every few seconds."""
    if isinstance(transport, HttpxTransport):
        await transport.pool.close_expired()
    else:
        transport.pool.close_expired()


async def read_all(transport: Transport, message: UpstreamRequest) -> bytes:
    """The whole body; the answer is closed in any case."""
    response = await transport.send(message)
    body = b""
    try:
        while chunk := await response.read():
            body += chunk
    finally:
        await response.aclose()
    return body
