"""Failover over real sockets: what sends a request to the next target, what does not, and what the client is told in the end."""

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from support.conversation import TEXT
from support.raw_http import Answer, Connection
from support.replies import Reply, close_before_head, garbage, json_reply, reset_before_head, sse_reply
from support.stage import APIS, SERIES, ApiName, HandUpstream, Pool, Stage, open_stage

pytestmark = pytest.mark.e2e

Make = Callable[[Pool], Reply]
HTML = (("content-type", "text/html; charset=utf-8"),)
NGINX = b"<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n<body>nginx/1.25</body></html>"
AT_ONCE_S = 1.0
"""Far more than a failover takes here, and far less than any wait that the gateway might make."""

BY_STATUS: dict[str, tuple[Make, str, str]] = {
    f"{status}": (lambda pool, status=status: pool.error(status), "fault", "status")
    for status in (408, 424, 425, 500, 501, 502, 503, 504, 520, 522, 524, 529, 599)
}
IN_EITHER_KIND: dict[str, tuple[Make, str, str]] = {
    **BY_STATUS,
    "429": (lambda pool: pool.error(429, "Rate limit reached.", "rate_limit_exceeded"), "rate", "none"),
    "429 with a long retry-after": (lambda pool: pool.error(429, headers=(("retry-after", "3600"),)), "rate", "none"),
    "401": (lambda pool: pool.error(401, "Incorrect API key provided.", "invalid_api_key"), "auth", "none"),
    "403": (lambda pool: pool.error(403, "Your project may not use this.", "permission_error"), "auth", "none"),
    "402": (lambda pool: pool.error(402, "Payment required."), "account", "none"),
    "an account without quota under 429": (lambda pool: pool.error(429, "You have no quota.", "insufficient_quota"), "account", "none"),
    "an account without credit under 400": (
        lambda pool: pool.error(400, "Your credit balance is too low to access the API.", kind="invalid_request_error"),
        "account",
        "none",
    ),
    "404 for the model": (lambda pool: pool.error(404, "The model does not exist.", "model_not_found"), "not_found", "none"),
    "404 as a page": (lambda pool: Reply(404, HTML, (b"<html><title>404 Not Found</title></html>",)), "not_found", "none"),
    "404 without a body": (lambda pool: Reply(404), "not_found", "none"),
    "400 for the model": (
        lambda pool: pool.error(400, f"The model `{pool.model}` is not supported.", kind="invalid_request_error"),
        "request",
        "none",
    ),
    "429 larger than the limit": (
        lambda pool: pool.error(429, "Request too large for tokens per min (TPM): Limit 8000, Requested 9001.", "rate_limit_exceeded"),
        "request",
        "none",
    ),
    "403 for flagged input": (
        lambda pool: pool.error(403, "Your input was flagged by moderation.", "moderation_blocked"),
        "request",
        "none",
    ),
    "503 as a page": (lambda pool: Reply(503, HTML, (NGINX,)), "fault", "status"),
    "500 without a body": (lambda pool: Reply(500), "fault", "status"),
    "500 cut short": (lambda pool: Reply(500, pieces=(b"{",), declared_length=900, ending="fin"), "fault", "status"),
    "a redirect": (lambda pool: Reply(302, (("location", "https://elsewhere.example/login"),)), "fault", "status"),
    "a permanent redirect": (lambda pool: Reply(308, (("location", "/v2"),)), "fault", "status"),
    "a reset before the head": (lambda pool: reset_before_head(), "fault", "network"),
    "an end before the head": (lambda pool: close_before_head(), "fault", "network"),
    "bytes that are no HTTP": (lambda pool: garbage(), "fault", "network"),
    "half a head": (lambda pool: garbage(b"HTTP/1.1 200 OK\r\ncontent-ty"), "fault", "network"),
    "a status line without a status": (lambda pool: garbage(b"HTTP/1.1 OK\r\n\r\n"), "fault", "network"),
    "two lengths": (lambda pool: garbage(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"), "fault", "network"),
}
IN_WHOLE_ANSWERS: dict[str, tuple[Make, str, str]] = {
    "a body shorter than its length": (
        lambda pool: Reply(200, pieces=(b'{"id":"x","ch',), declared_length=900, ending="fin"),
        "fault",
        "truncated",
    ),
    "a chunked body that is cut": (lambda pool: Reply(200, pieces=(b'{"id":',), framing="chunked", ending="fin"), "fault", "truncated"),
    "a body that is reset": (lambda pool: Reply(200, pieces=(b'{"id":', 0.05), declared_length=900, ending="reset"), "fault", "network"),
    "200 with an error for a body": (
        lambda pool: json_reply({"error": {"message": "upstream is down", "code": 503}}),
        "fault",
        "error_event",
    ),
    "200 with an error of the other dialect": (
        lambda pool: json_reply({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        "fault",
        "error_event",
    ),
    "200 with a rate limit for a body": (
        lambda pool: json_reply({"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}}),
        "rate",
        "none",
    ),
    "200 with a page": (lambda pool: Reply(200, HTML, (NGINX,)), "fault", "error_event"),
    "200 without a body": (lambda pool: Reply(200), "fault", "truncated"),
    "204": (lambda pool: Reply(204), "fault", "truncated"),
}
OPENING_EVENTS: dict[ApiName, int] = {"chat": 1, "responses": 4, "messages": 3}
"""How many events of a stream say nothing yet."""
ERROR_EVENTS: dict[ApiName, bytes] = {
    "chat": b'data: {"error":{"message":"Overloaded","type":"server_error","code":503}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","sequence_number":0,"code":"server_error","message":"Overloaded","param":null}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
}


def opening(pool: Pool) -> tuple[bytes, ...]:
    return tuple(piece for piece in pool.streamed().pieces[: OPENING_EVENTS[pool.api]] if isinstance(piece, bytes))


IN_STREAMS: dict[str, tuple[Make, str, str]] = {
    "an error event first": (lambda pool: sse_reply([ERROR_EVENTS[pool.api]]), "fault", "error_event"),
    "an error event after the opening": (lambda pool: sse_reply([*opening(pool), ERROR_EVENTS[pool.api]]), "fault", "error_event"),
    "an empty stream": (lambda pool: sse_reply([]), "fault", "truncated"),
    "a stream of comments": (lambda pool: sse_reply([b": PROCESSING\n\n", b":\n\n"]), "fault", "truncated"),
    "a stream that ends after its opening": (lambda pool: sse_reply(opening(pool)), "fault", "truncated"),
    "a stream cut after its head": (lambda pool: sse_reply([b"x"]).cut_after(0), "fault", "truncated"),
    "a stream reset after its head": (
        lambda pool: Reply(200, sse_reply([]).headers, (b"", 0.05), "chunked", ending="reset"),
        "fault",
        "network",
    ),
    "a stream cut after its opening": (
        lambda pool: sse_reply([*opening(pool), b"x"]).cut_after(OPENING_EVENTS[pool.api]),
        "fault",
        "truncated",
    ),
    "an error for a body in a stream's name": (
        lambda pool: Reply(200, sse_reply([]).headers, (b'{"error":{"message":"no","type":"server_error","code":500}}',)),
        "fault",
        "error_event",
    ),
    "an error for a body as JSON": (lambda pool: json_reply({"error": {"message": "no", "code": 500}}), "fault", "error_event"),
    "a page in place of a stream": (lambda pool: Reply(200, HTML, (NGINX,)), "fault", "error_event"),
}
FAILURES = {**IN_EITHER_KIND, **IN_WHOLE_ANSWERS, **IN_STREAMS}
CASES = [
    *itertools.product(IN_EITHER_KIND, APIS, (False, True)),
    *itertools.product(IN_WHOLE_ANSWERS, APIS, (False,)),
    *itertools.product(IN_STREAMS, APIS, (True,)),
]


def named(case: tuple[str, ApiName, bool]) -> str:
    return f"{case[0]}, {case[1]}, {'stream' if case[2] else 'whole'}"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that never retries the same target, so that whatever comes second is failover."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    plain = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=refuse_tls, args=(plain,), daemon=True).start()
    extra = {
        "dead": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{bound.getsockname()[1]}/v1", "api_key": "k"},
        "plain": {"type": "openai_compatible", "base_url": f"https://127.0.0.1:{plain.getsockname()[1]}/v1", "api_key": "k"},
        "nowhere": {"type": "openai_compatible", "base_url": "http://nowhere.invalid/v1", "api_key": "k"},
    }
    extended = [
        {"source": "no-failover", "failover": False, "strategy": "failover", "targets": [{"model": "a/nf"}, {"model": "b/nf"}]},
        {"source": "inner", "strategy": "failover", "targets": [{"model": "a/twice"}, {"model": "b/twice"}]},
        {"source": "twice", "strategy": "failover", "targets": [{"model": "inner"}, {"model": "a/twice"}, {"model": "c/twice"}]},
    ]
    with (
        bound,
        plain,
        open_stage(
            tmp_path_factory.mktemp("failover"),
            pools={"ab": len(CASES) + 120, "abc": 20, "abcde": 4, "dead-b": 2, "plain-b": 2, "nowhere-b": 2},
            strategies=("failover", "round_robin"),
            extra_providers=extra,
            configuration={"virtual_models": extended},
        ) as running,
    ):
        yield running


def refuse_tls(listener: socket.socket) -> None:
    """Answer a TLS greeting as a plain HTTP server does, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")


def once_each(calls: str) -> str:
    """The legs that were asked; a connection kept from before that is reset may be stale, so a request is sent over a new one once more."""
    return "".join(leg for leg, _ in itertools.groupby(calls))


def assert_answered_whole(answer: Answer, pool: Pool, *, stream: bool) -> None:
    assert (answer.status, answer.is_complete) == (200, True), answer
    expected = pool.streamed().body if stream else pool.whole().body
    assert answer.body == expected
    assert TEXT.split()[0] in answer.text


# ---- what goes on at the next target --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_next_target_answers_at_once_and_the_client_sees_nothing_of_the_failure(stage: Stage, case: tuple[str, ApiName, bool]) -> None:
    name, api, stream = case
    make, outcome, cause = FAILURES[name]
    pool = stage.pool("a", "b", api=api)
    pool.always(0, make(pool))
    began = time.monotonic()
    answer = pool.ask(stream=stream)
    assert time.monotonic() - began < AT_ONCE_S
    assert_answered_whole(answer, pool, stream=stream)
    assert once_each(pool.calls()) == "ab"
    assert (answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")) == (pool.target(1), "2")
    line = pool.log_line()
    assert (line["status"], line["outcome"], line["target"], line["attempts"]) == (200, "ok", pool.target(1), 2)
    (failed,) = line["failed"]
    assert (failed["target"], failed["outcome"], failed["cause"]) == (pool.target(0), outcome, cause)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("first", ["dead", "plain", "nowhere"], ids=["refused", "no TLS there", "no such name"])
def test_a_target_that_cannot_be_reached_is_passed_over(stage: Stage, first: str, stream: bool) -> None:
    pool = stage.pool(first, "b")
    answer = pool.ask(stream=stream)
    assert_answered_whole(answer, pool, stream=stream)
    assert pool.log_line()["failed"][0]["cause"] == "network"


@pytest.mark.parametrize("api", APIS)
def test_the_whole_pool_is_walked_whatever_each_target_says(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", "b", "c", "d", "e", api=api)
    pool.tell(0, pool.error(401)).tell(1, pool.error(401)).always(2, reset_before_head()).tell(3, pool.error(429))
    answer = pool.ask(stream=True)
    assert_answered_whole(answer, pool, stream=True)
    assert (once_each(pool.calls()), answer.get("x-gomodel-attempts")) == ("abcde", "5")
    assert [each["status"] for each in pool.log_line()["failed"]] == [401, 401, None, 429]


def test_a_target_that_stands_twice_in_a_chain_of_virtual_models_is_tried_once(stage: Stage) -> None:
    for leg in ("a", "b"):
        stage.tell(leg, "twice", [Reply(500), Reply(500)])
    answer = stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "twice", "messages": [{"role": "user", "content": "x"}]})
    asked = [exchange.request.path.split("/")[1] for exchange in stage.upstream.exchanges if exchange.request.json.get("model") == "twice"]
    assert (answer.status, asked) == (200, ["a", "b", "c"])


def test_the_body_reaches_the_second_target_with_only_the_model_changed(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, pool.error(500))
    odd = '{"n": 1.0e+2 , "model" : "%s","x":{"b":[1,2],"a":"\\u00e9\\/"},"messages":[{"role":"user","content":"hi"}] }'
    assert pool.ask(content=(odd % pool.name).encode()).status == 200
    assert [exchange.request.body.decode() for exchange in pool.exchanges()] == [odd % pool.model] * 2


# ---- what is the request's own fault --------------------------------------------------------------------------------


OWN_FAULTS: dict[str, Callable[[Pool], tuple[Reply, dict[str, object]]]] = {
    "400": lambda pool: (pool.error(400, "messages: at least one is required", kind="invalid_request_error"), {}),
    "400 too long": lambda pool: (pool.error(400, "maximum context length is 8192 tokens", "context_length_exceeded"), {}),
    "400 for a parameter": lambda pool: (
        pool.error(400, "Unsupported parameter: 'temperature' is not supported with this model.", "unsupported_parameter"),
        {"temperature": 0},
    ),
    "400 for what the policy forbids": lambda pool: (pool.error(400, "Your request was rejected.", "content_policy_violation"), {}),
    "405": lambda pool: (pool.error(405, "Method not allowed."), {}),
    "409": lambda pool: (pool.error(409, "Conflict."), {}),
    "413": lambda pool: (pool.error(413, "Request too large.", "request_too_large"), {}),
    "415": lambda pool: (pool.error(415, "Unsupported media type."), {}),
    "422": lambda pool: (pool.error(422, "Unprocessable."), {}),
    "451": lambda pool: (pool.error(451, "Unavailable for legal reasons."), {}),
    "404 for a response of the client's": lambda pool: (
        pool.error(404, "Previous response with id 'resp_0abc' not found.", "previous_response_not_found"),
        {"previous_response_id": "resp_0abc"},
    ),
    "404 for a file of the client's": lambda pool: (pool.error(404, "No such File object: file-Ab12cd"), {"attachment": "file-Ab12cd"}),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", OWN_FAULTS)
def test_a_fault_of_the_request_is_relayed_verbatim_after_one_attempt(stage: Stage, name: str, api: ApiName, stream: bool) -> None:
    pool = stage.pool("a", api=api) if not stream else stage.pool("a", "b", api=api)
    reply, more = OWN_FAULTS[name](pool)
    pool.tell(0, reply.with_headers(("x-ratelimit-remaining-requests", "7"), ("x-should-retry", "true")))
    answer = pool.ask(stream=stream, **more)
    assert (answer.status, answer.body) == (reply.status, reply.body)
    assert answer.get("content-type") == "application/json"
    assert answer.get_all("x-should-retry") == ["false"]
    assert answer.get("x-ratelimit-remaining-requests") == "7"
    assert (pool.calls(), answer.get("x-gomodel-attempts")) == ("a", "1")
    assert (pool.log_line()["status"], pool.log_line()["outcome"]) == (reply.status, "request")


def test_no_client_can_bench_a_target_by_bad_requests(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, *[pool.error(status) for status in (400, 422, 413, 409, 400, 400)])
    for _ in range(7):
        pool.ask()
    assert pool.calls() == "aaaaaaa"
    assert not pool.is_cooling(0)
    assert pool.outcomes(0) == {"request": 6.0, "success": 1.0}


# ---- when everything failed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, (("retry-after", "7"),)),
        (429, (("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),)),
        (503, (("retry-after", "120"), ("retry-after-ms", "120000"))),
        (529, (("x-should-retry", "true"),)),
        (500, ()),
    ],
)
def test_the_last_target_s_error_is_relayed_with_what_it_says_of_waiting(
    stage: Stage, status: int, headers: tuple[tuple[str, str], ...], api: ApiName, stream: bool
) -> None:
    pool = stage.pool("a", api=api) if not stream else stage.pool("a", "b", api=api)
    last = pool.error(status, "the last word", headers=headers)
    if stream:
        pool.tell(0, pool.error(429, headers=(("retry-after", "999"),))).tell(1, last)
    else:
        pool.tell(0, last)
    answer = pool.ask(stream=stream)
    assert (answer.status, answer.body) == (status, last.body)
    assert answer.get_all("retry-after") == [value for name, value in headers if name == "retry-after"]
    assert answer.get("x-should-retry") != "false"
    for name, value in headers:
        assert answer.get(name) == value


MASKED: dict[str, tuple[Make, str]] = {
    "401": (lambda pool: pool.error(401, "Incorrect API key provided: key-of-***a.", "invalid_api_key"), "upstream_authentication"),
    "403": (lambda pool: pool.error(403, "key-of-a lacks permission.", "permission_error"), "upstream_authentication"),
    "401 as a page": (lambda pool: Reply(401, HTML, (b"<html>key-of-a</html>",)), "upstream_authentication"),
    "400 for the key": (lambda pool: pool.error(400, "API key not valid: key-of-a", "API_KEY_INVALID"), "upstream_authentication"),
    "402": (lambda pool: pool.error(402, "key-of-a has no money."), "upstream_account"),
    "429 without quota": (lambda pool: pool.error(429, "key-of-a has no quota.", "insufficient_quota"), "upstream_account"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", MASKED)
def test_what_is_wrong_with_the_gateway_s_own_key_or_account_is_told_as_a_502_of_the_provider(
    stage: Stage, name: str, api: ApiName, stream: bool
) -> None:
    make, code = MASKED[name]
    pool = stage.pool("a", api=api)
    pool.tell(0, make(pool).with_headers(("www-authenticate", "Bearer"), ("retry-after", "5")))
    answer = pool.ask(stream=stream)
    assert answer.status == 502
    assert (answer.get("x-should-retry"), answer.get("www-authenticate")) == ("false", None)
    error = answer.json()["error"]
    if api == "messages":
        assert (answer.json()["type"], error["type"]) == ("error", "api_error")
    else:
        assert error["code"] == code
    assert repr(pool.legs[0]) in error["message"]
    assert "key-of" not in answer.text
    assert pool.log_line()["error"] == code


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("make", "status", "message"),
    [
        (lambda pool: Reply(503, HTML, (NGINX,)), 503, "The upstream answered 503."),
        (lambda pool: Reply(500), 500, "The upstream answered 500."),
        (lambda pool: Reply(302, (("location", "https://elsewhere.example/"),)), 502, "The upstream answered 302."),
        (lambda pool: reset_before_head(), 502, "The upstream could not be reached."),
        (lambda pool: garbage(), 502, "The upstream could not be reached."),
    ],
    ids=["a page", "nothing", "a redirect", "a reset", "no HTTP"],
)
def test_what_is_no_error_of_the_dialect_is_told_as_one(stage: Stage, make: Make, status: int, message: str, api: ApiName) -> None:
    pool = stage.pool("a", api=api)
    pool.always(0, make(pool))
    answer = pool.ask()
    assert (answer.status, answer.get("content-type"), answer.get("location")) == (status, "application/json", None)
    assert answer.json()["error"]["message"] == message
    assert "type" in answer.json()["error"]
    assert "elsewhere" not in answer.text


def test_an_error_of_the_other_dialect_is_told_in_the_client_s(stage: Stage) -> None:
    pool = stage.pool("a", api="messages")
    pool.tell(0, json_reply({"error": {"message": "busy", "type": "server_error", "code": None}}, 503))
    answer = pool.ask()
    assert answer.status == 503
    assert (answer.json()["type"], answer.json()["error"]["message"]) == ("error", "busy")


LIMITED = (
    b'event: response.failed\ndata: {"type":"response.failed",'
    b'"response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"busy"}}}\n\n'
)
TOLD_BY_STATUS: dict[str, tuple[dict[ApiName, Reply], int]] = {
    "an overloaded stream": (
        {
            "chat": sse_reply([b'data: {"error":{"message":"busy","type":"server_error","code":503}}\n\n']),
            "responses": sse_reply(
                [b'event: error\ndata: {"type":"error","code":"server_is_overloaded","message":"busy","param":null}\n\n']
            ),
            "messages": sse_reply([b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n']),
        },
        0,
    ),
    "a limited stream": (
        {
            "chat": sse_reply([b'data: {"error":{"message":"busy","type":"rate_limit_error","code":"rate_limit_exceeded"}}\n\n']),
            "responses": sse_reply([LIMITED]),
            "messages": sse_reply([b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"busy"}}\n\n']),
        },
        429,
    ),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", TOLD_BY_STATUS)
def test_an_error_event_before_any_content_is_told_by_its_status_where_nobody_else_answers(stage: Stage, name: str, api: ApiName) -> None:
    replies, status = TOLD_BY_STATUS[name]
    pool = stage.pool("a", api=api)
    pool.tell(0, replies[api])
    answer = pool.ask(stream=True)
    assert (answer.status == status) if status else (answer.status in (503, 529))
    assert answer.get("content-type") == "application/json"
    assert answer.json()["error"]["message"] == "busy"
    assert pool.log_line()["status"] == answer.status


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (json_reply({"error": {"message": "down", "code": 503}}), 503),
        (json_reply({"error": {"message": "down", "type": "rate_limit_error", "code": None}}), 429),
        (json_reply({"error": "down"}), 502),
        (Reply(200, HTML, (NGINX,)), 502),
        (Reply(200), 502),
        (sse_reply([]), 502),
        (sse_reply([b": nothing\n\n"]), 502),
    ],
)
def test_a_200_that_is_none_is_told_by_the_status_inside_it_or_as_a_502(stage: Stage, reply: Reply, status: int) -> None:
    pool = stage.pool("a")
    pool.tell(0, reply)
    answer = pool.ask()
    assert (answer.status, answer.get("content-type"), answer.get("x-should-retry")) == (status, "application/json", None)
    assert "message" in answer.json()["error"]


@pytest.mark.parametrize(
    ("api", "path", "more"), [("chat", "/v1/embeddings", {"input": "x"}), ("messages", "/v1/messages/count_tokens", {"messages": []})]
)
def test_embeddings_and_token_counts_fail_over_too(stage: Stage, api: ApiName, path: str, more: dict[str, object]) -> None:
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.error(503))
    answer = stage.gateway.exchange("POST", path, body={"model": pool.name, **more}, headers={"anthropic-version": "2023-06-01"})
    assert (answer.status, pool.calls(), answer.get("x-gomodel-target")) == (200, "ab", pool.target(1))


# ---- connections that went stale ------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["while idle", "over the next request"])
def test_a_kept_connection_that_died_costs_no_attempt(tmp_path_factory: pytest.TempPathFactory, when: str) -> None:
    hand = HandUpstream()
    providers = {"hand": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{hand.port}/v1", "api_key": "k"}}
    whole = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{"id":"x"}'
    with contextlib.closing(hand), open_stage(tmp_path_factory.mktemp("stale"), pools={}, extra_providers=providers) as stage:

        def ask(connection: Connection) -> None:
            connection.request("POST", "/v1/chat/completions", body={"model": "hand/m", "messages": [{"role": "user", "content": "hi"}]})

        with Connection(stage.gateway.port) as first, hand.accept_after(lambda: ask(first)) as kept:
            kept.read_request()
            kept.send(whole)
            assert first.read_answer().status == 200
            if when == "while idle":
                kept.close()
            with Connection(stage.gateway.port) as second:
                ask(second)
                if when != "while idle":
                    kept.read_request()
                    kept.close()
                with hand.accept() as fresh:
                    fresh.read_request()
                    fresh.send(whole)
                    answer = second.read_answer()
        assert (answer.status, answer.get("x-gomodel-attempts")) == (200, "1")


# ---- switches -------------------------------------------------------------------------------------------------------


def test_a_virtual_model_without_failover_stays_on_its_target(stage: Stage) -> None:
    stage.tell("a", "nf", [Reply(500)])
    answer = stage.gateway.exchange(
        "POST", "/v1/chat/completions", body={"model": "no-failover", "messages": [{"role": "user", "content": "x"}]}
    )
    assert (answer.status, answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")) == (500, "a/nf", "1")


def test_failover_switched_off_stays_on_the_first_target(tmp_path_factory: pytest.TempPathFactory) -> None:
    variables = {"FAILOVER_ENABLED": "false", "HTTP_TIMEOUT": "600ms"}
    with open_stage(tmp_path_factory.mktemp("off"), variables, pools={"ab": 3}) as stage:
        for stream in (False, True):
            pool = stage.pool("a", "b")
            pool.tell(0, pool.error(500, "no"))
            answer = pool.ask(stream=stream)
            assert (answer.status, pool.calls()) == (500, "a")
        silent = stage.pool("a", "b")
        silent.tell(0, silent.whole().held())
        began = time.monotonic()
        assert (silent.ask().status, silent.calls()) == (504, "a")
        assert time.monotonic() - began >= 0.6  # no time is kept for a target that will not be asked


def test_the_number_of_targets_after_the_first_can_be_bounded(tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_stage(tmp_path_factory.mktemp("bounded"), {"FAILOVER_MAX_ATTEMPTS": "1"}, pools={"abcde": 2, "ab": 1}) as stage:
        pool = stage.pool("a", "b", "c", "d", "e")
        pool.tell(0, pool.error(500)).tell(1, pool.error(503, "the second's")).tell(2, pool.error(500))
        answer = pool.ask()
        assert (answer.status, pool.calls()) == (503, "ab")
        assert answer.json()["error"]["message"] == "the second's"
        other = stage.pool("a", "b")
        other.tell(0, other.error(401))
        assert (other.ask().status, other.calls()) == (200, "ab")


# ---- retries at the same target -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that retries, with so little between that a test can wait for it."""
    variables = {"RETRY_MAX_RETRIES": "3", "RETRY_INITIAL_BACKOFF": "20ms", "RETRY_MAX_BACKOFF": "40ms", "HTTP_TIMEOUT": "20s"}
    with open_stage(tmp_path_factory.mktemp("patient"), variables, pools={"ab": 10}) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [429, 502, 503, 504, 522, 524, 529])
def test_the_only_target_is_retried_until_it_answers(patient: Stage, status: int, api: ApiName, stream: bool) -> None:
    pool = patient.pool("a", api=api)
    pool.tell(0, pool.error(status), pool.error(status))
    answer = pool.ask(stream=stream)
    assert_answered_whole(answer, pool, stream=stream)
    assert (pool.calls(), answer.get("x-gomodel-attempts")) == ("aaa", "3")


@pytest.mark.parametrize("make", [reset_before_head, close_before_head, garbage])
def test_a_connection_that_breaks_is_retried(patient: Stage, make: Callable[[], Reply]) -> None:
    pool = patient.pool("a")
    pool.always(0, make())
    answer = pool.ask()
    assert (answer.status, answer.get("x-gomodel-attempts")) == (502, "4")


def test_retries_end_after_their_number_and_wait_between(patient: Stage) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(503, "still down"))
    began = time.monotonic()
    answer = pool.ask()
    assert time.monotonic() - began >= 0.018 + 0.036 + 0.036
    assert (answer.status, pool.calls()) == (503, "aaaa")
    assert [each["kind"] for each in pool.log_line()["failed"]] == ["primary", "retry", "retry"]


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 422, 500, 501, 520])
def test_what_waiting_cannot_cure_is_not_retried(patient: Stage, status: int) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(status))
    pool.ask()
    assert pool.calls() == "a"


def test_a_retry_waits_as_long_as_it_is_asked_to(patient: Stage) -> None:
    pool = patient.pool("a")
    pool.tell(0, pool.error(429, headers=(("retry-after-ms", "400"),)))
    began = time.monotonic()
    assert pool.ask().status == 200
    assert 0.4 <= time.monotonic() - began < 5.0


@pytest.mark.parametrize("wait", ["31", "86400", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_what_asks_for_a_long_wait_is_not_retried(patient: Stage, wait: str) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(429, headers=(("retry-after", wait),)))
    answer = pool.ask()
    assert (answer.status, answer.get("retry-after"), pool.calls()) == (429, wait, "a")


def test_a_wait_beyond_the_request_s_time_is_not_begun(patient: Stage) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(429, headers=(("retry-after", "25"),)))
    began = time.monotonic()
    assert pool.ask().status == 429
    assert (pool.calls(), time.monotonic() - began < AT_ONCE_S) == ("a", True)


def test_in_a_pool_only_the_last_target_is_retried(patient: Stage) -> None:
    pool = patient.pool("a", "b")
    pool.always(0, pool.error(503)).always(1, pool.error(503))
    assert pool.ask().status == 503
    assert pool.calls() == "abbbb"


def test_a_target_that_was_cooling_already_is_not_retried(patient: Stage) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(429))
    pool.ask()
    assert pool.calls() == "aaaa"
    pool.ask()
    assert pool.calls() == "aaaaa"


def test_one_request_benches_a_target_once_however_often_it_retries(patient: Stage) -> None:
    pool = patient.pool("a")
    pool.always(0, pool.error(429))
    pool.ask()
    patient.gateway.wait_for_log("cooldown_started", target=pool.target(0))
    (started,) = patient.gateway.logged("cooldown_started", target=pool.target(0))
    assert started["for_s"] == 30.0


# ---- time -----------------------------------------------------------------------------------------------------------


TIMEOUT_S = 0.8


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway whose requests may take little time; it would retry, if it could."""
    variables = {"HTTP_TIMEOUT": f"{TIMEOUT_S}s", "RETRY_MAX_RETRIES": "3", "RETRY_INITIAL_BACKOFF": "10ms"}
    with open_stage(tmp_path_factory.mktemp("brief"), variables, pools={"ab": 6, "abc": 2}) as running:
        yield running


@pytest.mark.parametrize(("api", "stream"), [("chat", False), ("responses", True), ("messages", True)])
def test_a_silent_target_has_half_of_the_time_and_the_next_one_answers(brief: Stage, api: ApiName, stream: bool) -> None:
    pool = brief.pool("a", "b", api=api)
    pool.tell(0, pool.whole().held())
    began = time.monotonic()
    answer = pool.ask(stream=stream)
    assert TIMEOUT_S / 2 <= time.monotonic() - began < TIMEOUT_S
    assert_answered_whole(answer, pool, stream=stream)
    assert (pool.calls(), pool.log_line()["failed"][0]["cause"]) == ("ab", "timeout")
    assert pool.exchanges()[0].ending == "client_closed"


@pytest.mark.parametrize("stream", [False, True])
def test_targets_that_are_all_silent_cost_the_request_s_time_and_no_more(brief: Stage, stream: bool) -> None:
    pool = brief.pool("a", "b", "c")
    for index in range(3):
        pool.always(index, pool.whole().held())
    began = time.monotonic()
    answer = pool.ask(stream=stream)
    assert TIMEOUT_S <= time.monotonic() - began < TIMEOUT_S + 1.0
    assert (answer.status, pool.calls()) == (504, "abc")
    assert answer.json()["error"]["message"] == "The upstream did not answer in time."
    brief.wait_for_quiet()


def test_a_body_that_drips_does_not_outlast_the_request_s_time(brief: Stage) -> None:
    pool = brief.pool("a")
    pool.always(0, Reply(200, (("content-type", "application/json"),), tuple([b" ", 0.1] * 100)))
    began = time.monotonic()
    answer = pool.ask()
    assert (answer.status, pool.calls()) == (504, "a")
    assert TIMEOUT_S <= time.monotonic() - began < TIMEOUT_S + 1.0


def test_an_error_whose_body_never_comes_does_not_hold_the_request_up(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, Reply(503, (("content-type", "application/json"),), (b'{"error":',), declared_length=999, ending="stall"))
    began = time.monotonic()
    assert_answered_whole(pool.ask(), pool, stream=False)
    assert (pool.calls(), time.monotonic() - began < 5.0) == ("ab", True)


def test_a_silent_target_is_not_asked_again_by_the_same_request(tmp_path_factory: pytest.TempPathFactory) -> None:
    variables = {"HTTP_RESPONSE_HEADER_TIMEOUT": "250ms", "RETRY_MAX_RETRIES": "3", "RETRY_INITIAL_BACKOFF": "10ms"}
    with open_stage(tmp_path_factory.mktemp("silent"), variables, pools={"ab": 2}) as stage:
        single = stage.pool("a")
        single.always(0, single.whole().held())
        assert (single.ask().status, single.calls()) == (504, "a")
        pool = stage.pool("a", "b")
        pool.always(0, pool.whole().held())
        began = time.monotonic()
        assert_answered_whole(pool.ask(stream=True), pool, stream=True)
        assert (pool.calls(), 0.25 <= time.monotonic() - began < 5.0) == ("ab", True)


# ---- cooldowns and pins ---------------------------------------------------------------------------------------------


def cooldown_of(pool: Pool, index: int) -> tuple[str, float]:
    pool.stage.gateway.wait_for_log("cooldown_started", target=pool.target(index))
    (started,) = pool.stage.gateway.logged("cooldown_started", target=pool.target(index))
    return started["reason"], started["for_s"]


@pytest.mark.parametrize(
    ("name", "reason", "for_s"),
    [
        ("429", "rate", 30.0),
        ("429 with a long retry-after", "rate", 300.0),
        ("401", "auth", 300.0),
        ("403", "auth", 300.0),
        ("404 for the model", "not_found", 300.0),
        ("404 as a page", "not_found", 300.0),
        ("402", "account", 300.0),
        ("an account without quota under 429", "account", 300.0),
        ("an account without credit under 400", "account", 300.0),
    ],
)
def test_a_benched_target_is_left_alone_by_the_requests_that_follow(stage: Stage, name: str, reason: str, for_s: float) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, FAILURES[name][0](pool))
    for _ in range(3):
        assert pool.ask().status == 200
    assert pool.calls() == "abbb"
    assert pool.is_cooling(0)
    assert cooldown_of(pool, 0) == (reason, for_s)


def test_faults_bench_a_target_at_the_third_in_a_row(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, Reply(500), garbage(), pool.whole(), Reply(500), Reply(502), sse_reply([]))
    for _ in range(8):
        assert pool.ask().status == 200
    assert pool.calls() == "ababaabababbb"
    assert cooldown_of(pool, 0) == ("fault", 30.0)


def test_a_cooling_target_comes_last_but_still_comes(stage: Stage) -> None:
    pool = stage.pool("a", "b", "c")
    pool.tell(0, pool.error(429))
    pool.ask()
    pool.tell(1, pool.error(500)).tell(2, pool.error(500))
    assert pool.ask().get("x-gomodel-target") == pool.target(0)
    assert pool.calls() == "abbca"


def test_where_all_are_cooling_one_is_tried_and_the_client_told_when_to_come_back(stage: Stage) -> None:
    pool = stage.pool("a", "b", "c")
    for index in range(3):
        pool.always(index, pool.error(429, headers=(("retry-after", str(90 - 20 * index)),)))
    assert pool.ask().get("retry-after") == "50"
    answer = pool.ask()
    assert (answer.status, pool.calls()) == (429, "abcc")
    assert answer.get("retry-after") == "50"
    pool.always(2, None)
    assert pool.ask().status == 200
    assert pool.calls() == "abccc"
    assert not pool.is_cooling(2)


def test_a_model_that_only_one_target_serves_stays_usable_after_a_404(stage: Stage) -> None:
    pool = stage.pool("a")
    missing = pool.error(404, "The model does not exist.", "model_not_found")
    pool.tell(0, missing)
    first = pool.ask()
    assert (first.status, first.body) == (404, missing.body)
    assert pool.ask().status == 200


@pytest.mark.parametrize("api", APIS)
def test_a_session_follows_its_request_to_the_next_target_and_stays_there(tmp_path_factory: pytest.TempPathFactory, api: ApiName) -> None:
    variables = {"PRO_ROUTING_COOLDOWN_BASE": "200ms", "PRO_ROUTING_COOLDOWN_MAX": "1s"}
    with open_stage(tmp_path_factory.mktemp("pins"), variables, pools={"ab": 1}, strategies=("round_robin",)) as stage:
        pool = stage.pool("a", "b", api=api, strategy="round_robin")
        session = {"X-Session-Id": "s-1"}
        pool.ask(headers=session)
        pool.tell(0, pool.error(429, "quota of this minute"))
        answer = pool.ask(headers=session, stream=True)
        assert_answered_whole(answer, pool, stream=True)
        pool.ask(headers=session)
        stage.gateway.wait_for_log("cooldown_ended", target=pool.target(0))
        for _ in range(3):
            pool.ask(headers=session)
        assert pool.calls() == "aabbbbb"
        assert stage.metric(SERIES + "session_affinity_total", outcome="released") == 1
        assert stage.metric(SERIES + "session_affinity_total", outcome="honored") == 5


def test_a_session_that_finds_its_target_cooling_moves_once_and_stays(tmp_path_factory: pytest.TempPathFactory) -> None:
    variables = {"PRO_ROUTING_COOLDOWN_BASE": "300ms", "PRO_ROUTING_COOLDOWN_MAX": "1s"}
    with open_stage(tmp_path_factory.mktemp("moved"), variables, pools={"ab": 1}, strategies=("round_robin",)) as stage:
        pool = stage.pool("a", "b", strategy="round_robin")
        pool.ask(headers={"X-Session-Id": "mine"})
        pool.tell(0, pool.error(429))
        assert pool.ask(content=json.dumps({"model": pool.target(0)}).encode()).status == 429
        pool.ask(headers={"X-Session-Id": "mine"})
        assert stage.metric(SERIES + "session_affinity_total", outcome="released") == 1
        stage.gateway.wait_for_log("cooldown_ended", target=pool.target(0))
        pool.ask(headers={"X-Session-Id": "mine"})
        assert pool.calls() == "aabb"
        assert stage.metric(SERIES + "session_affinity_total", outcome="released") == 1
        assert stage.metric(SERIES + "session_affinity_total", outcome="honored") == 1


# ---- accounting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_the_target_that_answered_is_named_everywhere_and_a_request_counted_once(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.error(503))
    answer = pool.ask()
    assert answer.json()["model"] == pool.model
    assert answer.get("x-gomodel-target") == pool.target(1)
    line = pool.log_line()
    assert (line["target"], line["virtual_model"], line["attempts"]) == (pool.target(1), pool.name, 2)
    assert [(each["target"], each["status"]) for each in line["failed"]] == [(pool.target(0), 503)]
    assert (pool.outcomes(0), pool.outcomes(1)) == ({"server_error": 1.0}, {"success": 1.0})
    requests = [labels for name, labels, _ in stage.series() if name == "gomodel_requests_total" and labels["model"] == pool.model]
    assert [(labels["provider"], labels["status_code"]) for labels in requests] == [(pool.legs[1], "200")]
