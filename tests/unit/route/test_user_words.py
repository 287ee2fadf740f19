"""The user's own words."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route import user_words
from gomodel_trio.route.user_words import own_words

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[3] / "spec/vectors/scoring/own_words.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["text"])[:40])
def test_only_the_users_own_words_are_left(case: dict[str, Any]) -> None:
    words = own_words(case["text"])
    if "own" in case:
        assert words == ""
        return
    assert [kept for kept in case["keep"] if kept not in words] == []
    assert [dropped for dropped in case["drop"] if dropped in words] == []


def test_words_around_a_cut_are_not_neighbours() -> None:
    assert own_words("think `x` hard") == "\nthink \0 hard"
    assert own_words("think<system-reminder></system-reminder>hard") == "think\0hard"


def test_after_the_most_blocks_the_rest_counts_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_words, "_MOST_CUTS", 3)
    assert own_words("``a`` own " * 3) == "\n\0 own \0 own \0"
