"""Write a Messages stream.

Layer: translate; pure. Source: Anthropic API reference (streaming messages), and what the official SDK accumulates.

Anthropic's blocks come one after another. Parts that are open side by side elsewhere (parallel calls of chat) are put into order: what
belongs to a later part waits until the one before it has ended.
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
    Request,
    Started,
    Stopped,
    StopReason,
    Text,
    TokenUsage,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.fields import encoded
from gomodel_trio.translate.messages.answers import message_object, written_stop, written_usage
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.faults import stream_error_event


class StreamWriter:
    """events → bytes of an answer to `asked`."""

    def __init__(self, asked: Request, *, now_epoch_s: int) -> None:  # noqa: ARG002 - the shape of all forms
        self._model = asked.model
        self._has_started = False
        self._open: int | None = None
        """The part whose block is open."""
        self._kind: type = Text
        self._blocks = 0
        self._waiting: dict[int, list[PartStarted | PartGrew | PartSigned | PartEnded]] = {}
        self._stopped: Stopped | None = None
        self._usage: TokenUsage | None = None
        self._is_over = False

    def feed(self, events: Sequence[Event]) -> bytes:
        """Take the next events."""
        return b"".join(self._written(event) for event in events if not self._is_over)

    def _written(self, event: Event) -> bytes:
        match event:
            case Started():
                self._usage = event.usage
                return self._start(event.id, event.model)
            case PartStarted() | PartGrew() | PartSigned() | PartEnded():
                return self._begun() + self._part(event)
            case Stopped():
                self._stopped = event
                return self._begun()
            case UsageTold():
                self._usage = event.usage
                return b""
            case Pinged():
                return _event({"type": "ping"}) if self._has_started else b""
            case Failed():
                self._is_over = True
                return stream_error_event(Api.MESSAGES, status=event.status, message=event.message, code=event.code)
            case Ended():
                self._is_over = True
                return self._begun() + self._close_all() + self._end()

    # ---- the message ------------------------------------------------------------------------------------------------

    def _begun(self) -> bytes:
        return b"" if self._has_started else self._start("", self._model)

    def _start(self, answer_id: str, model: str) -> bytes:
        if self._has_started:
            return b""
        self._has_started = True
        message = message_object(answer_id, model or self._model, [], usage=self._usage)
        return _event({"type": "message_start", "message": message})

    def _end(self) -> bytes:
        stopped = self._stopped or Stopped(StopReason.END)
        delta = {"stop_reason": written_stop(stopped.stop), "stop_sequence": stopped.stop_sequence}
        usage = written_usage(self._usage or TokenUsage())
        return _event({"type": "message_delta", "delta": delta, "usage": usage}) + _event({"type": "message_stop"})

    # ---- the blocks -------------------------------------------------------------------------------------------------

    def _part(self, event: PartStarted | PartGrew | PartSigned | PartEnded) -> bytes:
        if self._open is None and isinstance(event, PartStarted):
            return self._open_block(event)
        if self._open == event.index:
            return self._continue(event)
        if isinstance(event, PartStarted) or event.index in self._waiting:
            self._waiting.setdefault(event.index, []).append(event)
        return b""

    def _continue(self, event: PartStarted | PartGrew | PartSigned | PartEnded) -> bytes:
        if isinstance(event, PartEnded):
            return self._close_block() + self._next()
        return b"" if isinstance(event, PartStarted) else self._delta(event)

    def _next(self) -> bytes:
        """Open the part that waits longest, with what has come of it, and so on while they have ended already."""
        written = b""
        while self._open is None and self._waiting:
            index = next(iter(self._waiting))
            for event in self._waiting.pop(index):
                if isinstance(event, PartStarted):
                    written += self._open_block(event)
                elif isinstance(event, PartEnded):
                    written += self._close_block()
                else:
                    written += self._delta(event)
        return written

    def _close_all(self) -> bytes:
        written = b""
        while self._open is not None:
            written += self._close_block() + self._next()
        return written

    def _open_block(self, event: PartStarted) -> bytes:
        self._open = event.index
        self._kind = type(event.part)
        block: dict[str, Any]
        match event.part:
            case ToolCall():
                block = {"type": "tool_use", "id": event.part.id, "name": event.part.name, "input": {}}
            case Reasoning():
                block = {"type": "thinking", "thinking": "", "signature": ""}
            case _:
                block = {"type": "text", "text": ""}
        return _event({"type": "content_block_start", "index": self._blocks, "content_block": block})

    def _delta(self, event: PartGrew | PartSigned) -> bytes:
        delta: dict[str, Any]
        if isinstance(event, PartSigned):
            if event.signature is None:
                return b""  # encrypted thoughts of another provider: of no use to anybody here
            delta = {"type": "signature_delta", "signature": event.signature}
        elif not event.text:
            return b""
        elif self._kind is ToolCall:
            delta = {"type": "input_json_delta", "partial_json": event.text}
        elif self._kind is Reasoning:
            delta = {"type": "thinking_delta", "thinking": event.text}
        else:
            delta = {"type": "text_delta", "text": event.text}
        return _event({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _close_block(self) -> bytes:
        self._open = None
        self._blocks += 1
        return _event({"type": "content_block_stop", "index": self._blocks - 1})


def _event(content: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(content["type"]).encode(), encoded(content))
