"""Connecting a stream to an upstream: TCP, through a proxy where there is one, TLS on it.

Layer: upstream. Source: behaviour.md §6; RFC 7301 (ALPN). How long it may take is the caller's to say; whatever ends it, no socket is left.
"""

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from gomodel_trio.upstream.dial import exhausted, is_local, why_not_connected
from gomodel_trio.upstream.h1_request import Origin
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.proxy import Proxy, open_tunnel, refused
from gomodel_trio.upstream.tls import why_not_secured
from gomodel_trio.upstream.transport import TransportError, TransportFault

OpenTcp = Callable[[str, int], Awaitable[trio.abc.HalfCloseableStream]]
"""Connects to host and port; raises OSError."""

Trust = Callable[[], ssl.SSLContext]
"""Gives the context for TLS, when one is needed."""

_H1, _H2 = "http/1.1", "h2"


class Link(NamedTuple):
    """A stream that leads to the upstream, or for a plain upstream behind a proxy to that."""

    stream: trio.abc.Stream
    is_http2: bool


async def connect(
    origin: Origin, proxy: Proxy | None, *, open_tcp: OpenTcp, trust: Trust, offers_http2: bool, own: OwnListeners | None = None
) -> Link:
    """Connect to the origin, but not to one of our `own` listeners; HTTP/2 is offered to TLS upstreams only, which choose.

    Raises:
        TransportError: CONNECT, TLS, LOOP or LOCAL.
    """
    first = proxy or origin
    stream: trio.abc.Stream = await _open(first.host, first.port, open_tcp, is_proxy=proxy is not None)
    try:
        if own is not None and isinstance(stream, trio.SocketStream):
            own.check(stream.socket)
        if proxy is not None:
            stream = await _pass(stream, proxy, origin, trust)
        if origin.scheme != "https":
            return Link(stream, is_http2=False)
        secured = await _secure(stream, trust(), origin.host, [_H2, _H1] if offers_http2 else [_H1])
        return Link(secured, is_http2=secured.selected_alpn_protocol() == _H2)
    except TransportError:
        await close_now(stream)
        raise
    except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, ValueError) as error:
        cause = error
    except BaseException:
        await close_now(stream)
        raise
    await close_now(stream)
    raise TransportError(TransportFault.TLS, f"The upstream could not be reached safely: {_why_not_secured(cause)}.")


async def close_now(stream: trio.abc.AsyncResource) -> None:
    """Close without waiting for the peer."""
    with trio.CancelScope(shield=True):
        await trio.aclose_forcefully(stream)


def is_readable(stream: trio.abc.Stream) -> bool:
    """Whether the peer has sent something, or hung up."""
    base: object = stream
    while isinstance(base, trio.SSLStream):
        base = base.transport_stream
    return isinstance(base, trio.SocketStream) and base.socket.is_readable()


async def _open(host: str, port: int, open_tcp: OpenTcp, *, is_proxy: bool) -> trio.abc.HalfCloseableStream:
    try:
        stream = await open_tcp(host, port)
    except (OSError, UnicodeError, ValueError) as error:
        if is_local(error):
            raise exhausted() from None
        who = "The proxy to the upstream" if is_proxy else "The upstream"
        raise TransportError(TransportFault.CONNECT, f"{who} could not be reached: {why_not_connected(error)}.") from None
    if isinstance(stream, trio.SocketStream):
        with contextlib.suppress(OSError):
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return stream


async def _pass(stream: trio.abc.Stream, proxy: Proxy, origin: Origin, trust: Trust) -> trio.abc.Stream:
    """Get through the proxy; whatever is wrong here is its fault, not the upstream's."""
    try:
        if proxy.scheme == "https":
            stream = await _secure(stream, trust(), proxy.host, [_H1])
        if origin.scheme == "https":
            await open_tunnel(stream, proxy, origin)
    except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, ValueError) as error:
        if not isinstance(error.__cause__ or error, ssl.SSLError | ValueError):
            raise refused("the proxy closed the connection") from None
        problem = f"The proxy to the upstream could not be reached safely: {_why_not_secured(error)}."
        raise TransportError(TransportFault.CONNECT, problem) from None
    return stream


async def _secure(stream: trio.abc.Stream, context: ssl.SSLContext, host: str, protocols: list[str]) -> "trio.SSLStream[trio.abc.Stream]":
    context.set_alpn_protocols(protocols)  # copied when the stream is made: contexts may be shared
    secured = trio.SSLStream(stream, context, server_hostname=host.rstrip("."), https_compatible=True)
    await secured.do_handshake()
    return secured


def _why_not_secured(error: BaseException) -> str:
    return why_not_secured(error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error)
