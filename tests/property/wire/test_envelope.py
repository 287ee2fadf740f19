"""The envelope agrees with the standard library on what is JSON, and measures nesting exactly."""

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gomodel_trio.errors import ClientFault
from gomodel_trio.wire.json_limits import MAX_NESTING, is_nested_too_deep, without_lone_surrogates
from gomodel_trio.wire.view import decode_envelope

TOKENS = [
    '{"a":',
    "[",
    "]",
    "}",
    ",",
    '"',
    '"x"',
    '"]"',
    '"\\\\"',
    '"\\""',
    "1",
    "-",
    "0",
    "1e5",
    ".",
    "null",
    "true",
    "\\u00e9",
    '"\\n"',
    " ",
]


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body, parse_constant=_refuse), dict)
    except ValueError:
        return False


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(lambda tokens: ('{"a":' + "".join(tokens) + "}").encode()))
def test_the_envelope_accepts_what_is_a_json_object(body: bytes) -> None:
    try:
        decode_envelope(body)
        is_accepted = True
    except ClientFault:
        is_accepted = False
    assert is_accepted == is_object(body)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(ClientFault):
        decode_envelope(body)


@given(
    depth=st.integers(MAX_NESTING - 30, MAX_NESTING + 30),
    side=st.sampled_from(["", '"]]"', '"\\"["', '"\\\\"', "[[[]]]", '{"}":"{"}', "[]," * 600 + "[]"]),
    is_array=st.booleans(),
)
def test_nesting_is_measured_exactly(depth: int, side: str, is_array: bool) -> None:
    inner: Any = side or "0"
    opening, closing = ("[", "]") if is_array else ('{"k":', "}")
    body = f'{{"a":{opening * (depth - 2)}[{inner}]{closing * (depth - 2)}}}'.encode()
    own = depth + {"[[[]]]": 3, '{"}":"{"}': 1, "[]," * 600 + "[]": 1}.get(side, 0)
    assert is_nested_too_deep(body) == (own > MAX_NESTING)


@given(st.lists(st.sampled_from(["\\ud83d", "\\ude00", "\\\\", "\\n", "ud800", "x", "\\uDBFF", "\\u0041"]), max_size=12).map("".join))
def test_only_lone_surrogates_are_replaced(text: str) -> None:
    body = f'"{text}"'.encode()
    value = json.loads(body)
    expected = "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in value)
    assert json.loads(without_lone_surrogates(body)) == expected
