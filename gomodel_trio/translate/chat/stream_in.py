"""Read a chat completions stream.

Layer: translate; pure. Source: OpenAI API reference (the chunk object), and what compatible servers are known to send.

Chunks know no beginning and no end of a part: a part begins with its first delta and ends where another kind begins, or with the finish
reason. Parallel calls stay open side by side until then.
"""

from typing import Any

import msgspec

from gomodel_trio.translate.canonical import (
    Ended,
    Event,
    Failed,
    Form,
    PartEnded,
    PartGrew,
    PartStarted,
    Reasoning,
    Refusal,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.chat.answers import arguments_of, stop_of, thoughts_of, usage_of
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.wire.fault_status import status_of
from gomodel_trio.wire.faults import read_fault
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.sse import SseEvent, SseParser


class StreamReader:
    """bytes → events, in any pieces; never raises. What cannot be read is skipped and counted in `parse_errors`."""

    def __init__(self) -> None:
        self.parse_errors = 0
        self._parser = SseParser()
        self._count = 0
        self._prose: tuple[type[Text | Reasoning | Refusal], int] | None = None
        """The kind and index of the part that is not a call and open."""
        self._calls: dict[int, int] = {}
        """The upstream's index of a call → ours of the part."""
        self._has_calls = False
        self._has_started = False
        self._is_stopped = False
        self._is_over = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes."""
        return self._events(self._parser.feed(chunk))

    def close(self) -> list[Event]:
        """The upstream has ended its body. Where the finish reason was seen only `[DONE]` is missing, and nothing is lost."""
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
            if event.data.startswith(b"[DONE]"):
                events += self._stop(None)
                self._is_over = True
                events.append(Ended())
                continue
            data = decode_any(event.data)
            if not isinstance(data, dict):
                self.parse_errors += 1
            elif event.event == b"error" or data.get("error"):
                events.append(self._fail(event.data))
            else:
                events += self._read(data)
        return events

    def _fail(self, data: bytes) -> Event:
        self._is_over = True
        fault = read_fault(data)
        return Failed(status_of(fault), fault.message or "The upstream reported an error.", fault.error_code or fault.code or fault.type)

    def _read(self, data: dict[str, Any]) -> list[Event]:
        events = self._start(data)
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            if choice.get("finish_reason") == "error" or choice.get("error"):
                return [*events, self._fail(encoded({"error": choice.get("error") or {}}))]
            delta = choice.get("delta")
            if isinstance(delta, dict):
                events += self._grow(delta, choice.get("logprobs"))
            if choice.get("finish_reason"):
                events += self._stop(choice["finish_reason"])
        usage = usage_of(data.get("usage"))
        return [*events, UsageTold(usage)] if usage is not None else events

    def _start(self, data: dict[str, Any]) -> list[Event]:
        if self._has_started:
            return []
        self._has_started = True
        created = data.get("created")
        return [Started(text_of(data.get("id")), text_of(data.get("model")), None, created if isinstance(created, int) else 0)]

    def _grow(self, delta: dict[str, Any], logprobs: object) -> list[Event]:
        events: list[Event] = []
        if self._is_stopped:
            return events
        if thoughts := thoughts_of(delta):
            events += self._say(Reasoning, thoughts)
        content = delta.get("content")
        text = "".join(text_of(part.get("text")) for part in content if isinstance(part, dict)) if isinstance(content, list) else content
        if text_of(text):
            events += self._say(Text, text_of(text), _logprobs(logprobs))
        if text_of(delta.get("refusal")):
            events += self._say(Refusal, text_of(delta["refusal"]))
        calls = delta.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                events += self._call(call, at)
        return events

    def _say(self, kind: type[Text | Reasoning | Refusal], text: str, logprobs: msgspec.Raw | None = None) -> list[Event]:
        events: list[Event] = []
        if self._prose is None or self._prose[0] is not kind:
            events += self._end_prose()
            self._prose = (kind, self._count)
            part = Reasoning("", origin=Form.CHAT) if kind is Reasoning else Refusal("") if kind is Refusal else Text("")
            events.append(PartStarted(self._count, part))
            self._count += 1
        return [*events, PartGrew(self._prose[1], text, logprobs)]

    def _end_prose(self) -> list[Event]:
        if self._prose is None:
            return []
        index, self._prose = self._prose[1], None
        return [PartEnded(index)]

    def _call(self, call: dict[str, Any], at: int) -> list[Event]:
        raw, function = call.get("index"), call.get("function")
        number = raw if isinstance(raw, int) else at
        found: dict[str, Any] = function if isinstance(function, dict) else {}
        events: list[Event] = []
        index = self._calls.get(number)
        if index is None:
            events += self._end_prose()
            index = self._calls[number] = self._count
            self._count += 1
            self._has_calls = True
            # Some servers send no id: the number makes one that is the same however the stream is cut.
            call_id = text_of(call.get("id")) or f"call_{number}"
            events.append(PartStarted(index, ToolCall(call_id, text_of(found.get("name")), "")))
        arguments = arguments_of(found.get("arguments"))
        return [*events, PartGrew(index, arguments)] if arguments else events

    def _stop(self, reason: object) -> list[Event]:
        if self._is_stopped:
            return []
        self._is_stopped = True
        events = self._end_prose() + [PartEnded(index) for index in self._calls.values()]
        stop = stop_of(reason, has_calls=self._has_calls) if reason is not None or self._has_calls else StopReason.END
        return [*events, Stopped(stop)]


def _logprobs(raw: object) -> msgspec.Raw | None:
    content = raw.get("content") if isinstance(raw, dict) else None
    return msgspec.Raw(encoded(content)) if isinstance(content, list) and content else None
