"""Canonical JSON: one spelling for all texts that say the same, byte for byte what Go writes for a decoded value.

Layer: wire. Source: behaviour.md §2; Go's encoding/json (a Decoder with UseNumber into `any`, then Marshal), checked against Go 1.26.
Object keys are sorted by their UTF-8 bytes and the last copy of a key counts; no white space; numbers keep their spelling; array order is
kept. In strings `<`, `>`, `&`, U+2028 and U+2029 are written as escapes of four hex digits in lower case, control characters as the short
escapes for \\b \\f \\n \\r \\t or else the same way; an escaped surrogate without its partner and each byte that is no UTF-8 count as
U+FFFD; all else is written as it is.

msgspec does the work. What it cannot do is prepared for it: fractions and exponents travel as Raw; `-0`, which it reads as the integer 0,
is lent a spelling that occurs nowhere in the text; broken strings are repaired first.
"""

import re
from typing import Any, Final

import msgspec

from gomodel_trio.wire.scan import STRING

_REPLACEMENT: Final = "\ufffd"
_ESCAPED_REPLACEMENT: Final = rb"\ufffd"
_HTML: Final = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))
_LINE_SEPARATORS: Final = (("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029"))

_UNDECODED_BYTE = re.compile("[\udc80-\udcff]")
_TO_SURROGATE = re.compile(
    rb"(?>(?:[^\\]++|\\[^u]|\\u[^dD]|\\u[dD][0-7])*)"
    rb"(?:(\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F]\\u[dD][c-fC-F][0-9a-fA-F][0-9a-fA-F])|(\\u[dD][89a-fA-F][0-9a-fA-F][0-9a-fA-F]))?"
)
_ZERO_END = rb"(?=[ \t\n\r,\]}]|\Z)"
_MAYBE_NEGATIVE_ZERO = re.compile(rb"-0" + _ZERO_END)
_TO_NEGATIVE_ZERO = re.compile(rb'(?>(?:[^"-]++|' + STRING + rb"|-[^0])*)(?:((?<=[eE])-0|-0(?!" + _ZERO_END + rb"))|(-0))?", re.DOTALL)
_LENT_ZEROS = re.compile(rb"-0e(0++)")

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(float_hook=msgspec.Raw)


def canonical(raw: bytes) -> bytes:
    """Rewrite one JSON value canonically.

    Raises:
        ValueError: it is no JSON, an integer has more than 4300 digits, or it is nested deeper than msgspec follows (some hundred levels).
    """
    return write(parse(raw))


def parse(raw: bytes) -> Any:
    """Read one JSON value into a tree that `write` writes canonically: dicts, lists, str, int, bool, None; other numbers are Raw.

    Raises:
        ValueError: as `canonical`.
    """
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return _decode(well_formed(raw))


def write(tree: Any) -> bytes:
    """Write a tree of `parse`, or any str without lone surrogates, canonically."""
    text = _encoder.encode(tree)
    for plain, escaped in _HTML:
        text = text.replace(plain, escaped)
    if not text.isascii():
        for plain, escaped in _LINE_SEPARATORS:
            text = text.replace(plain, escaped)
    return text


def well_formed(raw: bytes) -> bytes:
    """Put U+FFFD for what strict readers refuse in JSON strings: escaped surrogates without a partner, bytes that are no UTF-8.

    Everything else keeps its bytes; a text without such faults comes back equal.
    """
    text = raw.decode("utf-8", "surrogateescape")
    repaired = raw if text.isascii() else _UNDECODED_BYTE.sub(_REPLACEMENT, text).encode()
    return _ESCAPED_REPLACEMENT.join(_pieces(_TO_SURROGATE, repaired))


def _decode(raw: bytes) -> Any:
    try:
        if b"-0" in raw and _MAYBE_NEGATIVE_ZERO.search(raw) is not None:
            return _decode_negative_zeros(raw)
        return _decoder.decode(raw)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _decode_negative_zeros(raw: bytes) -> Any:
    """Decode with each `-0` outside strings spelled as a float that the text does not hold, so that the float hook sees it."""
    lent = b"-0e" + b"0" * (1 + max(map(len, _LENT_ZEROS.findall(raw)), default=0))

    def keep(spelling: str) -> msgspec.Raw:
        return msgspec.Raw("-0" if spelling == lent_text else spelling)

    lent_text = lent.decode()
    return msgspec.json.Decoder(float_hook=keep).decode(lent.join(_pieces(_TO_NEGATIVE_ZERO, raw)))


def _pieces(to_suspect: re.Pattern[bytes], raw: bytes) -> list[bytes]:
    """Split at each fault: `to_suspect` matches up to and including the next sound look-alike (group 1) or fault (group 2), if any."""
    pieces = []
    piece_at = at = 0
    while (match := to_suspect.match(raw, at)) is not None and match.lastindex is not None:
        at = match.end()
        if match.lastindex == 2:
            pieces.append(raw[piece_at : match.start(2)])
            piece_at = at
    return [*pieces, raw[piece_at:]]
