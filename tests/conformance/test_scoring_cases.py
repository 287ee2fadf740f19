"""The shared cases of tier scoring, where they are at hand."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.effort_phrases import EFFORT_PHRASES
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import SmartRouting
from gomodel_trio.route.score import Verdict, score_request
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope

SHARED = Path(os.environ.get("GOMODEL_TRIO_SHARED", Path(__file__).parents[3] / "shared"))
CASES = SHARED / "cases"
MATCHER = compile_keywords()
SMART = SmartRouting()

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not at hand")


def verdict(request: Any, api: str, *, is_escaped: bool = False) -> Verdict:
    body = json.dumps(request, ensure_ascii=is_escaped).encode()
    return score_request(decode_envelope(body), Api(api), SMART, MATCHER)


def lines(name: str) -> list[Any]:
    path = CASES / "scoring" / name
    cases = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [pytest.param(case, id=case["id"]) for case in cases]


def keywords(kind: str) -> list[Any]:
    path = CASES / "scoring" / "keywords.json"
    return json.loads(path.read_text())[kind] if path.is_file() else []


def listed_phrases() -> list[str]:
    phrases = keywords("phrases")
    return [phrase for language in phrases for phrase in phrases[language]] if phrases else []


def captured() -> list[Any]:
    found = []
    for path in sorted((CASES / "captures").glob("*/expected.json")):
        for entry in json.loads(path.read_text()):
            if "score" in entry:
                found.append(pytest.param(path.parent / entry["file"], entry, id=f"{path.parent.name}/{entry['file']}"))
    return found


def user_says(text: str) -> Verdict:
    return verdict({"model": "normal", "messages": [{"role": "user", "content": text}]}, "openai.chat")


@pytest.mark.parametrize("is_escaped", [False, True])
@pytest.mark.parametrize("case", lines("traps.jsonl"))
def test_a_trap_is_scored_as_expected(case: dict[str, Any], is_escaped: bool) -> None:
    expect = case["expect"]
    got = verdict(case["request"], case["api"], is_escaped=is_escaped)
    assert got.tier == Tier(expect["tier"])
    assert got.is_explicit_reasoning == expect["explicit_reasoning"]
    if expect["score"] is not None:
        assert got.score == expect["score"]
    if expect["signals"] is not None:
        assert {one.signal: one.points for one in got.contributions} == expect["signals"]


@pytest.mark.parametrize("case", [*lines("easy.jsonl"), *lines("hard.jsonl")])
def test_a_sample_gets_its_tier(case: dict[str, Any]) -> None:
    assert verdict(case["request"], case["api"]).tier == Tier(case["expect"]["tier"])


@pytest.mark.parametrize("case", lines("sequences.jsonl"))
def test_every_step_of_a_sequence_gets_its_tier(case: dict[str, Any]) -> None:
    expected = [(step["step"], step["expect"]["tier_alone"]) for step in case["steps"] if "tier_alone" in step["expect"]]
    got = [(step["step"], verdict(step["request"], case["api"]).tier.value) for step in case["steps"] if "tier_alone" in step["expect"]]
    assert got == expected


@pytest.mark.parametrize("phrase", listed_phrases())
def test_every_listed_phrase_is_a_hit(phrase: str) -> None:
    assert user_says(phrase).score == 4


@pytest.mark.parametrize("text", keywords("hit"))
def test_a_hit_scores_four(text: str) -> None:
    assert user_says(text).score == 4


@pytest.mark.parametrize("text", keywords("miss"))
def test_a_miss_has_no_keyword(text: str) -> None:
    assert "keywords" not in {one.signal for one in user_says(text).contributions}


def test_the_listed_languages_are_ours() -> None:
    assert set(keywords("phrases")) <= set(EFFORT_PHRASES)


@pytest.mark.parametrize(("path", "entry"), captured())
def test_a_captured_request_is_scored_as_expected(path: Path, entry: dict[str, Any]) -> None:
    got = verdict(json.loads(path.read_text())["body"], entry["api"])
    assert (got.tier.value, got.score, got.is_explicit_reasoning) == (
        entry["tier_alone"],
        entry["score"],
        entry["explicit_reasoning"],
    )
