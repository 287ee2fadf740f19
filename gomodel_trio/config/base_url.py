"""A provider's base URL: what is a valid one, and whether it is the gateway's own address.

Layer: config. Source: behaviour.md §7 (a base_url that is our own listener is an error). A message never shows credentials.
"""

import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

from gomodel_trio.config.findings import shown

_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_base_url(text: str) -> str:
    """Check a base URL and return it without a trailing slash.

    Raises:
        ValueError: it is no http or https URL of a host and a path.
    """
    if _UNPRINTABLE.search(text):
        raise ValueError("holds a space or a control character")
    try:
        url = urlsplit(text)
        _port(url)
    except ValueError:
        raise ValueError("is no valid URL") from None
    if "@" in url.netloc:
        raise ValueError("must not hold credentials; give the key as api_key")
    if url.scheme.lower() not in _DEFAULT_PORTS:
        raise ValueError(f"must begin with http:// or https://, not {shown(text)}")
    if not url.hostname:
        raise ValueError(f"names no host: {shown(text)}")
    if url.query or url.fragment or text.endswith(("?", "#")):
        raise ValueError("must end with the path, without '?' or '#'; an api-version is given as api_version")
    return text.rstrip("/")


def lacks_version_path(base_url: str, usual: str | None) -> bool:
    """Whether the URL is the usual host without the usual path, as some SDKs write it: `https://api.anthropic.com`."""
    if not usual:
        return False
    given, wanted = urlsplit(base_url), urlsplit(usual)
    return given.hostname == wanted.hostname and given.path in ("", "/") and wanted.path not in ("", "/")


def is_own_listener(base_url: str, host: str, port: int) -> bool:
    """Whether a checked URL leads back to the gateway listening on `host` (empty: every interface) and `port`.

    Loopback and wildcard spellings are one; another name of this machine is not found out.
    """
    url = urlsplit(base_url)
    if port == 0 or _port(url) != port:
        return False
    theirs, ours = _plain_host(url.hostname or ""), _plain_host(host)
    if ours == "" or _is_unspecified(ours):
        return _is_local(theirs)
    return _is_local(theirs) if _is_local(ours) else theirs == ours


def _port(url: SplitResult) -> int:
    return url.port if url.port is not None else _DEFAULT_PORTS.get(url.scheme.lower(), 0)


def _plain_host(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `host` spells, old forms such as `127.1` too; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, UnicodeEncodeError):
            return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_unspecified(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _is_local(host: str) -> bool:
    """Whether connecting to `host` stays on this machine's loopback; the unspecified address does on Linux."""
    if host in ("localhost", "ip6-localhost", "ip6-loopback") or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)
