"""The judging of upstream answers: the vectors, errors under a 200, and what hostile bodies must not do."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.classify import classify, classify_stream_end, classify_stream_fault
from gomodel_trio.route.outcome import Cause, Classification, Outcome
from gomodel_trio.wire.fault_status import StreamFault
from gomodel_trio.wire.faults import Fault

CASES = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "faults.json").read_text())["cases"]


def judge(
    status: int, body: bytes, *, request: bytes = b"{}", model: str = "m", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Classification:
    return classify(status=status, headers=headers, body=body, request_body=request, model=model, now_epoch_s=1.8e9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_answer_is_judged_as_the_vectors_say(case: dict[str, Any]) -> None:
    body = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    headers = tuple((name.encode(), value.encode()) for name, value in case.get("headers", {}).items())
    request = json.dumps(case.get("request", {})).encode()

    judged = judge(case["status"], body.encode(), request=request, model=case.get("model", "m"), headers=headers)

    expect = case["expect"]
    assert (judged.outcome, judged.is_failover) == (Outcome(expect["outcome"]), expect["failover"])
    assert judged.is_retryable == expect.get("retryable", judged.is_retryable)
    assert judged.code == expect.get("code", judged.code)
    assert judged.retry_after_s == pytest.approx(expect.get("retry_after_s", judged.retry_after_s))
    assert judged.cause is (Cause.STATUS if judged.outcome is Outcome.FAULT else Cause.NONE)


@pytest.mark.parametrize(
    ("status", "code", "outcome", "is_retryable"),
    [
        (429, "rate_limit_exceeded", Outcome.RATE, True),
        (429, "insufficient_quota", Outcome.ACCOUNT, False),
        (401, "authentication_error", Outcome.AUTH, False),
        (404, "model_not_found", Outcome.NOT_FOUND, False),
        (400, "invalid_prompt", Outcome.REQUEST, False),
        (502, None, Outcome.FAULT, True),
        (500, "server_error", Outcome.FAULT, False),
    ],
)
def test_an_error_before_content_fails_over_whatever_its_class(status: int, code: str | None, outcome: Outcome, is_retryable: bool) -> None:
    judged = classify_stream_fault(StreamFault(Fault(code=code, retry_after_s=4.0), status), request_body=b"{}", model="m")

    cause = Cause.ERROR_EVENT if outcome is Outcome.FAULT else Cause.NONE
    assert judged == Classification(outcome, is_failover=True, is_retryable=is_retryable, retry_after_s=4.0, cause=cause, code=code)


def test_an_error_after_content_does_not_fail_over() -> None:
    judged = classify_stream_fault(StreamFault(Fault(message="late"), 529, after_content=True), request_body=b"{}", model="m")

    assert judged == Classification(Outcome.FAULT, is_failover=False, cause=Cause.ERROR_EVENT, message="late")


@pytest.mark.parametrize(
    ("has_content", "has_ended", "expected"),
    [
        (True, True, Classification(Outcome.SUCCESS, is_failover=False)),
        (True, False, Classification(Outcome.FAULT, is_failover=False, cause=Cause.TRUNCATED)),
        (False, False, Classification(Outcome.FAULT, is_failover=True, is_retryable=True, cause=Cause.TRUNCATED)),
    ],
)
def test_a_stream_without_an_end_is_truncated(has_content: bool, has_ended: bool, expected: Classification) -> None:
    assert classify_stream_end(has_content=has_content, has_ended=has_ended) == expected


def test_an_id_is_sought_past_the_members_of_that_name() -> None:
    request = b'{"xy9": 1, "a": ["xy9" ], "model": 3}'
    assert judge(404, b"\"no xy9: 'xy9'\"", request=request).outcome is Outcome.REQUEST
    assert judge(404, b"\"no xy9: 'xy9'\"", request=b'{"xy9" : 1}').outcome is Outcome.NOT_FOUND
    assert judge(404, b"\"no 'xy9'\"", request=b'"xy9":' * 100 + b'"xy9"').outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize(
    "text",
    [
        "model " * 4000,
        "model not found " * 2000,
        "not " * 6000,
        "limit 1 " * 3000,
        "requested 9 " * 2000,
        "account " * 3000,
        "'a" * 9000,
        "a-" * 9000,
        "flagged by " * 2000,
        "input input " * 2000,
        "reached its " * 2000,
        "credit " * 4000,
        "retry after 1s" * 2000,
        "<title>" * 3000,
        "\u00e9" * 9000,
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 429])
def test_long_messages_are_judged_in_bounded_time(status: int, text: str) -> None:
    began_s = time.perf_counter()
    judge(status, json.dumps({"error": {"message": text}}).encode(), request=b'{"messages": "' + b"a" * 100_000 + b'"}')
    assert time.perf_counter() - began_s < 0.05


def test_a_message_is_cut_and_a_huge_body_read_as_text() -> None:
    assert judge(500, b"x" * 300_000).message == "x" * 4096
    assert judge(500, b'{"error": "' + b"x" * 9000 + b'"}').message == "x" * 4096
