"""What the gateway would do with a request, from configuration alone or as things stand (behaviour.md §10)."""

import json
from functools import cache
from typing import Any

import msgspec
import pytest

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import Settings
from gomodel_trio.replay.documents import Explained, Refused, TierDocument
from gomodel_trio.replay.explain import Ground, explain, explain_live
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import SessionId, Tier
from gomodel_trio.route.score import RULES_VERSION
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.commands import Explain, Explanation, RouteTier, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Api
from support.inprocess import make_settings

VIRTUAL = [
    {"source": "pool", "strategy": "failover", "targets": [{"model": "a/m"}, {"model": "b/m"}, {"model": "x/m"}]},
    {"source": "mixed", "targets": [{"model": "x/m"}, {"model": "a/m"}]},
    {"source": "strict", "strategy": "failover", "failover": False, "targets": [{"model": "a/m"}, {"model": "b/m"}]},
    {"source": "team", "target": "a/m", "user_paths": ["/team"]},
    {"source": "nowhere", "target": "none/m"},
    {"source": "adaptive", "strategy": "adaptive", "targets": [{"model": "a/priced", "weight": 3}, {"model": "b/priced"}]},
]
ROUTES = '{"normal":{"easy":"a/m","hard":"pool"}}'


@cache
def settings() -> Settings:
    variables = {"VIRTUAL_MODELS": json.dumps(VIRTUAL), "PRO_SMART_ROUTING_ROUTES": ROUTES}
    priced = {
        name: {"type": "openai_compatible", "models": [{"id": "priced", "pricing": {"input_per_mtok": 1, "output_per_mtok": output}}]}
        for name, output in (("a", 3), ("b", 1))
    }
    for name, section in priced.items():
        section |= {"api_key": f"key-of-{name}", "base_url": f"http://{name}.test/v1"}
    return make_settings(variables, {"providers": {"none": {"type": "openai"}, **priced}})


def explained(model: str = "normal", text: str = "hi", api: Api = Api.CHAT, headers: dict[str, str] | None = None, **more: Any) -> Any:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": text}], **more}).encode()
    sent = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return json.loads(msgspec.json.encode(explain(settings(), api, sent, body)))


def test_all_of_a_decision() -> None:
    shown = explained(text="think hard", headers={"x-session-id": "s", "x-gomodel-user-path": "team"})
    assert (shown["is_live"], shown["now_s"], shown["api"], shown["kind"]) == (False, None, "openai.chat", "unary")
    assert (shown["model"], shown["user_path"]) == ("normal", "/team")
    assert shown["session"].startswith("scoped-")
    assert shown["score"] == {
        "score": 4,
        "threshold": 4,
        "explicit_reasoning": False,
        "verdict": "hard",
        "contributions": [{"signal": "keywords", "points": 4, "evidence": "think hard"}],
        "rules_version": RULES_VERSION,
    }
    assert shown["tier"] == {
        "alias": "normal",
        "tier": "hard",
        "target": "pool",
        "reason": "score",
        "pin": None,
        "pin_left_s": None,
        "is_escalated": False,
    }
    candidates = shown["resolution"].pop("candidates")
    assert [candidate["name"] for candidate in candidates] == ["a/m", "b/m", "x/m"]
    assert candidates[0] == {
        "name": "a/m",
        "standing": "well",
        "cooldown_left_s": 0.0,
        "cooldown_reason": None,
        "in_flight": 0,
        "estimates": {"stream_s": None, "unary_s": None},
        "latency_s": None,
        "load_s": None,
        "price_usd_per_mtok": None,
        "weight": None,
        "share": None,
        "is_warm": False,
        "is_pinned": False,
        "strategy": None,
        "candidates": [],
    }
    assert shown["resolution"] == {
        "name": "pool",
        "provider": None,
        "virtual_model": "pool",
        "strategy": "failover",
        "unavailable": [],
        "pin": None,
        "target": "a/m",
        "reason": "failover",
        "draws": None,
        "then": ["b/m", "x/m"],
        "why": None,
        "status": None,
        "retry_after_s": None,
    }


def test_an_adaptive_model_is_weighed_by_prices_and_configured_weights() -> None:
    resolution = explained("adaptive", stream=True)["resolution"]
    weighed = [(one["price_usd_per_mtok"], one["weight"], one["share"], one["latency_s"]) for one in resolution["candidates"]]
    assert weighed == [(4.0, 1.5, 0.6, 1.0), (2.0, 1.0, 0.4, 1.0)]
    assert (resolution["target"], resolution["reason"], resolution["draws"]) == ("a/priced", "p2c", [0.0, 0.0])


@pytest.mark.parametrize(
    ("more", "tier", "reason"),
    [
        ({}, "easy", "score"),
        ({"reasoning_effort": "high"}, "hard", "explicit_reasoning"),
        ({"headers": {"x-gomodel-tier": "hard"}}, "hard", "forced"),
        ({"headers": {"x-gomodel-tier": "easy"}, "reasoning_effort": "high"}, "easy", "forced"),
    ],
)
def test_the_tier_and_its_reason(more: dict[str, Any], tier: str, reason: str) -> None:
    shown = explained(**more)
    assert (shown["tier"]["tier"], shown["tier"]["reason"]) == (tier, reason)
    assert shown["resolution"]["target"] == "a/m"


def test_where_nothing_is_scored_an_alias_means_its_easy_target() -> None:
    shown = explained(text="think hard", api=Api.EMBEDDINGS)
    assert (shown["score"], shown["tier"]["tier"], shown["tier"]["reason"]) == (None, "easy", "unscored")


def test_an_alias_that_is_switched_off_or_named_with_a_provider_is_an_ordinary_name() -> None:
    off = explained(headers={"x-gomodel-smart-routing": "off"})
    assert (off["tier"], off["resolution"]["why"], off["resolution"]["status"]) == (None, "unknown", 404)
    provided = explained(provider="b")
    assert (provided["tier"], provided["resolution"]["target"], provided["resolution"]["provider"]) == (None, "b/normal", "b")


def test_a_concrete_name_has_no_strategy() -> None:
    found = explained("b/any")["resolution"]
    assert (found["virtual_model"], found["strategy"], found["then"]) == (None, None, [])
    assert [candidate["name"] for candidate in found["candidates"]] == ["b/any"]


def test_without_failover_nothing_follows() -> None:
    assert explained("strict")["resolution"]["then"] == []


def test_targets_of_the_other_dialect_are_passed_over_or_refused() -> None:
    assert explained("mixed", api=Api.EMBEDDINGS)["resolution"]["target"] == "a/m"
    assert explained("mixed", api=Api.COUNT_TOKENS)["resolution"]["target"] == "x/m"
    refused = explained("a/m", api=Api.COUNT_TOKENS)["resolution"]
    assert (refused["target"], refused["why"], refused["status"]) == ("a/m", "dialect_mismatch", 400)


@pytest.mark.parametrize(
    ("model", "why", "status"),
    [("nothing", "unknown", 404), ("team", "forbidden", 404), ("nowhere", "unavailable", 503), ("none/m", "unavailable", 503)],
)
def test_why_no_target_would_be_asked(model: str, why: str, status: int) -> None:
    found = explained(model)["resolution"]
    assert (found["target"], found["why"], found["status"]) == (None, why, status)


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", "invalid_json"), (b"", "invalid_json"), (b"[]", "invalid_json"), (b"{}", "missing_model")]
)
def test_a_body_that_would_be_refused_gives_the_refusal(body: bytes, code: str) -> None:
    refused = explain(settings(), Api.CHAT, [], body)
    assert isinstance(refused, Refused)
    assert (refused.error.status, refused.error.code) == (400, code)


async def test_a_running_gateway_is_asked_once_and_only_what_leaves_its_state_alone() -> None:
    state, asked = RoutingState(compile_policy(settings())), []
    step(state, Stamped(1, 0.0, (0.5, 0.5), RouteTier("normal", SessionId("s"), Tier.HARD)))

    async def ask(command: Explain) -> Explanation:
        asked.append(command)
        reply, facts = step(state, Stamped(2, 5.0, (0.25, 0.75), command))
        assert isinstance(reply, Explanation)
        assert facts == ()
        return reply

    ground = Ground(compile_policy(settings()), compile_keywords(()), SessionDetector(settings().session))
    body = b'{"model":"normal","messages":[{"role":"user","content":"hi"}]}'
    shown = await explain_live(ground, Api.CHAT, [(b"x-session-id", b"s")], body, ask=ask)
    assert isinstance(shown, Explained)
    assert (shown.is_live, shown.now_s, len(asked)) == (True, 5.0, 1)
    assert shown.tier == TierDocument("normal", "hard", "pool", "session_pin", pin="hard", pin_left_s=1795.0)
    assert shown.resolution.name == "pool"
    forced = await explain_live(ground, Api.CHAT, [(b"x-session-id", b"s"), (b"x-gomodel-tier", b"easy")], body, ask=ask)
    assert isinstance(forced, Explained)
    assert forced.tier == TierDocument("normal", "easy", "a/m", "forced")
    assert isinstance(await explain_live(ground, Api.CHAT, [], b"{", ask=ask), Refused)
