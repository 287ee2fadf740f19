"""The tier of a scored request: the larger of its session's pin and its own verdict.

Layer: route. Source: behaviour.md §3 (pins).
"""

import msgspec

from gomodel_trio.route.names import Tier


class RaisedTier(msgspec.Struct, frozen=True):
    """A request's tier. `is_pinned`: the pin alone raised it. `is_escalated`: it raised the pin."""

    tier: Tier
    is_pinned: bool
    is_escalated: bool


def raise_tier(pin: Tier | None, verdict: Tier) -> RaisedTier:
    """Tell the tier = max(pin, verdict); None is a session without a pin."""
    if verdict is Tier.HARD:
        return RaisedTier(Tier.HARD, is_pinned=False, is_escalated=pin is Tier.EASY)
    if pin is Tier.HARD:
        return RaisedTier(Tier.HARD, is_pinned=True, is_escalated=False)
    return RaisedTier(Tier.EASY, is_pinned=False, is_escalated=False)
