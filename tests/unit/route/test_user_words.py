"""The user's own words."""

import json
import re
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


def test_after_the_most_looks_the_rest_counts_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_words, "_MOST_LOOKS", 6)
    assert own_words("``a`` own " * 3) == "\n\0 own \0 own \0"


@pytest.mark.parametrize(
    "shape", ["`\n\n", "` ` ` \n\n", "` ``\n\n``` ````\n\n", "".join("`" * n + " " for n in range(1, 33)) + ("`" * 40 + " ") * 99]
)
def test_marks_without_number_are_looked_at_a_bounded_number_of_times(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class Counting:
        def match(self, text: str, start: int) -> re.Match[str] | None:
            nonlocal looks
            looks += 1
            return backticks.match(text, start)

    backticks = user_words._BACKTICKS
    monkeypatch.setattr(user_words, "_MOST_LOOKS", 50)
    monkeypatch.setattr(user_words, "_BACKTICKS", Counting())
    own_words(shape * 20)
    assert looks <= 100
