"""The head of a request, from its bytes to what it means, or to the reason why it is refused.

Layer: listen. Source: RFC 9112 §2.2, §3, §5, §6, §11.2 (request smuggling); RFC 9110 §5.5, §7.2, §10.1.1.

llhttp reads the fields: names, values, line ends, Content-Length. What it lets pass by default is closed here, found by trying: two
spaces in the request line, HTTP/0.9 and 2.0, RTSP and ICE versions, empty lines ahead, `*` for any method, fragments, trailing blanks of
values, "gzip, chunked", a missing or repeated Host. It never sees a body: framing is decided in this module alone, once.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import httptools
import msgspec

from gomodel_trio.gateway.http import Headers

_REQUEST_LINE: Final = re.compile(rb"([A-Z-]{1,32}) ([!-\"$-~]+) HTTP/([0-9])\.([0-9])\r\n")
"""The target is visible ASCII without "#": a fragment is the client's own affair and is never sent."""
_VERSIONS: Final = {(b"1", b"1"): False, (b"1", b"0"): True}
_ABSOLUTE: Final = re.compile(rb"https?://([^/?@]+)(/[^?]*)?", re.IGNORECASE)
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Za-z:.%]+\])(?::[0-9]*)?")
_DECISIVE: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"host", b"expect"})
_OTHER_CODINGS: Final = frozenset({b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress"})


class Refusal(Exception):
    """Why a request is not taken: the status to answer with before the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(msgspec.Struct, frozen=True):
    """A request's head. `body_bytes` is None for a chunked body, whose length shows at its end; 0 where there is none."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers
    body_bytes: int | None
    is_http_1_0: bool
    keeps_alive: bool
    expects_continue: bool


class _Fields:
    """Takes what llhttp finds."""

    __slots__ = ("decisive", "headers", "is_complete")

    def __init__(self) -> None:
        self.headers: Headers = []
        self.decisive: Headers = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note one field, as it is to be seen by the handler."""
        field = (name.lower(), value.rstrip(b" \t"))
        self.headers.append(field)
        if field[0] in _DECISIVE:
            self.decisive.append(field)

    def on_headers_complete(self) -> None:
        """Note that the empty line has been seen."""
        self.is_complete = True


def parse_head(block: bytes, *, header_count: int) -> Head:
    """Read one head, its empty line included.

    Raises:
        Refusal: it is malformed, ambiguous, or of a version or coding that is not spoken here.
    """
    method, target, is_http_1_0 = parse_request_line(block)
    fields = _Fields()
    try:
        httptools.HttpRequestParser(fields).feed_data(block)
    except httptools.HttpParserUpgrade:
        pass  # no protocol but HTTP/1.1 is spoken here, and a server may ignore the wish (RFC 9110 §7.8)
    except httptools.HttpParserError:
        fields.is_complete = False
    framing = _Framing(is_http_1_0=is_http_1_0)
    for name, value in fields.decisive:
        framing.note(name, value)
    body_bytes = framing.body_bytes()
    if not fields.is_complete:
        raise Refusal(400, "The request is not valid HTTP/1.1.")
    if len(fields.headers) > header_count:
        raise Refusal(431, "The request has too many headers.")
    framing.check_host()
    raw_path, query = _split(target, method)
    return Head(
        method=method.decode("ascii"),
        path=unquote_to_bytes(raw_path).decode("utf-8", "replace") if b"%" in raw_path else raw_path.decode("ascii"),
        raw_path=raw_path,
        query=query,
        headers=fields.headers,
        body_bytes=body_bytes,
        is_http_1_0=is_http_1_0,
        keeps_alive=framing.keeps_alive,
        expects_continue=framing.expects_continue,
    )


def parse_request_line(block: bytes) -> tuple[bytes, bytes, bool]:
    """Read method and target, and whether it is HTTP/1.0, of bytes that hold at least the whole line.

    Raises:
        Refusal: it is malformed, of another version, or asks for a tunnel.
    """
    match = _REQUEST_LINE.match(block)
    if match is None:
        raise Refusal(400, "The request line is not valid HTTP/1.1.")
    method, target, major, minor = match.groups()
    is_http_1_0 = _VERSIONS.get((major, minor))
    if is_http_1_0 is None:
        raise Refusal(505, "This port speaks HTTP/1.1.")
    if method == b"CONNECT":
        raise Refusal(405, "This is no forward proxy.")
    return method, target, is_http_1_0


def check_partial(gathered: bytearray, seen: int, *, has_line: bool) -> bool:
    """Look at the part of a head that has come since `seen`, so that what can be no request is not waited for.

    `has_line` and the result: whether the request line is complete and good.

    Raises:
        Refusal: it can be no request.
    """
    if not seen and gathered and not (gathered[:1].isalpha() or gathered[:1] == b"\r"):
        raise Refusal(400, "The request is not valid HTTP/1.1.")
    if gathered.count(b"\n", seen) != gathered.count(b"\r\n", max(0, seen - 1)):
        raise Refusal(400, "The request's lines have to end with CR and LF.")
    if not has_line:
        end = gathered.find(b"\n", seen) + 1
        if end:
            parse_request_line(bytes(gathered[:end]))
            return True
    return has_line


class _Framing:
    """Where the body ends and what becomes of the connection, from the fields that decide it."""

    __slots__ = ("_closes", "_codings", "_hosts", "_is_http_1_0", "_lengths", "expects_continue", "keeps_alive")

    def __init__(self, *, is_http_1_0: bool) -> None:
        self._is_http_1_0 = is_http_1_0
        self._lengths: list[bytes] = []
        self._codings: list[bytes] | None = None
        self._hosts: list[bytes] = []
        self._closes = False
        self.keeps_alive = not is_http_1_0
        self.expects_continue = False

    def note(self, name: bytes, value: bytes) -> None:
        """Take one decisive field."""
        if name == b"host":
            self._hosts.append(value)
        elif name == b"content-length":
            self._lengths.append(value)
        elif name == b"connection":
            tokens = {token.strip(b" \t") for token in value.lower().split(b",")}
            self._closes = self._closes or b"close" in tokens
            self.keeps_alive = not self._closes and (self.keeps_alive or b"keep-alive" in tokens)
        elif name == b"transfer-encoding":
            self._codings = (self._codings or []) + [token.strip(b" \t") for token in value.lower().split(b",")]
        elif value.lower() == b"100-continue":
            self.expects_continue = not self._is_http_1_0

    def body_bytes(self) -> int | None:
        """The body's length; None if it is chunked.

        Raises:
            Refusal: two readers could differ about it.
        """
        lengths, codings = self._lengths, self._codings
        if codings is not None:
            if lengths or self._is_http_1_0:
                raise Refusal(400, "The request's length is ambiguous.")
            if codings == [b"chunked"]:
                return None
            if codings[-1] == b"chunked":
                codings = codings[:-1]
            if _OTHER_CODINGS.issuperset(codings):
                raise Refusal(501, "The request's transfer coding is not known here.")
            raise Refusal(400, "The request's transfer coding is not valid.")
        if not lengths:
            return 0
        if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
            raise Refusal(400, "The request's length is not valid.")
        return int(lengths[0])

    def check_host(self) -> None:
        """Raise a Refusal unless the request names one host, which HTTP/1.0 alone may omit."""
        hosts = self._hosts
        if len(hosts) > 1 or (not hosts and not self._is_http_1_0) or (hosts and _HOST.fullmatch(hosts[0]) is None):
            raise Refusal(400, "The request needs one valid Host header.")


def _split(target: bytes, method: bytes) -> tuple[bytes, bytes]:
    """Path and query of a target in origin, absolute (RFC 9112 §3.2.2: proxies send it) or, for OPTIONS, asterisk form."""
    path, _, query = target.partition(b"?")
    if path.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return path, query
    match = _ABSOLUTE.fullmatch(path)
    if match is None or _HOST.fullmatch(match[1]) is None:
        raise Refusal(400, "The request's target is not valid.")
    return match[2] or b"/", query
