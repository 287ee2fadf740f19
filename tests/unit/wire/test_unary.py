"""Whole answers under a 200: errors in disguise, model and tokens."""

import json

import pytest

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.unary import Answer, read_answer, unary_error, unary_usage
from gomodel_trio.wire.usage import Usage, read_usage


@pytest.mark.parametrize(
    ("api", "body", "status"),
    [
        (Api.CHAT, {"error": {"message": "x", "code": 429}}, 429),
        (Api.CHAT, {"error": "broken"}, 502),
        (Api.CHAT, {"object": "error", "message": "x", "code": 400}, 400),
        (Api.CHAT, {"choices": [{"error": {"code": 503, "message": "x"}, "finish_reason": "error"}]}, 503),
        (Api.CHAT, {"choices": [{"message": {}, "finish_reason": "error"}]}, 502),
        (Api.CHAT, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, 429),
        (Api.CHAT, {"base_resp": {"status_code": 1, "status_msg": 3}}, 502),
        (Api.CHAT, {"base_resp": {"status_code": "odd"}}, 502),
        (Api.CHAT, {"code": 500, "message": "inner"}, 500),
        (Api.CHAT, {"success": False, "errors": [{"code": 7003, "message": "x"}]}, 502),
        (Api.RESPONSES, {"object": "response", "status": "failed", "error": {"code": "server_error", "message": "x"}}, 500),
        (Api.RESPONSES, {"object": "response", "status": "failed"}, 502),
        (Api.RESPONSES, {"message": "x"}, 502),
        (Api.MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, 529),
        (Api.MESSAGES, {"message": "Internal"}, 502),
        (Api.EMBEDDINGS, {"message": "x"}, 502),
        (Api.COUNT_TOKENS, {"message": "x"}, 502),
    ],
)
def test_an_error_under_a_200_is_found(api: Api, body: object, status: int) -> None:
    error = unary_error(json.dumps(body).encode(), api)

    assert error is not None
    assert (error.status, error.after_content) == (status, False)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.CHAT, {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "error": None}),
        (Api.CHAT, {"choices": [], "base_resp": {"status_code": 0, "status_msg": ""}}),
        (Api.CHAT, {"choices": [{}], "base_resp": {"status_code": 1027}}),
        (Api.CHAT, {"choices": [], "code": 0, "message": "ok"}),
        (Api.CHAT, {}),
        (Api.RESPONSES, {"object": "response", "status": "incomplete", "output": [], "error": None}),
        (Api.RESPONSES, {"object": "response", "message": "x"}),
        (Api.RESPONSES, {"output": [], "message": "x"}),
        (Api.MESSAGES, {"type": "message", "content": []}),
        (Api.MESSAGES, {"status": "failed", "content": [], "message": "x"}),
        (Api.EMBEDDINGS, {"data": [], "message": "x"}),
        (Api.COUNT_TOKENS, {"input_tokens": 4, "message": "x"}),
    ],
)
def test_an_answer_is_no_error(api: Api, body: object) -> None:
    assert unary_error(json.dumps(body).encode(), api) is None


def test_nothing_and_a_page_are_errors_other_bytes_are_the_clients_to_judge() -> None:
    for body, message in ((b"", "the answer was empty"), (b"  \n", "the answer was empty"), (b"<title>Hi</title>", "Hi")):
        error = unary_error(body, Api.CHAT)
        assert error is not None
        assert (error.status, error.fault.message) == (502, message)
    for body in (b"plain", b"[1]", b"{", b"[" * 9000, b"x" * 300_000):
        assert read_answer(body, Api.CHAT) == Answer()


def test_model_and_tokens_are_read() -> None:
    body = b'{"model":"m-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}'
    assert read_answer(body, Api.CHAT).model == "m-1"
    assert unary_usage(body, Api.CHAT) == Usage(input_tokens=9, output_tokens=2)
    assert unary_usage(b'{"usage":[],"model":4}', Api.CHAT) is None


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (None, None),
        ({}, None),
        ({"input_tokens": True}, None),
        ({"input_tokens": 1 << 60}, None),
        ({"input_tokens": 3, "cache_read_input_tokens": 40}, Usage(input_tokens=43, cached_tokens=40)),
        ({"input_tokens": 3, "cache_creation_input_tokens": 5}, Usage(input_tokens=8, cache_write_tokens=5)),
        ({"prompt_tokens": 3, "cache_read_input_tokens": 2}, Usage(input_tokens=3, cached_tokens=2)),
        ({"output_tokens": 3, "output_tokens_details": {"thinking_tokens": 2}}, Usage(output_tokens=3, reasoning_tokens=2)),
    ],
)
def test_tokens_have_one_shape(raw: object, usage: Usage | None) -> None:
    assert read_usage(raw) == usage
