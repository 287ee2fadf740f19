"""What a candidate weighs in the draw: configured weight, latency, price, warm cache, and a floor.

Layer: route. Source: behaviour.md §5 (weight).

    w = weight × (Lmin / L) × (Pmin / P)^a × (warm ? warm weight : 1), then w ≥ fraction × the heaviest

The scale (Lmin, Pmin, the medians, the heaviest) is set by the candidates that are well: one that cools or is on probation may not push
the others down by a latency or a price it cannot be had for.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import presumed
from gomodel_trio.route.policy import Objective

LEAST_PROBATION_FRACTION: Final = 0.01
"""A target on probation keeps this share of the heaviest's weight where the floor is lower."""

_PRICE_EXPONENTS: Final = {Objective.LATENCY: 0, Objective.BALANCED: 1, Objective.COST: 2}


class Weighed(msgspec.Struct, frozen=True):
    """A candidate as it is weighed. `latency_s`: read at the decision, None if never measured. `price`: USD per Mtok, input plus output,
    None if unknown. `weight`: as configured, 0 if unset. `is_warm`: it holds the session's prompt cache.
    """

    latency_s: float | None
    price: float | None
    weight: float = 0.0
    standing: Standing = Standing.WELL
    is_warm: bool = False


class Weights(msgspec.Struct, frozen=True):
    """`weights` before the draw, 0 for cooling candidates; `latencies_s`: what each is taken to need, measured or presumed."""

    weights: tuple[float, ...]
    latencies_s: tuple[float, ...]


def weigh(candidates: Sequence[Weighed], objective: Objective, *, min_fraction: float, warm_weight: float) -> Weights:
    """Tell the weights of a decision's candidates, in their order."""
    well = [candidate for candidate in candidates if candidate.standing is Standing.WELL]
    presumed_s = presumed([candidate.latency_s for candidate in well if candidate.latency_s is not None])
    latencies_s = tuple([presumed_s if candidate.latency_s is None else candidate.latency_s for candidate in candidates])
    if not well:
        # Nobody sets a scale, and every candidate that may be drawn is on probation: none is to be preferred.
        return Weights(tuple([0.0 if candidate.standing is Standing.COOLING else 1.0 for candidate in candidates]), latencies_s)
    least_s = min([latency_s for candidate, latency_s in zip(candidates, latencies_s, strict=True) if candidate.standing is Standing.WELL])
    price_factor = _PriceScale(well, _PRICE_EXPONENTS[objective])
    raw = [
        (candidate.weight or 1.0)
        * (least_s / latency_s if latency_s > least_s else 1.0)
        * price_factor.of(candidate.price)
        * (warm_weight if candidate.is_warm else 1.0)
        if candidate.standing is Standing.WELL
        else 0.0
        for candidate, latency_s in zip(candidates, latencies_s, strict=True)
    ]
    heaviest = max(raw)
    floor, trial = min_fraction * heaviest, max(min_fraction, LEAST_PROBATION_FRACTION) * heaviest
    return Weights(
        tuple([_floored(candidate.standing, weight, floor, trial) for candidate, weight in zip(candidates, raw, strict=True)]), latencies_s
    )


def _floored(standing: Standing, weight: float, floor: float, trial: float) -> float:
    if standing is Standing.WELL:
        return max(weight, floor)
    return trial if standing is Standing.PROBATION else 0.0


class _PriceScale:
    """(Pmin / P)^a. Where anyone is free, free candidates have factor 1 and priced ones 0."""

    __slots__ = ("exponent", "has_free", "least", "unpriced")

    def __init__(self, well: Sequence[Weighed], exponent: int) -> None:
        known = [candidate.price for candidate in well if candidate.price is not None]
        above_zero = [price for price in known if price > 0]
        self.exponent = exponent if above_zero else 0
        self.has_free = len(above_zero) < len(known)
        self.least = min(above_zero, default=1.0)
        self.unpriced = median(above_zero) if above_zero else 1.0

    def of(self, price: float | None) -> float:
        if self.exponent == 0:
            return 1.0
        amount = self.unpriced if price is None else price
        if amount <= 0:
            return 1.0
        factor: float = 0.0 if self.has_free else (self.least / amount) ** self.exponent
        return factor
