"""A provider's base URL: what is a valid one, and whether it is the gateway's own address.

Layer: config. Source: behaviour.md §7 (a base_url that is our own listener is an error). A message never shows credentials.
"""

import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from gomodel_trio.config.findings import shown
from gomodel_trio.config.local_address import address_of, is_loopback, is_this_machine, plain_host

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


def is_own_listener(base_url: str, host: str, ports: Collection[int]) -> bool:
    """Whether a checked URL leads back to the gateway listening on `host` (empty: every interface) and any of `ports`.

    Spellings of loopback are one, and with every interface so are this machine's addresses and its own name. A name that only a lookup
    would show to be ours is found out by the transports.
    """
    url = urlsplit(base_url)
    if _port(url) not in {port for port in ports if port}:
        return False
    theirs, ours = plain_host(url.hostname or ""), plain_host(host)
    address = address_of(ours)
    if ours == "" or (address is not None and address.is_unspecified):
        return is_this_machine(theirs)
    return is_loopback(theirs) if is_loopback(ours) else theirs == ours


def _port(url: SplitResult) -> int:
    return url.port if url.port is not None else _DEFAULT_PORTS.get(url.scheme.lower(), 0)
