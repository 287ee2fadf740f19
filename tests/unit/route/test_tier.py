"""The larger of pin and verdict."""

import pytest

from gomodel_trio.route.names import Tier
from gomodel_trio.route.tier import RaisedTier, raise_tier

E, H = Tier.EASY, Tier.HARD


@pytest.mark.parametrize(
    ("pin", "verdict", "expect"),
    [
        (None, E, RaisedTier(E, is_pinned=False, is_escalated=False)),
        (None, H, RaisedTier(H, is_pinned=False, is_escalated=False)),
        (E, E, RaisedTier(E, is_pinned=False, is_escalated=False)),
        (E, H, RaisedTier(H, is_pinned=False, is_escalated=True)),
        (H, E, RaisedTier(H, is_pinned=True, is_escalated=False)),
        (H, H, RaisedTier(H, is_pinned=False, is_escalated=False)),
    ],
)
def test_the_tier_is_the_larger_of_pin_and_verdict(pin: Tier | None, verdict: Tier, expect: RaisedTier) -> None:
    assert raise_tier(pin, verdict) == expect
