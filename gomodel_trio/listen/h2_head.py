"""The head of an HTTP/2 request, from its decoded fields to what it means or why it is refused; and the fields of an answer's head.

Layer: listen. Source: RFC 9113 §8.2 (fields), §8.3.1 (request pseudo-header fields), §8.5 (CONNECT); RFC 9110 §5.5, §7.2, §8.6, §10.1.1.

h2's own check of these rules is off: it ends the whole connection over one bad request, where RFC 9113 §8.1.1 wants the stream ended.
"""

import re
from email.utils import formatdate
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h1_parser import Refusal

_METHOD: Final = re.compile(rb"[A-Z-]{1,32}")
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"(?:[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?)?")
_PATH: Final = re.compile(rb"/[!-\"$-~]*")
"""Visible ASCII without "#": a fragment is the client's own affair and is never sent."""
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Za-z:.%]+\])(?::[0-9]*)?")
_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_OF_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_OURS: Final = _OF_CONNECTION | {b"content-length", b"date", b"te", b"trailer"}
"""Fields of an answer that belong to the server and its connection."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FIELD_BYTES: Final = 32
"""What RFC 9113 §6.5.2 adds to each field's size."""


class Malformed(Exception):
    """The request is none: its stream ends with PROTOCOL_ERROR."""


class Head(msgspec.Struct, frozen=True):
    """A request's head. `body_bytes` is None where the length shows at the body's end; 0 where there is no body."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers
    body_bytes: int | None
    expects_continue: bool


def parse_head(fields: Headers, *, is_complete: bool, header_count: int, head_bytes: int) -> Head:
    """Read one head; `is_complete`: no body follows.

    Raises:
        Malformed: it breaks a rule of HTTP/2.
        Refusal: it is too large, or asks for what is not served; the status to answer with.
    """
    if len(fields) > header_count + len(_PSEUDO):
        raise Refusal(431, "The request has too many headers.")
    if sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields) > head_bytes:
        raise Refusal(431, "The request's headers are too large.")
    pseudo, headers = _separate(fields)
    method = pseudo.get(b":method", b"")
    if method == b"CONNECT":
        if b":path" in pseudo or b":scheme" in pseudo or b":authority" not in pseudo:
            raise Malformed
        raise Refusal(405, "This is no forward proxy.")
    target = pseudo.get(b":path", b"")
    if not method or not target or not pseudo.get(b":scheme"):
        raise Malformed
    headers = _with_host(headers, pseudo.get(b":authority"))
    raw_path, _, query = target.partition(b"?")
    if _METHOD.fullmatch(method) is None:
        raise Refusal(400, "The request's method is not valid.")
    if _PATH.fullmatch(target) is None and not (target == b"*" and method == b"OPTIONS"):
        raise Refusal(400, "The request's target is not valid.")
    return Head(
        method=method.decode("ascii"),
        path=unquote_to_bytes(raw_path).decode("utf-8", "replace") if b"%" in raw_path else raw_path.decode("ascii"),
        raw_path=raw_path,
        query=query,
        headers=headers,
        body_bytes=_body_bytes(headers, is_complete=is_complete),
        expects_continue=any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers),
    )


def answer_fields(status: int, headers: Headers, length: int | None) -> Headers:
    """The fields of an answer's head, with its length where one is given. Control characters in values become blanks.

    A field that is the server's own, or whose name is none, is left out.

    Raises:
        ValueError: the status is none of a final answer.
    """
    if not 200 <= status <= 999:
        raise ValueError(f"{status} is no status of a final answer")
    fields: Headers = [(b":status", b"%d" % status)]
    for name, value in headers:
        lower = name.lower()
        if lower not in _OURS and _NAME.fullmatch(lower) is not None:
            fields.append((lower, _CONTROL.sub(b" ", value).strip(b" \t")))
    fields.append((b"date", formatdate(usegmt=True).encode("ascii")))
    if length is not None:
        fields.append((b"content-length", b"%d" % length))
    return fields


def _separate(fields: Headers) -> tuple[dict[bytes, bytes], Headers]:
    """Pseudo-header fields and headers; cookies that came apart are put together (RFC 9113 §8.2.3)."""
    pseudo: dict[bytes, bytes] = {}
    headers: Headers = []
    cookies: list[bytes] = []
    for name, value in fields:
        if _VALUE.fullmatch(value) is None:
            raise Malformed
        if name in _PSEUDO:
            if headers or cookies or name in pseudo:
                raise Malformed
            pseudo[name] = value
        elif _NAME.fullmatch(name) is None or name in _OF_CONNECTION or (name == b"te" and value.lower() != b"trailers"):
            raise Malformed
        elif name == b"cookie":
            cookies.append(value)
        else:
            headers.append((name, value))
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    return pseudo, headers


def _with_host(headers: Headers, authority: bytes | None) -> Headers:
    """The headers with one host, ahead; it is what the client called the authority, if it did."""
    hosts = [value for name, value in headers if name == b"host"]
    if authority is not None and any(host.lower() != authority.lower() for host in hosts):
        raise Malformed
    host = authority if authority is not None else hosts[0] if len(hosts) == 1 else None
    if not host or _HOST.fullmatch(host) is None:
        raise Refusal(400, "The request needs one valid authority.")
    return [(b"host", host), *(field for field in headers if field[0] != b"host")]


def _body_bytes(headers: Headers, *, is_complete: bool) -> int | None:
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) > 1 or (lengths and not (lengths[0].isdigit() and len(lengths[0]) <= 18)):
        raise Malformed
    declared = int(lengths[0]) if lengths else None
    if is_complete:
        if declared:
            raise Malformed
        return 0
    return declared
