"""What the admin API shows of the routing state.

Layer: admin; pure. Source: behaviour.md §5. Units stand in the names: seconds are `_s`. What does not apply is null.
"""

from typing import Literal

import msgspec

from gomodel_trio.route.health import Standing
from gomodel_trio.state.commands import Inspection, KeyState, TargetState, TargetWeight

_DECIMALS = 6
"""Of seconds and weights: microseconds, and the parts of a weight that anybody could see an effect of."""


class EstimatesDocument(msgspec.Struct, frozen=True):
    """Latency estimates as stored, null if never measured. `stream_s`: to the first content; `unary_s`: to the complete answer."""

    stream_s: float | None
    unary_s: float | None


class WeightDocument(msgspec.Struct, frozen=True):
    """What a target weighs in the draw of an adaptive virtual model, for requests of a `kind` (stream, unary) without a session.

    `share`: its part of the draws. 0: it is cooling.
    """

    virtual_model: str
    kind: str
    weight: float
    share: float


class TargetDocument(msgspec.Struct, frozen=True):
    """A target now.

    `standing`: well, probation (its cooldown is over, one attempt has to prove it) or cooling. `cooldown_reason`: rate, auth, not_found,
    account or fault; null once it has proven itself. `streak`: consecutive cooldowns. `pins`: sessions held to it, in all virtual models.
    """

    target: str
    standing: Literal["well", "probation", "cooling"]
    cooldown_left_s: float
    cooldown_reason: str | None
    streak: int
    in_flight: int
    estimates: EstimatesDocument
    weights: list[WeightDocument]
    pins: int


class KeyDocument(msgspec.Struct, frozen=True):
    """A key of a provider that has several: its place in the configuration, from 0, never the key itself. Fields as of a target."""

    provider: str
    index: int
    standing: Literal["well", "probation", "cooling"]
    cooldown_left_s: float
    cooldown_reason: str | None
    streak: int
    in_flight: int


class TotalsDocument(msgspec.Struct, frozen=True):
    """Sums: attempts that run, sessions held to a tier, sessions held to a target or a chained virtual model."""

    open_leases: int
    tier_pins: int
    target_pins: int


class RoutingDocument(msgspec.Struct, frozen=True):
    """The routing state. `now_s`: seconds since the gateway's start."""

    now_s: float
    targets: list[TargetDocument]
    keys: list[KeyDocument]
    totals: TotalsDocument


class ResetDocument(msgspec.Struct, frozen=True):
    """A target's cooldown, streak and estimates were forgotten, and what was known of its provider's keys."""

    target: str
    is_reset: bool = True


def routing_document(shown: Inspection) -> RoutingDocument:
    """Write an inspection for operators."""
    totals = TotalsDocument(shown.open_leases, shown.tier_pins, shown.target_pins)
    return RoutingDocument(_rounded(shown.at_s), [_target(row) for row in shown.targets], [_key(row) for row in shown.keys], totals)


def _target(row: TargetState) -> TargetDocument:
    standing = Standing.COOLING if row.is_cooling else Standing.PROBATION if row.is_on_probation else Standing.WELL
    return TargetDocument(
        target=row.target,
        standing=standing.value,
        cooldown_left_s=_rounded(row.cooldown_left_s),
        cooldown_reason=None if row.cooldown_reason is None else row.cooldown_reason.value,
        streak=row.streak,
        in_flight=row.in_flight,
        estimates=EstimatesDocument(_known(row.stream_latency_s), _known(row.unary_latency_s)),
        weights=[_weight(weight) for weight in row.weights],
        pins=row.pins,
    )


def _key(row: KeyState) -> KeyDocument:
    return KeyDocument(
        provider=row.provider,
        index=row.index,
        standing=row.standing.value,
        cooldown_left_s=_rounded(row.cooldown_left_s),
        cooldown_reason=None if row.cooldown_reason is None else row.cooldown_reason.value,
        streak=row.streak,
        in_flight=row.in_flight,
    )


def _weight(shown: TargetWeight) -> WeightDocument:
    return WeightDocument(shown.source, shown.kind.value, _rounded(shown.weight), _rounded(shown.share))


def _known(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _rounded(value: float) -> float:
    return round(value, _DECIMALS)
