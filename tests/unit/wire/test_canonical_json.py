"""Canonical JSON, against vectors taken from Go's encoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.wire.canonical_json import canonical, well_formed, write

VECTORS = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "canonical_json.json").read_text())["cases"]


def _text(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["text_hex"]) if "text_hex" in case else case["text"].encode()


@pytest.mark.parametrize("case", [case for case in VECTORS if "expect" in case], ids=lambda case: case["name"])
def test_the_canonical_form_is_what_go_writes(case: dict[str, Any]) -> None:
    assert canonical(_text(case)) == case["expect"].encode()


@pytest.mark.parametrize("case", [case for case in VECTORS if "expect" in case], ids=lambda case: case["name"])
def test_the_canonical_form_of_a_canonical_form_is_itself(case: dict[str, Any]) -> None:
    assert canonical(case["expect"].encode()) == case["expect"].encode()


@pytest.mark.parametrize("case", [case for case in VECTORS if "refused" in case], ids=lambda case: case["name"])
def test_what_is_no_json_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical(_text(case))


def test_nesting_that_cannot_be_followed_is_refused_not_a_recursion_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        canonical(b"[" * 100_000 + b"]" * 100_000)


def test_nesting_of_some_hundred_levels_is_followed() -> None:
    assert canonical(b" [" * 300 + b"]" * 300) == b"[" * 300 + b"]" * 300


def test_an_integer_that_python_would_not_print_is_refused() -> None:
    with pytest.raises(ValueError, match="out of range"):
        canonical(b"9" * 5000)


def test_any_text_is_written_as_a_string() -> None:
    assert write("/team<a>") == rb'"/team\u003ca\u003e"'


@pytest.mark.parametrize(
    ("raw", "repaired"),
    [
        (b'{"a": 1.0}', b'{"a": 1.0}'),
        ('"é\u2028"'.encode(), '"é\u2028"'.encode()),
        (rb'"\ud83e\udd16 \\ud83e \u00e9 \n"', rb'"\ud83e\udd16 \\ud83e \u00e9 \n"'),
        (rb'"\ud83e \uDD16\ud83e"', rb'"\ufffd \ufffd\ufffd"'),
        (b'"\xff\xe4\xbd."', '"\ufffd\ufffd\ufffd."'.encode()),
        (b"\\", b"\\"),
        (rb"\ud8", rb"\ud8"),
    ],
)
def test_only_broken_strings_are_repaired(raw: bytes, repaired: bytes) -> None:
    assert well_formed(raw) == repaired
