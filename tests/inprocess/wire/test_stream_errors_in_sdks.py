"""The official SDKs raise our in-stream errors as their own API errors, with our words."""

import anthropic
import httpx2
import openai
import pytest

from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.faults import error_body, stream_error_event

CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
DELTA = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"item_id":"i","output_index":0,'
    b'"content_index":0,"delta":"a","logprobs":[]}\n\n'
)
BLOCK = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n'


def answers(status: int, content_type: str, body: bytes) -> httpx2.Client:
    headers = {"content-type": content_type}
    return httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(status, headers=headers, content=body)))


def openai_client(status: int, content_type: str, body: bytes) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url="http://gateway/v1", max_retries=0, http_client=answers(status, content_type, body))


def anthropic_client(status: int, content_type: str, body: bytes) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url="http://gateway", max_retries=0, http_client=answers(status, content_type, body))


def error_event(api: Api, *, is_mid_event: bool = False) -> bytes:
    return stream_error_event(
        api, status=504, message="the upstream was cut", code="stream_incomplete", sequence_number=2, is_mid_event=is_mid_event
    )


def test_openai_raises_an_error_in_a_chat_stream() -> None:
    client = openai_client(200, "text/event-stream", CHUNK + error_event(Api.CHAT))
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
    assert next(stream).choices[0].delta.content == "a"
    with pytest.raises(openai.APIError, match="the upstream was cut") as raised:
        next(stream)
    assert raised.value.code == "stream_incomplete"


def test_openai_raises_an_error_in_a_responses_stream() -> None:
    client = openai_client(200, "text/event-stream", DELTA + error_event(Api.RESPONSES))
    stream = client.responses.create(model="m", input="x", stream=True)
    assert next(stream).type == "response.output_text.delta"
    with pytest.raises(openai.APIError, match="the upstream was cut") as raised:
        next(stream)
    assert raised.value.code == "stream_incomplete"


def test_anthropic_raises_an_error_in_a_messages_stream() -> None:
    client = anthropic_client(200, "text/event-stream", BLOCK + error_event(Api.MESSAGES))
    stream = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True)
    assert next(stream).type == "content_block_delta"
    with pytest.raises(anthropic.APIStatusError, match="the upstream was cut"):
        next(stream)


def test_anthropic_raises_an_error_behind_half_an_event() -> None:
    client = anthropic_client(200, "text/event-stream", BLOCK + BLOCK[:60] + error_event(Api.MESSAGES, is_mid_event=True))
    stream = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True)
    next(stream)
    with pytest.raises(anthropic.APIStatusError, match="the upstream was cut"):
        next(stream)


def test_both_raise_whole_errors_by_their_status() -> None:
    body = error_body(Dialect.OPENAI, status=404, message="no such model", code="model_not_found")
    with pytest.raises(openai.NotFoundError, match="no such model") as not_found:
        openai_client(404, "application/json", body).models.list()
    assert not_found.value.code == "model_not_found"
    body = error_body(Dialect.ANTHROPIC, status=529, message="come back later", request_id="req_1")
    with pytest.raises(anthropic.APIStatusError, match="come back later"):
        anthropic_client(529, "application/json", body).models.list()
