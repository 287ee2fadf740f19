"""Whatever an upstream answers: a verdict that agrees with its status."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.route.classify import classify
from gomodel_trio.route.outcome import Cause, Outcome

WORDS = (  # noqa: SIM905
    "model not found supported insufficient balance credit limit 5 requested 9 flagged input key invalid api quota resp_1 'x' too large"
).split()
messages = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=20)
bodies = st.builds(
    lambda message, code, param: json.dumps({"error": {"message": message, "code": code, "param": param}}).encode(),
    messages,
    st.none() | st.integers() | st.sampled_from(["insufficient_quota", "model_not_found", "file_expired", "x"]),
    st.none() | st.text(max_size=8),
)


@given(status=st.integers(0, 700), body=bodies | st.binary(max_size=60), request=bodies | st.binary(max_size=60), model=st.text(max_size=8))
@settings(max_examples=200, deadline=None)
def test_every_answer_gets_a_verdict_that_agrees_with_its_status(status: int, body: bytes, request: bytes, model: str) -> None:
    judged = classify(status=status, headers=[], body=body, request_body=request, model=model, now_epoch_s=0.0)

    assert (judged.outcome is Outcome.SUCCESS) == (200 <= status < 300)
    assert (judged.outcome is Outcome.FAULT) == (judged.cause is Cause.STATUS)
    assert judged.is_failover or judged.outcome in (Outcome.SUCCESS, Outcome.REQUEST)
    assert not judged.is_retryable or judged.outcome in (Outcome.RATE, Outcome.FAULT)
    if judged.outcome is Outcome.RATE:
        assert status in (400, 429, 498)
