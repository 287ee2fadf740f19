"""What the gateway would do with a request, from configuration alone (behaviour.md §10)."""

import json
from functools import cache
from typing import Any

import pytest

from gomodel_trio.config.settings import Settings
from gomodel_trio.replay.explain import explain
from gomodel_trio.route.score import RULES_VERSION
from gomodel_trio.wire.dialect import Api
from support.inprocess import make_settings

VIRTUAL = [
    {"source": "pool", "strategy": "failover", "targets": [{"model": "a/m"}, {"model": "b/m"}, {"model": "x/m"}]},
    {"source": "mixed", "targets": [{"model": "x/m"}, {"model": "a/m"}]},
    {"source": "strict", "strategy": "failover", "failover": False, "targets": [{"model": "a/m"}, {"model": "b/m"}]},
    {"source": "team", "target": "a/m", "user_paths": ["/team"]},
    {"source": "nowhere", "target": "none/m"},
]
ROUTES = '{"normal":{"easy":"a/m","hard":"pool"}}'


@cache
def settings() -> Settings:
    variables = {"VIRTUAL_MODELS": json.dumps(VIRTUAL), "PRO_SMART_ROUTING_ROUTES": ROUTES}
    return make_settings(variables, {"providers": {"none": {"type": "openai"}}})


def explained(model: str = "normal", text: str = "hi", api: Api = Api.CHAT, headers: dict[str, str] | None = None, **more: Any) -> Any:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": text}], **more}).encode()
    sent = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return json.loads(json.dumps(explain(settings(), api, sent, body)))


def test_all_of_a_decision() -> None:
    shown = explained(text="think hard", headers={"x-session-id": "s", "x-gomodel-user-path": "team"})
    assert shown["api"] == "openai.chat"
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
    assert shown["tier"] == {"alias": "normal", "tier": "hard", "target": "pool", "reason": "score"}
    assert shown["resolution"] == {
        "name": "pool",
        "provider": None,
        "virtual_model": "pool",
        "strategy": "failover",
        "candidates": ["a/m", "b/m"],
        "target": "a/m",
        "reason": "failover",
        "then": ["b/m"],
    }


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
    assert (found["virtual_model"], found["strategy"], found["candidates"], found["then"]) == (None, None, ["b/any"], [])


def test_without_failover_nothing_follows() -> None:
    assert explained("strict")["resolution"]["then"] == []


def test_targets_of_the_other_dialect_are_passed_over_or_refused() -> None:
    assert explained("mixed")["resolution"]["target"] == "a/m"
    assert explained("mixed", api=Api.MESSAGES)["resolution"]["target"] == "x/m"
    refused = explained("a/m", api=Api.MESSAGES)["resolution"]
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
    error = explain(settings(), Api.CHAT, [], body)["error"]
    assert (error["status"], error["code"]) == (400, code)
