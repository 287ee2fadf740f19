"""Find phrases that ask for effort.

Layer: route. Source: behaviour.md §3 (keyword matching).

Linear in the text, which is folded once. Phrases of several words are sought together, by one pattern that begins with a space, so that
only word gaps are looked at: what follows the gap must be the rest of a phrase, and a look-behind proves its first word and its boundary.
Other phrases are sought together too if they begin beyond ASCII, with one set of first characters; else with `in`, each by itself.
"""

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from gomodel_trio.route.effort_phrases import EFFORT_PHRASES
from gomodel_trio.route.folding import fold


class Boundary(Enum):
    """What may not stand next to an end of a phrase."""

    NONE = "none"
    ASCII_WORD = "ascii_word"
    """An ASCII letter, digit or underscore: the phrase may touch CJK text, which has no spaces."""
    WORD = "word"
    """A letter, digit, underscore or mark of any script."""


class Phrase(msgspec.Struct, frozen=True):
    """A phrase to find: `name` as it was written, `folded` as it is compared."""

    name: str
    folded: str
    left: Boundary
    right: Boundary


class PhraseSet(msgspec.Struct, frozen=True):
    """The phrases that one kind of text can hold: `together` by the patterns, which match where a phrase ends, `singly` one by one."""

    patterns: tuple[re.Pattern[str], ...]
    together: tuple[Phrase, ...]
    singly: tuple[Phrase, ...]

    def first_in(self, folded: str) -> str | None:
        """The name of a phrase that the folded text holds; None if it holds none."""
        text = _TEXT_START + folded
        for pattern in self.patterns:
            for match in pattern.finditer(text):
                for phrase in self.together:
                    if text.endswith(phrase.folded, 0, match.end()) and _stands_free(phrase, text, match.end() - len(phrase.folded)):
                        return phrase.name
        for phrase in self.singly:
            if phrase.folded in folded and _occurs(phrase, folded):
                return phrase.name
        return None


class KeywordMatcher(msgspec.Struct, frozen=True):
    """The compiled phrases: those that ASCII text can hold, and all."""

    ascii: PhraseSet
    every: PhraseSet

    def first_in(self, texts: Iterable[str]) -> str | None:
        """The name of a phrase that one of `texts` holds, always the same for the same texts; None if none does."""
        for text in texts:
            phrases = self.ascii if text.isascii() else self.every
            found = phrases.first_in(fold(text))
            if found is not None:
                return found
        return None


def compile_keywords(extra: tuple[str, ...] = ()) -> KeywordMatcher:
    """Compile the built-in phrases with the operator's, in order: a phrase is added, "-phrase" removes the one that folds alike.

    Phrases of nothing but white space or hyphens are passed over.
    """
    names = {fold(name).strip(): name for phrases in EFFORT_PHRASES.values() for name in phrases}
    for entry in extra:
        folded = fold(entry).strip()
        if entry.lstrip().startswith("-"):
            names.pop(folded, None)
        elif folded:
            names.setdefault(folded, entry.strip())
    # Longest first: of two phrases that end at one place the fuller is named.
    phrases = sorted((_phrase(name, folded) for folded, name in names.items()), key=lambda phrase: (-len(phrase.folded), phrase.folded))
    return KeywordMatcher(
        ascii=_phrase_set([phrase for phrase in phrases if phrase.folded.isascii()]),
        every=_phrase_set(phrases),
    )


_TEXT_START: Final = "\0"
"""Stands before the text, so that a look-behind finds a character there."""

_NOT_BEFORE: Final = {Boundary.NONE: "", Boundary.ASCII_WORD: "[^0-9A-Za-z_]", Boundary.WORD: r"\W"}
_NOT_AFTER: Final = {Boundary.NONE: "", Boundary.ASCII_WORD: "(?![0-9A-Za-z_])", Boundary.WORD: r"(?!\w)"}


def _phrase_set(phrases: list[Phrase]) -> PhraseSet:
    spaced = [phrase for phrase in phrases if " " in phrase.folded]
    solid = [phrase for phrase in phrases if " " not in phrase.folded]
    foreign = [phrase for phrase in solid if not phrase.folded[0].isascii()]
    patterns = []
    if spaced:
        patterns.append(re.compile(" " + _any_of([(phrase.folded.partition(" ")[2], phrase) for phrase in spaced])))
    if foreign:
        patterns.append(re.compile(_any_of([(phrase.folded, phrase) for phrase in foreign])))
    singly = [phrase for phrase in solid if phrase.folded[0].isascii()]
    return PhraseSet(patterns=tuple(patterns), together=(*spaced, *foreign), singly=tuple(singly))


def _any_of(tails: list[tuple[str, Phrase]]) -> str:
    """A pattern for the last part of any of some phrases, by its first character; it looks behind for the whole phrase."""
    by_initial: dict[str, list[str]] = {}
    for tail, phrase in tails:
        proof = f"(?<={_NOT_BEFORE[phrase.left]}{re.escape(phrase.folded)})"
        by_initial.setdefault(tail[0], []).append(re.escape(tail[1:]) + proof + _NOT_AFTER[phrase.right])
    return "(?:" + "|".join(f"{re.escape(initial)}(?:{'|'.join(rests)})" for initial, rests in by_initial.items()) + ")"


def _occurs(phrase: Phrase, folded: str) -> bool:
    start = folded.find(phrase.folded)
    while start >= 0:
        if _stands_free(phrase, folded, start):
            return True
        start = folded.find(phrase.folded, start + 1)
    return False


def _stands_free(phrase: Phrase, text: str, start: int) -> bool:
    return _is_free(phrase.left, text, start - 1) and _is_free(phrase.right, text, start + len(phrase.folded))


def _is_free(boundary: Boundary, text: str, at: int) -> bool:
    """Whether what stands at `at` may stand next to the phrase; the ends of the text may."""
    if boundary is Boundary.NONE or not 0 <= at < len(text):
        return True
    char = text[at]
    is_word = char.isalnum() or char == "_"
    if boundary is Boundary.ASCII_WORD:
        return not (is_word and char.isascii())
    return not (is_word or unicodedata.category(char).startswith("M"))


def _phrase(name: str, folded: str) -> Phrase:
    """The rule of a phrase's script; a phrase that mixes scripts takes at each end the rule of the character there."""
    if unicodedata.normalize("NFKC", name).isascii():
        return Phrase(name, folded, Boundary.ASCII_WORD, Boundary.ASCII_WORD)
    if not any(map(_is_spaceless, folded)) and not any(map(_is_hangul, folded)):
        return Phrase(name, folded, Boundary.WORD, Boundary.WORD)
    left = Boundary.WORD if _is_hangul(folded[0]) else _edge(folded[0])
    right = Boundary.NONE if _is_hangul(folded[-1]) else _edge(folded[-1])
    return Phrase(name, folded, left, right)


def _edge(char: str) -> Boundary:
    if _is_spaceless(char) or not char.isalnum():
        return Boundary.NONE
    return Boundary.ASCII_WORD if char.isascii() else Boundary.WORD


def _is_spaceless(char: str) -> bool:
    return any(low <= char <= high for low, high in _SPACELESS)


def _is_hangul(char: str) -> bool:
    return any(low <= char <= high for low, high in _HANGUL)


_SPACELESS: Final = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Myanmar
    ("\u1780", "\u17ff"),  # Khmer
    ("\u2e80", "\u312f"),  # radicals, CJK punctuation, Kana, Bopomofo
    ("\u3190", "\u9fff"),  # Kana extensions, Han
    ("\uf900", "\ufaff"),
    ("\U00016fe0", "\U0001b2ff"),  # Tangut, Nüshu, Kana supplements
    ("\U00020000", "\U0003ffff"),
)
"""Scripts written without spaces between words."""

_HANGUL: Final = (("\u1100", "\u11ff"), ("\u3130", "\u318f"), ("\ua960", "\ua97f"), ("\uac00", "\ud7ff"))
