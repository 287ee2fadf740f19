"""Error bodies: what is read from each provider's, and how ours are written."""

import json
from typing import Any

import pytest

from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.fault_status import snake, status_of
from gomodel_trio.wire.faults import Fault, error_body, read_fault, stream_error_event


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"error": {"message": "m", "type": "t", "param": "p", "code": "c"}},
            Fault(code="c", type="t", message="m", param="p"),
        ),
        (
            {"error": {"code": "content_filter", "message": "m", "status": 400, "innererror": {"code": "Inner"}}},
            Fault(code="content_filter", error_code="Inner", message="m", http_status=400),
        ),
        (
            {"type": "error", "error": {"type": "t", "message": "m", "details": {"error_code": "exact"}}},
            Fault(type="t", error_code="exact", message="m"),
        ),
        (
            [{"error": {"code": 429, "message": "m", "status": "S", "details": [{"reason": "R"}, {"reason": "Q", "retryDelay": "3s"}]}}],
            Fault(code="429", status_text="S", error_code="R", message="m", http_status=429, retry_after_s=3.0),
        ),
        ({"error": {"details": [{"retryDelay": {"seconds": 8, "nanos": 5}}]}}, Fault(retry_after_s=8.0)),
        ({"error": {"details": [{"retryDelay": "soon"}]}}, Fault()),
        ({"message": "m"}, Fault(message="m")),
        ({"Message": "m", "__type": "com.x#SomeException"}, Fault(type="SomeException", message="m")),
        ({"error": "m", "code": "c"}, Fault(code="c", message="m")),
        ({"error": "m", "error_type": "overloaded"}, Fault(type="overloaded", message="m")),
        ({"type": "error", "code": "c", "message": "m", "param": None}, Fault(code="c", message="m")),
        ({"object": "error", "message": {"detail": [{"msg": "a"}, {"loc": []}, {"msg": "b"}]}}, Fault(message="a; b")),
        ({"error": {"metadata": {"flagged_input": "x"}, "code": 403}}, Fault(code="403", http_status=403, is_flagged=True)),
        ({"error": {"type": "error", "error": {"type": "t", "message": "m"}}}, Fault(type="t", message="m")),
        ({"message": {"error": {"error": {"error": {"error": "deep"}}}}}, Fault(message="deep")),
        ({"message": {"error": {"error": {"error": {"error": {"error": "deep"}}}}}}, Fault()),
        ({"error": {"code": True, "message": "m"}}, Fault(message="m")),
        ({"error": {"code": 1 << 70, "message": ""}}, Fault()),
        ({"error": {"code": "077"}}, Fault(code="077")),
        ({"error": {"retry_after": 12}}, Fault(retry_after_s=12.0)),
        ({"error": {"retry_after": -1}}, Fault()),
        ({"statusCode": 401, "message": "m"}, Fault(message="m", http_status=401)),
        ("m", Fault(message="m")),
        ({"errors": []}, Fault()),
        (7, Fault(message="7")),
        ([], Fault(message="[]")),
    ],
)
def test_what_an_error_body_says(body: object, expected: Fault) -> None:
    assert read_fault(json.dumps(body).encode()) == expected


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("Please try again in 500ms.", 0.5),
        ("Retry after 20 seconds", 20.0),
        ("Please retry in 1h2m3.5s", 3723.5),
        ("try again in 2 minutes", 120.0),
        ("try again in a while", None),
        ("try again in 5 sheep", None),
    ],
)
def test_a_delay_in_words_is_read(text: str, delay_s: float | None) -> None:
    assert read_fault(json.dumps({"message": text}).encode()).retry_after_s == delay_s
    assert read_fault(text.encode()).retry_after_s == delay_s


def test_bytes_that_are_no_json_are_text() -> None:
    assert read_fault(b" error code: 520\n") == Fault(message="error code: 520")
    assert read_fault(b"\xff{") == Fault(message="\ufffd{")
    assert read_fault(b"") == Fault()


def test_of_a_page_only_the_title_counts() -> None:
    page = b"\n<html><head><title> 502 Bad Gateway </title></head>model not found"
    assert read_fault(page) == Fault(message="502 Bad Gateway")
    assert read_fault(b"no markup", content_type="text/html; charset=utf-8", error_type="T:x") == Fault(type="T")


def test_the_header_of_aws_is_the_type_where_the_body_has_none() -> None:
    assert read_fault(b'{"message": "m"}', error_type="ThrottlingException:http://x/") == Fault(type="ThrottlingException", message="m")
    assert read_fault(b'"m"', error_type="A").type == "A"


def test_what_only_the_slow_reader_takes_is_still_read() -> None:
    assert read_fault(b'{"error": {"message": "\\ud83d", "code": NaN}}') == Fault(message="\ud83d")


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault(http_status=418, code="server_error"), 418),
        (Fault(code="what", type="rate_limit_error"), 429),
        (Fault(error_code="model_not_found", type="invalid_request_error"), 404),
        (Fault(type="ModelStreamErrorException"), 424),
        (Fault(type="modelTimeoutException"), 408),
        (Fault(type="throttlingException"), 429),
        (Fault(status_text="UNAVAILABLE"), 503),
        (Fault(code="unsupported_image_media_type"), 400),
        (Fault(code="brand_new", type="other"), 502),
        (Fault(), 502),
    ],
)
def test_an_error_under_a_200_stands_for_a_status(fault: Fault, status: int) -> None:
    assert status_of(fault) == status


def test_codes_have_one_spelling() -> None:
    assert [snake(code) for code in ("DeploymentNotFound", "deployment-not-found", "API_KEY_INVALID")] == [
        "deployment_not_found",
        "deployment_not_found",
        "api_key_invalid",
    ]


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (402, "invalid_request_error", "billing_error"),
        (403, "permission_error", "permission_error"),
        (404, "not_found_error", "not_found_error"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "api_error", "api_error"),
        (502, "api_error", "api_error"),
        (504, "api_error", "timeout_error"),
        (529, "api_error", "overloaded_error"),
    ],
)
def test_an_error_is_written_in_the_callers_dialect(status: int, openai: str, anthropic: str) -> None:
    assert json.loads(error_body(Dialect.OPENAI, status=status, message="m")) == {
        "error": {"message": "m", "type": openai, "param": None, "code": None}
    }
    assert json.loads(error_body(Dialect.ANTHROPIC, status=status, message="m")) == {
        "type": "error",
        "error": {"type": anthropic, "message": "m"},
    }


def test_code_kind_param_and_request_id_are_written_where_the_dialect_has_them() -> None:
    told: dict[str, Any] = {"status": 502, "message": "m", "code": "c", "kind": "k", "param": "p", "request_id": "r"}
    assert json.loads(error_body(Dialect.OPENAI, **told)) == {"error": {"message": "m", "type": "k", "param": "p", "code": "c"}}
    assert json.loads(error_body(Dialect.ANTHROPIC, **told)) == {
        "type": "error",
        "error": {"type": "api_error", "message": "m", "details": {"error_code": "c"}},
        "request_id": "r",
    }


def test_a_lone_surrogate_in_a_message_is_no_error() -> None:
    assert json.loads(error_body(Dialect.OPENAI, status=400, message="a\ud800b"))["error"]["message"] == "a?b"


def test_what_is_written_is_read_back() -> None:
    for dialect in Dialect:
        fault = read_fault(error_body(dialect, status=429, message="m", code="c"))
        assert (fault.error_code or fault.code, fault.type, fault.message) == ("c", "rate_limit_error", "m")


@pytest.mark.parametrize(
    ("api", "is_mid_event", "start"),
    [
        (Api.CHAT, False, b'data: {"error":'),
        (Api.CHAT, True, b"\n\ndata: "),
        (Api.RESPONSES, False, b'event: error\ndata: {"type":"error","sequence_number":3,"code":"c","message":"m","param":null,"error":'),
        (Api.RESPONSES, True, b"\n\nevent: error\n"),
        (Api.MESSAGES, False, b'event: error\ndata: {"type":"error",'),
        (Api.MESSAGES, True, b"\nevent: error\n"),
    ],
)
def test_an_error_event_closes_what_is_open(api: Api, is_mid_event: bool, start: bytes) -> None:
    event = stream_error_event(api, status=504, message="m", code="c", sequence_number=3, is_mid_event=is_mid_event)

    assert event.startswith(start)
    assert event.endswith(b"}\n\n")
