"""Proxies: what a proxy's URL says, and the tunnel that one opens.

Layer: upstream. Source: RFC 9110 §9.3.6 (CONNECT), §11.7 (Proxy-Authorization), RFC 7617. Nothing here shows a URL or a credential.
"""

import base64
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import h11
import trio

from gomodel_trio.upstream.h1_request import Origin
from gomodel_trio.upstream.transport import TransportError, TransportFault

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_RECEIVE_BYTES: Final = 4096
_MAX_HEAD_BYTES: Final = 64 << 10


class Proxy(NamedTuple):
    """A proxy. `authorization` is the value of Proxy-Authorization, if its URL holds credentials."""

    scheme: str
    host: str
    port: int
    authorization: bytes | None

    def __repr__(self) -> str:
        return "Proxy(***)"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What each request to the proxy itself carries."""
        return [] if self.authorization is None else [(b"Proxy-Authorization", self.authorization)]


def parse_proxy(text: str) -> Proxy:
    """Read a proxy's URL; one without a scheme, as the environment may hold it, is http.

    Raises:
        ValueError: it is no http or https URL of a host. The message does not show it.
    """
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        scheme, host, port = url.scheme.lower(), url.hostname, url.port
        usual = _DEFAULT_PORTS[scheme]
        if not host or not host.isascii() or not host.isprintable() or " " in host:
            raise ValueError
    except (ValueError, KeyError):
        raise ValueError("no usable proxy URL") from None
    authorization = None
    if url.username or url.password:
        pair = unquote_to_bytes(url.username or "") + b":" + unquote_to_bytes(url.password or "")
        authorization = b"Basic " + base64.b64encode(pair)
    return Proxy(scheme, host, port or usual, authorization)


async def open_tunnel(stream: trio.abc.Stream, proxy: Proxy, origin: Origin) -> None:
    """Have the proxy at the other end of `stream` connect it to the origin.

    Raises:
        TransportError: CONNECT; it does not.
        trio.BrokenResourceError: the connection ended.
    """
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{host}:{origin.port}".encode("ascii")
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    try:
        ask = machine.send(h11.Request(method=b"CONNECT", target=target, headers=[(b"Host", target), *proxy.headers]))
        end = machine.send(h11.EndOfMessage())
        await stream.send_all((ask or b"") + (end or b""))
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                received = bytes(await stream.receive_some(_RECEIVE_BYTES))
                if not received:
                    raise refused("the proxy closed the connection")
                machine.receive_data(received)
            elif not isinstance(event, h11.InformationalResponse):
                break
    except h11.ProtocolError:
        raise refused("the proxy's answer is not valid HTTP") from None
    assert isinstance(event, h11.Response)  # nothing else can come first
    if event.status_code == 407:
        raise refused("the proxy wants other credentials (407)")
    if not 200 <= event.status_code < 300:
        raise refused(f"the proxy refused ({event.status_code})")
    if machine.trailing_data[0]:
        raise refused("the proxy's answer is not valid HTTP")


def refused(problem: str) -> TransportError:
    """The fault of a proxy, in words fit for a client."""
    return TransportError(TransportFault.CONNECT, f"The upstream could not be reached: {problem}.")
