"""From what a request says to counts and names; never its text.

Layer: route. Source: behaviour.md §3, the table of signals.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from gomodel_trio.route.diagnostics import find_diagnostic
from gomodel_trio.route.keywords import KeywordMatcher
from gomodel_trio.route.user_words import own_words
from gomodel_trio.wire.view import ScoredView

_EFFORTS: Final = ("medium", "high", "xhigh", "max")
_STRUCTURED: Final = ("json_object", "json_schema")

_MOST_TURNS: Final = 1024
"""The user's turns, from the last one back, in which his own words are sought."""

_MOST_PARTS: Final = 2048
"""The last parts of a turn that are looked at. Nobody writes more; each costs a look of its own, however short it is."""


class Features(msgspec.Struct, frozen=True):
    """What is scored of a request.

    `keyword` is the phrase of the list that the latest user message holds, `diagnostic` what code was found, `format` the structured
    output asked for, `reasoning` the field that asks for reasoning; each None without. `char_count` is in code points.
    """

    keyword: str | None = None
    diagnostic: str | None = None
    tool_count: int = 0
    format: str | None = None
    attachment_count: int = 0
    char_count: int = 0
    item_count: int = 0
    reasoning: str | None = None


def features(view: ScoredView, matcher: KeywordMatcher) -> Features:
    """Reduce a view to its features."""
    return Features(
        keyword=matcher.first_in(_latest_own_words(view.user_turns)),
        diagnostic=find_diagnostic(view.texts),
        tool_count=view.tool_count,
        format=next((kind for kind in view.format_types if kind in _STRUCTURED), None),
        attachment_count=view.attachment_count,
        char_count=view.char_count,
        item_count=view.item_count,
        reasoning=_reasoning(view),
    )


def _latest_own_words(turns: Sequence[Sequence[str]]) -> list[str]:
    """The own words of the last turn that has any, part by part."""
    for turn in reversed(turns[-_MOST_TURNS:]):
        words = [own for own in map(own_words, turn[-_MOST_PARTS:]) if own]
        if words:
            return words
    return []


def _reasoning(view: ScoredView) -> str | None:
    for effort in view.efforts:
        if effort in _EFFORTS:
            return f"effort:{effort}"
    if view.reasoning_mode == "pro":
        return "mode:pro"
    if view.thinking_type is not None and view.thinking_type != "disabled":
        return "thinking"
    return None
