"""One request's way into another form, and its answer's way back.

Layer: translate; pure. Source: behaviour.md §7.
"""

from collections.abc import Sequence

import msgspec

from gomodel_trio.translate import table
from gomodel_trio.translate.canonical import (
    Answer,
    Ended,
    Event,
    Failed,
    Form,
    PartEnded,
    PartGrew,
    PartSigned,
    PartStarted,
    Reasoning,
    Refusal,
    Request,
    Started,
    Stopped,
    Text,
    ToolCall,
    UsageTold,
)
from gomodel_trio.translate.chat.writing import write_request as write_chat


class Translation(msgspec.Struct, frozen=True):
    """A request read from the client's form `client` on its way to a target of the form `target`.

    `now_epoch_s`: for answers' dates. `is_openai`: the target is OpenAI's own service, and not one that is compatible with it.
    """

    client: Form
    target: Form
    asked: Request
    now_epoch_s: int
    is_openai: bool = True

    def body(self, model: str) -> bytes:
        """The request as the target wants it.

        Raises:
            Untranslatable: it cannot be said there; Malformed: its shape is wrong.
        """
        if self.target is Form.CHAT:
            return write_chat(self.asked, model=model, knows_max_completion_tokens=self.is_openai)
        return table.REQUEST_WRITERS[self.target](self.asked, model=model)

    def answer(self, body: bytes) -> bytes:
        """The target's whole answer as the client wants it.

        Raises:
            ValueError: it is no answer.
        """
        answer = table.ANSWER_READERS[self.target](body)
        if self.asked.is_stream:
            return table.STREAM_WRITERS[self.client](self.asked, now_epoch_s=self.now_epoch_s).feed(events_of(answer))
        return table.ANSWER_WRITERS[self.client](answer, asked=self.asked, now_epoch_s=self.now_epoch_s)

    def stream(self) -> "StreamTranslation":
        """What translates one stream."""
        reader, writer = table.STREAM_READERS[self.target](), table.STREAM_WRITERS[self.client](self.asked, now_epoch_s=self.now_epoch_s)
        return StreamTranslation(reader, writer)


def translation(client: Form, target: Form, body: bytes, *, now_epoch_s: int, drops_provider: bool, is_openai: bool) -> Translation:
    """Read a request. `drops_provider`: its `provider` is the gateway's, not the target's.

    Raises:
        Malformed: a known field has a wrong shape.
    """
    asked = table.REQUEST_READERS[client](body)
    if drops_provider and "provider" in asked.extras:
        asked = msgspec.structs.replace(asked, extras={name: value for name, value in asked.extras.items() if name != "provider"})
    return Translation(client, target, asked, now_epoch_s, is_openai)


class StreamTranslation:
    """A stream on its way back: the target's bytes in, the client's out. `has_ended`: the client has the end of its form."""

    __slots__ = ("_reader", "_writer", "has_ended")

    def __init__(self, reader: table.StreamReader, writer: table.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.has_ended = False

    def feed(self, chunk: bytes) -> bytes:
        """Take the next plain bytes, in any pieces."""
        return self._written(self._reader.feed(chunk))

    def close(self) -> bytes:
        """The target has ended its body."""
        return self._written(self._reader.close())

    def fail(self, *, status: int, message: str, code: str) -> bytes:
        """End with an error of the gateway's own."""
        return self._written([Failed(status, message, code)])

    def _written(self, events: Sequence[Event]) -> bytes:
        if not events or self.has_ended:
            return b""
        self.has_ended = any(isinstance(event, Ended | Failed) for event in events)
        return self._writer.feed(events)


def events_of(answer: Answer) -> list[Event]:
    """The stream that a whole answer would have been."""
    events: list[Event] = [Started(answer.id, answer.model, None, answer.created_s)]
    for index, part in enumerate(answer.parts):
        match part:
            case Text(text=text, logprobs=logprobs):
                events += [PartStarted(index, Text("")), PartGrew(index, text, logprobs)]
            case Refusal(text=text):
                events += [PartStarted(index, Refusal("")), PartGrew(index, text)]
            case ToolCall():
                events += [PartStarted(index, ToolCall(part.id, part.name, "")), PartGrew(index, part.arguments)]
            case Reasoning():
                events += [PartStarted(index, Reasoning("", id=part.id, origin=part.origin))]
                events += [PartGrew(index, part.text)] if part.text else []
                events += [PartSigned(index, part.signature, part.redacted)] if part.signature or part.redacted else []
            case _:
                continue
        events.append(PartEnded(index))
    events.append(Stopped(answer.stop, answer.stop_sequence))
    if answer.usage is not None:
        events.append(UsageTold(answer.usage))
    return [*events, Ended()]
