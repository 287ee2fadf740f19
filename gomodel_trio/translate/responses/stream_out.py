"""Write a Responses stream.

Layer: translate; sans-IO. Source: OpenAI API reference (responses: streaming events); behaviour.md §6.

The order of an item: added, its content's deltas, its content done, item done. An item is done when the next one begins or the model has
stopped, since only then is it known whether it was cut. Parts that are open side by side stay so: each event names its item.
"""

from collections.abc import Sequence
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
from gomodel_trio.translate.responses.output import (
    Outcome,
    content_part,
    id_stem,
    item_id,
    joins_message,
    outcome_of,
    output_item,
    response_object,
)
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.faults import stream_error_event

_IN_PROGRESS: Final = Outcome("in_progress")
_FAILED_CODES: Final = {429: "rate_limit_exceeded", 400: "invalid_prompt"}
_PING: Final = b": ping\n\n"

_RawList: "msgspec.json.Decoder[list[msgspec.Raw]]" = msgspec.json.Decoder(list[msgspec.Raw])


class _Open:
    """A part on its way. `content_index`: its place in its item."""

    __slots__ = ("content_index", "has_ended", "has_grown", "item", "logprobs", "part", "pieces", "redacted", "signature")

    def __init__(self, part: Text | Reasoning | Refusal | ToolCall, item: "_Item") -> None:
        self.part = part
        self.item = item
        self.content_index = len(item.parts)
        self.pieces: list[str] = []
        self.logprobs: list[msgspec.Raw] = []
        self.signature: str | None = None
        self.redacted: str | None = None
        self.has_grown = False
        self.has_ended = False

    def so_far(self) -> Text | Reasoning | Refusal | ToolCall:
        """The part with what has come of it."""
        text = "".join(self.pieces)
        match self.part:
            case ToolCall() as call:
                return ToolCall(call.id, call.name, text or "{}")
            case Reasoning() as thoughts:
                return Reasoning(text, self.signature, self.redacted, thoughts.id, thoughts.origin)
            case Refusal():
                return Refusal(text)
        return Text(text, logprobs=msgspec.Raw(msgspec.json.encode(self.logprobs)) if self.logprobs else None)


class _Item:
    """An item on its way."""

    __slots__ = ("id", "index", "is_done", "parts")

    def __init__(self, index: int, ident: str) -> None:
        self.index = index
        self.id = ident
        self.parts: list[_Open] = []
        self.is_done = False


class StreamWriter:
    """Turns events into a stream's bytes, an answer to `asked`."""

    def __init__(self, asked: Request, *, now_epoch_s: int) -> None:
        self._asked = asked
        self._now_epoch_s = now_epoch_s
        self._written = bytearray()
        self._sequence_number = 0
        self._stem: str | None = None
        self._model = ""
        self._created_s = now_epoch_s
        self._items: list[_Item] = []
        self._parts: dict[int, _Open] = {}
        self._stop = StopReason.END
        self._usage: TokenUsage | None = None
        self._has_ended = False

    def feed(self, events: Sequence[Event]) -> bytes:
        """Write the next events; nothing once the stream has ended."""
        for event in events:
            if not self._has_ended:
                self._take(event)
        written = bytes(self._written)
        self._written.clear()
        return written

    def _take(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case PartStarted():
                self._start_part(event)
            case PartGrew():
                self._grow(event)
            case PartSigned():
                self._sign(event)
            case PartEnded():
                if event.index in self._parts:
                    self._end_part(self._parts[event.index])
            case Stopped():
                self._close(event.stop)
            case UsageTold():
                self._usage = event.usage
            case Pinged():
                self._written += _PING
            case Failed():
                self._fail(event)
            case Ended():
                self._end()

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def _start(self, event: Started) -> None:
        if self._stem is not None:
            return
        self._created_s = event.created_s or self._now_epoch_s
        self._stem = id_stem(event.id, self._created_s)
        self._model = event.model
        self._usage = event.usage
        for kind in ("response.created", "response.in_progress"):
            self._write(kind, response=self._response(_IN_PROGRESS, [], None))

    def _close(self, stop: StopReason) -> None:
        self._stop = stop
        outcome = self._outcome()
        for item in self._items:
            self._finish_item(item, outcome.last_item_status if item is self._items[-1] else "completed")

    def _end(self) -> None:
        self._start(Started("", ""))
        self._close(self._stop)
        outcome = self._outcome()
        self._write(f"response.{outcome.status}", response=self._response(outcome, self._output(outcome), self._usage))
        self._has_ended = True

    def _fail(self, event: Failed) -> None:
        """Both ways of telling it, in the order in which OpenAI does: SDKs raise on the first, agents look for the second."""
        self._written += stream_error_event(
            Api.RESPONSES, status=event.status, message=event.message, code=event.code, sequence_number=self._sequence_number
        )
        self._sequence_number += 1
        if self._stem is not None:
            code = event.code or _FAILED_CODES.get(event.status, "server_error")
            outcome = Outcome("failed", error={"code": code, "message": event.message})
            self._write("response.failed", response=self._response(outcome, self._output(Outcome("incomplete")), self._usage))
        self._has_ended = True

    def _outcome(self) -> Outcome:
        return outcome_of(self._stop, has_refusal=any(isinstance(open_part.part, Refusal) for open_part in self._parts.values()))

    def _output(self, outcome: Outcome) -> list[dict[str, Any]]:
        last = self._items[-1] if self._items else None
        return [self._item(item, outcome.last_item_status if item is last else "completed") for item in self._items]

    def _response(self, outcome: Outcome, output: list[dict[str, Any]], usage: TokenUsage | None) -> dict[str, Any]:
        return response_object(
            self._asked,
            stem=self._stem or "",
            model=self._model,
            created_s=self._created_s,
            outcome=outcome,
            output=output,
            usage=usage,
        )

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _start_part(self, event: PartStarted) -> None:
        self._start(Started("", ""))
        part = event.part
        before: Part | None = self._items[-1].parts[-1].part if self._items else None
        if not joins_message(part, before):
            self._begin_item(part)
        item = self._items[-1]
        opened = self._parts[event.index] = _Open(part, item)
        item.parts.append(opened)
        if isinstance(part, Text | Refusal):
            self._write_of(opened, "response.content_part.added", part=content_part(type(part)("")))

    def _begin_item(self, part: Part) -> None:
        """End the items that are whole and announce the next, empty."""
        for item in self._items:
            if all(open_part.has_ended for open_part in item.parts):
                self._finish_item(item, "completed")
        index = len(self._items)
        item = _Item(index, item_id(part, self._stem or "", index))
        self._items.append(item)
        empty = output_item([part], item.id, "in_progress", self._asked.namespaced)
        match part:
            case ToolCall():
                empty["arguments"] = ""
            case Reasoning():
                pass
            case _:
                empty["content"] = []
        self._write("response.output_item.added", output_index=index, item=empty)

    def _grow(self, event: PartGrew) -> None:
        opened = self._parts.get(event.index)
        if opened is None or opened.has_ended or not event.text:
            return
        opened.pieces.append(event.text)
        match opened.part:
            case ToolCall():
                self._write_item(opened, "response.function_call_arguments.delta", delta=event.text)
            case Reasoning():
                if not opened.has_grown:
                    part = {"type": "summary_text", "text": ""}
                    self._write_item(opened, "response.reasoning_summary_part.added", summary_index=0, part=part)
                self._write_item(opened, "response.reasoning_summary_text.delta", summary_index=0, delta=event.text)
            case Refusal():
                self._write_of(opened, "response.refusal.delta", delta=event.text)
            case Text():
                logprobs = [] if event.logprobs is None else _RawList.decode(event.logprobs)
                opened.logprobs += logprobs
                self._write_of(opened, "response.output_text.delta", delta=event.text, logprobs=logprobs)
        opened.has_grown = True

    def _sign(self, event: PartSigned) -> None:
        opened = self._parts.get(event.index)
        if opened is not None:
            opened.signature = event.signature or opened.signature
            opened.redacted = event.redacted or opened.redacted

    def _end_part(self, opened: _Open) -> None:
        if opened.has_ended:
            return
        opened.has_ended = True
        match opened.so_far():
            case ToolCall(arguments=arguments):
                if not opened.has_grown:
                    self._write_item(opened, "response.function_call_arguments.delta", delta=arguments)
                self._write_item(opened, "response.function_call_arguments.done", arguments=arguments)
            case Reasoning(text=text) if opened.has_grown:
                self._write_item(opened, "response.reasoning_summary_text.done", summary_index=0, text=text)
                part = {"type": "summary_text", "text": text}
                self._write_item(opened, "response.reasoning_summary_part.done", summary_index=0, part=part)
            case Refusal(text=text) as refusal:
                self._write_of(opened, "response.refusal.done", refusal=text)
                self._write_of(opened, "response.content_part.done", part=content_part(refusal))
            case Text(text=text) as whole:
                self._write_of(opened, "response.output_text.done", text=text, logprobs=opened.logprobs)
                self._write_of(opened, "response.content_part.done", part=content_part(whole))

    def _finish_item(self, item: _Item, status: str) -> None:
        if item.is_done:
            return
        for opened in item.parts:
            self._end_part(opened)
        item.is_done = True
        self._write("response.output_item.done", output_index=item.index, item=self._item(item, status))

    def _item(self, item: _Item, status: str) -> dict[str, Any]:
        return output_item([opened.so_far() for opened in item.parts], item.id, status, self._asked.namespaced)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def _write_of(self, opened: _Open, kind: str, **fields: Any) -> None:
        self._write_item(opened, kind, content_index=opened.content_index, **fields)

    def _write_item(self, opened: _Open, kind: str, **fields: Any) -> None:
        self._write(kind, item_id=opened.item.id, output_index=opened.item.index, **fields)

    def _write(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "sequence_number": self._sequence_number} | fields
        self._sequence_number += 1
        self._written += b"event: %b\ndata: %b\n\n" % (kind.encode(), encoded(event))
