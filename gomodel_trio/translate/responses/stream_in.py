"""Read a Responses stream.

Layer: translate; sans-IO. Source: OpenAI API reference (responses: streaming events); behaviour.md §6.

Servers that offer this form leave events out, or indices. So each event that tells a whole (`….done`, an item, the response) is held
against what came before, and only what is missing is told on: however the pieces come, the parts are those of the whole answer.
"""

from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Ended,
    Event,
    Failed,
    Part,
    PartEnded,
    PartGrew,
    PartSigned,
    PartStarted,
    Pinged,
    Reasoning,
    Refusal,
    Started,
    Stopped,
    Text,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.fields import text_of
from gomodel_trio.translate.responses.answers import (
    call_of,
    content_of,
    logprobs_of,
    reasoning_of,
    seconds_of,
    stop_of,
    usage_of,
)
from gomodel_trio.wire.fault_status import status_of
from gomodel_trio.wire.faults import read_fault
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.sse import SseEvent, SseParser

MAX_EVENT_BYTES: Final = 16 << 20
"""The last event holds the whole answer, and the request's tools and instructions."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.done"})
_THOUGHTS: Final = -1
_CALL: Final = -2
"""What stands for a content index in items that have none."""


class _Open:
    """A part on its way. `pending`: half of a surrogate pair, which a delta may end with. `section`: of thoughts, the summary's index."""

    __slots__ = ("count", "index", "is_ended", "kind", "part", "pending", "section")

    def __init__(self, index: int, part: Text | Reasoning | Refusal | ToolCall) -> None:
        self.index = index
        self.part = part
        self.count = 0
        self.is_ended = False
        self.pending = ""
        self.kind = ""
        self.section = 0


class StreamReader:
    """Turns a stream's bytes, in any pieces, into events. Never raises; `parse_errors` counts the events that were skipped."""

    def __init__(self) -> None:
        self._malformed_count = 0
        self._parser = SseParser(MAX_EVENT_BYTES)
        self._events: list[Event] = []
        self._has_started = False
        self._has_ended = False
        self._parts: dict[tuple[int, int], _Open] = {}
        self._output_index = 0

    @property
    def parse_errors(self) -> int:
        """How many events could not be read."""
        return self._malformed_count + self._parser.oversize_count

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; give the events they complete."""
        return self._read(self._parser.feed(chunk))

    def close(self) -> list[Event]:
        """The stream is over: give what was left without its blank line."""
        return self._read(self._parser.close())

    def _read(self, found: list[SseEvent]) -> list[Event]:
        for event in found:
            if not self._has_ended and event.data and event.data != b"[DONE]":
                self._take(event)
        events, self._events = self._events, []
        return events

    def _take(self, event: SseEvent) -> None:
        told = decode_any(event.data)
        if not isinstance(told, dict):
            self._malformed_count += 1
            return
        kind = text_of(told.get("type")) or (event.event or b"").decode("latin-1")
        response = told.get("response") if isinstance(told.get("response"), dict) else None
        is_failed = kind == "response.failed" or (kind in _ENDS and response is not None and response.get("status") == "failed")
        if kind == "error" or is_failed or (told.get("error") and not response):
            self._fail(event.data if response is None else _error_data(response))
            return
        if response is not None and not self._has_started:
            self._start(response)
        if kind in _ENDS:
            self._finish(response or {})
        else:
            self._take_piece(kind, told)

    def _take_piece(self, kind: str, told: dict[str, Any]) -> None:
        at = self._place(told)
        match kind:
            case "response.output_item.added":
                self._add_item(at, told.get("item"))
            case "response.output_item.done":
                self._settle(at, told.get("item"))
            case "response.content_part.added":
                part = content_of(told.get("part"))
                if part is not None:
                    self._content(at, _number(told.get("content_index")), part)
            case "response.output_text.delta" | "response.output_text.done":
                open_part = self._content(at, _number(told.get("content_index")), Text(""))
                self._grow_or_end(open_part, told, "text")
            case "response.refusal.delta" | "response.refusal.done":
                open_part = self._content(at, _number(told.get("content_index")), Refusal(""))
                self._grow_or_end(open_part, told, "refusal")
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
                open_call = self._parts.get((at, _CALL))
                if open_call is not None:
                    self._grow_or_end(open_call, told, "arguments")
            case "response.reasoning_summary_text.delta":
                self._think(at, told, "summary", _number(told.get("summary_index")))
            case "response.reasoning_text.delta":
                self._think(at, told, "content", _number(told.get("content_index")))
            case "keepalive" | "ping":
                self._events.append(Pinged())

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _place(self, told: dict[str, Any]) -> int:
        """The item's index; the last one's where it is not told."""
        index = told.get("output_index")
        if isinstance(index, int):
            self._output_index = index
        return self._output_index

    def _add_item(self, at: int, item: Any) -> None:
        if isinstance(item, dict) and item.get("type") == "function_call" and (at, _CALL) not in self._parts:
            call = call_of(item)
            self._open((at, _CALL), ToolCall(call.id, call.name, ""))

    def _content(self, at: int, content_index: int, part: Text | Refusal) -> _Open:
        return self._parts.get((at, content_index)) or self._open((at, content_index), type(part)(""))

    def _open(self, key: tuple[int, int], part: Text | Reasoning | Refusal | ToolCall) -> _Open:
        if not self._has_started:
            self._start({})
        opened = self._parts[key] = _Open(len(self._parts), part)
        self._events.append(PartStarted(opened.index, part))
        return opened

    def _think(self, at: int, told: dict[str, Any], kind: str, section: int) -> None:
        """Summaries and thoughts as they were are two tellings of the same: the first one counts."""
        delta = told.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        thoughts = self._thoughts(at, text_of(told.get("item_id")) or None)
        if thoughts.kind not in ("", kind):
            return
        thoughts.kind = kind
        if section != thoughts.section and thoughts.count:
            delta = "\n\n" + delta
        thoughts.section = section
        self._grow(thoughts, delta)

    def _thoughts(self, at: int, item_id: str | None) -> _Open:
        return self._parts.get((at, _THOUGHTS)) or self._open((at, _THOUGHTS), Reasoning("", id=item_id, origin="openai.responses"))

    def _grow_or_end(self, part: _Open, told: dict[str, Any], whole: str) -> None:
        if isinstance(told.get("delta"), str):
            self._grow(part, told["delta"], told.get("logprobs"))
        elif isinstance(told.get(whole), str):
            self._complete(part, text_of(told[whole]), None if part.count else told.get("logprobs"))

    def _grow(self, part: _Open, delta: str, logprobs: Any = None) -> None:
        if part.is_ended:
            return
        text = part.pending + delta
        part.pending = ""
        if text and "\ud800" <= text[-1] < "\udc00":
            text, part.pending = text[:-1], text[-1]
        text = text_of(text)
        if text:
            part.count += len(text)
            self._events.append(PartGrew(part.index, text, logprobs_of(logprobs)))

    def _complete(self, part: _Open, text: str, logprobs: Any = None) -> None:
        """The whole text is known: tell what is missing of it, and end the part."""
        if not part.is_ended:
            part.pending = ""
            self._grow(part, text[part.count :], logprobs)
            self._end(part)

    def _end(self, part: _Open) -> None:
        if not part.is_ended:
            part.is_ended = True
            self._events.append(PartEnded(part.index))

    def _settle(self, at: int, item: Any) -> None:
        """An item is whole."""
        if not isinstance(item, dict):
            return
        match item.get("type"):
            case "message":
                content = item.get("content")
                for content_index, raw in enumerate(content if isinstance(content, list) else ()):
                    part = content_of(raw)
                    if part is not None:
                        opened = self._content(at, content_index, part)
                        self._complete(opened, part.text, None if opened.count else raw.get("logprobs"))
            case "reasoning":
                self._settle_thoughts(at, reasoning_of(item))
            case "function_call":
                self._add_item(at, item)
                self._complete(self._parts[at, _CALL], call_of(item).arguments)

    def _settle_thoughts(self, at: int, whole: Reasoning) -> None:
        is_known = (at, _THOUGHTS) in self._parts
        if not is_known and not (whole.text or whole.signature or whole.redacted):
            return
        if not is_known:
            self._open((at, _THOUGHTS), Reasoning("", id=whole.id, origin=whole.origin))
        thoughts = self._parts[at, _THOUGHTS]
        if thoughts.is_ended:
            return
        if not thoughts.count:
            self._grow(thoughts, whole.text)
        if whole.signature or whole.redacted:
            self._events.append(PartSigned(thoughts.index, whole.signature, whole.redacted))
        self._end(thoughts)

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def _start(self, response: dict[str, Any]) -> None:
        self._has_started = True
        ident, model = text_of(response.get("id")), text_of(response.get("model"))
        self._events.append(Started(ident, model, None, seconds_of(response.get("created_at"))))

    def _finish(self, response: dict[str, Any]) -> None:
        if not self._has_started:
            self._start(response)
        output = response.get("output")
        if not self._parts and isinstance(output, list):
            for index, item in enumerate(output):
                self._settle(index, item)
        for part in self._parts.values():
            self._end(part)
        parts: tuple[Part, ...] = tuple(part.part for part in self._parts.values())
        self._events.append(Stopped(stop_of(response, parts)))
        usage = usage_of(response.get("usage"))
        if usage is not None:
            self._events.append(UsageTold(usage))
        self._events.append(Ended())
        self._has_ended = True

    def _fail(self, data: bytes) -> None:
        fault = read_fault(data)
        code = fault.code or fault.type
        self._events.append(Failed(status_of(fault), fault.message or "The upstream reported an error.", code))
        self._has_ended = True


def _error_data(response: dict[str, Any]) -> bytes:
    """The error of a failed response as an ordinary error body."""
    error = response.get("error")
    error = error if isinstance(error, dict) else {}
    return msgspec.json.encode({"error": {name: text_of(error.get(name)) or None for name in ("code", "type", "message")}})


def _number(raw: Any) -> int:
    """An index; 0 where it is not told."""
    return raw if isinstance(raw, int) and raw >= 0 else 0
