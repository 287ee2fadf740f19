"""Responses streams as the official SDK takes them."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gomodel_trio.translate.canonical import (
    Answer,
    Ended,
    Event,
    Failed,
    Form,
    PartEnded,
    PartGrew,
    PartStarted,
    Pinged,
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
    UsageTold,
)
from gomodel_trio.translate.responses.answers import write_answer
from gomodel_trio.translate.responses.stream_in import StreamReader
from gomodel_trio.translate.responses.stream_out import StreamWriter
from gomodel_trio.translate.translation import events_of

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ASKED = Request(
    origin=Form.RESPONSES,
    model="m",
    messages=(),
    tools=(Tool("f", "d", Raw(b'{"type":"object"}')), Tool("n__g")),
    namespaced={"n__g": ("n", "g")},
    tool_choice=ToolChoice("auto", allowed=("f",)),
    reasoning=ReasoningWish(effort="high", summary="auto"),
    max_tokens=9,
    metadata=Raw(b'{"k":"v"}'),
)
LOGPROBS = Raw(b'[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1,"bytes":[98]}]}]')
ANSWER = Answer(
    id="msg_1",
    model="x",
    parts=(
        Reasoning("I think", signature="s", origin="anthropic.messages"),
        Text("Hello", logprobs=LOGPROBS),
        Text("World"),
        ToolCall("c1", "f", '{"a": 1}'),
        ToolCall("c2", "n__g", ""),
    ),
    stop=StopReason.TOOL_CALLS,
    usage=TokenUsage(10, 20, 4, 1, 5),
    created_s=3,
)


def stream_of(events: Sequence[Event]) -> bytes:
    return StreamWriter(ASKED, now_epoch_s=7).feed(events)


def events_in(stream: bytes) -> list[dict[str, Any]]:
    """The events' data; each has its type for its name."""
    found = []
    for event in stream.decode().split("\n\n")[:-1]:
        if not event.startswith(":"):
            name, data = event.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


def client(body: bytes, content_type: str = "text/event-stream") -> openai.OpenAI:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": content_type}, content=body))
    return openai.OpenAI(api_key="k", base_url="http://gateway/v1", max_retries=0, http_client=httpx2.Client(transport=transport))


@pytest.mark.parametrize("stop", list(StopReason))
def test_each_event_is_what_the_sdk_knows_by_its_type(stop: StopReason) -> None:
    events = events_in(stream_of(events_of(Answer(id="r", model="m", parts=(*ANSWER.parts, Refusal("No")), stop=stop))))
    for number, event in enumerate(events):
        assert EVENT.validate_python(event).type == event["type"]
        assert event["sequence_number"] == number


def test_a_whole_answer_is_what_the_sdk_knows() -> None:
    body = write_answer(ANSWER, asked=ASKED, now_epoch_s=7)
    Response.model_validate_json(body)
    response = client(body, "application/json").responses.create(model="m", input="x")
    assert response.output_text == "HelloWorld"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (10, 30)
    assert (response.usage.input_tokens_details.cached_tokens, response.usage.output_tokens_details.reasoning_tokens) == (4, 5)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]


def test_the_sdk_collects_a_stream_to_the_same_answer() -> None:
    with client(stream_of(events_of(ANSWER))).responses.stream(model="m", input="x") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    whole = json.loads(write_answer(ANSWER, asked=ASKED, now_epoch_s=7))
    assert json.loads(final.model_dump_json(exclude_unset=True, exclude={"output": {"__all__": {"parsed_arguments", "content"}}})) == {
        **whole,
        "created_at": 3.0,
        "output": [{name: value for name, value in item.items() if name != "content"} for item in whole["output"]],
    }
    assert final.output_text == "HelloWorld"
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"


def test_the_order_of_events_is_openais() -> None:
    events = events_in(stream_of(events_of(ANSWER)))
    assert [(event["type"].removeprefix("response."), event.get("output_index")) for event in events] == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("reasoning_summary_part.added", 0),
        ("reasoning_summary_text.delta", 0),
        ("reasoning_summary_text.done", 0),
        ("reasoning_summary_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("output_item.done", 1),
        ("output_item.added", 2),
        ("function_call_arguments.delta", 2),
        ("function_call_arguments.done", 2),
        ("output_item.done", 2),
        ("output_item.added", 3),
        ("function_call_arguments.delta", 3),
        ("function_call_arguments.done", 3),
        ("output_item.done", 3),
        ("completed", None),
    ]
    ids = {event["output_index"]: event["item"]["id"] for event in events if event["type"] == "response.output_item.added"}
    assert all(event["item_id"] == ids[event["output_index"]] for event in events if "item_id" in event)
    assert [event["content_index"] for event in events if event["type"] == "response.output_text.delta"] == [0, 1]


def test_calls_side_by_side_keep_their_items() -> None:
    stream = stream_of(
        [
            Started("r", "m"),
            PartStarted(0, ToolCall("a", "f", "")),
            PartStarted(1, ToolCall("b", "f", "")),
            PartGrew(0, "{"),
            PartGrew(1, "{}"),
            PartGrew(0, "}"),
            PartEnded(0),
            PartEnded(1),
            Stopped(StopReason.TOOL_CALLS),
            Ended(),
        ]
    )
    with client(stream).responses.stream(model="m", input="x") as found:
        deltas = [(event.output_index, event.delta) for event in found if event.type == "response.function_call_arguments.delta"]
        calls = [(item.call_id, item.arguments) for item in found.get_final_response().output if item.type == "function_call"]
    assert deltas == [(0, "{"), (1, "{}"), (0, "}")]
    assert calls == [("a", "{}"), ("b", "{}")]


def test_usage_behind_the_stop_counts_and_nothing_follows_the_end() -> None:
    writer = StreamWriter(ASKED, now_epoch_s=7)
    told = [Started("r", "m", TokenUsage(1)), Stopped(StopReason.END), UsageTold(TokenUsage(1, 2)), Ended()]
    *_, last = events_in(writer.feed(told))
    assert last["response"]["usage"]["total_tokens"] == 3
    assert writer.feed([Ended(), Pinged(), Failed(500, "x")]) == b""


def test_what_was_cut_is_incomplete_in_its_last_item() -> None:
    answer = Answer(id="r", model="m", parts=(Text("a"), ToolCall("c", "f", "{")), stop=StopReason.MAX_TOKENS)
    events = events_in(stream_of(events_of(answer)))
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    done = [event["item"]["status"] for event in events if event["type"] == "response.output_item.done"]
    assert done == [item["status"] for item in events[-1]["response"]["output"]] == ["completed", "incomplete"]


def test_parts_left_open_are_closed_at_the_end_and_a_start_is_made_up() -> None:
    events = events_in(stream_of([PartStarted(0, Text("")), PartGrew(0, "a"), Ended()]))
    assert [event["type"] for event in events].count("response.output_item.done") == 1
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a"
    assert events[-1]["response"]["id"] == "resp_7"


def test_a_failure_is_raised_by_the_sdk_and_told_as_a_failed_response() -> None:
    begun: list[Event] = [Started("r", "m"), PartStarted(0, Text("")), PartGrew(0, "a")]
    stream = stream_of([*begun, Failed(429, "slow down", "rate_limit_exceeded")])
    *_, error, failed = events_in(stream)
    assert failed["sequence_number"] == error["sequence_number"] + 1
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert failed["response"]["output"][0]["content"][0]["text"] == "a"
    with pytest.raises(openai.APIError, match="slow down"):
        list(client(stream).responses.create(model="m", input="x", stream=True))


def test_a_failure_before_the_start_is_the_error_alone() -> None:
    (error,) = events_in(stream_of([Failed(500, "broken")]))
    assert (error["type"], error["sequence_number"]) == ("error", 0)


def test_pings_are_comments_that_the_sdk_passes_over() -> None:
    stream = stream_of([Started("r", "m"), Pinged(), Stopped(StopReason.END), Pinged(), Ended()])
    assert stream.count(b": ping\n\n") == 2
    kinds = [event.type for event in client(stream).responses.create(model="m", input="x", stream=True)]
    assert kinds == ["response.created", "response.in_progress", "response.completed"]


def test_malformed_events_are_skipped_and_counted() -> None:
    reader = StreamReader()
    events = reader.feed(b'data: {\n\ndata: [1]\n\ndata: {"type":"response.output_text.delta","delta":"a"}\n\ndata: [DONE]\n\n')
    assert [type(event) for event in events] == [Started, PartStarted, PartGrew]
    assert reader.parse_errors == 2


def test_a_last_event_without_its_blank_line_counts() -> None:
    reader = StreamReader()
    assert reader.feed(b'event: response.completed\ndata: {"response":{"id":"r"}}') == []
    assert [type(event) for event in reader.close()] == [Started, Stopped, Ended]


def test_what_comes_twice_is_told_once() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "E"}
    message = {"type": "message", "content": [{"type": "output_text", "text": "a"}, {"type": "of_the_future"}]}
    told: list[dict[str, Any]] = [
        {"type": "response.output_item.done", "output_index": at, "item": whole} for at, whole in ((0, item), (1, message))
    ]
    late = {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "b"}
    empty = {"type": "response.output_item.done", "output_index": 2, "item": {"type": "reasoning", "summary": []}}
    reader = StreamReader()
    events = reader.feed("".join(f"data: {json.dumps(event)}\n\n" for event in [*told, *told, late, empty]).encode())
    assert [event.text for event in events if isinstance(event, PartGrew)] == ["t", "a"]
    assert len([event for event in events if isinstance(event, PartStarted)]) == 2
    assert len([event for event in events if isinstance(event, PartEnded)]) == 2
