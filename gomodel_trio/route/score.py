"""How hard a request looks: points for each signal, and the tier they make.

Layer: route. Source: behaviour.md §3.
"""

from typing import Final

import msgspec

from gomodel_trio.route.features import Features, features
from gomodel_trio.route.keywords import KeywordMatcher
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import SmartRouting
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import Envelope, scored_view

RULES_VERSION: Final = "1"
"""Changes with any signal, phrase or default; the changelog says what changed."""

LARGEST_SCORE: Final = 22

_KEYWORD_POINTS: Final = 4
_CODE_POINTS: Final = 3
_STRUCTURED_POINTS: Final = 2
_ATTACHMENT_POINTS: Final = 2
_TOOL_STEPS: Final = ((5, 4), (1, 2))
_CONTEXT_STEPS: Final = ((32_000, 6), (8_000, 3), (2_000, 1))
_DEPTH_STEPS: Final = ((7, 1),)


class Contribution(msgspec.Struct, frozen=True):
    """What one signal added. `evidence` is a name of ours or a count, never text of the request.

    `signal` is one of keywords, code, tools, structured, attachments, context, depth, and explicit_reasoning, which adds no points.
    """

    signal: str
    points: int
    evidence: str


class Verdict(msgspec.Struct, frozen=True):
    """The tier a request deserves by itself, without pin or override. `score` is reported even where reasoning was asked for."""

    tier: Tier
    score: int
    is_explicit_reasoning: bool
    contributions: tuple[Contribution, ...]


def score(scored: Features, *, threshold: int) -> Verdict:
    """Score features: hard if reasoning is asked for or the points reach `threshold`."""
    signals = (
        ("keywords", _KEYWORD_POINTS if scored.keyword else 0, scored.keyword),
        ("code", _CODE_POINTS if scored.diagnostic else 0, scored.diagnostic),
        ("tools", _points(_TOOL_STEPS, scored.tool_count), scored.tool_count),
        ("structured", _STRUCTURED_POINTS if scored.format else 0, scored.format),
        ("attachments", _ATTACHMENT_POINTS if scored.attachment_count else 0, scored.attachment_count),
        ("context", _points(_CONTEXT_STEPS, scored.char_count), scored.char_count),
        ("depth", _points(_DEPTH_STEPS, scored.item_count), scored.item_count),
    )
    contributions = tuple([Contribution(signal, points, str(evidence)) for signal, points, evidence in signals if points])
    total = sum([contribution.points for contribution in contributions])
    if scored.reasoning is not None:
        contributions = (Contribution("explicit_reasoning", 0, scored.reasoning), *contributions)
    is_hard = scored.reasoning is not None or total >= threshold
    return Verdict(Tier.HARD if is_hard else Tier.EASY, total, scored.reasoning is not None, contributions)


def score_request(envelope: Envelope, api: Api, smart: SmartRouting, matcher: KeywordMatcher) -> Verdict:
    """Score a request as it was sent; it never raises."""
    return score(features(scored_view(envelope, api), matcher), threshold=smart.threshold)


def _points(steps: tuple[tuple[int, int], ...], count: int) -> int:
    for least, points in steps:
        if count >= least:
            return points
    return 0
