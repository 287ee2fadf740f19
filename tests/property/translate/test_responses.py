"""Properties of the Responses form: nothing is lost that both sides can say, and nothing breaks it."""

import contextlib
import itertools
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.translate.canonical import (
    Answer,
    Audio,
    Data,
    Document,
    Ended,
    Event,
    Form,
    Image,
    Malformed,
    Message,
    OutputFormat,
    Part,
    PartGrew,
    PartSigned,
    PartStarted,
    Raw,
    Reasoning,
    ReasoningWish,
    Refusal,
    Request,
    Started,
    Stopped,
    StopReason,
    Text,
    TokenUsage,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    UsageTold,
)
from gomodel_trio.translate.responses.answers import read_answer, write_answer
from gomodel_trio.translate.responses.reading import read_request
from gomodel_trio.translate.responses.stream_in import StreamReader
from gomodel_trio.translate.responses.stream_out import StreamWriter
from gomodel_trio.translate.responses.writing import write_request
from gomodel_trio.translate.translation import events_of

ASKED = Request(origin=Form.RESPONSES, model="m", messages=())
TEXTS = st.text(alphabet='ab"\\\n\u2028é🤖:', min_size=1, max_size=6)
NAMES = st.text(alphabet="abc_", min_size=1, max_size=4)
JSONS = st.sampled_from([b'{"type":"object"}', b'{"a":[1.50,null]}', b"{}"]).map(Raw)


def perhaps(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


# ---- requests -------------------------------------------------------------------------------------------------------

SOURCES = st.builds(Url, st.just("https://x/y")) | st.builds(Data, st.just("image/png"), st.just("QUJD"))
IMAGES = st.builds(Image, SOURCES, st.sampled_from(["auto", "low"]))
DOCUMENTS = st.builds(Document, st.builds(Data, st.just("application/pdf"), st.just("QUJD")) | st.builds(Text, TEXTS), TEXTS) | st.builds(
    Document, st.builds(Url, st.just("https://x/y"))
)
USER = st.lists(st.builds(Text, TEXTS) | IMAGES | DOCUMENTS | st.builds(Audio, st.just("QUJD"), st.just("wav")), min_size=1, max_size=3)
RESULTS = st.lists(st.builds(ToolResult, NAMES, st.lists(st.builds(Text, TEXTS) | IMAGES, max_size=2).map(tuple)), min_size=1, max_size=3)
THOUGHTS = st.builds(Reasoning, st.text("ab", max_size=3), TEXTS, st.none(), perhaps(NAMES), st.just("openai.responses"))
CALLS = st.builds(ToolCall, NAMES, NAMES, st.sampled_from(["{}", '{"a": 1}', "{broken"]))
MODEL = st.lists(st.builds(Text, TEXTS) | st.builds(Refusal, TEXTS) | CALLS | THOUGHTS, min_size=1, max_size=4)


KINDS: dict[str, tuple[Any, Any]] = {
    "system": ("system", USER),
    "user": ("user", USER),
    "results": ("user", RESULTS),
    "model": ("assistant", MODEL),
}


@st.composite
def _turns(draw: st.DrawFn) -> tuple[Message, ...]:
    """Turns; two that a row of items would make one never follow one another."""
    turns: list[Message] = []
    for kind in draw(st.lists(st.sampled_from(["system", "user", "results", "model"]), max_size=5)):
        role, parts = {"system": ("system", USER), "user": ("user", USER), "results": ("user", RESULTS), "model": ("assistant", MODEL)}[
            kind
        ]
        message = Message(role, tuple(draw(parts)))  # type: ignore[arg-type]
        is_joined = turns and kind in ("results", "model") and type(turns[-1].parts[0]) is type(message.parts[0])
        if not is_joined and not (turns and kind == "model" and turns[-1].role == "assistant"):
            turns.append(message)
    return tuple(turns)


REQUESTS = st.builds(
    Request,
    origin=st.just(Form.RESPONSES),
    model=st.just("t"),
    messages=_turns(),
    is_stream=st.booleans(),
    tools=st.lists(st.builds(Tool, NAMES, perhaps(TEXTS), JSONS, perhaps(st.booleans())), max_size=2).map(tuple),
    tool_choice=perhaps(
        st.builds(ToolChoice, st.sampled_from(["auto", "none", "required"]))
        | st.builds(ToolChoice, st.just("named"), NAMES)
        | st.builds(ToolChoice, st.sampled_from(["auto", "required"]), st.none(), st.lists(NAMES, min_size=1, max_size=2).map(tuple))
    ),
    parallel_tool_calls=perhaps(st.booleans()),
    output=perhaps(st.just(OutputFormat()) | st.builds(OutputFormat, JSONS, NAMES, perhaps(TEXTS), perhaps(st.booleans()))),
    reasoning=perhaps(st.builds(ReasoningWish, st.sampled_from(["none", "low", "xhigh"]), summary=perhaps(st.just("auto")))),
    max_tokens=perhaps(st.integers(16, 99)),
    temperature=perhaps(st.floats(0, 2)),
    top_p=perhaps(st.floats(0, 1)),
    top_logprobs=perhaps(st.integers(0, 5)),
    wants_logprobs=st.booleans(),
    verbosity=perhaps(st.just("low")),
    user=perhaps(NAMES),
    metadata=perhaps(st.just(Raw(b'{"k":"v"}'))),
    cache_key=perhaps(NAMES),
    service_tier=perhaps(st.just("flex")),
    extras=st.dictionaries(st.just("new"), JSONS, max_size=1),
)


def plain(structure: Any) -> Any:
    return json.loads(msgspec.json.encode(structure))


@given(REQUESTS)
@settings(max_examples=80)
def test_a_request_survives_being_written_and_read(request: Request) -> None:
    assert plain(read_request(write_request(request, model="t"))) == plain(request)


# ---- answers and streams --------------------------------------------------------------------------------------------

TOKENS = st.integers(0, 99)
ANSWERS = st.builds(
    Answer,
    id=NAMES.map("resp_{}".format),
    model=NAMES,
    parts=MODEL.map(tuple),
    stop=st.sampled_from([StopReason.END, StopReason.MAX_TOKENS]),
    usage=perhaps(st.builds(TokenUsage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)),
    created_s=st.integers(1, 99),
    service_tier=st.none(),
)


def collected(events: list[Event]) -> Answer:
    """The whole answer that events tell."""
    parts: dict[int, Part] = {}
    answer = Answer(id="", model="", parts=())
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Ended)
    for event in events:
        match event:
            case Started():
                answer = msgspec.structs.replace(answer, id=event.id, model=event.model, created_s=event.created_s)
            case PartStarted():
                parts[event.index] = event.part
            case PartGrew():
                part = parts[event.index]
                name = "arguments" if isinstance(part, ToolCall) else "text"
                parts[event.index] = msgspec.structs.replace(part, **{name: getattr(part, name) + event.text})
            case PartSigned():
                parts[event.index] = msgspec.structs.replace(parts[event.index], signature=event.signature, redacted=event.redacted)
            case Stopped():
                answer = msgspec.structs.replace(answer, stop=event.stop)
            case UsageTold():
                answer = msgspec.structs.replace(answer, usage=event.usage)
    return msgspec.structs.replace(answer, parts=tuple(parts.values()), service_tier="default")


@given(ANSWERS)
@settings(max_examples=80)
def test_a_stream_says_what_the_whole_answer_says(answer: Answer) -> None:
    whole = read_answer(write_answer(answer, asked=ASKED, now_epoch_s=1))
    reader = StreamReader()
    streamed = reader.feed(StreamWriter(ASKED, now_epoch_s=1).feed(events_of(answer)))
    assert plain(collected(streamed + reader.close())) == plain(whole)
    assert [part for part in whole.parts if not isinstance(part, Reasoning)] == [
        part for part in answer.parts if not isinstance(part, Reasoning)
    ]
    assert whole.usage == answer.usage


@given(ANSWERS, st.data())
@settings(max_examples=50)
def test_a_stream_says_the_same_in_whatever_pieces_it_comes(answer: Answer, data: st.DataObject) -> None:
    stream = StreamWriter(ASKED, now_epoch_s=1).feed(events_of(answer))
    at_once, split = StreamReader(), StreamReader()
    expected = at_once.feed(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    bounds = [0, *cuts, len(stream)]
    found = [event for start, end in itertools.pairwise(bounds) for event in split.feed(stream[start:end])]
    assert found == expected


def test_a_stream_says_the_same_byte_by_byte() -> None:
    answer = Answer(id="r", model="m", parts=(Reasoning("é", signature="s"), Text("🤖"), ToolCall("c", "f", "{}")))
    stream = StreamWriter(ASKED, now_epoch_s=1).feed(events_of(answer))
    at_once, split = StreamReader(), StreamReader()
    assert [event for at in range(len(stream)) for event in split.feed(stream[at : at + 1])] == at_once.feed(stream)


# ---- whatever comes -------------------------------------------------------------------------------------------------

WORDS = [
    "type", "role", "id", "model", "input", "content", "text", "output", "message", "function_call", "function_call_output",
    "reasoning", "summary", "encrypted_content", "call_id", "name", "arguments", "item_reference", "input_text", "output_text",
    "input_image", "input_file", "refusal", "image_url", "file_data", "tools", "tool_choice", "function", "namespace",
    "allowed_tools", "mode", "format", "json_schema", "schema", "include", "user", "assistant", "response", "item", "delta",
    "part", "output_index", "content_index", "error", "status", "response.created", "response.output_item.added",
    "response.output_item.done", "response.output_text.delta", "response.output_text.done",
    "response.function_call_arguments.delta", "response.reasoning_summary_text.delta", "response.content_part.added",
    "response.completed", "response.failed", "error", "usage", "created_at", "logprobs", "incomplete_details",
    "data:text/plain;base64,x", "gomodel:a:signature:b",
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from([1e300, 0.5]) | st.sampled_from([*WORDS, "", "\ud800"])
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3), max_leaves=6
)
ITEMS = st.dictionaries(st.sampled_from(WORDS), TREES, max_size=4)


@given(ITEMS, st.lists(ITEMS, max_size=4) | TREES)
@settings(max_examples=100)
def test_any_json_is_read_or_malformed(body: dict[str, Any], items: Any) -> None:
    with contextlib.suppress(Malformed):
        read_request(json.dumps({"model": "m", **body, "input": items}).encode())


@given(ITEMS, st.lists(ITEMS, max_size=4))
@settings(max_examples=100)
def test_any_json_is_an_answer_or_none(body: dict[str, Any], output: list[Any]) -> None:
    with contextlib.suppress(ValueError):
        write_answer(read_answer(json.dumps({**body, "output": output}).encode()), asked=ASKED, now_epoch_s=1)


@given(st.lists(st.builds(lambda kind, rest: {**rest, "type": kind}, st.sampled_from(WORDS), ITEMS), max_size=8))
@settings(max_examples=100)
def test_any_events_are_read_and_written(events: list[dict[str, Any]]) -> None:
    reader, writer = StreamReader(), StreamWriter(ASKED, now_epoch_s=1)
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    for line in writer.feed(reader.feed(stream) + reader.close()).split(b"\n"):
        if line.startswith(b"data: "):
            json.loads(line.removeprefix(b"data: "))
    assert reader.parse_errors == 0
