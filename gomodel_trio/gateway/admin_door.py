"""The way to the admin API: who may pass, and what is handed over.

Layer: gateway. Source: behaviour.md §9. The API itself is `admin/`, which this layer does not know: `service` puts it in.

Theory. With a master key, the key decides. Without one the admin API is for this machine, and "came over loopback" is not yet "was meant
by somebody here": any page can send a browser there (its Origin tells), so can a name that was made to mean 127.0.0.1 (the Host tells), and
a proxy on this machine speaks for everybody (its forwarding headers tell, if it adds any).
"""

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final, Protocol
from urllib.parse import urlsplit

from gomodel_trio.errors import Forbidden
from gomodel_trio.gateway.auth import MasterKey
from gomodel_trio.gateway.http import Headers, Request

_FORWARDING: Final = frozenset({b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip"})
_FORWARDING_FAMILY: Final = b"x-forwarded-"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SET_THE_KEY: Final = "Set GOMODEL_MASTER_KEY and send it."


class Admin(Protocol):
    """What answers under `/admin/`."""

    async def __call__(self, method: str, rest: bytes, query: bytes, headers: Headers, read_body: Callable[[], Awaitable[bytes]]) -> bytes:
        """Answer a request that may pass, in JSON; `rest` follows `/admin/`, still percent-encoded.

        Raises:
            GatewayError: what the caller is told instead.
        """
        ...


def admit(request: Request, master_key: MasterKey) -> None:
    """Let a request pass whose key was checked, where there is one; without one only what came from this machine and was meant here.

    Raises:
        Forbidden
    """
    if master_key.is_set:
        return
    if not _is_loopback(request.peer) or any(_tells_of_a_proxy(name) for name, _ in request.headers):
        raise Forbidden(f"Without a master key /admin is for this machine only. {_SET_THE_KEY}", code="admin_is_local")
    hosts = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
    if not all(_is_address_or_local(host) for host in hosts):
        raise Forbidden(
            f"Without a master key /admin is asked by an address or as localhost, not by another name. {_SET_THE_KEY}", code="admin_host"
        )
    for name, value in request.headers:
        if name == b"origin" and not _is_same_host(value.decode("latin-1"), hosts):
            raise Forbidden(f"Without a master key /admin does not answer the pages of other sites. {_SET_THE_KEY}", code="admin_origin")


def _tells_of_a_proxy(name: bytes) -> bool:
    return name in _FORWARDING or name.startswith(_FORWARDING_FAMILY)


def _is_loopback(peer: str) -> bool:
    address = _address(peer)
    return address is not None and address.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that is spelled out, an IPv4 one wrapped in IPv6 as itself; None for a name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _is_address_or_local(host: str) -> bool:
    found = _host_and_port(f"http://{host}")
    return found is not None and (found[0] == "localhost" or _address(found[0]) is not None)


def _is_same_host(origin: str, hosts: list[str]) -> bool:
    """Whether a page's origin is the host that was asked, port included; `null` is nobody's."""
    scheme, _, _ = origin.partition("://")
    theirs = _host_and_port(origin)
    return theirs is not None and [theirs] == [_host_and_port(f"{scheme}://{host}") for host in hosts]


def _host_and_port(url: str) -> tuple[str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname.rstrip("."), port) if parts.hostname else None
