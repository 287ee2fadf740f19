"""What a client sees of smart tier routing: the headers on every kind of answer, the overrides, the pins, and the metrics beside them."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess, wait_for
from support.raw_http import Answer, exchange
from support.replies import Reply, Request, anthropic_error, openai_error, sse_reply

pytestmark = pytest.mark.e2e

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
OWN = ("x-gomodel-pro-tier", "x-gomodel-pro-tier-target", "x-gomodel-pro-tier-score", "x-gomodel-pro-tier-reason")
NOT_ROUTED = (None, None, None, None)
HARD_WORDS = "think hard"
REFUSALS = {400: "bad", 404: "gone", 409: "conflict", 422: "odd", 429: "slow down", 500: "broken", 503: "overloaded"}
ROUTES = {
    "normal": {"easy": "openai/small", "hard": "openai/large"},
    "other": {"easy": "openai/small", "hard": "openai/large"},
    "claude": {"easy": "anthropic/haiku", "hard": "anthropic/opus"},
    "virtual": {"easy": "pool", "hard": "openai/large"},
    "listed": {"easy": "openai/small", "hard": "openai/large"},
    "named": {"easy": "openai/small", "hard": "openai/large"},
    "nested": {"easy": "normal", "hard": "openai/large"},
    "broken": {"easy": "nowhere/model", "hard": "keyless"},
    "unreachable": {"easy": "openai-down/small", "hard": "openai-down/large"},
    **{f"refused-{status}": {"easy": f"openai/refused-{status}", "hard": f"anthropic/refused-{status}"} for status in REFUSALS},
}
VIRTUAL_MODELS = [
    {"source": "pool", "strategy": "failover", "targets": [{"model": "openai/first"}, {"model": "openai/second"}]},
    {"source": "named", "target": "openai/named-model"},
    {"source": "keyless", "target": "groq/model"},
]


def variables(fake: FakeUpstream) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": f"{fake.url}/v1",
        "OPENAI_MODELS": "small,large,listed",
        "OPENAI_DOWN_API_KEY": "key",
        "OPENAI_DOWN_BASE_URL": "http://127.0.0.1:1/v1",
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": f"{fake.url}/v1",
        "PRO_SMART_ROUTING_ROUTES": json.dumps(ROUTES),
        "VIRTUAL_MODELS": json.dumps(VIRTUAL_MODELS),
        "RETRY_MAX_RETRIES": "0",
    }


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with open_on_thread() as upstream:
        upstream.rule = refusal
        yield upstream


def refusal(request: Request) -> Reply | None:
    """What the models say whose names tell what to refuse with."""
    model = str(request.json.get("model"))
    if model == "first":
        return openai_error(500, "broken")
    if (named := re.fullmatch(r"refused-(\d+)", model)) is None:
        return None
    status = int(named[1])
    is_anthropic = request.path.endswith("/messages")
    return anthropic_error(status, message=REFUSALS[status]) if is_anthropic else openai_error(status, REFUSALS[status])


@pytest.fixture(scope="module")
def gateway(fake: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(variables(fake), directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def session() -> str:
    return str(uuid.uuid4())


def ask(
    gateway: GatewayProcess,
    model: str,
    words: str = "hi",
    *,
    path: str = CHAT,
    session: str = "",
    tier: str = "",
    routing: str = "",
    **more: Any,
) -> Answer:
    """Ask for a model in whatever dialect the path is of."""
    given = {"X-Session-Id": session or str(uuid.uuid4()), "X-GoModel-Tier": tier, "X-GoModel-Smart-Routing": routing}
    turns = [{"role": "user", "content": words}]
    body = {"model": model, "input" if path in (RESPONSES, "/v1/embeddings") else "messages": turns, **more}
    return gateway.exchange("POST", path, headers={name: value for name, value in given.items() if value}, body=body)


def tier_of(answer: Answer) -> tuple[str | None, ...]:
    """Tier, its target, score and reason."""
    return tuple(answer.get(name) for name in OWN)


def reached(answer: Answer) -> tuple[str | None, str | None]:
    """The target that answered, and after how many attempts."""
    return answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")


# ---- on every answer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "alias"), [(CHAT, "normal"), (RESPONSES, "normal"), (MESSAGES, "claude")])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("asked", [("hi", "easy", "0"), (HARD_WORDS, "hard", "4")])
def test_an_answer_tells_tier_target_score_and_reason(
    gateway: GatewayProcess, path: str, alias: str, is_stream: bool, asked: tuple[str, str, str]
) -> None:
    words, tier, score = asked
    answer = ask(gateway, alias, words, path=path, stream=is_stream)
    assert (answer.status, answer.is_complete) == (200, True)
    assert (answer.get("content-type") or "").startswith("text/event-stream") == is_stream
    assert tier_of(answer) == (tier, ROUTES[alias][tier], score, "score")
    assert reached(answer) == (ROUTES[alias][tier], "1")
    assert all(len(answer.get_all(name)) == 1 for name in (*OWN, "x-gomodel-target", "x-gomodel-attempts", "x-request-id"))


def test_explicit_reasoning_is_the_reason_though_the_score_is_low(gateway: GatewayProcess) -> None:
    answer = ask(gateway, "normal", reasoning_effort="high")
    assert tier_of(answer) == ("hard", "openai/large", "0", "explicit_reasoning")


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize(("path", "tier"), [(CHAT, "easy"), (RESPONSES, "easy"), (MESSAGES, "hard")])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_upstreams_refusal_bears_them_too(gateway: GatewayProcess, status: int, path: str, tier: str, is_stream: bool) -> None:
    answer = ask(gateway, f"refused-{status}", path=path, tier=tier, stream=is_stream)
    target = ROUTES[f"refused-{status}"][tier]
    assert (answer.status, answer.json()["error"]["message"]) == (status, REFUSALS[status])
    assert tier_of(answer) == (tier, target, "0", "forced")
    assert reached(answer) == (target, "1")


def test_a_stream_that_fails_before_its_content_bears_them_too(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    fake.answer(sse_reply([b'data: {"error":{"message":"no","type":"server_error","code":"server_error"}}\n\n']))
    answer = ask(gateway, "normal", HARD_WORDS, stream=True)
    assert answer.status >= 500
    assert tier_of(answer) == ("hard", "openai/large", "4", "score")
    assert reached(answer) == ("openai/large", "1")


def test_an_upstream_that_cannot_be_reached_makes_a_502_with_them(gateway: GatewayProcess) -> None:
    answer = ask(gateway, "unreachable")
    assert answer.status == 502
    assert tier_of(answer) == ("easy", "openai-down/small", "0", "score")
    assert reached(answer) == ("openai-down/small", "1")


def test_the_gateways_own_refusals_after_routing_bear_them_and_name_no_target_that_was_not_asked(gateway: GatewayProcess) -> None:
    unsupported = ask(gateway, "normal", path=MESSAGES, container="c")
    assert (unsupported.status, tier_of(unsupported)) == (400, ("easy", "openai/small", "0", "score"))
    unknown = ask(gateway, "broken")
    assert (unknown.status, tier_of(unknown)) == (404, ("easy", "nowhere/model", "0", "score"))
    unavailable = ask(gateway, "broken", HARD_WORDS)
    assert (unavailable.status, tier_of(unavailable)) == (503, ("hard", "keyless", "4", "score"))
    assert int(unavailable.get("retry-after") or 0) > 0
    assert [reached(answer) for answer in (unsupported, unknown, unavailable)] == [(None, "0")] * 3


def test_an_answer_after_failover_names_the_target_that_answered_and_counts_the_attempts(gateway: GatewayProcess) -> None:
    answer = ask(gateway, "virtual")
    assert (answer.status, answer.json()["model"]) == (200, "second")
    assert tier_of(answer) == ("easy", "pool", "0", "score")
    assert reached(answer) == ("openai/second", "2")


def test_every_proxied_answer_names_target_and_attempts_and_no_other_has_a_tier(gateway: GatewayProcess) -> None:
    plain = [
        ask(gateway, "openai/small"),
        ask(gateway, "small"),
        ask(gateway, "openai/small", stream=True),
        ask(gateway, "refused-429", "hi"),
    ]
    assert [reached(answer) for answer in plain] == [("openai/small", "1")] * 3 + [("openai/refused-429", "1")]
    assert [tier_of(answer) for answer in plain[:3]] == [NOT_ROUTED] * 3
    native = gateway.exchange("GET", "/p/openai/v1/models")
    assert (native.status, native.get("x-gomodel-attempts"), tier_of(native)) == (200, "1", NOT_ROUTED)
    assert tier_of(gateway.exchange("GET", "/v1/models")) == NOT_ROUTED


def test_what_an_upstream_says_in_these_names_is_not_passed_on(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    lies = (("x-gomodel-pro-tier", "hard"), ("X-GoModel-Target", "elsewhere/x"), ("x-gomodel-attempts", "9"))
    fake.answer(openai_error(409, "conflict").with_headers(*lies))
    answer = ask(gateway, "normal")
    assert (tier_of(answer), reached(answer)) == (("easy", "openai/small", "0", "score"), ("openai/small", "1"))
    assert [len(answer.get_all(name)) for name, _ in lies] == [1, 1, 1]


def test_nothing_of_the_gateways_own_goes_upstream(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    ask(gateway, "normal", tier="hard", routing="on")
    assert [name for name, _ in fake.requests[-1].headers if name.lower().startswith(b"x-gomodel")] == []


# ---- overrides ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", ["off", "OFF", "Off", " oFf "])
@pytest.mark.parametrize("tier", ["", "hard"])
def test_off_makes_an_alias_an_ordinary_name_and_beats_a_demanded_tier(gateway: GatewayProcess, off: str, tier: str) -> None:
    unknown = ask(gateway, "normal", HARD_WORDS, routing=off, tier=tier)
    assert (unknown.status, unknown.json()["error"]["code"], tier_of(unknown)) == (404, "model_not_found", NOT_ROUTED)
    listed = ask(gateway, "listed", HARD_WORDS, routing=off, tier=tier)
    assert (listed.status, reached(listed), tier_of(listed)) == (200, ("openai/listed", "1"), NOT_ROUTED)
    named = ask(gateway, "named", HARD_WORDS, routing=off, tier=tier)
    assert (named.status, reached(named), tier_of(named)) == (200, ("openai/named-model", "1"), NOT_ROUTED)


@pytest.mark.parametrize("value", ["on", "false", "0", "offf", "no"])
def test_another_value_than_off_changes_nothing(gateway: GatewayProcess, value: str) -> None:
    assert tier_of(ask(gateway, "normal", HARD_WORDS, routing=value)) == ("hard", "openai/large", "4", "score")


@pytest.mark.parametrize(("value", "tier"), [("easy", "easy"), ("HARD", "hard"), (" Easy ", "easy")])
def test_a_demanded_tier_is_given_and_the_score_is_told_all_the_same(gateway: GatewayProcess, value: str, tier: str) -> None:
    assert tier_of(ask(gateway, "normal", HARD_WORDS, tier=value)) == (tier, ROUTES["normal"][tier], "4", "forced")


@pytest.mark.parametrize("value", ["medium", "1", "hardest", "easy,hard"])
def test_another_tier_than_easy_and_hard_is_ignored(gateway: GatewayProcess, value: str) -> None:
    assert tier_of(ask(gateway, "normal", HARD_WORDS, tier=value)) == ("hard", "openai/large", "4", "score")


def test_a_demanded_tier_neither_writes_nor_reads_the_pin(gateway: GatewayProcess, session: str) -> None:
    assert tier_of(ask(gateway, "normal", session=session, tier="hard"))[0] == "hard"
    assert tier_of(ask(gateway, "normal", session=session)) == ("easy", "openai/small", "0", "score")
    assert tier_of(ask(gateway, "normal", HARD_WORDS, session=session))[0] == "hard"
    assert tier_of(ask(gateway, "normal", session=session, tier="easy")) == ("easy", "openai/small", "0", "forced")
    assert tier_of(ask(gateway, "normal", session=session)) == ("hard", "openai/large", "0", "session_pin")


def test_off_neither_writes_nor_reads_the_pin(gateway: GatewayProcess, session: str) -> None:
    assert ask(gateway, "listed", HARD_WORDS, session=session, routing="off").status == 200
    assert tier_of(ask(gateway, "listed", session=session)) == ("easy", "openai/small", "0", "score")
    assert tier_of(ask(gateway, "listed", HARD_WORDS, session=session))[0] == "hard"
    assert reached(ask(gateway, "listed", session=session, routing="off"))[0] == "openai/listed"


def test_a_demanded_tier_does_not_keep_a_pin_alive(fake: FakeUpstream, tmp_path: Path) -> None:
    with GatewayProcess({**variables(fake), "PRO_SMART_ROUTING_SESSION_TTL": "300ms"}, directory=tmp_path) as gateway:
        assert tier_of(ask(gateway, "normal", HARD_WORDS, session="s"))[0] == "hard"

        def is_forgotten() -> bool:
            assert tier_of(ask(gateway, "normal", session="s", tier="hard"))[3] == "forced"
            return metric(gateway, "gomodel_pro_smartroute_pins") == {"": 0.0}

        wait_for(is_forgotten, timeout_s=10.0, what="the pin's end")
        assert tier_of(ask(gateway, "normal", session="s")) == ("easy", "openai/small", "0", "score")


def test_a_time_to_live_of_nothing_means_no_pins(fake: FakeUpstream, tmp_path: Path) -> None:
    with GatewayProcess({**variables(fake), "PRO_SMART_ROUTING_SESSION_TTL": "0"}, directory=tmp_path) as gateway:
        assert tier_of(ask(gateway, "normal", HARD_WORDS, session="s"))[0] == "hard"
        assert tier_of(ask(gateway, "normal", session="s")) == ("easy", "openai/small", "0", "score")
        assert metric(gateway, "gomodel_pro_smartroute_pins") == {"": 0.0}


def test_a_provider_by_name_ends_tier_routing_and_is_taken_out(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    answer = ask(gateway, "normal", HARD_WORDS, tier="hard", provider="openai")
    assert (answer.status, tier_of(answer), reached(answer)) == (200, NOT_ROUTED, ("openai/normal", "1"))
    assert fake.requests[-1].json == {"model": "normal", "messages": [{"role": "user", "content": HARD_WORDS}]}


def test_a_provider_object_is_the_upstreams_own_and_ends_nothing(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    body = b'{"model": "normal", "provider" : {"order":["a"],  "x":1.0}, "messages":[{"role":"user","content":"think hard"}]}'
    answer = gateway.exchange("POST", CHAT, body=body)
    assert tier_of(answer) == ("hard", "openai/large", "4", "score")
    assert fake.requests[-1].body == body.replace(b'"normal"', b'"large"')


# ---- pins -----------------------------------------------------------------------------------------------------------


def test_a_session_stays_hard_and_says_why_only_where_the_pin_alone_raised_it(gateway: GatewayProcess, session: str) -> None:
    given = [
        ask(gateway, "normal", "hi", session=session),
        ask(gateway, "normal", HARD_WORDS, session=session),
        ask(gateway, "normal", "thanks!", session=session),
        ask(gateway, "normal", HARD_WORDS, session=session),
        ask(gateway, "normal", "thanks!", session=session, path=RESPONSES, reasoning={"effort": "high"}),
        ask(gateway, "normal", "thanks!", session=session, path=RESPONSES),
    ]
    assert [(tier_of(answer)[0], *tier_of(answer)[2:]) for answer in given] == [
        ("easy", "0", "score"),
        ("hard", "4", "score"),
        ("hard", "0", "session_pin"),
        ("hard", "4", "score"),
        ("hard", "0", "explicit_reasoning"),
        ("hard", "0", "session_pin"),
    ]


def test_pins_are_kept_by_alias_and_session(gateway: GatewayProcess, session: str) -> None:
    assert tier_of(ask(gateway, "normal", HARD_WORDS, session=session))[0] == "hard"
    assert tier_of(ask(gateway, "other", session=session)) == ("easy", "openai/small", "0", "score")
    assert tier_of(ask(gateway, "normal", session=f"{session}-2")) == ("easy", "openai/small", "0", "score")
    elsewhere = {"X-Session-Id": session, "X-GoModel-User-Path": "/team"}
    body = {"model": "normal", "messages": [{"role": "user", "content": "hi"}]}
    assert tier_of(gateway.exchange("POST", CHAT, headers=elsewhere, body=body))[3] == "score"
    assert tier_of(ask(gateway, "normal", session=session))[3] == "session_pin"


def test_a_conversation_without_an_id_is_known_by_its_opening(gateway: GatewayProcess) -> None:
    opening = [{"role": "system", "content": str(uuid.uuid4())}, {"role": "user", "content": HARD_WORDS}]
    later = [*opening, {"role": "assistant", "content": "well"}, {"role": "user", "content": "thanks!"}]
    first = gateway.exchange("POST", CHAT, body={"model": "normal", "messages": opening})
    second = gateway.exchange("POST", CHAT, body={"model": "normal", "messages": later})
    assert (tier_of(first)[3], tier_of(second)[3]) == ("score", "session_pin")


def test_a_tier_target_that_is_an_alias_is_not_routed_again(gateway: GatewayProcess) -> None:
    answer = ask(gateway, "nested")
    assert (answer.status, tier_of(answer)) == (404, ("easy", "normal", "0", "score"))


# ---- where aliases are not scored -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "alias", "target"), [("/v1/embeddings", "normal", "openai/small"), ("/v1/messages/count_tokens", "claude", "anthropic/haiku")]
)
def test_embeddings_and_token_counts_go_to_the_easy_target_unscored(gateway: GatewayProcess, path: str, alias: str, target: str) -> None:
    before = metric(gateway, "gomodel_pro_smartroute_requests_total")
    answer = ask(gateway, alias, HARD_WORDS, path=path, tier="hard")
    assert (answer.status, tier_of(answer), reached(answer)) == (200, NOT_ROUTED, (target, "1"))
    assert metric(gateway, "gomodel_pro_smartroute_requests_total") == before
    assert ask(gateway, alias, path=path, routing="off").status == 404


# ---- what is told beside the answers --------------------------------------------------------------------------------


def metric(gateway: GatewayProcess, name: str) -> dict[str, float]:
    """The samples of a family (its buckets and sums too), by what follows the name: labels, sorted as the exposition has them."""
    lines = exchange(gateway.port, "GET", "/metrics").text.splitlines()
    return {line[len(name) :].rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)}


def test_the_metrics_count_exactly_what_was_routed(fake: FakeUpstream, tmp_path: Path) -> None:
    with GatewayProcess(variables(fake), directory=tmp_path) as gateway:
        ask(gateway, "normal", session="a")
        ask(gateway, "normal", HARD_WORDS, session="a")
        ask(gateway, "normal", HARD_WORDS, session="a")
        ask(gateway, "normal", session="a")
        ask(gateway, "normal", HARD_WORDS, session="b")
        ask(gateway, "normal", session="b", reasoning_effort="medium", tools=[{"type": "function", "function": {"name": "f"}}])
        ask(gateway, "normal", HARD_WORDS, session="a", tier="hard")
        ask(gateway, "normal", HARD_WORDS, session="c", tier="easy")
        ask(gateway, "listed", HARD_WORDS, session="d", routing="off")
        ask(gateway, "normal", HARD_WORDS, session="d", provider="openai")
        ask(gateway, "refused-500", session="e")
        ask(gateway, "claude", HARD_WORDS, path=MESSAGES, session="a")
        ask(gateway, "claude", path="/v1/messages/count_tokens", session="a")
        labels = '{{alias="{}",reason="{}",tier="{}"}}'
        assert metric(gateway, "gomodel_pro_smartroute_requests_total") == {
            labels.format("normal", "score", "easy"): 1,
            labels.format("normal", "score", "hard"): 3,
            labels.format("normal", "session_pin", "hard"): 1,
            labels.format("normal", "explicit_reasoning", "hard"): 1,
            labels.format("normal", "forced", "hard"): 1,
            labels.format("normal", "forced", "easy"): 1,
            labels.format("refused-500", "score", "easy"): 1,
            labels.format("claude", "score", "hard"): 1,
        }
        escalations = metric(gateway, "gomodel_pro_smartroute_escalations_total")
        assert {name: count for name, count in escalations.items() if count} == {'{alias="normal"}': 1}
        assert metric(gateway, "gomodel_pro_smartroute_pins") == {"": 4.0}
        score = metric(gateway, "gomodel_pro_smartroute_score")
        buckets = {"0.0": 2, "1.0": 2, "2.0": 3, **dict.fromkeys(["3.0"], 3)}
        buckets |= dict.fromkeys(["4.0", "5.0", "6.0", "8.0", "10.0", "12.0", "16.0", "22.0", "+Inf"], 6)
        assert {name: count for name, count in score.items() if name.startswith('_bucket{alias="normal"')} == {
            f'_bucket{{alias="normal",le="{bound}"}}': count for bound, count in buckets.items()
        }
        assert (score['_count{alias="normal"}'], score['_sum{alias="normal"}']) == (6, 14)


def test_the_log_line_tells_the_decision_and_an_escalation_is_told_once(gateway: GatewayProcess, session: str) -> None:
    told = len(gateway.logged("tier_escalated", alias="other"))
    ask(gateway, "other", "hi", session=session)
    ask(gateway, "other", HARD_WORDS, session=session)
    ask(gateway, "other", HARD_WORDS, session=session)
    ask(gateway, "other", "thanks!", session=session)
    gateway.wait_for_log("request", session=session, reason="session_pin")
    lines = gateway.logged("request", session=session)
    assert [(line["alias"], line["tier"], line["score"], line["reason"], line["target"]) for line in lines] == [
        ("other", "easy", 0, "score", "openai/small"),
        ("other", "hard", 4, "score", "openai/large"),
        ("other", "hard", 4, "score", "openai/large"),
        ("other", "hard", 0, "session_pin", "openai/large"),
    ]
    assert len(gateway.logged("tier_escalated", alias="other")) == told + 1


def test_a_tier_target_that_resolves_to_nothing_is_warned_of_at_the_start(gateway: GatewayProcess) -> None:
    warnings = [line["message"] for line in gateway.logged("configuration", level="warning")]
    for place in ("broken.easy", "broken.hard", "nested.easy"):
        assert len([text for text in warnings if place in text]) == 1


def test_idle_smart_routing_is_hinted_at_once_and_only_while_it_is_on(tmp_path: Path) -> None:
    for extra, hints in (({}, 1), ({"PRO_SMART_ROUTING_ENABLED": "false"}, 0), ({"PRO_SMART_ROUTING_ROUTES": "{}"}, 1)):
        with GatewayProcess({"ECHO_ENABLED": "true", **extra}, directory=tmp_path) as gateway:
            assert ask(gateway, "echo-small").status == 200
            gateway.wait_for_log("request")
            assert len(gateway.logged("smart_routing_idle")) == hints
            assert ask(gateway, "normal").status == 404


def test_switched_off_smart_routing_leaves_aliases_unknown_and_headers_away(fake: FakeUpstream, tmp_path: Path) -> None:
    with GatewayProcess({**variables(fake), "PRO_SMART_ROUTING_ENABLED": "false"}, directory=tmp_path) as gateway:
        assert ask(gateway, "normal").status == 404
        listed = ask(gateway, "listed", HARD_WORDS, tier="hard")
        assert (listed.status, tier_of(listed), reached(listed)) == (200, NOT_ROUTED, ("openai/listed", "1"))
        assert "normal" not in [model["id"] for model in gateway.exchange("GET", "/v1/models").json()["data"]]
