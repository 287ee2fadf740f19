"""The Responses form: what is read, what is written, what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gomodel_trio.translate.canonical import (
    Answer,
    Data,
    Document,
    FileId,
    Form,
    Image,
    Malformed,
    Message,
    OutputFormat,
    Reasoning,
    ReasoningWish,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Untranslatable,
)
from gomodel_trio.translate.responses.answers import read_answer, write_answer
from gomodel_trio.translate.responses.reading import read_request
from gomodel_trio.translate.responses.stream_in import StreamReader
from gomodel_trio.translate.responses.writing import write_request

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/translate/responses.json").read_text())
ASKED = Request(origin=Form.RESPONSES, model="m", messages=())


def told(tree: Any) -> Any:
    """What a structure says: without what is null, false or empty."""
    if isinstance(tree, msgspec.Struct):
        tree = json.loads(msgspec.json.encode(tree))
    if isinstance(tree, dict):
        said = {name: told(value) for name, value in tree.items()}
        return {name: value for name, value in said.items() if value not in (None, False, "", 0, [], {}) or value is True}
    return [told(value) for value in tree] if isinstance(tree, list) else tree


def named(kind: str) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.get("name", str(at))) for at, case in enumerate(VECTORS[kind])])


def body_of(case: dict[str, Any]) -> bytes:
    return json.dumps(case["body"]).encode()


@named("reads")
def test_a_request_is_read(case: dict[str, Any]) -> None:
    request = json.loads(msgspec.json.encode(read_request(body_of(case))))
    found = {name: request[name] if request[name] in (None, False) else told(request[name]) for name in case["reads"]}
    assert found == case["reads"]


@named("reads")
def test_what_is_read_without_wants_is_translatable(case: dict[str, Any]) -> None:
    assert read_request(body_of(case)).wants == ()


@named("wants")
def test_what_another_form_has_not_is_noted_by_its_path(case: dict[str, Any]) -> None:
    assert [[want.field, want.feature] for want in read_request(body_of(case)).wants] == case["wants"]


@named("malformed")
def test_a_wrong_shape_is_named(case: dict[str, Any]) -> None:
    with pytest.raises(Malformed) as raised:
        read_request(body_of(case))
    assert raised.value.field == case["field"]
    assert raised.value.message.startswith(case["field"] or "the body")


@named("writes")
def test_a_request_is_written(case: dict[str, Any]) -> None:
    request = msgspec.structs.replace(read_request(body_of(case)), origin=Form(case["origin"]))
    assert json.loads(write_request(request, model="t")) == case["written"]


@named("untranslatable")
def test_a_loss_is_refused_by_the_clients_field(case: dict[str, Any]) -> None:
    request = msgspec.structs.replace(read_request(body_of(case)), origin=Form(case["origin"]))
    with pytest.raises(Untranslatable) as raised:
        write_request(request, model="t")
    assert raised.value.field == case["field"]


@named("answers")
def test_an_answer_is_read(case: dict[str, Any]) -> None:
    assert told(read_answer(body_of(case))) == case["answer"]


@named("streams")
def test_a_stream_is_read(case: dict[str, Any]) -> None:
    reader = StreamReader()
    events = reader.feed("".join(f"data: {json.dumps(event)}\n\n" for event in case["events"]).encode())
    assert told([json.loads(msgspec.json.encode(event)) for event in events + reader.close()]) == case["told"]
    assert reader.parse_errors == 0


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"output": 1}', b'{"output": [], "status": "failed"}'])
def test_what_is_no_answer_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="response"):
        read_answer(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"model":"m","input":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"model":"m","input":NaN}']
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_request(body)


def test_lone_surrogates_and_broken_utf_8_become_replacement_characters() -> None:
    request = read_request(b'{"model":"m","input":"a\\ud800b\xffc"}')
    assert request.messages == (Message("user", (Text("a\ufffdb\ufffdc"),)),)


def test_a_schema_keeps_its_spelling() -> None:
    request = read_request(b'{"model":"m","input":"a","tools":[{"type":"function","name":"f","parameters":{"x" : 1.50}}]}')
    assert b'"parameters":{"x" : 1.50}' in write_request(request, model="t")


def test_a_request_from_elsewhere_says_all_that_the_form_can() -> None:
    request = Request(
        origin=Form.MESSAGES,
        model="m",
        messages=(Message("user", (ToolResult("c", (Text("a"), Image(FileId("f")))),)),),
    )
    with pytest.raises(Untranslatable) as raised:
        write_request(request, model="t")
    assert raised.value.field == "messages[0].content"
    whole = Request(
        origin=Form.CHAT,
        model="m",
        messages=(Message("user", (Document(Text("hi")), Document(Text("ho"), title="t.txt"))),),
        is_stream=True,
        tool_choice=ToolChoice("auto", allowed=("f",)),
        output=OutputFormat(),
        verbosity="low",
        wants_logprobs=True,
        top_logprobs=3,
        service_tier="flex",
        metadata=msgspec.Raw(b'{"k":"v"}'),
    )
    written = json.loads(write_request(whole, model="t"))
    content = written.pop("input")[0]["content"]
    assert [(part["filename"], part["file_data"]) for part in content] == [
        ("document.txt", "data:text/plain;base64,aGk="),
        ("t.txt", "data:text/plain;base64,aG8="),
    ]
    assert written == {
        "model": "t",
        "store": False,
        "stream": True,
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 3,
        "service_tier": "flex",
        "metadata": {"k": "v"},
    }


@pytest.mark.parametrize(
    ("wish", "written"),
    [
        (ReasoningWish(effort="max"), {"effort": "xhigh"}),
        (ReasoningWish(budget_tokens=8_000), {"effort": "medium"}),
        (ReasoningWish(budget_tokens=8_000, summary="summarized"), {"effort": "medium", "summary": "auto"}),
        (ReasoningWish(is_disabled=True), None),
        (ReasoningWish(is_adaptive=True, summary="omitted"), None),
        (ReasoningWish(effort="none"), {"effort": "none"}),
    ],
)
def test_a_wish_to_think_is_written_in_words(wish: ReasoningWish, written: dict[str, str] | None) -> None:
    request = Request(origin=Form.MESSAGES, model="m", messages=(), reasoning=wish)
    assert json.loads(write_request(request, model="t")).get("reasoning") == written


def written_answer(answer: Answer, asked: Request = ASKED) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_answer(answer, asked=asked, now_epoch_s=77))
    return found


def test_an_answer_names_its_items_after_its_id() -> None:
    parts = (Reasoning("t"), Text("a"), Text("b"), ToolCall("c", "f", ""))
    response = written_answer(Answer(id="chatcmpl-9", model="x", parts=parts, stop=StopReason.TOOL_CALLS))
    assert response["id"] == "resp_9"
    assert response["created_at"] == 77
    assert [(item["id"], item["type"]) for item in response["output"]] == [
        ("rs_9_0", "reasoning"),
        ("msg_9_1", "message"),
        ("fc_9_2", "function_call"),
    ]
    assert [part["text"] for part in response["output"][1]["content"]] == ["a", "b"]
    assert response["output"][2]["arguments"] == "{}"
    assert response["status"] == "completed"


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        (StopReason.END, "completed", None),
        (StopReason.STOP_SEQUENCE, "completed", None),
        (StopReason.PAUSE, "completed", None),
        (StopReason.MAX_TOKENS, "incomplete", "max_output_tokens"),
        (StopReason.REFUSAL, "incomplete", "content_filter"),
    ],
)
def test_the_stop_reason_is_the_status(stop: StopReason, status: str, reason: str | None) -> None:
    response = written_answer(Answer(id="r", model="m", parts=(ToolCall("c", "f", "{}"), Text("a")), stop=stop))
    assert response["status"] == status
    assert (response["incomplete_details"] or {}).get("reason") == reason
    assert [item["status"] for item in response["output"]] == ["completed", status]


def test_a_call_of_a_namespace_is_taken_apart_again() -> None:
    asked = read_request(body_of(next(case for case in VECTORS["reads"] if "flattened" in case["name"])))
    (item,) = written_answer(Answer(id="r", model="m", parts=(ToolCall("c", "crm__find", "{}"),)), asked)["output"]
    assert (item["namespace"], item["name"]) == ("crm", "find")


def test_another_providers_signature_is_sealed_and_comes_back() -> None:
    parts = (Reasoning("a", signature="s:=", origin="anthropic.messages"), Reasoning("", redacted="r", origin="anthropic.messages"))
    response = written_answer(Answer(id="r", model="m", parts=parts))
    request = read_request(json.dumps({"model": "m", "input": response["output"]}).encode())
    (message,) = request.messages
    assert [msgspec.structs.replace(part, id=None) for part in message.parts if isinstance(part, Reasoning)] == list(parts)


def test_strings_that_utf_8_cannot_carry_do_not_break_an_answer() -> None:
    (item,) = written_answer(Answer(id="r", model="m", parts=(Text("a\ud800"),)))["output"]
    assert item["content"][0]["text"] == "a\ufffd"


def test_logprobs_survive() -> None:
    logprobs = [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]
    content = [{"type": "output_text", "text": "a", "logprobs": logprobs}, {"type": "of_the_future"}, 5]
    answer = read_answer(json.dumps({"output": [{"type": "message", "content": content}, "x"]}).encode())
    (item,) = written_answer(answer)["output"]
    assert [(part["text"], part["logprobs"]) for part in item["content"]] == [("a", logprobs)]


def test_logprobs_that_utf_8_cannot_carry_are_left_out() -> None:
    content = [{"type": "output_text", "text": "a", "logprobs": [{"token": "\ud800"}]}]
    assert read_answer(json.dumps({"output": [{"type": "message", "content": content}]}).encode()).parts == (Text("a"),)


def test_a_text_file_that_is_none_stays_data() -> None:
    part = {"type": "input_file", "file_data": "data:text/plain;base64,/w=="}
    (message,) = read_request(json.dumps({"model": "m", "input": [{"role": "user", "content": [part]}]}).encode()).messages
    assert message.parts == (Document(Data("text/plain", "/w==")),)
