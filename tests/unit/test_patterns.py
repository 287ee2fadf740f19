"""The package's patterns mean the same under every Python it supports."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gomodel_trio"

_CLASS_OR_ESCAPE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_POSSESSIVE_GROUP = re.compile(r"(?:\)|\A)(?:[*+?]|\{\d*,?\d*\})\+")


def possessive_group_in(pattern: str | bytes) -> str | None:
    """What a pattern, or a piece of one, holds of a group repeated possessively: `(ab)*+`. One character or a class may be: `[ab]*+`."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    match = _POSSESSIVE_GROUP.search(_CLASS_OR_ESCAPE.sub("c", text))
    return None if match is None else match[0]


@pytest.mark.parametrize("pattern", ["(?:ab)*+", "(a|b)++", "(?:a[)]b)?+", r"(\))*+", "(?:ab){2,}+", b"(?:ab){3}+", b")*+(c)", "*+"])
def test_a_group_repeated_possessively_is_found(pattern: str | bytes) -> None:
    assert possessive_group_in(pattern) is not None


@pytest.mark.parametrize("pattern", ["[ab)]*+", r"\)++", "(?>(?:ab)*)", "(?:a++|b)*", "(?:[^)]+)+", "[()*+,;=]", r"[\])*+]"])
def test_other_repetitions_are_not(pattern: str | bytes) -> None:
    assert possessive_group_in(pattern) is None


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 matches such patterns wrongly; an atomic group around a plain repetition says the same and is right."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and possessive_group_in(node.value):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []
