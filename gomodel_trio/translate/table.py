"""The forms and what reads and writes them: an explicit table, nothing is imported by name.

Layer: translate. A client's forms are read as requests and written as answers, a target's the other way round.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gomodel_trio.translate.canonical import Answer, Event, Form, Request
from gomodel_trio.translate.chat import answers as chat_answers
from gomodel_trio.translate.chat import reading as chat_reading
from gomodel_trio.translate.chat import stream_in as chat_stream_in
from gomodel_trio.translate.chat import stream_out as chat_stream_out
from gomodel_trio.translate.chat import writing as chat_writing
from gomodel_trio.translate.messages import answers as messages_answers
from gomodel_trio.translate.messages import reading as messages_reading
from gomodel_trio.translate.messages import stream_in as messages_stream_in
from gomodel_trio.translate.messages import stream_out as messages_stream_out
from gomodel_trio.translate.messages import writing as messages_writing
from gomodel_trio.translate.responses import answers as responses_answers
from gomodel_trio.translate.responses import reading as responses_reading
from gomodel_trio.translate.responses import stream_in as responses_stream_in
from gomodel_trio.translate.responses import stream_out as responses_stream_out
from gomodel_trio.translate.responses import writing as responses_writing


class RequestWriter(Protocol):
    """canonical → wire, for a target's model."""

    def __call__(self, request: Request, *, model: str) -> bytes: ...


class AnswerWriter(Protocol):
    """canonical → wire, as an answer to `asked`."""

    def __call__(self, answer: Answer, *, asked: Request, now_epoch_s: int) -> bytes: ...


class StreamReader(Protocol):
    """wire → events, in whatever pieces it comes; never raises."""

    def feed(self, chunk: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class StreamWriter(Protocol):
    """events → wire."""

    def feed(self, events: Sequence[Event]) -> bytes: ...


class StreamWriterMaker(Protocol):
    """Makes the writer of one stream, an answer to `asked`."""

    def __call__(self, asked: Request, *, now_epoch_s: int) -> StreamWriter: ...


REQUEST_READERS: Final[dict[Form, Callable[[bytes], Request]]] = {
    Form.CHAT: chat_reading.read_request,
    Form.RESPONSES: responses_reading.read_request,
    Form.MESSAGES: messages_reading.read_request,
}
REQUEST_WRITERS: Final[dict[Form, RequestWriter]] = {
    Form.CHAT: chat_writing.write_request,
    Form.RESPONSES: responses_writing.write_request,
    Form.MESSAGES: messages_writing.write_request,
}
ANSWER_READERS: Final[dict[Form, Callable[[bytes], Answer]]] = {
    Form.CHAT: chat_answers.read_answer,
    Form.RESPONSES: responses_answers.read_answer,
    Form.MESSAGES: messages_answers.read_answer,
}
ANSWER_WRITERS: Final[dict[Form, AnswerWriter]] = {
    Form.CHAT: chat_answers.write_answer,
    Form.RESPONSES: responses_answers.write_answer,
    Form.MESSAGES: messages_answers.write_answer,
}
STREAM_READERS: Final[dict[Form, Callable[[], StreamReader]]] = {
    Form.CHAT: chat_stream_in.StreamReader,
    Form.RESPONSES: responses_stream_in.StreamReader,
    Form.MESSAGES: messages_stream_in.StreamReader,
}
STREAM_WRITERS: Final[dict[Form, StreamWriterMaker]] = {
    Form.CHAT: chat_stream_out.StreamWriter,
    Form.RESPONSES: responses_stream_out.StreamWriter,
    Form.MESSAGES: messages_stream_out.StreamWriter,
}
