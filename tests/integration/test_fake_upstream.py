"""The fake upstream is what it claims to be: the official SDKs accept all it says, and it does as it is told."""

import json
from collections.abc import Iterator

import anthropic
import openai
import pydantic
import pytest
import trio

from support import openai_replies
from support.conversation import TEXT
from support.fake_upstream import FakeUpstream, open_here
from support.raw_http import Connection, ConnectionEnded, exchange, sse_data
from support.replies import (
    Reply,
    anthropic_error,
    close_before_head,
    json_reply,
    openai_error,
    reset_before_head,
    sse_reply,
)

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
RESPONSES_TOOL = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}
MESSAGES_TOOL = {"name": "get_weather", "input_schema": WEATHER}
USER = {"role": "user", "content": "hi"}
ASK_WEATHER = {"role": "user", "content": "Use get_weather please."}


class Step(pydantic.BaseModel):
    """A structured output."""

    title: str
    done: bool
    parts: list[int]


@pytest.fixture
def openai_client(upstream: FakeUpstream) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=f"{upstream.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(upstream: FakeUpstream) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="k", base_url=upstream.url, max_retries=0) as client:
        yield client


# ---- the official SDKs ----------------------------------------------------------------------------------------------


def test_openai_chat_whole_and_streamed(openai_client: openai.OpenAI) -> None:
    whole = openai_client.chat.completions.create(model="m", messages=[USER])
    assert (whole.model, whole.choices[0].message.content, whole.choices[0].finish_reason) == ("m", TEXT, "stop")
    with openai_client.chat.completions.create(model="m", messages=[USER], stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 18


def test_openai_chat_calls_tools_whole_and_streamed(openai_client: openai.OpenAI) -> None:
    whole = openai_client.chat.completions.create(model="m", messages=[ASK_WEATHER], tools=[CHAT_TOOL])
    calls = whole.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls] == [{"city": "text", "days": 1}]
    with openai_client.chat.completions.stream(model="m", messages=[ASK_WEATHER], tools=[CHAT_TOOL]) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    assert json.loads(final.choices[0].message.tool_calls[0].function.arguments) == {"city": "text", "days": 1}


def test_a_tool_is_not_called_again_after_its_result(openai_client: openai.OpenAI) -> None:
    first = openai_client.chat.completions.create(model="m", messages=[ASK_WEATHER], tools=[CHAT_TOOL])
    message = first.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    second = openai_client.chat.completions.create(model="m", messages=[ASK_WEATHER, message.to_dict(), result], tools=[CHAT_TOOL])
    assert second.choices[0].message.content == TEXT


def test_openai_chat_structured_output(openai_client: openai.OpenAI) -> None:
    parsed = openai_client.chat.completions.parse(model="m", messages=[USER], response_format=Step)
    assert parsed.choices[0].message.parsed == Step(title="text", done=True, parts=[1])


def test_openai_responses_whole_streamed_and_structured(openai_client: openai.OpenAI) -> None:
    assert openai_client.responses.create(model="m", input="hi").output_text == TEXT
    with openai_client.responses.stream(model="m", input="hi") as stream:
        events = [event.type for event in stream]
        assert stream.get_final_response().output_text == TEXT
    assert (events[0], events[-1]) == ("response.created", "response.completed")
    assert openai_client.responses.parse(model="m", input="hi", text_format=Step).output_parsed == Step(title="text", done=True, parts=[1])


def test_openai_responses_calls_tools_whole_and_streamed(openai_client: openai.OpenAI) -> None:
    asked = "Use get_weather please."
    whole = openai_client.responses.create(model="m", input=asked, tools=[RESPONSES_TOOL])
    assert [(item.type, json.loads(item.arguments)) for item in whole.output] == [("function_call", {"city": "text", "days": 1})]
    with openai_client.responses.stream(model="m", input=asked, tools=[RESPONSES_TOOL]) as stream:
        final = stream.get_final_response()
    assert [item.name for item in final.output] == ["get_weather"]


def test_openai_embeddings_and_models(openai_client: openai.OpenAI) -> None:
    result = openai_client.embeddings.create(model="m", input=["a", "b"])
    assert [row.embedding for row in result.data] == [[0.5, -0.25, 0.125]] * 2
    floats = openai_client.embeddings.create(model="m", input=[1, 2, 3], encoding_format="float")
    assert [row.embedding for row in floats.data] == [[0.5, -0.25, 0.125]]
    assert [model.id for model in openai_client.models.list()] == list(openai_replies.MODELS)
    assert openai_client.models.retrieve("gpt-5.1").id == "gpt-5.1"


def test_anthropic_messages_whole_and_streamed(anthropic_client: anthropic.Anthropic) -> None:
    whole = anthropic_client.messages.create(model="m", max_tokens=9, messages=[USER])
    assert (whole.content[0].text, whole.stop_reason, whole.usage.output_tokens) == (TEXT, "end_turn", 7)
    with anthropic_client.messages.stream(model="m", max_tokens=9, messages=[USER]) as stream:
        assert "".join(stream.text_stream) == TEXT
        assert stream.get_final_message().stop_reason == "end_turn"


def test_anthropic_messages_thinks_and_calls_tools(anthropic_client: anthropic.Anthropic) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked = {"model": "m", "max_tokens": 2048, "messages": [ASK_WEATHER], "tools": [MESSAGES_TOOL], "thinking": thinking}
    whole = anthropic_client.messages.create(**asked)
    assert [block.type for block in whole.content] == ["thinking", "tool_use"]
    with anthropic_client.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert final.content[1].input == {"city": "text", "days": 1}
    assert final.stop_reason == "tool_use"


def test_anthropic_structured_output_counts_and_models(anthropic_client: anthropic.Anthropic) -> None:
    parsed = anthropic_client.messages.parse(model="m", max_tokens=9, messages=[USER], output_format=Step)
    assert parsed.parsed_output == Step(title="text", done=True, parts=[1])
    assert anthropic_client.messages.count_tokens(model="m", messages=[USER]).input_tokens > 1
    assert [model.id for model in anthropic_client.models.list()] == ["claude-opus-4-6", "claude-haiku-4-5"]
    assert anthropic_client.models.retrieve("claude-haiku-4-5").id == "claude-haiku-4-5"


def test_errors_and_compression_are_what_the_sdks_expect(
    upstream: FakeUpstream, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    upstream.answer(openai_error(429, "slow down", "rate_limit_exceeded", headers=(("retry-after", "7"),)))
    with pytest.raises(openai.RateLimitError) as limited:
        openai_client.chat.completions.create(model="m", messages=[USER])
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "7")
    upstream.answer(anthropic_error(529, "overloaded_error"))
    with pytest.raises(anthropic.APIStatusError) as overloaded:
        anthropic_client.messages.create(model="m", max_tokens=9, messages=[USER])
    assert overloaded.value.status_code == 529
    body = {"model": "m", "messages": [USER]}
    upstream.answer(openai_replies.chat(body).gzipped(), openai_replies.chat({**body, "stream": True}).gzipped())
    assert openai_client.chat.completions.create(**body).choices[0].message.content == TEXT
    with openai_client.chat.completions.create(**body, stream=True) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == TEXT


# ---- doing as told --------------------------------------------------------------------------------------------------


def test_a_request_is_recorded_exactly(upstream: FakeUpstream) -> None:
    body = b'{"model": "m",\n "n":1.0}'
    answer = exchange(upstream.port, "POST", "/v1/responses?x=%20y", headers=[("X-Odd", "a  b"), ("x-odd", "c")], body=body)
    assert answer.status == 200
    (request,) = upstream.requests
    assert (request.number, request.connection, request.method, request.version) == (1, 1, "POST", "HTTP/1.1")
    assert (request.target, request.path, request.body) == ("/v1/responses?x=%20y", "/v1/responses", body)
    assert request.headers[1:3] == ((b"X-Odd", b"a  b"), (b"x-odd", b"c"))


def test_a_chunked_body_after_100_continue_is_recorded(upstream: FakeUpstream) -> None:
    with Connection(upstream.port) as connection:
        connection.send(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(b'5\r\n{"a":\r\n2;ext=1\r\n1}\r\n0\r\nTrailer: t\r\n\r\n')
        assert connection.read_answer().status == 200
    assert upstream.requests[0].body == b'{"a":1}'


def test_queued_replies_come_first_then_the_rule_then_the_lasting_one_then_the_default(upstream: FakeUpstream) -> None:
    upstream.answer(openai_error(500), path="/embeddings")
    upstream.answer(openai_error(501))
    upstream.always(openai_error(503))
    upstream.rule = lambda request: openai_error(502) if request.header("x-rule") else None
    statuses = [
        exchange(upstream.port, "GET", "/v1/models").status,
        exchange(upstream.port, "GET", "/v1/models", headers={"x-rule": "1"}).status,
        exchange(upstream.port, "GET", "/v1/models").status,
        exchange(upstream.port, "POST", "/v1/embeddings", body={}).status,
    ]
    upstream.always(None)
    assert [*statuses, exchange(upstream.port, "GET", "/v1/models").status] == [501, 502, 503, 500, 200]


def test_connections_are_kept_and_counted(upstream: FakeUpstream) -> None:
    with Connection(upstream.port) as connection:
        for _ in range(3):
            connection.request("GET", "/v1/models")
            assert connection.read_answer().is_complete
        assert (upstream.accepted_connections, upstream.open_connections) == (1, 1)
    upstream.wait_until(lambda fake: fake.open_connections == 0)
    assert [request.connection for request in upstream.requests] == [1, 1, 1]


@pytest.mark.parametrize("ending", ["fin", "reset"])
def test_a_stream_is_cut_as_told(upstream: FakeUpstream, ending: str) -> None:
    reply = sse_reply([b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"])
    upstream.answer(reply.cut_after(2, "fin" if ending == "fin" else "reset"))
    with Connection(upstream.port) as connection:
        connection.request("POST", "/v1/responses", body={})
        connection.read_head()
        with pytest.raises(ConnectionEnded) as ended:
            connection.read_rest() if ending == "reset" else [connection.read_chunk() for _ in range(3)]
    assert ended.value.was_reset == (ending == "reset")
    upstream.wait_until(lambda fake: fake.exchanges[0].ending == "cut")


def test_pieces_come_one_by_one_with_their_waits(upstream: FakeUpstream) -> None:
    upstream.answer(sse_reply([b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]).slowed(0.02).held(0.02))
    answer = exchange(upstream.port, "POST", "/v1/responses", body={})
    assert sse_data(answer.body) == ["1", "2", "3"]
    at_s = [moment for moment, _ in answer.chunks]
    assert 0.02 <= at_s[0] <= at_s[1] - 0.015 <= at_s[2] - 0.03


def test_a_stall_and_a_hold_end_when_the_client_leaves(upstream: FakeUpstream) -> None:
    upstream.answer(sse_reply([b"data: 1\n\n"]).cut_after(1, "stall"), json_reply({}).held())
    for _ in range(2):
        with Connection(upstream.port) as connection:
            connection.request("POST", "/v1/responses", body={})
            upstream.wait_until(lambda fake: fake.running == 1)
    upstream.wait_until(lambda fake: fake.client_closes == 2 and fake.open_connections == 0)
    assert [e.ending for e in upstream.exchanges] == ["client_closed", "client_closed"]
    assert upstream.exchanges[1].sent_bytes == 0


def test_a_client_that_resets_is_seen(upstream: FakeUpstream) -> None:
    upstream.answer(json_reply({}).held())
    connection = Connection(upstream.port)
    connection.request("POST", "/v1/responses", body={})
    upstream.wait_until(lambda fake: fake.running == 1)
    connection.reset()
    upstream.wait_until(lambda fake: fake.client_closes == 1)


@pytest.mark.parametrize(("reply", "was_reset"), [(reset_before_head(), True), (close_before_head(), False)])
def test_a_connection_ends_before_the_head(upstream: FakeUpstream, reply: Reply, was_reset: bool) -> None:
    upstream.answer(reply)
    with pytest.raises(ConnectionEnded) as ended:
        exchange(upstream.port, "GET", "/v1/models")
    assert (ended.value.was_reset, ended.value.received) == (was_reset, b"")


def test_a_wrong_length_and_a_close_delimited_body(upstream: FakeUpstream) -> None:
    upstream.answer(Reply(pieces=(b"abc",), declared_length=10, ending="fin"), Reply(pieces=(b"abc", b"def"), framing="close"))
    short = exchange(upstream.port, "GET", "/x")
    assert (short.body, short.is_complete, short.get("content-length")) == (b"abc", False, "10")
    delimited = exchange(upstream.port, "GET", "/x")
    assert (delimited.body, delimited.is_complete, delimited.get("content-length")) == (b"abcdef", True, None)


async def test_it_also_runs_in_the_loop_of_the_test() -> None:
    async with open_here() as upstream:
        upstream.answer(json_reply({}).held())
        stream = await trio.open_tcp_stream("127.0.0.1", upstream.port)
        await stream.send_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        await upstream.until(lambda fake: fake.running == 1)
        await stream.aclose()
        await upstream.until(lambda fake: fake.client_closes == 1 and fake.open_connections == 0)


def test_two_hundred_connections_at_once(upstream: FakeUpstream) -> None:
    upstream.always(json_reply({}).held())
    connections = [Connection(upstream.port) for _ in range(200)]
    for connection in connections:
        connection.request("GET", "/x")
    upstream.wait_until(lambda fake: fake.running == 200)
    for connection in connections:
        connection.close()
    upstream.wait_until(lambda fake: fake.client_closes == 200 and fake.open_connections == 0)
