"""The chunked transfer coding, decoded strictly and in linear time.

Layer: listen. Source: RFC 9112 §7.1 (chunked), §7.1.1 (extensions are to be ignored and may be bounded), §7.1.2 (trailers may be dropped).
"""

import re
from typing import Final

from gomodel_trio.listen.h1_parser import Refusal

_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?: *;[\t -~\x80-\xff]*)?")
"""Of the "bad whitespace" before an extension only blanks are taken: no client sends tabs there, and readers differ about them."""
_TRAILER_LINE: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*")
_NO_TRAILERS: Final = frozenset({b"content-length", b"host", b"transfer-encoding"})
"""What decides where a message ends or goes must not come behind it: a reader that merges trailers would be misled (RFC 9110 §6.5.1)."""
_LINE_BYTES: Final = 4096
_EXCESS_BYTES: Final = 16384
"""How much framing may exceed 16 bytes and twice the data of each chunk: honest writers stay at 0 (the measure is Go's)."""
_TRAILER_BYTES: Final = 16384


class ChunkedDecoder:
    """Feed it what comes; `is_complete` tells of the end, `rest` what came behind it."""

    __slots__ = ("_excess_bytes", "_held", "_in_trailers", "_is_line_end_due", "_remaining", "_trailer_bytes", "is_complete", "rest")

    def __init__(self) -> None:
        self.is_complete = False
        self.rest = b""
        self._remaining = 0
        self._is_line_end_due = False
        self._in_trailers = False
        self._held = b""
        self._excess_bytes = 0
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Decode what can be decoded.

        Raises:
            Refusal: the coding is broken, or holds too much that is not body.
        """
        if self._held:
            data, self._held = self._held + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self.is_complete:
            if self._remaining:
                piece = data[at : at + self._remaining]
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._remaining -= len(piece)
                self._is_line_end_due = not self._remaining
                continue
            end = self._line_end(data, at)
            if end < 0:
                self._held = data[at:]
                break
            self._take_line(data[at:end])
            at = end + 2
        if self.is_complete:
            self.rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _line_end(self, data: bytes, at: int) -> int:
        """Where the line's CRLF is; -1 if it has not come yet."""
        found = data.find(b"\n", at, at + _LINE_BYTES)
        if found < 0:
            if len(data) - at >= _LINE_BYTES or (self._is_line_end_due and data[at : at + 1] not in (b"", b"\r")):
                raise _broken()
            return -1
        if found == at or data[found - 1] != 0x0D:
            raise _broken()
        return found - 1

    def _take_line(self, line: bytes) -> None:
        if self._is_line_end_due:
            if line:
                raise _broken()
            self._is_line_end_due = False
        elif self._in_trailers:
            self._take_trailer(line)
        else:
            self._take_size(line)

    def _take_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise _broken()
        self._remaining = int(match[1], 16)
        self._in_trailers = not self._remaining
        self._excess_bytes = max(0, self._excess_bytes + len(line) - 12 - 2 * self._remaining)
        if self._excess_bytes > _EXCESS_BYTES:
            raise _broken()

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self.is_complete = True
            return
        self._trailer_bytes += len(line)
        if self._trailer_bytes > _TRAILER_BYTES or _TRAILER_LINE.fullmatch(line) is None:
            raise _broken()
        if line.partition(b":")[0].lower() in _NO_TRAILERS:
            raise _broken()


def _broken() -> Refusal:
    return Refusal(400, "The request's chunked body is not valid.")
