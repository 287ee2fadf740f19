"""The health of a target: what an attempt's end does to its cooldown, and when it counts as cooling.

Layer: route. Source: behaviour.md §5 (outcome classes, recovery, all cooling).

Theory. A *trigger* begins a cooldown and leaves the target *unproven*; when the cooldown is over and the target still unproven it is on
probation. Only attempts begun after the last trigger say anything about the target as it is now; those begun before it are late news of
what is known already, so a burst of failures is one trigger and a late success proves nothing. `k` counts consecutive triggers and makes
cooldowns double, `run` counts consecutive faults; both go back to 0 only by an attempt that ended well.
"""

import math
from enum import Enum
from typing import Final

import msgspec

from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting

RUN_THAT_TRIGGERS: Final = 3
"""Faults in a row that bench a target (§5, *fault*)."""

SILENCE_S: Final = 30.0
"""A client who leaves sooner says nothing about the target (§5, *client*)."""

SILENCE_FACTOR: Final = 8.0
"""So many times the usual latency without a byte is silence (§5, *client*)."""

_LARGEST_EXPONENT: Final = 64
"""2^64 times any base is over any maximum; more would overflow a float."""

OF_A_KEY: Final = frozenset({Outcome.RATE, Outcome.AUTH, Outcome.ACCOUNT})
"""Failures that another key of the same provider may be spared (§7)."""

_AT_ONCE: Final = frozenset({Outcome.AUTH, Outcome.NOT_FOUND, Outcome.ACCOUNT})
_NO_NEWS: Final = frozenset({Outcome.REQUEST, Outcome.CLIENT})


class Standing(Enum):
    """How a target stands at an instant."""

    WELL = "well"
    PROBATION = "probation"
    COOLING = "cooling"


class TargetHealth(msgspec.Struct, frozen=True):
    """What is known of a target's health. The default is a target that never failed.

    `until_s` is the latest cooldown's end (it may lie in the past), `began_at_s` its begin, both -inf if there was none; `began_order` is
    the number of attempts begun by then and breaks ties between instants. `reason` is the class that made the cooldown as long as it is.
    """

    k: int = 0
    run: int = 0
    began_at_s: float = -math.inf
    began_order: int = 0
    until_s: float = -math.inf
    reason: Outcome | None = None
    is_unproven: bool = False

    def is_benched(self, at_s: float) -> bool:
        """Whether a cooldown runs at `at_s`."""
        return self.until_s > at_s

    def is_on_probation(self, at_s: float) -> bool:
        """Whether the cooldown is over and no attempt has proven the target since."""
        return self.is_unproven and self.until_s <= at_s

    @property
    def is_severe(self) -> bool:
        """Whether waiting is unlikely to help: the reason is the key, the account or the model's name."""
        return self.reason in _AT_ONCE


WELL: Final = TargetHealth()


def standing_of(health: TargetHealth, *, newest_order: int, at_s: float) -> Standing:
    """Tell how whoever has `health` stands; `newest_order` is the number of the running attempt that began last, 0 without any.

    On probation with an attempt in flight that began since the cooldown did, it counts as cooling.
    """
    if health.is_benched(at_s):
        return Standing.COOLING
    if not health.is_unproven:
        return Standing.WELL
    return Standing.COOLING if newest_order > health.began_order else Standing.PROBATION


class Benched(msgspec.Struct, frozen=True):
    """A cooldown began, or began anew: why, until when and how long from now."""

    reason: Outcome
    until_s: float
    for_s: float


class Recovered(msgspec.Struct, frozen=True):
    """A success ended a running cooldown."""


def after_outcome(
    health: TargetHealth,
    *,
    started_at_s: float,
    at_s: float,
    outcome: Outcome,
    retry_after_s: float | None,
    config: AdaptiveRouting,
    started_order: int = 0,
    order: int = 0,
    may_trigger: bool = True,
) -> tuple[TargetHealth, Benched | Recovered | None]:
    """Tell the health after an attempt that began at `started_at_s` ended at `at_s`.

    `started_order` and `order` number the attempts, to order what happened at one instant: this attempt's number and the last one begun.
    `may_trigger` false: the request has benched this target before; its failure may only lengthen a running cooldown.
    """
    if outcome in _NO_NEWS:
        return health, None
    is_since = (started_at_s, started_order) > (health.began_at_s, health.began_order)
    if outcome is Outcome.SUCCESS:
        return _after_success(health, at_s) if is_since else (health, None)
    wish_s = _wish_s(retry_after_s, config)
    if not is_since or not may_trigger:
        return _lengthened(health, at_s, wish_s), None
    return _after_failure(health, started_at_s=started_at_s, at_s=at_s, outcome=outcome, wish_s=wish_s, config=config, order=order)


def after_first_byte(health: TargetHealth, *, started_at_s: float, started_order: int = 0) -> TargetHealth:
    """Tell the health after a running attempt's 2xx (a stream's first content event): it proves the target, but resets nothing yet."""
    if health.is_unproven and (started_at_s, started_order) > (health.began_at_s, health.began_order):
        return msgspec.structs.replace(health, is_unproven=False)
    return health


def is_silence(elapsed_s: float, estimate_s: float | None) -> bool:
    """Whether a target without a byte for `elapsed_s` is to blame when its client leaves; `estimate_s` is its latency, if known."""
    return elapsed_s >= max(SILENCE_S, SILENCE_FACTOR * (estimate_s or 0.0))


def _after_success(health: TargetHealth, at_s: float) -> tuple[TargetHealth, Recovered | None]:
    is_ended_now = health.is_benched(at_s)
    if not (health.k or health.run or health.is_unproven or is_ended_now):
        return health, None
    until_s = at_s if is_ended_now else health.until_s
    proven = msgspec.structs.replace(health, k=0, run=0, is_unproven=False, until_s=until_s)
    return proven, Recovered() if is_ended_now else None


def _after_failure(
    health: TargetHealth, *, started_at_s: float, at_s: float, outcome: Outcome, wish_s: float, config: AdaptiveRouting, order: int
) -> tuple[TargetHealth, Benched | None]:
    if outcome is Outcome.FAULT and health.run + 1 < RUN_THAT_TRIGGERS and not (health.is_unproven or health.is_benched(at_s)):
        return msgspec.structs.replace(health, run=health.run + 1), None
    k = health.k
    if outcome in _AT_ONCE:
        for_s = config.cooldown_max_s
    else:
        # An attempt at a cooling target is a last resort, made knowing that it may fail: it renews the cooldown and does not escalate.
        is_last_resort = started_at_s < health.until_s
        k += 0 if is_last_resort else 1
        for_s = min(config.cooldown_base_s * 2.0 ** min(max(k, 1) - 1, _LARGEST_EXPONENT), config.cooldown_max_s)
    until_s = at_s + max(for_s, wish_s)
    reason: Outcome | None = outcome
    if until_s < health.until_s:
        until_s, reason = health.until_s, health.reason
    benched = TargetHealth(k=k, began_at_s=at_s, began_order=order, until_s=until_s, reason=reason, is_unproven=True)
    return benched, Benched(outcome, until_s, until_s - at_s)


def _lengthened(health: TargetHealth, at_s: float, wish_s: float) -> TargetHealth:
    if health.is_benched(at_s) and at_s + wish_s > health.until_s:
        return msgspec.structs.replace(health, until_s=at_s + wish_s)
    return health


def _wish_s(retry_after_s: float | None, config: AdaptiveRouting) -> float:
    """The upstream's own wish, as far as we grant it; nonsense (negative, NaN) is none."""
    return min(retry_after_s, config.cooldown_max_s) if retry_after_s is not None and retry_after_s > 0 else 0.0
