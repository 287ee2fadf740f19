"""Where the parts of a JSON text lie: byte offsets of members, items and values.

Layer: wire. For callers that must keep or copy bytes as they were sent; what the bytes mean is msgspec's to say. One pass, no recursion:
a step ends at the next bracket outside a string, so the cost is linear whatever the nesting. Inside a nested value only brackets and
strings are looked at; a text that is no JSON gives ValueError or offsets of no meaning, never an endless loop. Source: RFC 8259.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

SHORT_STRING: Final = rb'"(?>(?:[^"\\]++|\\.)*)"'
"""A string with its quotes, as a pattern (flag DOTALL). Atomic: an unclosed string fails in linear time."""
STRING: Final = rb'"(?:(?>(?:[^"]*+(?<=[^\\]\\)")*)[^"]*+(?<!\\)"|(?>(?:[^"\\]++|\\.)*)")'
"""The same, five times faster on long text: it leaps from quote to quote, and starts again the slow way at one behind two backslashes."""
SPACE: Final = rb"[ \t\n\r]*+"

_SCALAR = re.compile(STRING + rb'|[^ \t\n\r,:\[\]{}"]++', re.DOTALL)
_TO_BRACKETS = re.compile(rb'(?>(?:[^"\[\]{}]++|' + STRING + rb")*)([\[{]++|[\]}]++)", re.DOTALL)
_OPEN_OBJECT = re.compile(SPACE + rb"\{" + SPACE + rb"(\}?)")
_OPEN_ARRAY = re.compile(SPACE + rb"\[" + SPACE + rb"(\]?)")
_KEY = re.compile(SPACE + rb"(" + SHORT_STRING + rb")" + SPACE + rb":" + SPACE, re.DOTALL)
_NEXT = re.compile(SPACE + rb"([,}\]])" + SPACE)
_FLAT_VALUE: Final = rb"(" + SHORT_STRING + rb'|[^ \t\n\r,:\[\]{}"]++)'
_FLAT_MEMBER = re.compile(_KEY.pattern + _FLAT_VALUE + SPACE + rb"([,}])" + SPACE, re.DOTALL)
"""A member whose value is no container, with what follows it: many small members are scanned in one step each."""
_OPENING = (0x5B, 0x7B)


class Member(NamedTuple):
    """One `"key": value` of an object, as offsets: the key with its quotes lies from `key_at` to `key_end`, the value likewise."""

    key_at: int
    key_end: int
    value_at: int
    value_end: int


def value_end(raw: bytes, at: int) -> int:
    """Find the end of the value that starts at offset `at` (a byte that is no white space).

    Raises:
        ValueError: nothing starts there, or what starts is not closed.
    """
    if raw[at : at + 1] not in (b"{", b"["):
        scalar = _SCALAR.match(raw, at)
        if scalar is None:
            raise ValueError("no JSON value")
        return scalar.end()
    depth = 1
    at += 1
    while (step := _TO_BRACKETS.match(raw, at)) is not None:
        at = step.end()
        count = at - step.start(1)
        if raw[at - 1] in _OPENING:
            depth += count
        elif count < depth:
            depth -= count
        else:
            return at - (count - depth)
    raise ValueError("a JSON value that is not closed")


def members(raw: bytes) -> Iterator[Member]:
    """Yield the members of the object that `raw` is, in order, every copy of a key; what follows the object is not looked at.

    Raises:
        ValueError: `raw` is no object.
    """
    opening = _OPEN_OBJECT.match(raw)
    if opening is None:
        raise ValueError("no JSON object")
    at, is_done = opening.end(), bool(opening[1])
    while not is_done:
        flat = _FLAT_MEMBER.match(raw, at)
        if flat is not None:
            yield Member(flat.start(1), flat.end(1), flat.start(2), flat.end(2))
            at, is_done = flat.end(), flat[3] == b"}"
            continue
        key = _KEY.match(raw, at)
        if key is None:
            raise ValueError("an object's member without a key")
        end = value_end(raw, key.end())
        yield Member(key.start(1), key.end(1), key.end(), end)
        at, is_done = _after(raw, end)


def items(raw: bytes) -> Iterator[bytes]:
    """Yield the items of the array that `raw` is, in order, as they were sent; nothing is read beyond the last one asked for.

    Raises:
        ValueError: `raw` is no array.
    """
    opening = _OPEN_ARRAY.match(raw)
    if opening is None:
        raise ValueError("no JSON array")
    at, is_done = opening.end(), bool(opening[1])
    while not is_done:
        end = value_end(raw, at)
        yield raw[at:end]
        at, is_done = _after(raw, end)


def _after(raw: bytes, end: int) -> tuple[int, bool]:
    """Step over what follows a value: the offset of the next key or item, and whether the container ends instead."""
    step = _NEXT.match(raw, end)
    if step is None:
        raise ValueError("a JSON value followed by neither comma nor bracket")
    return step.end(), step[1] != b","
