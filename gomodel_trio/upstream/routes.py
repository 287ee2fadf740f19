"""Which transport an upstream needs: the HTTP/1.1 one goes there directly, all else is httpx's.

Layer: upstream; pure. Source: performance.md (httpx for HTTP/2 and proxies); the proxy variables as urllib reads them, and networks
(`10.0.0.0/8`) in NO_PROXY as well, which people write although urllib does not know them.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def needs_httpx(url: str, environ: Mapping[str, str], provider_options: Mapping[str, object]) -> bool:
    """Whether requests to `url` need HTTP/2 (option `http2`) or a proxy (option `proxy_url`, else the environment).

    A URL that is none needs nothing: the HTTP/1.1 transport says so best.
    """
    if provider_options.get("http2") or provider_options.get("proxy_url"):
        return True
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host and proxy_for(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), environ))


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str:
    """The proxy by which the environment wants an origin to be reached, as it is written there; "" if there is none."""
    proxy = _proxy(environ, scheme)
    return "" if not proxy or _is_excepted(host, port, _variable(environ, "no_proxy")) else proxy


def _proxy(environ: Mapping[str, str], scheme: str) -> str:
    """The proxy for a scheme; "" if there is none."""
    found = _variable(environ, f"{scheme}_proxy")
    if scheme == "http" and "REQUEST_METHOD" in environ and not environ.get("http_proxy"):
        found = ""  # under CGI a client's header `Proxy` arrives as HTTP_PROXY
    return found or _variable(environ, "all_proxy")


def _variable(environ: Mapping[str, str], name: str) -> str:
    """A variable in either case; the lower case wins, even where it is empty."""
    lower = environ.get(name)
    return (environ.get(name.upper(), "") if lower is None else lower).strip()


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    host = host.lower().rstrip(".")
    for entry in exceptions.lower().split(","):
        name = entry.strip()
        if name == "*" or (name and _is_named(host, port, name)):
            return True
    return False


def _is_named(host: str, port: int, name: str) -> bool:
    """Whether an entry names the host: itself or a domain above it, with its port or without, or a network it lies in."""
    if "/" in name:
        try:
            return ip_address(host) in ip_network(name, strict=False)
        except ValueError:
            return False
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    bare = name.removeprefix("*").lstrip(".")
    if bare in (host, shown, f"[{host}]"):
        return True
    return bool(bare) and (host.endswith("." + bare) or shown.endswith("." + bare))
