"""Requests, their features, and the points they make."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.features import Features
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import SmartRouting
from gomodel_trio.route.score import LARGEST_SCORE, Contribution, Verdict, score, score_request
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[3] / "spec/vectors/scoring/requests.json").read_text())["cases"]
MATCHER = compile_keywords()


def spelled_out(value: Any) -> Any:
    """The request of a vector, its long texts written out."""
    if isinstance(value, list):
        return [spelled_out(element) for element in value]
    if isinstance(value, dict):
        if "$times" in value:
            return value["$text"] + value["$char"] * value["$times"]
        return {name: spelled_out(member) for name, member in value.items()}
    return value


def verdict(request: Any, api: Api, threshold: int = 4) -> Verdict:
    return score_request(decode_envelope(json.dumps(request).encode()), api, SmartRouting(threshold=threshold), MATCHER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_request_makes_its_points(case: dict[str, Any]) -> None:
    got = verdict(spelled_out(case["request"]), Api(case["api"]))
    assert {one.signal: one.points for one in got.contributions if one.signal != "explicit_reasoning"} == case["signals"]
    assert got.is_explicit_reasoning == case["explicit_reasoning"]
    assert got.score == sum(case["signals"].values())
    assert got.tier is (Tier.HARD if got.is_explicit_reasoning or got.score >= 4 else Tier.EASY)


@pytest.mark.parametrize(("threshold", "tier"), [(0, Tier.HARD), (3, Tier.HARD), (4, Tier.EASY), (23, Tier.EASY)])
def test_the_threshold_decides(threshold: int, tier: Tier) -> None:
    assert score(Features(diagnostic="fence"), threshold=threshold).tier is tier


@pytest.mark.parametrize(
    ("scored", "points"),
    [
        (Features(tool_count=1), 2),
        (Features(tool_count=4), 2),
        (Features(tool_count=5), 4),
        (Features(char_count=1999), 0),
        (Features(char_count=2000), 1),
        (Features(char_count=7999), 1),
        (Features(char_count=8000), 3),
        (Features(char_count=31_999), 3),
        (Features(char_count=32_000), 6),
        (Features(item_count=6), 0),
        (Features(item_count=7), 1),
        (Features(attachment_count=9), 2),
        (Features(format="json_schema"), 2),
        (Features(keyword="think hard"), 4),
    ],
)
def test_each_signal_has_its_steps(scored: Features, points: int) -> None:
    assert score(scored, threshold=4).score == points


def test_the_largest_score_is_22() -> None:
    full = Features(
        keyword="step by step", diagnostic="fence", tool_count=99, format="json_object", attachment_count=1, char_count=10**9, item_count=99
    )
    assert score(full, threshold=4).score == LARGEST_SCORE == 22


def test_evidence_is_a_name_of_ours_or_a_count() -> None:
    request = {
        "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "Find my secret, STEP-BY-STEP!\n```secret"}],
        "tools": [{"type": "function"}],
    }
    assert verdict(request, Api.CHAT) == Verdict(
        Tier.HARD,
        9,
        True,
        (
            Contribution("explicit_reasoning", 0, "effort:high"),
            Contribution("keywords", 4, "step by step"),
            Contribution("code", 3, "fence"),
            Contribution("tools", 2, "1"),
        ),
    )


def test_a_thinking_type_is_not_shown_as_evidence() -> None:
    got = verdict({"messages": [], "thinking": {"type": "my secret"}}, Api.MESSAGES)
    assert got.contributions == (Contribution("explicit_reasoning", 0, "thinking"),)


def test_mode_pro_is_explicit() -> None:
    got = verdict({"input": "hi", "reasoning": {"mode": "pro"}}, Api.RESPONSES)
    assert got.contributions == (Contribution("explicit_reasoning", 0, "mode:pro"),)
