"""Writing requests: where to connect, and the bytes of the head.

Layer: upstream; no I/O. Source: RFC 9112 §3, RFC 3986; behaviour.md §7 (exactly these headers). Path and query go out byte for byte as they
were given; only what may not stand in a request line (blanks, characters beyond ASCII) is percent-encoded.
"""

import re
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest

_URL = re.compile(r"([^/?#]*//[^/?#]*)([/?][^#]*)?(?:#.*)?", re.DOTALL)
_ORIGIN = re.compile(r"(https?)://(?:[^/?#@\\]*@)?(\[[^\]/?#@]*\]|[^/?#@:\[\]]*)(?::(\d{0,5}))?", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=-]+")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r"[^\x21-\x7e]+")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_EXPECTS_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose empty body is announced (RFC 9110 §8.6)."""
_REMEMBERED_CHARS: Final = 256
"""Longer ones are read anew each time: clients choose names of headers, and a path holds whatever they call a model."""

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})


class Origin(NamedTuple):
    """What a connection leads to. `host` in ASCII, lower case, without brackets."""

    scheme: str
    host: str
    port: int


class Key(NamedTuple):
    """What a kept connection may be used again for. Providers tie limits, and some their answers, to whom a connection first served."""

    origin: Origin
    credential: bytes


class Message(NamedTuple):
    """A request, ready to be sent."""

    key: Key
    head: bytes
    body: bytes
    is_head: bool
    """Its method is HEAD."""


class _Target(NamedTuple):
    origin: Origin
    host: bytes
    path: bytes


class _Kind(IntEnum):
    PLAIN = 0
    CREDENTIAL = 1
    HOST = 2
    FRAMING = 3
    INVALID = 4


def compose(request: UpstreamRequest) -> Message:
    """Write a request's head: the headers given, in order, host before them and content-length behind. Framing of the caller's is dropped.

    Raises:
        TransportError: the URL is none (CONNECT), or a header would not stay one (PROTOCOL).
    """
    target = _target(request.url) if len(request.url) <= _REMEMBERED_CHARS else _target.__wrapped__(request.url)
    if target is None:
        raise TransportError(TransportFault.CONNECT, "The upstream could not be asked: its base URL is none.")
    host = target.host
    credential = b""
    lines = [b"", b""]
    for name, value in request.headers:
        start, kind = _field(name) if len(name) <= _REMEMBERED_CHARS else _field.__wrapped__(name)
        if kind is not _Kind.PLAIN:
            if kind is _Kind.FRAMING:
                continue
            if kind is _Kind.HOST:
                host = value
                continue
            if kind is _Kind.INVALID:
                raise _invalid()
            credential += _identity(value)
        lines.append(start + value)
    body, method = request.body, request.method
    if body or method in _EXPECTS_BODY:
        lines.append(b"Content-Length: %d" % len(body))
    lines[0] = b"%b %b HTTP/1.1" % (method.encode("ascii", "replace"), target.path)
    lines[1] = b"Host: " + host
    lines.append(b"\r\n")
    head = b"\r\n".join(lines)
    if head.count(b"\r") != len(lines) or head.count(b"\n") != len(lines) or b"\0" in head or not _is_token(method):
        raise _invalid()
    return Message(Key(target.origin, credential), head, body, method == "HEAD")


def _invalid() -> TransportError:
    return TransportError(TransportFault.PROTOCOL, "The request could not be sent: a header of it is not valid HTTP.")


@lru_cache(maxsize=1024)
def _field(name: bytes) -> tuple[bytes, _Kind]:
    """A field's name as it goes out, and what is special about it."""
    if _TOKEN.fullmatch(name) is None:
        return b"", _Kind.INVALID
    lowered = name.lower()
    if lowered in _FRAMING:
        return b"", _Kind.FRAMING
    if lowered == b"host":
        return b"", _Kind.HOST
    return name + b": ", _Kind.CREDENTIAL if lowered in _CREDENTIALS else _Kind.PLAIN


def _is_token(method: str) -> bool:
    return method in _EXPECTS_BODY or _TOKEN.fullmatch(method.encode("utf-8", "replace")) is not None


def _identity(value: bytes) -> bytes:
    """Whose credential it is: of a signature, which differs with each request, only the key's id."""
    return value.split(b"/", 1)[0] if value.startswith(b"AWS4-") else value


@lru_cache(maxsize=256)
def _target(url: str) -> _Target | None:
    """Where a URL leads; None if it is none."""
    found = _URL.fullmatch(url)
    if found is None or _CONTROL.search(url) is not None:
        return None
    read = _origin if len(found[1]) <= _REMEMBERED_CHARS else _origin.__wrapped__
    known = read(found[1])
    if known is None:
        return None
    path = _UNSAFE.sub(_percent_encoded, found[2] or "/")
    if path.startswith("?"):
        path = "/" + path
    return _Target(known[0], known[1], path.encode("ascii"))


@lru_cache(maxsize=256)
def _origin(text: str) -> tuple[Origin, bytes] | None:
    """What the front of a URL, up to its path, leads to, and its host as a header shows it; None if it is neither http nor https."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme = found[1].lower()
    host = _host(found[2])
    port = int(found[3]) if found[3] else _DEFAULT_PORTS[scheme]
    if host is None or port > 65535:
        return None
    shown = f"[{host.partition('%')[0]}]" if ":" in host else host
    if port != _DEFAULT_PORTS[scheme]:
        shown = f"{shown}:{port}"
    return Origin(scheme, host, port), shown.encode("ascii")


def _host(text: str) -> str | None:
    """A host's name in ASCII, or its address without brackets; None if it is neither."""
    if text.startswith("["):
        address = text[1:-1].replace("%25", "%")
        try:
            IPv6Address(address)
        except ValueError:
            return None
        return address.lower() if address.isascii() else None
    if not text.isascii():
        import idna  # 15 ms that only such names have to pay

        try:
            text = idna.encode(text, uts46=True).decode("ascii")
        except idna.IDNAError:
            return None
    return text.lower() if _HOST.fullmatch(text) is not None else None


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))
