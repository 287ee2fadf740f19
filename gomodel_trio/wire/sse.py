"""Split a byte stream into server-sent events, whatever its chunks look like.

Layer: wire. Sans-IO and linear: a byte is looked at a fixed number of times even if each comes alone. Source: the WHATWG HTML
standard, section "Server-sent events"; behaviour.md §6 (Streams). Unlike a browser it also gives the event that end of file left open.
"""

import msgspec

MAX_EVENT_BYTES = 1 << 20
"""More than any text event of a provider; only inline images are larger, and of those the head says enough."""

_HEAD_BYTES = 4096
_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its name (None if it has none) and its data lines joined by LF. `is_cut`: too large, `data` is only its head."""

    event: bytes | None
    data: bytes
    is_cut: bool = False


class SseParser:
    """An incremental parser that never raises and keeps at most `max_event_bytes` of one event.

    A larger event is skipped and counted in `oversize_count`; with `keeps_heads` its first 4 KiB are given as an event with `is_cut`.
    `has_progressed`: the last chunk brought anything but comments and blank lines.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES, *, keeps_heads: bool = False) -> None:
        self.oversize_count = 0
        self.has_progressed = False
        self._max_event_bytes = max_event_bytes
        self._keeps_heads = keeps_heads
        self._line = bytearray()
        self._is_line_cut = False
        self._event: bytes | None = None
        self._data: list[bytes] = []
        self._size_bytes = 0
        self._is_oversize = False
        self._skips_lf = False
        self._has_begun = False

    @property
    def is_mid_event(self) -> bool:
        """Whether an event (or a line) has begun and its blank line has not come."""
        return bool(self._line or self._data or self._event is not None or self._is_oversize)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes; give the events they complete, in order."""
        if self._skips_lf and chunk:
            self._skips_lf = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._skips_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        tail = lines.pop()
        events: list[SseEvent] = []
        is_progress = False
        if lines:
            self._finish_first_line(lines)
            is_progress = self._take_lines(lines, events)
        if tail:
            self._extend_line(tail)
            is_progress = is_progress or self._line[0] != 58
        self.has_progressed = is_progress
        return events

    def close(self) -> list[SseEvent]:
        """The stream is over: give the event that was left without its blank line, if any."""
        self._skips_lf = False
        return self.feed(b"\n\n") if self.is_mid_event else []

    def _finish_first_line(self, lines: list[bytes]) -> None:
        """Put what earlier chunks left of a line before the first of `lines`; drop a byte order mark."""
        if self._line:
            first = bytes(self._line) if self._is_line_cut else bytes(self._line) + lines[0]
            self._line.clear()
            lines[0] = first
        if not self._has_begun:
            self._has_begun = True
            lines[0] = lines[0].removeprefix(_BOM)

    def _take_lines(self, lines: list[bytes], events: list[SseEvent]) -> bool:
        """Take whole lines; whether there was anything but comments and blank lines that end nothing."""
        is_progress = False
        for line in lines:
            if line.startswith(b"data:"):
                is_progress = True
                self._add_data(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data or self._event is not None or self._is_oversize:
                    is_progress = True
                    self._dispatch(events)
            elif line[0] != 58:
                is_progress = True
                name, _, value = line.partition(b":")
                if name == b"event":
                    self._event = value.removeprefix(b" ")
                elif name == b"data":
                    self._add_data(b"")
            self._is_line_cut = False
        return is_progress

    def _add_data(self, value: bytes) -> None:
        if self._is_oversize:
            return
        self._size_bytes += len(value) + 1
        if self._size_bytes > self._max_event_bytes or self._is_line_cut:
            self._is_oversize = True
            self._data = [b"\n".join([*self._data, value])[:_HEAD_BYTES]]
        else:
            self._data.append(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if not self._is_oversize:
            events.append(SseEvent(self._event, data))
        else:
            self.oversize_count += 1
            if self._keeps_heads:
                events.append(SseEvent(self._event, data, is_cut=True))
        self._event = None
        self._data = []
        self._size_bytes = 0
        self._is_oversize = False

    def _extend_line(self, tail: bytes) -> None:
        """Keep the beginning of a line; of one beyond the bound only its head."""
        if self._is_line_cut:
            return
        self._line += tail
        if len(self._line) > self._max_event_bytes + len(b"data: "):
            self._is_line_cut = True
            del self._line[_HEAD_BYTES:]
