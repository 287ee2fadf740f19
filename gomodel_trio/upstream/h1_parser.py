"""Reading answers: bytes in, head and body out, one answer after another on a connection.

Layer: upstream; no I/O. Source: RFC 9112 (framing), behaviour.md §6. llhttp reads in its strict mode, which refuses what smuggling is made
of (length and chunks together, two lengths, folded lines, bare line feeds); bounds and the few cases it leaves open are added here.

    begin → (1xx …) → has_head → parts … → is_complete          and from anywhere: fault
"""

import re
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gomodel_trio.upstream.transport import Headers, TransportFault

MAX_HEAD_BYTES: Final = 64 << 10
"""Four times what the largest servers send by default; more is an attack or a fault."""
MAX_FIELDS: Final = 200
MAX_INFORMATIONAL: Final = 32
"""Answers of status 1xx before the real one; real servers send one or two."""
MAX_FRAMING_BYTES: Final = 16 << 10
"""How much of a chunked body may come without any content: chunk extensions, padded sizes, trailers."""

_TIMEOUT = re.compile(rb"timeout\s*=\s*\"?(\d{1,6})", re.IGNORECASE)
_H: Final = ord("H")
_BODILESS: Final = (204, 304)


class _Malformed(Exception):
    """Stops llhttp from inside a callback."""


class AnswerParser:
    """Feed it what comes; it never raises. `parts` holds body bytes not taken yet, framing removed, content coding untouched.

    `fault` says why no more will come; what came before it is still in `parts`. `has_extra`: bytes followed that no request asked for.
    """

    __slots__ = (
        "_fed_bytes",
        "_framing_bytes",
        "_informational_count",
        "_is_begun",
        "_is_chunked",
        "_is_informational",
        "_is_to_head",
        "_is_until_close",
        "_machine",
        "fault",
        "has_extra",
        "has_head",
        "has_received",
        "headers",
        "is_complete",
        "keeps_alive",
        "on_body",
        "parts",
        "status",
        "timeout_s",
    )

    status: int
    headers: Headers
    fault: TransportFault | None
    timeout_s: float | None
    """How long the server says it keeps the connection idle."""
    has_head: bool
    has_received: bool
    """Whether any byte came since `begin`."""
    has_extra: bool
    is_complete: bool
    keeps_alive: bool
    _informational_count: int

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.on_body = self.parts.append
        self._machine: HttpResponseParser | None = HttpResponseParser(self)
        self._is_to_head = False
        self._reset(is_to_head=False)

    def begin(self, *, is_to_head: bool = False) -> None:
        """Expect the answer to a new request, which has no body if the request's method is HEAD (`is_to_head`)."""
        if self._is_to_head:
            self._machine = HttpResponseParser(self)  # the old one waits for the body that a HEAD's answer only announces
        self._reset(is_to_head=is_to_head)

    def detach(self) -> None:
        """Let go of llhttp, which refers back to this object."""
        self._machine = None

    def feed(self, received: bytes | memoryview) -> None:
        """Take bytes as they came; at least one."""
        if self.fault is not None or self._machine is None:
            return
        self.has_received = True
        if self.is_complete:
            # Line ends are harmless, and llhttp skips those that come with the answer's last bytes.
            self.has_extra = self.has_extra or bool(bytes(received).strip(b"\r\n"))
            return
        if not self._is_begun and not self._begins_well(received):
            self.fault = TransportFault.PROTOCOL
            return
        self._fed_bytes += len(received)
        parts_before = len(self.parts)
        try:
            self._machine.feed_data(received)
        except (HttpParserError, HttpParserUpgrade):
            if self.is_complete:
                self.has_extra = True
            else:
                self.fault = TransportFault.PROTOCOL
        if self._is_to_head and self.parts:
            self.parts.clear()
            self.has_extra = True
        self._bound(len(received), has_content=len(self.parts) > parts_before)

    def feed_end(self) -> None:
        """The server has closed its side."""
        if self.is_complete or self.fault is not None:
            return
        if self.has_head and self._is_until_close:
            self.is_complete = True
        else:
            self.fault = TransportFault.SHORT_BODY if self.has_head else TransportFault.RESET

    def feed_reset(self) -> None:
        """The connection broke."""
        if not self.is_complete and self.fault is None:
            self.fault = TransportFault.RESET

    def take(self) -> bytes:
        """The body bytes that have come, in one piece; b"" if none."""
        parts = self.parts
        taken = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return taken

    # ---- llhttp's callbacks (its exceptions arrive in `feed` as HttpParserCallbackError) --------------------------------------------

    def on_message_begin(self) -> None:
        """A status line begins."""
        if self.is_complete:
            raise _Malformed

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or a trailer, which nobody asked for."""
        if not self.has_head:
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """A head is complete: of the answer, or of an informational one before it."""
        machine = self._machine
        assert machine is not None
        status = machine.get_status_code()
        if 102 <= status < 200 or status == 100:
            self._informational_count += 1
            if self._informational_count > MAX_INFORMATIONAL:
                raise _Malformed
            self._is_informational = True
            self.headers = []
            return
        if status < 200 or machine.get_http_version() not in ("1.1", "1.0") or self._is_oversized():
            raise _Malformed
        self._frame(status)
        self.keeps_alive = not self._is_until_close and machine.should_keep_alive()
        self.status = status
        self.has_head = True
        if self._is_to_head:
            self.is_complete = True

    def on_message_complete(self) -> None:
        """An answer, or an informational one, is over."""
        if self._is_informational:
            self._is_informational = False
        else:
            self.is_complete = True

    # ---- rules ----------------------------------------------------------------------------------------------------------------------

    def _reset(self, *, is_to_head: bool) -> None:
        self.parts.clear()
        self.headers = []
        self.status = 0
        self.timeout_s = self.fault = None
        self.has_head = self.has_received = self.has_extra = self.is_complete = self.keeps_alive = False
        self._is_to_head = is_to_head
        self._is_begun = self._is_chunked = self._is_informational = self._is_until_close = False
        self._fed_bytes = self._framing_bytes = self._informational_count = 0

    def _begins_well(self, received: bytes | memoryview) -> bool:
        """Whether it may be HTTP: llhttp would take RTSP and ICE for HTTP/1.0, and skips line ends before the status line."""
        first = received[0]
        if first in b"\r\n":
            rest = bytes(received).lstrip(b"\r\n")
            if not rest:
                return True
            first = rest[0]
        self._is_begun = True
        return first == _H

    def _frame(self, status: int) -> None:
        """Find out how the body ends.

        Raises:
            _Malformed: in a way that only a guess could tell.
        """
        fields = dict(self.headers)
        coding = fields.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked" or sum(name == b"transfer-encoding" for name, _ in self.headers) > 1:
                raise _Malformed
            self._is_chunked = True
        elif b"content-length" not in fields:
            self._is_until_close = status not in _BODILESS and not self._is_to_head
        kept = fields.get(b"keep-alive")
        if kept is not None:
            found = _TIMEOUT.search(kept)
            self.timeout_s = float(found[1]) if found is not None else None

    def _is_oversized(self) -> bool:
        if len(self.headers) > MAX_FIELDS:
            return True
        # What was fed holds the head, perhaps with some body behind it.
        return self._fed_bytes > MAX_HEAD_BYTES and sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES

    def _bound(self, received_bytes: int, *, has_content: bool) -> None:
        if self.is_complete or self.fault is not None:
            return
        if not self.has_head:
            is_over = self._fed_bytes > MAX_HEAD_BYTES
        elif self._is_chunked and not has_content:
            self._framing_bytes += received_bytes
            is_over = self._framing_bytes > MAX_FRAMING_BYTES
        else:
            self._framing_bytes = 0
            return
        if is_over:
            self.fault = TransportFault.PROTOCOL
