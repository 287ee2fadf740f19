"""What a JSON body may hold beyond its grammar: bounded nesting, bounded numbers, whole surrogate pairs.

Layer: wire. Source: behaviour.md §9 (deep or huge JSON is a 400, lone surrogates are forwarded and scored as U+FFFD).

Every function takes a body that is already known to be well-formed JSON (or, for surrogates, well-formed but for them), runs in
linear time, and begins with a test that ends it at once for an ordinary body.
"""

import re
from typing import Final

MAX_NESTING: Final = 512
"""Deepest nesting of arrays and objects. Ours, so that it is the same under every Python; real bodies stay under 40."""

MAX_NUMBER_DIGITS: Final = 4300
"""Digits of one number: what CPython converts at most by default; a reader behind us may fail on more."""

_COLLAPSES: Final = 16
"""Passes that strip innermost pairs before counting: then a body of n brackets has at most n/16 runs left."""

_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_ONE_BRACKET: Final = bytes.maketrans(b"{}", b"[]")
_BRACKET_RUN: Final = re.compile(rb"\[+|\]+")

_SAMPLE_STRIDE: Final = 1024
_FOUR_NUMBER_BYTES: Final = re.compile(rb"[0-9.eE+-]{4}")
_STRING_OR_NUMBER: Final = re.compile(rb'"(?>(?:[^"\\]++|\\.)*)"|[0-9.eE+-]++', re.DOTALL)

_UP_TO_LONE_SURROGATE: Final = re.compile(
    rb"(?>(?:[^\\]++|\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB]..\\u[dD][c-fC-F]..))*)(\\u[dD][89a-fA-F]..)?",
    re.DOTALL,
)


def is_nested_too_deep(body: bytes) -> bool:
    """Whether arrays and objects are nested deeper than `MAX_NESTING`."""
    if body.count(b"[") + body.count(b"{") <= MAX_NESTING:
        return False
    if b"\\" in body:
        # A run of backslashes pairs up from its left, so this leaves exactly those quotes that delimit strings.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Dropping "" joins two neighbouring strings into one, which keeps what is inside of strings and what is outside.
    quoted = body.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(quoted.split(b'"')[::2]).translate(_ONE_BRACKET)
    for stripped in range(_COLLAPSES):
        if len(brackets) <= 2 * (MAX_NESTING - stripped):
            return False
        brackets = brackets.replace(b"[]", b"")
    return _depth(brackets) + _COLLAPSES > MAX_NESTING


def _depth(brackets: bytes) -> int:
    deepest = depth = 0
    for run in _BRACKET_RUN.finditer(brackets):
        length = run.end() - run.start()
        if brackets[run.start()] == 0x5B:
            depth += length
            deepest = max(deepest, depth)
        else:
            depth -= length
    return deepest


def has_huge_number(body: bytes) -> bool:
    """Whether a number token outside of strings has more than `MAX_NUMBER_DIGITS` digits."""
    if len(body) <= MAX_NUMBER_DIGITS or _FOUR_NUMBER_BYTES.search(body[::_SAMPLE_STRIDE]) is None:
        return False  # such a token spans at least four sampled bytes
    for token in _STRING_OR_NUMBER.finditer(body):
        start, end = token.span()
        if end - start > MAX_NUMBER_DIGITS and body[start] != 0x22:
            digits = token[0].translate(None, b".eE+-")
            if len(digits) > MAX_NUMBER_DIGITS:
                return True
    return False


def without_lone_surrogates(body: bytes) -> bytes:
    r"""The body with each escape of a lone surrogate (`\ud800`) written `\ufffd`: the same length, every other byte as it was."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    copy: bytearray | None = None
    for match in _UP_TO_LONE_SURROGATE.finditer(body):
        if match[1] is not None:
            if copy is None:
                copy = bytearray(body)
            copy[match.start(1) : match.end(1)] = b"\\ufffd"
    return body if copy is None else bytes(copy)
