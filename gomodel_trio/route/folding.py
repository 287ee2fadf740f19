"""The folded form in which phrases and text are compared: NFKC, no case, white space and hyphens as one space.

Layer: route. Source: behaviour.md §3 (keyword matching); Unicode Standard Annex 15 (stream-safe text).

`unicodedata.normalize` sorts combining marks by insertion, which is quadratic in a run of them, so long text is normalised in pieces
that end where no mark is cut from its base. Where the marks run on without a base, the piece ends all the same.
"""

import unicodedata
from typing import Final

_PIECE: Final = 256
"""Code points normalised at once: bounds the quadratic part, and is well over any cluster that people write."""

_MOST_ABNORMAL: Final = 1 << 16
"""Code points in pieces that normalising changes, after which a text is left as it is. What people write is changed here and there and
costs little; text of nothing but compatibility forms costs most where it says least."""

_LONGEST_CLUSTER: Final = 32
"""How far a cut moves to keep marks with their base; UAX 15 calls text stream-safe with up to 30 marks."""

_ASCII_FOLD: Final = bytes(
    0x20 if chr(byte).isspace() or byte == 0x2D else byte + 32 if 0x41 <= byte <= 0x5A else byte for byte in range(256)
)

_COMMON_FORMS: Final = (
    ("，", ","),
    ("：", ":"),
    ("！", "!"),
    ("？", "?"),
    ("（", "("),
    ("）", ")"),
    ("；", ";"),
    ("\u3000", " "),
    ("\xa0", " "),
    ("\ufdfa", "\ufffc"),
)
"""Compatibility forms of everyday text, replaced first: without them most text is found normal at a glance.

The last, an Arabic ligature of four words, would grow to eighteen characters, more than twice what any other does.
"""

_AFTER_FOLD: Final = (("i\u0307", "i"), ("ı", "i"))
"""Casefolding leaves the Turkish i's apart, and `İ` as two code points."""

_GAPS: Final = "-\u2010\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"
"""Hyphens and the white space that NFKC leaves beside the space; U+2011 becomes U+2010 in it."""


def fold(text: str) -> str:
    """The folded form of `text`; one space may be left at either end."""
    if text.isascii():
        folded = text.encode().translate(_ASCII_FOLD)
        while b"  " in folded:
            folded = folded.replace(b"  ", b" ")
        return folded.decode()
    for form, plain in _COMMON_FORMS:
        if form in text:
            text = text.replace(form, plain)
    text = _nfkc(text).casefold()
    for form, plain in _AFTER_FOLD:
        if form in text:
            text = text.replace(form, plain)
    for gap in _GAPS:
        if gap in text:
            text = text.replace(gap, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _nfkc(text: str) -> str:
    if len(text) <= _PIECE:
        return unicodedata.normalize("NFKC", text)
    pieces = []
    abnormal = 0
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        limit = min(end + _LONGEST_CLUSTER, len(text))
        while end < limit and _continues(text[end]):
            end += 1
        piece = text[start:end]
        normal = unicodedata.normalize("NFKC", piece)
        pieces.append(normal)
        start = end
        if normal is not piece:
            abnormal += len(piece)
            if abnormal >= _MOST_ABNORMAL:
                pieces.append(text[start:])
                break
    return "".join(pieces)


def _continues(char: str) -> bool:
    """Whether `char` may compose with what is before it: a combining mark, or a vowel or final of decomposed Hangul."""
    return char > "\u02ff" and (unicodedata.combining(char) != 0 or "\u1161" <= char <= "\u11ff")
