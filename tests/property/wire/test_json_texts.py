"""Properties of the JSON texts that are rewritten: whatever the layout, only what should change does."""

import contextlib
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.wire.canonical_json import canonical, well_formed
from gomodel_trio.wire.scan import items, members
from gomodel_trio.wire.splice import rewrite, swap_model

SPACES = st.sampled_from(["", "", "", " ", "\n", "\t\r\n "])
NAMES = st.sampled_from(["model", "provider", 'x"model', "mode", "messages", "<", "é"])
NUMBERS = st.sampled_from(["0", "-0", "-0.0", "1.50", "1E5", "7e-0", "36893488147419103232"])
TEXTS = st.text(alphabet='ab"\\/{}[]:,<&\n\x00\u2028é🤖', max_size=8) | NAMES


def _escaped(text: str, choice: int) -> str:
    """A JSON spelling of a text: plain, ASCII only, or every UTF-16 unit escaped."""
    if choice == 2:
        units = text.encode("utf-16-be")
        return '"' + "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2)) + '"'
    return json.dumps(text, ensure_ascii=choice == 1)


STRINGS = st.builds(_escaped, TEXTS, st.integers(0, 2))
KEYS = st.builds(_escaped, NAMES, st.integers(0, 2))


@st.composite
def _container(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    if draw(st.booleans()):
        return _laid_out(draw, "[]", draw(st.lists(inner, max_size=4)))
    return _laid_out(draw, "{}", [f"{draw(KEYS)}{draw(SPACES)}:{draw(SPACES)}{value}" for value in draw(st.lists(inner, max_size=4))])


def _laid_out(draw: st.DrawFn, brackets: str, parts: list[str]) -> str:
    return brackets[0] + draw(SPACES) + ",".join(f"{draw(SPACES)}{part}{draw(SPACES)}" for part in parts) + brackets[1]


VALUES = st.recursive(STRINGS | NUMBERS | st.sampled_from(["true", "false", "null"]), _container, max_leaves=12)


@st.composite
def _objects(draw: st.DrawFn) -> bytes:
    parts = [f"{draw(KEYS)}{draw(SPACES)}:{draw(SPACES)}{draw(VALUES)}" for _ in range(draw(st.integers(0, 6)))]
    return f"{draw(SPACES)}{_laid_out(draw, '{}', parts)}{draw(SPACES)}".encode()


def _pairs(body: bytes) -> list[tuple[str, Any]]:
    """The members of the outermost object, every copy; numbers as spelled."""
    found: list[tuple[str, Any]] = []

    def collect(pairs: list[tuple[str, Any]]) -> Any:
        found[:] = pairs
        return pairs

    json.loads(body, object_pairs_hook=collect, parse_int=str, parse_float=str)
    return found


@given(_objects())
def test_swapping_the_model_changes_every_copy_and_no_other_member(body: bytes) -> None:
    before = _pairs(body)
    if not any(name == "model" for name, _ in before):
        return

    after = _pairs(swap_model(body, 'n"é'))

    assert after == [(name, 'n"é' if name == "model" else value) for name, value in before]


@given(_objects())
def test_every_byte_outside_the_models_value_is_kept(body: bytes) -> None:
    places = [m for m in members(body) if json.loads(body[m.key_at : m.key_end]) == "model"]
    if not places:
        return

    kept, at = [], 0
    for place in places:
        kept.append(body[at : place.value_at])
        at = place.value_end
    kept.append(body[at:])

    assert swap_model(body, "new") == b'"new"'.join(kept)


@given(_objects())
def test_dropping_the_provider_takes_its_strings_and_no_other_member(body: bytes) -> None:
    before = _pairs(body)

    after = rewrite(body, drop_provider=True)

    assert _pairs(after) == [(name, value) for name, value in before if not (name == "provider" and _is_text(body, name, value))]


def _is_text(body: bytes, name: str, value: Any) -> bool:
    """Numbers are collected as strings too: only what is a string in the text is one."""
    texts = {body[m.value_at : m.value_end] for m in members(body) if json.loads(body[m.key_at : m.key_end]) == name}
    return isinstance(value, str) and any(text[:1] == b'"' and json.loads(text) == value for text in texts)


@given(_objects())
def test_doing_both_at_once_is_doing_one_after_the_other(body: bytes) -> None:
    if any(name == "model" for name, _ in _pairs(body)):
        assert rewrite(body, model="m", drop_provider=True) == rewrite(swap_model(body, "m"), drop_provider=True)


@given(st.binary(max_size=60) | _objects().flatmap(lambda body: st.builds(lambda at: body[:at], st.integers(0, len(body)))))
def test_any_bytes_are_spliced_or_refused(body: bytes) -> None:
    for model, drop_provider in (("m", False), (None, True)):
        with contextlib.suppress(ValueError):
            rewrite(body, model=model, drop_provider=drop_provider)


@given(VALUES)
def test_the_canonical_form_means_the_same_and_keeps_every_number(text: str) -> None:
    written = canonical(text.encode())

    assert json.loads(written, parse_int=str, parse_float=str) == json.loads(text, parse_int=str, parse_float=str)
    assert canonical(written) == written
    assert not re.search(rb"[<>&\x00-\x1f]|\xe2\x80[\xa8\xa9]", written)


@given(VALUES, st.data())
def test_the_canonical_form_does_not_depend_on_layout_order_or_escapes(text: str, data: st.DataObject) -> None:
    tree = json.loads(text, parse_int=lambda _: 7, parse_float=lambda _: 7)
    indent = data.draw(st.sampled_from([None, 1]))
    respelled = json.dumps(tree, indent=indent, ensure_ascii=data.draw(st.booleans()), sort_keys=data.draw(st.booleans()))

    assert canonical(respelled.encode()) == canonical(json.dumps(tree).encode())


@given(st.binary(max_size=60) | st.text(alphabet='"\\ud83edd16x', max_size=40).map(str.encode))
def test_repairing_is_idempotent_and_ends_in_utf8(raw: bytes) -> None:
    repaired = well_formed(raw)

    repaired.decode()
    assert well_formed(repaired) == repaired


@settings(max_examples=50)
@given(st.lists(VALUES, max_size=5), SPACES)
def test_the_items_of_an_array_are_found_byte_for_byte(values: list[str], space: str) -> None:
    raw = "[" + ",".join(space + value + space for value in values) + "]"

    assert list(items(raw.encode())) == [value.encode() for value in values]
