"""The canonical log line (style.md, logging)."""

from gomodel_trio.gateway.log_line import fields_of, write_log_line
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord, TierRevision
from gomodel_trio.route.names import SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.wire.dialect import Api
from support.inprocess import RecordingLog

BARE = {"request_id": "r", "method": "GET", "path": "/health", "status": None, "outcome": "ok", "duration_ms": 1500.0}


def test_a_bare_request_has_a_short_line() -> None:
    assert fields_of(RequestRecord("r", "GET", "/health", 10.0), 11.5) == BARE


def test_a_line_holds_all_that_is_known() -> None:
    failed = AttemptRecord("primary", TargetId("a/m"), 10.0, 503, Outcome.FAULT, Cause.STATUS, "overloaded", 0.25)
    record = RequestRecord(
        "r", "POST", "/v1/chat/completions", 10.0,
        api=Api.CHAT, is_stream=True, model="normal", user_path="/team", session=SessionId("s"),
        revision=TierRevision("normal", Tier.HARD, "pool", 7, 4, "score", (), False, False, "1", 10, 12),
        source="pool", target=TargetId("b/m"), attempts=[failed, AttemptRecord("failover", TargetId("b/m"), 10.25)],
        status=200, outcome="fault", error_code="stream_incomplete", first_byte_s=10.5, bytes_out=100, chunks_out=3,
        input_tokens=0, output_tokens=5, parse_errors=1,
    )  # fmt: skip
    assert fields_of(record, 12.0) == {
        "request_id": "r",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "outcome": "fault",
        "duration_ms": 2000.0,
        "model": "normal",
        "alias": "normal",
        "tier": "hard",
        "score": 7,
        "reason": "score",
        "virtual_model": "pool",
        "target": "b/m",
        "stream": True,
        "session": "s",
        "user_path": "/team",
        "error": "stream_incomplete",
        "first_byte_ms": 500.0,
        "bytes": 100,
        "chunks": 3,
        "input_tokens": 0,
        "output_tokens": 5,
        "parse_errors": 1,
        "attempts": 2,
        "failed": [{"target": "a/m", "kind": "primary", "status": 503, "outcome": "fault", "cause": "status", "duration_ms": 250.0}],
    }


def test_one_attempt_has_no_failed_ones_and_an_unjudged_one_no_outcome() -> None:
    record = RequestRecord("r", "POST", "/", 0.0, attempts=[AttemptRecord("primary", TargetId("a/m"), 0.0)])
    assert fields_of(record, 0.0)["attempts"] == 1
    assert "failed" not in fields_of(record, 0.0)
    record.attempts.append(AttemptRecord("key", TargetId("a/m"), 0.0))
    assert fields_of(record, 0.0)["failed"][0]["outcome"] is None


def test_probes_are_logged_at_debug_and_requests_at_info() -> None:
    log = RecordingLog()
    for is_quiet in (True, False):
        write_log_line(log, RequestRecord("r", "GET", "/health", 10.0), 11.5, is_quiet=is_quiet)
    assert log.lines == [("debug", "request", BARE), ("info", "request", BARE)]
