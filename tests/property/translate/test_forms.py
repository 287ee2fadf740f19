"""What all forms have in common: any split of a stream says the same, streams say what whole answers say, nothing breaks a reader."""

import contextlib
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.translate import table
from gomodel_trio.translate.canonical import (
    Answer,
    Ended,
    Event,
    Form,
    Image,
    Malformed,
    Part,
    PartGrew,
    PartSigned,
    PartStarted,
    Reasoning,
    Refusal,
    Request,
    Started,
    Stopped,
    StopReason,
    Text,
    TokenUsage,
    ToolCall,
    Untranslatable,
    UsageTold,
)
from gomodel_trio.translate.translation import events_of, translation
from support import anthropic_replies, openai_replies
from support.matrix import TOOL_SCHEMA

CLIENTS = tuple(table.REQUEST_READERS)
ASKED = {form: Request(origin=form, model="m", messages=(), includes_usage=True) for form in CLIENTS}
TEXTS = st.text(alphabet='ab"\\\n\u2028é🤖:', min_size=1, max_size=6)
CALLS = st.builds(
    ToolCall, id=st.uuids().map(lambda each: f"call_{each.hex}"), name=st.just("f"), arguments=st.sampled_from(['{"a":1.50}', "{}"])
)
USAGES = st.builds(TokenUsage, input=st.integers(50, 90), output=st.integers(0, 90), cache_read=st.integers(0, 20))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Thoughts, a text, and calls: what every form can say."""
    parts: list[Part] = []
    if draw(st.booleans()):
        parts.append(Text(draw(TEXTS)))
    calls = draw(st.lists(CALLS, max_size=3, unique_by=lambda call: call.id))
    parts += calls
    stop = StopReason.TOOL_CALLS if calls else draw(st.sampled_from((StopReason.END, StopReason.MAX_TOKENS)))
    return Answer(id="x1", model="m", parts=tuple(parts), stop=stop, usage=draw(USAGES))


def gathered(events: list[Event]) -> Answer:
    """The whole answer that a stream tells."""
    parts: dict[int, Part] = {}
    said: dict[str, Any] = {"id": "", "model": ""}
    for event in events:
        match event:
            case Started():
                said |= {"id": event.id, "model": event.model}
            case PartStarted():
                parts[event.index] = event.part
            case PartGrew():
                parts[event.index] = grown(parts[event.index], event.text)
            case PartSigned():
                pass
            case Stopped():
                said["stop"] = event.stop
            case UsageTold():
                said["usage"] = event.usage
            case _:
                pass
    return Answer(**said, parts=tuple(parts.values()))


def grown(part: Part, text: str) -> Part:
    match part:
        case ToolCall():
            return ToolCall(part.id, part.name, part.arguments + text)
        case Text():
            return Text(part.text + text)
        case Refusal():
            return Refusal(part.text + text)
        case Reasoning():
            return Reasoning(part.text + text, origin=part.origin)
    raise AssertionError(part)


def seen(answer: Answer) -> Any:
    """What a client sees: the parts, the stop, the tokens."""
    usage = answer.usage or TokenUsage()
    parts = [(type(part).__name__, getattr(part, "text", None), getattr(part, "id", None), arguments(part)) for part in answer.parts]
    return parts, answer.stop, (usage.input, usage.output, usage.cache_read or 0)


def arguments(part: Part) -> Any:
    return json.loads(part.arguments or "{}") if isinstance(part, ToolCall) else None


def read_stream(form: Form, data: bytes, size: int) -> list[Event]:
    reader = table.STREAM_READERS[form]()
    events: list[Event] = []
    for at in range(0, len(data), size):
        events += reader.feed(data[at : at + size])
    return events + reader.close()


def merged(events: list[Event]) -> list[Event]:
    """Growth of one part in a row as one event: how finely it comes is the reader's business."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, PartGrew) and out and isinstance(out[-1], PartGrew) and out[-1].index == event.index:
            out[-1] = PartGrew(event.index, out[-1].text + event.text, out[-1].logprobs or event.logprobs)
        else:
            out.append(event)
    return out


@pytest.mark.parametrize("form", CLIENTS)
@given(answer=answers())
@settings(deadline=None, max_examples=60)
def test_a_whole_answer_is_read_as_it_was_written(form: Form, answer: Answer) -> None:
    written = table.ANSWER_WRITERS[form](answer, asked=ASKED[form], now_epoch_s=1)
    assert seen(table.ANSWER_READERS[form](written)) == seen(answer)


@pytest.mark.parametrize("form", CLIENTS)
@given(answer=answers(), size=st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_a_stream_says_what_the_whole_answer_says_however_it_is_cut(form: Form, answer: Answer, size: int) -> None:
    data = table.STREAM_WRITERS[form](ASKED[form], now_epoch_s=1).feed(events_of(answer))
    events = read_stream(form, data, size)
    assert isinstance(events[-1], Ended)
    assert sum(isinstance(event, Ended) for event in events) == 1
    assert seen(gathered(events)) == seen(answer)
    assert merged(events) == merged(read_stream(form, data, len(data)))


def upstream_streams() -> list[tuple[Form, bytes]]:
    """What the fakes stream, whose answers the official SDKs read."""
    tools = [{"type": "function", "function": {"name": name, "parameters": TOOL_SCHEMA}} for name in ("get_weather", "get_time")]
    flat = [{"type": "function", "name": name, "parameters": TOOL_SCHEMA} for name in ("get_weather", "get_time")]
    asked = {"role": "user", "content": "get_weather and get_time"}
    found = []
    for body in ({"messages": [asked]}, {"messages": [asked], "tools": tools}):
        found.append(
            (Form.CHAT, openai_replies.chat({"model": "m", "stream": True, "stream_options": {"include_usage": True}, **body}).body)
        )
    for body in ({"input": [asked]}, {"input": [asked], "tools": flat}):
        found.append((Form.RESPONSES, openai_replies.responses({"model": "m", "stream": True, **body}).body))
    for body in ({}, {"tools": [{"name": "get_weather", "input_schema": TOOL_SCHEMA}]}, {"thinking": {"type": "enabled"}}):
        found.append((Form.MESSAGES, anthropic_replies.messages({"model": "m", "stream": True, "messages": [asked], **body}).body))
    return found


STREAMS = upstream_streams()


@pytest.mark.parametrize(("form", "client", "number"), [(form, client, at) for at, (form, _) in enumerate(STREAMS) for client in CLIENTS])
def test_a_stream_cut_at_every_byte_translates_to_the_same_bytes(form: Form, client: Form, number: int) -> None:
    data = STREAMS[number][1]

    def translated(chunks: list[bytes]) -> bytes:
        reader, writer = table.STREAM_READERS[form](), table.STREAM_WRITERS[client](ASKED[client], now_epoch_s=1)
        out = b"".join(writer.feed(reader.feed(chunk)) for chunk in chunks)
        return out + writer.feed(reader.close())

    whole = translated([data])
    assert whole
    assert translated([data[at : at + 1] for at in range(len(data))]) == whole
    for at in range(1, len(data), 7):
        assert translated([data[:at], data[at:]]) == whole


@pytest.mark.parametrize(("form", "number"), [(form, at) for at, (form, _) in enumerate(STREAMS)])
def test_a_stream_that_is_cut_has_no_end(form: Form, number: int) -> None:
    data = STREAMS[number][1]
    events = read_stream(form, data[: len(data) // 2], 64)
    assert not any(isinstance(event, Ended) for event in events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "role", "content", "id", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)
MEMBERS = (
    "messages", "input", "tools", "tool_choice", "system", "instructions", "response_format", "text", "thinking", "reasoning", "stop",
    "stop_sequences", "max_tokens", "stream", "metadata", "output_config", "n", "functions", "stream_options", "reasoning_effort",
)  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
@given(members=st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=6))
@settings(deadline=None, max_examples=150)
def test_any_body_is_translated_or_refused_by_name(client: Form, members: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", **members}).encode()
    for target in table.REQUEST_WRITERS:
        with contextlib.suppress(Malformed, Untranslatable):
            made = translation(client, target, body, now_epoch_s=1, drops_provider=False, is_openai=True).body("other")
            assert json.loads(made)["model"] == "other"


@pytest.mark.parametrize("form", list(table.STREAM_READERS))
@given(
    chunks=st.lists(
        st.binary(max_size=30) | st.sampled_from([b"data: ", b"event: error\n", b"\n\n", b'{"type":"x"}', b"[DONE]"]), max_size=8
    )
)
@settings(deadline=None, max_examples=100)
def test_no_bytes_break_a_stream_reader(form: Form, chunks: list[bytes]) -> None:
    reader = table.STREAM_READERS[form]()
    for chunk in chunks:
        reader.feed(chunk)
    reader.close()


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(CLIENTS, 2)))
def test_a_conversation_survives_the_way_to_another_form_and_back(first: Form, second: Form) -> None:
    chat = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
            },
            {
                "role": "assistant",
                "content": "Well",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.50}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": "required",
        "temperature": 0.5,
        "max_tokens": 100,
        "stream": True,
    }
    start = table.REQUEST_READERS[Form.CHAT](json.dumps(chat).encode())
    there = table.REQUEST_READERS[first](table.REQUEST_WRITERS[first](start, model="m"))
    back = table.REQUEST_READERS[second](table.REQUEST_WRITERS[second](there, model="m"))
    for request in (there, back):
        assert parts_of(request) == parts_of(start)
        assert (request.tools[0].name, request.tools[0].description) == ("f", "d")
        assert (request.tool_choice, request.temperature, request.max_tokens, request.is_stream) == (start.tool_choice, 0.5, 100, True)


def parts_of(request: Request) -> list[Part]:
    """All parts in order; an image's detail is a hint that Responses always gives."""
    parts = [part for message in request.messages for part in message.parts]
    return [msgspec.structs.replace(part, detail=None) if isinstance(part, Image) else part for part in parts]
