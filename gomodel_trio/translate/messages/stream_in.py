"""Read a Messages stream.

Layer: translate; pure. Source: Anthropic API reference (streaming messages).
"""

from typing import Any

from gomodel_trio.translate.canonical import (
    Ended,
    Event,
    Failed,
    Form,
    PartEnded,
    PartGrew,
    PartSigned,
    PartStarted,
    Pinged,
    Reasoning,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.fields import text_of
from gomodel_trio.translate.messages.answers import READ_STOPS, usage_of
from gomodel_trio.wire.fault_status import status_of
from gomodel_trio.wire.faults import read_fault
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.sse import SseEvent, SseParser


class StreamReader:
    """bytes → events, in any pieces; never raises. What cannot be read is skipped and counted in `parse_errors`."""

    def __init__(self) -> None:
        self.parse_errors = 0
        self._parser = SseParser()
        self._usage: dict[str, Any] = {}
        self._open: dict[int, int] = {}
        """Anthropic's index of a block → ours of the part: blocks of its own tools are left out."""
        self._count = 0
        self._has_started = False
        self._is_stopped = False
        self._is_over = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes."""
        return self._events(self._parser.feed(chunk))

    def close(self) -> list[Event]:
        """The upstream has ended its body. Where the stop reason was seen only the closing event is missing, and nothing is lost."""
        events = self._events(self._parser.close())
        if self._is_stopped and not self._is_over:
            self._is_over = True
            events.append(Ended())
        return events

    def _events(self, found: list[SseEvent]) -> list[Event]:
        events: list[Event] = []
        for event in found:
            if self._is_over or not event.data or event.is_cut:
                continue
            data = decode_any(event.data)
            if not isinstance(data, dict):
                self.parse_errors += 1
                continue
            events += self._read(data, event)
        return events

    def _read(self, data: dict[str, Any], event: SseEvent) -> list[Event]:
        kind = data.get("type") if isinstance(data.get("type"), str) else (event.event or b"").decode("latin-1")
        match kind:
            case "message_start":
                return self._start(data.get("message"))
            case "content_block_start":
                return self._start_block(data)
            case "content_block_delta":
                return self._grow(data)
            case "content_block_stop":
                index = self._open.pop(_index(data), None)
                return [] if index is None else [PartEnded(index)]
            case "message_delta":
                return self._stop(data)
            case "message_stop":
                self._is_over = True
                return [*self._stop({}), Ended()]
            case "ping":
                return [Pinged()]
            case "error":
                self._is_over = True
                fault = read_fault(event.data)
                return [Failed(status_of(fault), fault.message or "The upstream reported an error.", fault.error_code or fault.type)]
        return []

    def _start(self, message: object) -> list[Event]:
        found = message if isinstance(message, dict) else {}
        self._note(found.get("usage"))
        if self._has_started:
            return []
        self._has_started = True
        return [Started(text_of(found.get("id")), text_of(found.get("model")), usage_of(self._usage))]

    def _start_block(self, data: dict[str, Any]) -> list[Event]:
        block = data.get("content_block")
        if not isinstance(block, dict):
            self.parse_errors += 1
            return []
        part: Text | ToolCall | Reasoning
        first: list[Event] = []
        index = self._count
        match block.get("type"):
            case "text":
                part = Text("")
                text = text_of(block.get("text"))
                first = [PartGrew(index, text)] if text else []
            case "tool_use":
                part = ToolCall(text_of(block.get("id")), text_of(block.get("name")), "")
            case "thinking":
                part = Reasoning("", origin=Form.MESSAGES)
                text = text_of(block.get("thinking"))
                first = [PartGrew(index, text)] if text else []
            case "redacted_thinking":
                part = Reasoning("", origin=Form.MESSAGES)
                first = [PartSigned(index, redacted=text_of(block.get("data")))]
            case _:
                return []
        self._open[_index(data)] = index
        self._count += 1
        return [*self._start(None), PartStarted(index, part), *first]

    def _grow(self, data: dict[str, Any]) -> list[Event]:
        index, delta = self._open.get(_index(data)), data.get("delta")
        if index is None or not isinstance(delta, dict):
            return []
        match delta.get("type"):
            case "text_delta":
                text = text_of(delta.get("text"))
            case "input_json_delta":
                text = text_of(delta.get("partial_json"))
            case "thinking_delta":
                text = text_of(delta.get("thinking"))
            case "signature_delta":
                return [PartSigned(index, signature=text_of(delta.get("signature")))]
            case _:
                return []
        return [PartGrew(index, text)] if text else []

    def _stop(self, data: dict[str, Any]) -> list[Event]:
        """The stop reason and the tokens, once each; parts that were left open end here."""
        events: list[Event] = []
        self._note(data.get("usage"))
        raw = data.get("delta")
        delta: dict[str, Any] = raw if isinstance(raw, dict) else {}
        reason = delta.get("stop_reason")
        if not self._is_stopped and (isinstance(reason, str) or not data):
            self._is_stopped = True
            events += [PartEnded(index) for index in self._open.values()]
            self._open.clear()
            sequence = delta.get("stop_sequence")
            stop = READ_STOPS.get(reason, StopReason.END) if isinstance(reason, str) else StopReason.END
            events.append(Stopped(stop, text_of(sequence) if isinstance(sequence, str) else None))
        usage = usage_of(self._usage)
        if data and usage is not None:
            events.append(UsageTold(usage))
        return events

    def _note(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage.update({name: value for name, value in usage.items() if value is not None})


def _index(data: dict[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else -1
