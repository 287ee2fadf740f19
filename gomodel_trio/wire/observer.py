"""Watch an answer beside the relay: has content come, has it ended, did it fail, what did it cost.

Layer: wire. The bytes are not its to change; it never raises, whatever they are. One subclass per dialect says what its events mean.
Source: behaviour.md §6 (Streams: the first content event, end events, error events).

A stream's course: nothing (role chunks, pings, `message_start`) → content → end. An error event ends it as a failure; what follows one
no longer counts, but for usage. An answer that is no event stream at all is kept (64 KiB of it) and read as a whole at `close`.
"""

from typing import ClassVar

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.fault_status import StreamFault, status_of
from gomodel_trio.wire.faults import read_fault
from gomodel_trio.wire.sse import MAX_EVENT_BYTES, SseEvent, SseParser
from gomodel_trio.wire.unary import read_answer
from gomodel_trio.wire.usage import Usage, read_usage

_MOST_PLAIN_BYTES = 64 * 1024


class Observer:
    """Follows one answer's stream of bytes.

    `has_content`: the first content event was seen (an end event is one): the commit point. `has_ended`: a proper end was seen, so that
    end of file is success. `error`: the first error; its `after_content` tells whether content had come before it. `parse_errors`: events
    that were malformed or too large. `model`: as answered. `event_count`: complete events, pings too. `sequence_number`: the last seen
    (responses only, else -1).
    """

    api: ClassVar[Api]

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.has_content = False
        self.has_ended = False
        self.error: StreamFault | None = None
        self.model: str | None = None
        self.event_count = 0
        self.sequence_number = -1
        self._malformed_count = 0
        self._usage: dict[str, object] = {}
        self._parser = SseParser(max_event_bytes, keeps_heads=True)
        self._ended_mid_event = False
        self._plain: bytearray | None = None
        self._has_begun = False

    @property
    def parse_errors(self) -> int:
        """How many events could not be read."""
        return self._malformed_count + self._parser.oversize_count

    @property
    def is_mid_event(self) -> bool:
        """Whether the bytes (before `close`, too) end inside an event: an error event of ours must close it first."""
        return self._ended_mid_event or self._parser.is_mid_event

    @property
    def usage(self) -> Usage | None:
        """The tokens reported so far."""
        return read_usage(self._usage)

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes as they came; whether they brought anything but comments (which do not reset the idle timer)."""
        if not self._has_begun:
            self._begin(chunk)
        if self._plain is not None:
            self._plain += chunk[: _MOST_PLAIN_BYTES - len(self._plain)]
            return bool(chunk)
        for event in self._parser.feed(chunk):
            self._take(event)
        return self._parser.has_progressed

    def close(self) -> None:
        """The upstream has ended its body: take what is left."""
        self._ended_mid_event = self.is_mid_event
        for event in self._parser.close():
            self._take(event)
        if self._plain is not None and len(self._plain) < _MOST_PLAIN_BYTES:
            self._take_plain(bytes(self._plain))

    def _begin(self, chunk: bytes) -> None:
        """Tell an event stream from a JSON or HTML body by its first visible byte."""
        start = chunk.lstrip()[:1]
        if start:
            self._has_begun = True
            if start in b"{[<":
                self._plain = bytearray()

    def _take_plain(self, body: bytes) -> None:
        answer = read_answer(body, self.api)
        self.error = answer.error
        if answer.error is None and answer.is_readable:
            self.has_content = self.has_ended = True
            self.model = answer.model
            self._usage = answer.raw_usage

    def _take(self, event: SseEvent) -> None:
        self.event_count += 1
        if event.is_cut:
            self._observe_head(event)
        elif event.event == b"error":
            self._fail(event.data)
        elif event.data.startswith(b"[DONE]"):
            self._end()
        elif event.data:
            # A name alone says nothing: the SDKs skip it, and at end of file the data may be what was cut.
            self._observe(event)

    def _observe(self, event: SseEvent, /) -> None:
        """Say what a whole event means; its data are not empty."""
        raise NotImplementedError

    def _observe_head(self, event: SseEvent, /) -> None:
        """Say what an event means of which only the name and the head are known."""
        raise NotImplementedError

    def _commit(self) -> None:
        if self.error is None:
            self.has_content = True

    def _end(self) -> None:
        if self.error is None:
            self.has_content = self.has_ended = True

    def _fail(self, data: bytes) -> None:
        """Take `data` as an error body."""
        if self.error is None:
            fault = read_fault(data)
            self.error = StreamFault(fault, status_of(fault), after_content=self.has_content)

    def _note_usage(self, raw: object) -> None:
        if isinstance(raw, dict):
            self._usage.update({name: value for name, value in raw.items() if value is not None})

    def _note_model(self, raw: object) -> None:
        if self.model is None and isinstance(raw, str) and raw:
            self.model = raw
