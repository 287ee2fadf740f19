"""The phrases that ask for effort."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.effort_phrases import EFFORT_PHRASES
from gomodel_trio.route.folding import fold
from gomodel_trio.route.keywords import KeywordMatcher, compile_keywords

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "spec/vectors/scoring/phrases.json").read_text())
PHRASES = [phrase for phrases in EFFORT_PHRASES.values() for phrase in phrases]
LANGUAGES = {"en", "de", "es", "fr", "pt", "it", "nl", "pl", "ru", "uk", "tr", "zh", "ja", "ko"}


@pytest.fixture(scope="module")
def matcher() -> KeywordMatcher:
    return compile_keywords()


def test_every_language_has_phrases() -> None:
    assert set(EFFORT_PHRASES) == LANGUAGES


@pytest.mark.parametrize("phrase", PHRASES)
def test_every_phrase_is_found_by_itself_in_capitals_and_between_punctuation(phrase: str, matcher: KeywordMatcher) -> None:
    for text in (phrase, phrase.upper(), f"({phrase})", f"a\n{phrase}\nb", phrase.replace(" ", " -\n")):
        assert matcher.first_in([text]) is not None


@pytest.mark.parametrize(("phrase", "text"), VECTORS["hit"])
def test_a_hit_names_the_phrase_of_the_list(phrase: str, text: str, matcher: KeywordMatcher) -> None:
    assert fold(matcher.first_in([text]) or "") == fold(phrase)


@pytest.mark.parametrize("text", VECTORS["miss"])
def test_a_miss_names_none(text: str, matcher: KeywordMatcher) -> None:
    assert matcher.first_in([text]) is None


@pytest.mark.parametrize("case", VECTORS["extra"], ids=lambda case: f"{case['keywords']} {case['text']}")
def test_the_operators_list_adds_and_removes(case: dict[str, Any]) -> None:
    assert compile_keywords(tuple(case["keywords"])).first_in([case["text"]]) == case["hit"]


def test_every_text_is_looked_at_and_no_phrase_runs_across_two(matcher: KeywordMatcher) -> None:
    assert matcher.first_in(["hello", "step by step"]) == "step by step"
    assert matcher.first_in(["think", "hard"]) is None
    assert matcher.first_in([]) is None


def test_a_list_can_be_emptied() -> None:
    matcher = compile_keywords(tuple("-" + phrase for phrase in PHRASES))
    assert matcher.first_in(PHRASES) is None


def test_a_phrase_is_found_behind_many_that_are_not_free(matcher: KeywordMatcher) -> None:
    assert matcher.first_in(["think hardx " * 200 + "think hard"]) == "think hard"
    assert matcher.first_in(["xultrathink " * 200 + "ultrathink"]) == "ultrathink"
