"""The bytes of an answer's head: status line, headers that cannot split the answer, date and framing.

Layer: listen. Source: RFC 9112 §4, §5; RFC 9110 §5.5 (field values), §6.6.1 (Date), §15 (reason phrases).
"""

import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from gomodel_trio.gateway.http import Headers

_OURS: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"date",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Fields that belong to the server and its connection."""
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_CONTROL_BYTES: Final = bytes([*range(9), *range(10, 32), 127])
_CLASSES: Final = {2: "Success", 3: "Redirection", 4: "Client Error", 5: "Server Error"}
_REMEMBERED_NAMES: Final = 1024

_prefixes: dict[bytes, bytes] = {}
"""Field names as they are written, with their colon; empty for those that are left out. The same few dozen come in every answer."""


def _status_line(status: int) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = _CLASSES.get(status // 100, "Unknown")
    return b"HTTP/1.1 %d %b\r\n" % (status, reason.encode("ascii"))


_STATUS_LINES: Final = {status: _status_line(status) for status in range(200, 600)}


class _Date:
    """The Date field, made anew once a second."""

    __slots__ = ("_at_s", "_field")

    def __init__(self) -> None:
        self._at_s = -1
        self._field = b""

    def field(self) -> bytes:
        now_s = int(time.time())
        if now_s != self._at_s:
            self._at_s = now_s
            self._field = b"date: %b\r\n" % formatdate(now_s, usegmt=True).encode("ascii")
        return self._field


_DATE: Final = _Date()


def encode_head(status: int, headers: Headers, framing: bytes) -> bytes:
    """Encode a whole head; `framing` is what the server adds, as complete lines. Control characters in values become blanks.

    A field that is the server's own, or whose name is none, is left out.

    Raises:
        ValueError: the status is none of a final answer.
    """
    line = _STATUS_LINES.get(status)
    if line is None:
        if not 200 <= status <= 999:
            raise ValueError(f"{status} is no status of a final answer")
        line = _status_line(status)
    lines = [line]
    sane = True
    for name, value in headers:
        prefix = _prefixes.get(name)
        if prefix is None:
            prefix = _prefix(name)
        if prefix:
            sane = sane and len(value.translate(None, _CONTROL_BYTES)) == len(value)
            lines.append(b"%b%b\r\n" % (prefix, value if sane else _CONTROL.sub(b" ", value)))
    lines.append(_DATE.field())
    lines.append(framing)
    lines.append(b"\r\n")
    return b"".join(lines)


def declared_bytes(headers: Headers) -> int | None:
    """The length that an answer's headers declare, if they do so once and well."""
    found = [value for name, value in headers if name == b"content-length"]
    return int(found[0]) if len(found) == 1 and found[0].isdigit() and len(found[0]) <= 18 else None


def error_body(status: int, message: str) -> bytes:
    """A body that clients of either dialect can read: nothing is known here of the path's dialect."""
    kind = b"api_error" if status in (500, 503) else b"invalid_request_error"
    code = b'"internal_error"' if status == 500 else b"null"
    return b'{"type":"error","error":{"message":"%b","type":"%b","param":null,"code":%b}}' % (message.encode("ascii"), kind, code)


def encode_error(status: int, message: str) -> bytes:
    """A whole answer in the handler's place, after which the connection is closed."""
    body = error_body(status, message)
    framing = b"content-length: %d\r\nconnection: close\r\n" % len(body)
    return encode_head(status, [(b"content-type", b"application/json")], framing) + body


def _prefix(name: bytes) -> bytes:
    lower = name.lower()
    prefix = b"" if lower in _OURS or _NAME.fullmatch(lower) is None else lower + b": "
    if len(_prefixes) < _REMEMBERED_NAMES:
        _prefixes[name] = prefix
    return prefix
