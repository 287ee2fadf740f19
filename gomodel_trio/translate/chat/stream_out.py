"""Write a chat completions stream.

Layer: translate; pure. Source: OpenAI API reference (the chunk object), and what the official SDK accumulates.
"""

from collections.abc import Sequence
from typing import Any

from gomodel_trio.translate.canonical import (
    Ended,
    Event,
    Failed,
    PartEnded,
    PartGrew,
    PartSigned,
    PartStarted,
    Pinged,
    Reasoning,
    Refusal,
    Request,
    Started,
    Stopped,
    StopReason,
    TokenUsage,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.chat.answers import completion_id, written_stop, written_usage
from gomodel_trio.translate.fields import encoded
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.faults import stream_error_event


class StreamWriter:
    """events → bytes of an answer to `asked`. Calls are counted by themselves, as chat counts them."""

    def __init__(self, asked: Request, *, now_epoch_s: int) -> None:
        self._asked = asked
        self._base: dict[str, Any] = {
            "id": completion_id(""),
            "object": "chat.completion.chunk",
            "created": now_epoch_s,
            "model": asked.model,
        }
        self._kinds: dict[int, str] = {}
        self._calls: dict[int, int] = {}
        self._has_begun = False
        self._stopped: Stopped | None = None
        self._usage: TokenUsage | None = None
        self._is_over = False

    def feed(self, events: Sequence[Event]) -> bytes:
        """Take the next events."""
        return b"".join(self._written(event) for event in events if not self._is_over)

    def _written(self, event: Event) -> bytes:
        match event:
            case Started():
                self._base["id"] = completion_id(event.id)
                self._base["model"] = event.model or self._asked.model
                self._base["created"] = event.created_s or self._base["created"]
                return self._begin()
            case PartStarted():
                return self._begin() + self._start_part(event)
            case PartGrew():
                return self._grow(event)
            case Stopped():
                self._stopped = event
            case UsageTold():
                self._usage = event.usage
            case Pinged():
                return b": ping\n\n" if self._has_begun else b""
            case Failed():
                self._is_over = True
                return stream_error_event(Api.CHAT, status=event.status, message=event.message, code=event.code)
            case Ended():
                self._is_over = True
                return self._begin() + self._end()
            case PartSigned() | PartEnded():
                pass
        return b""

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def _start_part(self, event: PartStarted) -> bytes:
        match event.part:
            case ToolCall():
                number = self._calls[event.index] = len(self._calls)
                self._kinds[event.index] = "call"
                function = {"name": event.part.name, "arguments": ""}
                return self._chunk({"tool_calls": [{"index": number, "id": event.part.id, "type": "function", "function": function}]})
            case Reasoning():
                self._kinds[event.index] = "reasoning_content"
            case Refusal():
                self._kinds[event.index] = "refusal"
            case _:
                self._kinds[event.index] = "content"
        return b""

    def _grow(self, event: PartGrew) -> bytes:
        kind = self._kinds.get(event.index)
        if kind is None or not event.text:
            return b""
        if kind == "call":
            return self._chunk({"tool_calls": [{"index": self._calls[event.index], "function": {"arguments": event.text}}]})
        logprobs = {"content": event.logprobs, "refusal": None} if event.logprobs is not None and self._asked.wants_logprobs else None
        return self._chunk({kind: event.text}, logprobs=logprobs)

    def _end(self) -> bytes:
        stopped = self._stopped or Stopped(StopReason.END)
        written = self._chunk({}, finish_reason=written_stop(stopped.stop))
        if self._asked.includes_usage:
            written += _event(self._base | {"choices": [], "usage": written_usage(self._usage or TokenUsage())})
        return written + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], *, finish_reason: str | None = None, logprobs: dict[str, Any] | None = None) -> bytes:
        chunk = self._base | {"choices": [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}]}
        return _event(chunk | {"usage": None} if self._asked.includes_usage else chunk)


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + encoded(content) + b"\n\n"
