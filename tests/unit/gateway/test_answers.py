"""Errors in the caller's dialect, and the headers that every answer bears (behaviour.md §3, §6, §9)."""

import json
from typing import Any

import pytest

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.errors import BodyTooLarge, ClientFault, GatewayError, MethodNotAllowed, Unauthenticated, Unavailable
from gomodel_trio.gateway.answers import Answer, header_value, of_error, of_failure, own_headers
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord, TierRevision
from gomodel_trio.gateway.redaction import Redactor
from gomodel_trio.route.names import TargetId, Tier
from gomodel_trio.route.outcome import Classification, Outcome
from gomodel_trio.upstream.attempt import Failure
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api, Dialect

OPENAI, ANTHROPIC = Dialect.OPENAI, Dialect.ANTHROPIC
JSON = (b"content-type", b"application/json")
NO_RETRY = (b"x-should-retry", b"false")


def record(**fields: Any) -> RequestRecord:
    return RequestRecord("req-1", "POST", "/v1/chat/completions", 0.0, **fields)


def revision(reason: str = "score", target: str = "b/m") -> TierRevision:
    return TierRevision("normal", Tier.HARD, target, 7, 4, reason, (), False, False, "1", 10, 10)  # type: ignore[arg-type]


def failure(
    status: int, body: bytes | None = None, *, outcome: Outcome = Outcome.REQUEST, headers: Headers | None = None, **judged: Any
) -> Failure:
    return Failure(Classification(outcome=outcome, is_failover=False, **judged), status, "our words", headers or [], body)


def told(answer: Answer) -> Any:
    return json.loads(answer.body)


# ---- the headers of every answer ------------------------------------------------------------------------------------


def test_an_answer_of_the_gateways_own_bears_the_request_id_alone() -> None:
    assert own_headers(record()) == [(b"x-request-id", b"req-1")]


def test_a_routed_answer_bears_tier_target_and_attempts() -> None:
    attempts = [AttemptRecord("primary", TargetId("a/m"), 0.0), AttemptRecord("failover", TargetId("b/m"), 0.0)]
    assert own_headers(record(api=Api.CHAT, revision=revision(), target=TargetId("b/m"), attempts=attempts)) == [
        (b"x-request-id", b"req-1"),
        (b"x-gomodel-pro-tier", b"hard"),
        (b"x-gomodel-pro-tier-target", b"b/m"),
        (b"x-gomodel-pro-tier-score", b"7"),
        (b"x-gomodel-pro-tier-reason", b"score"),
        (b"x-gomodel-target", b"b/m"),
        (b"x-gomodel-attempts", b"2"),
    ]


def test_before_any_attempt_there_is_a_count_and_no_target() -> None:
    assert own_headers(record(api=Api.CHAT)) == [(b"x-request-id", b"req-1"), (b"x-gomodel-attempts", b"0")]


@pytest.mark.parametrize(
    ("text", "value"),
    [("a/m", b"a/m"), ("a/ü", "a/ü".encode()), ("a\r\nset-cookie: x", b"a??set-cookie: x"), ("\ud800", b"?"), ("x" * 5000, b"x" * 1024)],
)
def test_a_name_is_made_safe_for_a_header(text: str, value: bytes) -> None:
    assert header_value(text) == value


# ---- the gateway's own refusals -------------------------------------------------------------------------------------


def test_a_refusal_in_either_dialect() -> None:
    error = ClientFault("m", code="c", param="p")
    openai = of_error(error, OPENAI, "req-1")
    assert (openai.status, openai.headers, openai.code) == (400, [JSON, NO_RETRY], "c")
    assert told(openai) == {"error": {"message": "m", "type": "invalid_request_error", "param": "p", "code": "c"}}
    anthropic = of_error(error, ANTHROPIC, "req-1")
    assert told(anthropic) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "m", "details": {"error_code": "c"}},
        "request_id": "req-1",
    }


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (GatewayError("m"), [JSON]),
        (GatewayError("m", should_retry=False), [JSON, NO_RETRY]),
        (Unauthenticated("m"), [JSON, NO_RETRY]),
        (BodyTooLarge("m"), [JSON, NO_RETRY]),
        (ClientFault("m", status=429), [JSON]),
        (Unavailable("m", retry_after_s=0.2), [JSON, (b"retry-after", b"1")]),
        (Unavailable("m", retry_after_s=29.1), [JSON, (b"retry-after", b"30")]),
        (Unavailable("m", retry_after_s=1e300), [JSON, (b"retry-after", b"1000000000")]),
        (MethodNotAllowed("PUT", "GET", "HEAD"), [JSON, NO_RETRY, (b"allow", b"GET, HEAD")]),
    ],
)
def test_clients_are_told_whether_and_when_to_try_again(error: GatewayError, headers: Headers) -> None:
    assert of_error(error, OPENAI, "req-1").headers == headers


# ---- what an upstream refused ---------------------------------------------------------------------------------------

OPENAI_BODY = b'{ "error": {"message":"theirs","code":"x"} }'
ANTHROPIC_BODY = b'{"type":"error","error":{"type":"overloaded_error","message":"theirs"}}'


def answer_of(found: Failure, dialect: Dialect = OPENAI, retry_after_s: float | None = None) -> Answer:
    return of_failure(found, dialect, "acme", request_id="req-1", retry_after_s=retry_after_s)


@pytest.mark.parametrize(("dialect", "body"), [(OPENAI, OPENAI_BODY), (ANTHROPIC, ANTHROPIC_BODY), (OPENAI, b'{"error":"theirs"}')])
def test_an_error_in_the_callers_dialect_is_relayed_verbatim(dialect: Dialect, body: bytes) -> None:
    answer = answer_of(failure(422, body, code="x"), dialect)
    assert (answer.status, answer.body, answer.code) == (422, body, "x")


@pytest.mark.parametrize(
    "body", [OPENAI_BODY, b'{"error":"theirs"}', b'{"message":"theirs"}', b'{"type":"error","error":"theirs"}', b"theirs", b'["theirs"]']
)
def test_any_other_error_is_told_in_the_callers_dialect(body: bytes) -> None:
    answer = answer_of(failure(422, body), ANTHROPIC)
    assert (answer.status, answer.code) == (422, "upstream_error")
    assert told(answer)["type"] == "error"
    assert told(answer)["error"]["details"] == {"error_code": "upstream_error"}


def test_the_words_are_the_upstreams_where_there_are_any() -> None:
    assert told(answer_of(failure(500, b'{"detail":"Bad day"}')))["error"]["message"] == "Bad day"
    assert told(answer_of(failure(500, b"", message="judged")))["error"]["message"] == "judged"
    assert told(answer_of(failure(504)))["error"] == {"message": "our words", "type": "api_error", "param": None, "code": "upstream_error"}


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "body",
    [
        b"Traceback (most recent call last):\n  File x",
        b"<html><title>Traceback</title></html>",
        b'"theirs"',
        b'{"error":"cut off',
        b'{"detail":"Traceback (most recent call last): theirs"}',
    ],
)
def test_what_was_not_made_for_clients_is_told_in_our_words(dialect: Dialect, body: bytes) -> None:
    answer = answer_of(failure(500, body, message="Traceback (most recent call last): judged"), dialect)
    assert told(answer)["error"]["message"] == "our words"


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "body",
    [OPENAI_BODY.replace(b"theirs", b"sk-secret-1 http://up.test:1/v1"), b'{"type":"error","error":{"type":"t","message":"sk-secret-1"}}'],
)
def test_secrets_and_addresses_are_taken_out_of_what_an_upstream_says(dialect: Dialect, body: bytes) -> None:
    provider = ProviderSettings(
        name="acme", type="openai", dialect=OPENAI, base_url="http://up.test:1/v1", api_keys=(Secret("sk-secret-1"),)
    )
    found = failure(422, body, headers=[(b"x-debug", b"up.test:1"), (b"x-trace", b"t")])
    answer = of_failure(found, dialect, "acme", request_id="r", retry_after_s=None, redactor=Redactor(None, provider))
    assert b"[REDACTED]" in answer.body
    assert not [secret for secret in (b"sk-secret", b"up.test") if secret in answer.body]
    assert answer.headers == [JSON, (b"x-trace", b"t"), NO_RETRY]


def test_headers_of_a_refusal_pass_but_for_those_that_the_answer_gives_itself() -> None:
    sent = [
        (b"content-type", b"text/html"),
        (b"content-encoding", b"gzip"),
        (b"set-cookie", b"s"),
        (b"request-id", b"r"),
        (b"retry-after", b"7"),
    ]
    assert answer_of(failure(503, OPENAI_BODY, headers=sent)).headers == [JSON, (b"request-id", b"r"), (b"retry-after", b"7")]


@pytest.mark.parametrize(
    ("status", "is_hopeless"), [(400, True), (404, True), (409, True), (408, False), (425, False), (429, False), (500, False)]
)
def test_clients_are_told_where_trying_again_does_not_help(status: int, is_hopeless: bool) -> None:
    answer = answer_of(failure(status, OPENAI_BODY, headers=[(b"x-should-retry", b"true")]))
    assert [value for name, value in answer.headers if name == b"x-should-retry"] == [b"false" if is_hopeless else b"true"]


def waits(answer: Answer) -> Headers:
    return [pair for pair in answer.headers if pair[0].startswith(b"retry-after")]


def test_the_wait_is_the_least_cooldown_else_what_the_upstream_wished() -> None:
    sent = [(b"retry-after", b"7")]
    assert waits(answer_of(failure(429, OPENAI_BODY, headers=sent), retry_after_s=12.5)) == [(b"retry-after", b"13")]
    assert waits(answer_of(failure(429, OPENAI_BODY, headers=sent, retry_after_s=7.0))) == sent
    assert waits(answer_of(failure(429, OPENAI_BODY, retry_after_s=1.5))) == [(b"retry-after", b"2")]
    assert waits(answer_of(failure(429, OPENAI_BODY))) == []


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.AUTH, "upstream_authentication"), (Outcome.ACCOUNT, "upstream_account")])
@pytest.mark.parametrize("dialect", Dialect)
def test_what_the_upstream_holds_against_the_gateway_is_not_shown(outcome: Outcome, code: str, dialect: Dialect) -> None:
    answer = answer_of(
        failure(401, b'{"error":{"message":"bad key sk-secret"}}', outcome=outcome, headers=[(b"request-id", b"r")]), dialect
    )
    assert (answer.status, answer.code, answer.headers) == (502, code, [JSON, NO_RETRY])
    assert "acme" in told(answer)["error"]["message"]
    assert b"secret" not in answer.body
