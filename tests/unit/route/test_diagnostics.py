"""Code blocks, diffs and stack traces, and the prose that looks like them."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route import diagnostics
from gomodel_trio.route.diagnostics import find_diagnostic

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "spec/vectors/scoring/diagnostics.json").read_text())


@pytest.mark.parametrize(("name", "text"), VECTORS["hit"])
def test_a_diagnostic_is_found_by_its_name(name: str, text: str) -> None:
    assert find_diagnostic([text]) == name


@pytest.mark.parametrize("text", VECTORS["miss"])
def test_what_only_looks_like_a_diagnostic_is_none(text: str) -> None:
    assert find_diagnostic([text]) is None


@pytest.mark.parametrize(("name", "text"), VECTORS["hit"])
def test_a_diagnostic_is_found_in_a_later_text_and_on_a_later_line(name: str, text: str) -> None:
    assert find_diagnostic(["Why does it fail?", "at last\n#1 guess\n" + text + "\nThanks"]) == name


def test_no_texts_hold_no_diagnostic() -> None:
    assert find_diagnostic([]) is None


@pytest.mark.parametrize(
    "unit",
    [
        "at ",
        "\nat (a.b:1",
        "\n#1 a (b) at ",
        "f() called at ",
        "thread 'a' panicked at ",
        ":1:in `",
        "a@http://b:1:",
        ") in ",
        "\nCaused by: a.",
    ],
)
def test_a_long_run_of_a_near_miss_is_none(unit: str) -> None:
    assert find_diagnostic(["at " + unit * 1000]) is None


def test_a_trace_is_found_wherever_the_stretches_of_a_long_text_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_STRETCH", 16)
    for length in range(64):
        assert find_diagnostic(["x" * length + "\nat nowhere\ngoroutine 1 [running]:"]) == "go_goroutine"
        assert find_diagnostic(["x" * length + "\nat nowhere\ngoroutines 1"]) is None


def test_only_so_many_lines_that_look_like_a_trace_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_MOST_CANDIDATES", 3)
    assert find_diagnostic(["at a\n" * 2 + "panic: x"]) == "go_panic"
    assert find_diagnostic(["at a\n" * 3 + "panic: x"]) is None
    assert find_diagnostic(["x called at y\n" * 2 + "f(1) called at a.pl line 3"]) == "perl_trace"
    assert find_diagnostic(["x called at y\n" * 3 + "f(1) called at a.pl line 3"]) is None
