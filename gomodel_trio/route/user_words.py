"""What is left of a user's text when all that is not his own words is taken out.

Layer: route. Source: behaviour.md §3, row "effort keywords"; CommonMark 0.31 (fences, code spans, block quotes), loosened where people
and their tools write it looser: a run of three backticks in mid-line opens a block that the next such run closes.

Taken out, in this order: complete `<system-reminder>` blocks, quoted lines, fenced and inline code. Each leaves a NUL, so that the
words around it do not become neighbours.
"""

import re
from typing import Final

_GAP: Final = "\0"
_REMINDER: Final = ("<system-reminder>", "</system-reminder>")

_MOST_LOOKS: Final = 8_000
"""Runs of backticks and fences looked at in one text, but for the simplest spans. Who writes more writes no words; the rest counts as code,
so that the work stays small."""

_LONGEST_SPAN_MARK: Final = 32
"""Backticks in a row that may still open inline code. Nobody writes more, and it bounds how often a text is searched."""

_QUOTED_LINE: Final = re.compile(r"\n[ \t]*+>[^\n]*+")
_PLAIN: Final = re.compile(r"(?>(?:[^`]++|(?<!`)`[^`\n]++`(?!`))*)")
_SIMPLE_SPAN: Final = re.compile(r"`(?<!``)[^`\n]++`(?!`)")
_BACKTICKS: Final = re.compile(r"`++")
_TILDE_FENCE: Final = re.compile(r"\n {0,3}(~{3,}+)")
_CLOSING_FENCE: Final = re.compile(r"\n[ \t]*+(`{3,}+|~{3,}+)[ \t\r]*+(?=\n|\Z)")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t\r]*+(?:\n|```|~~~)")


def own_words(text: str) -> str:
    """The user's own words in `text`; "" if there are none."""
    if _REMINDER[0] in text:
        text = _without_reminders(text)
    has_code = "`" in text or "~~~" in text
    if has_code or ">" in text:
        text = _QUOTED_LINE.sub(_GAP, "\n" + text)
    if has_code:
        text = _CodeRemover(text).remove()
    words = text.replace(_GAP, " ") if _GAP in text else text
    return "" if not words or words.isspace() else text


def _without_reminders(text: str) -> str:
    opening, closing = _REMINDER
    kept = []
    position = 0
    while True:
        start = text.find(opening, position)
        end = text.find(closing, start) if start >= 0 else -1
        if end < 0:
            kept.append(text[position:])
            return _GAP.join(kept)
        kept.append(text[position:start])
        position = end + len(closing)


class _CodeRemover:
    """Cuts fences and code spans out of a text that begins with a line feed, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._kept: list[str] = []
        self._looks = 0
        self._unmatched: set[int] = set()
        """Lengths of backtick runs of which no other is left."""
        self._tilde: re.Match[str] | None = None
        self._is_tilde_stale = "~~~" in text

    def remove(self) -> str:
        """The text without its code."""
        position = 0
        while position < len(self._text) and self._looks < _MOST_LOOKS:
            position = self._step(position)
        return "".join(self._kept)

    def _step(self, position: int) -> int:
        """Keep what is plain from `position` on, deal with the mark behind it; where to go on."""
        self._looks += 1
        tilde = self._next_tilde(position)
        stop = len(self._text) if tilde is None else tilde.start()
        mark = self._text.find("`", position, stop)
        if mark < 0:
            mark = stop
            self._kept.append(self._text[position:stop])
        else:
            plain = _PLAIN.match(self._text, position, stop)
            mark = plain.end() if plain else position
            self._kept.append(_SIMPLE_SPAN.sub(_GAP, self._text[position:mark]))
        if mark < stop:
            return self._backticks(mark)
        return stop if tilde is None else self._cut(self._fence_end(tilde[1], tilde.end()))

    def _next_tilde(self, position: int) -> re.Match[str] | None:
        if self._is_tilde_stale or (self._tilde is not None and self._tilde.start() < position):
            self._tilde = _TILDE_FENCE.search(self._text, position)
            self._is_tilde_stale = False
        return self._tilde

    def _backticks(self, start: int) -> int:
        """Deal with the run of backticks at `start`: a fence, a span, or nothing but backticks."""
        run = _BACKTICKS.match(self._text, start)
        end = run.end() if run else start + 1
        length = end - start
        if length >= 3 and self._opens_fence(start, end):
            return self._cut(self._fence_end("`" * length, end))
        closing = self._closing_run(length, end)
        if closing is None or (length < 3 and _PARAGRAPH_END.search(self._text, end, closing)):
            self._kept.append(self._text[start:end])
            return end
        return self._cut(closing + length)

    def _opens_fence(self, start: int, end: int) -> bool:
        """Whether a run is the first of its line and the only one: an info string holds no backtick."""
        before = start
        while self._text[before - 1] in " \t":
            before -= 1
        if self._text[before - 1] != "\n":
            return False
        line_end = self._text.find("\n", end)
        return self._text.find("`", end, line_end if line_end >= 0 else len(self._text)) < 0

    def _fence_end(self, mark: str, position: int) -> int:
        """Where the fence opened by `mark` ends; an unclosed one runs to the end of the text."""
        for closing in _CLOSING_FENCE.finditer(self._text, position):
            if closing[1].startswith(mark):
                return closing.end()
        return len(self._text)

    def _closing_run(self, length: int, position: int) -> int | None:
        """Where the next run of exactly `length` backticks starts."""
        if length > _LONGEST_SPAN_MARK or length in self._unmatched:
            return None
        while (start := self._text.find("`" * length, position)) >= 0:
            self._looks += 1
            run = _BACKTICKS.match(self._text, start)
            position = run.end() if run else start + 1
            if position - start == length:
                return start
            if self._looks >= _MOST_LOOKS:
                return None
        self._unmatched.add(length)
        return None

    def _cut(self, end: int) -> int:
        self._kept.append(_GAP)
        return end
