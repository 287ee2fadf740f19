"""The selector of adaptive routing: what is known of the candidates → whom to ask. Pure, so that every decision can be recomputed.

Layer: route. Source: behaviour.md §5.

    read the estimates → mark the warm one → weigh → probe, or two draws and the lower load
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gomodel_trio.route.choose import load_of, pick_of_two
from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import UNMEASURED, Latency, kind_to_read, read
from gomodel_trio.route.names import Kind
from gomodel_trio.route.policy import AdaptiveRouting
from gomodel_trio.route.weigh import Weighed, weigh

Picked = Literal["p2c", "probe"]


class Candidate(msgspec.Struct, frozen=True):
    """A candidate at the instant of a decision. `warm_at_s`: the session's last success there inside the TTL, None if there is none.
    `until_s`: its last cooldown's end, which matters while it is on probation. `price`, `weight`: as in `weigh.Weighed`.
    """

    name: str
    latency: Latency = UNMEASURED
    in_flight: int = 0
    price: float | None = None
    weight: float = 0.0
    standing: Standing = Standing.WELL
    until_s: float = 0.0
    warm_at_s: float | None = None


class DecisionInput(msgspec.Struct, frozen=True):
    """All that a decision depends on. `kind`: how the answer is to come. `allows_probe`: the session has no live pin to keep to."""

    candidates: tuple[Candidate, ...]
    kind: Kind
    at_s: float
    draws: tuple[float, float]
    settings: AdaptiveRouting
    allows_probe: bool = True


class Selection(msgspec.Struct, frozen=True):
    """A decision: the index chosen and why, and what it was made of, one entry a candidate.

    `kind`: of the estimates that were read. `latencies_s`: measured or presumed. `weights`: 0 for cooling candidates. `warm`: the index of
    the warm one.
    """

    index: int
    reason: Picked
    kind: Kind
    latencies_s: tuple[float, ...]
    weights: tuple[float, ...]
    loads: tuple[float, ...]
    warm: int | None = None


def decide(given: DecisionInput) -> Selection:
    """Choose among candidates of which at least one does not cool.

    Raises:
        ValueError: nobody can be drawn: all cool, or a weight is not a number.
    """
    candidates, settings = given.candidates, given.settings
    kind = kind_to_read(given.kind, [candidate.latency for candidate in candidates])
    readings = read([candidate.latency.of(kind) for candidate in candidates], at_s=given.at_s)
    warm = _warm(candidates)
    weighed = weigh(
        [
            Weighed(reading, candidate.price, candidate.weight, candidate.standing, index == warm)
            for index, (candidate, reading) in enumerate(zip(candidates, readings, strict=True))
        ],
        settings.objective,
        min_fraction=settings.min_weight_fraction,
        warm_weight=settings.warm_cache_weight,
    )
    loads = tuple([load_of(latency_s, one.in_flight) for one, latency_s in zip(candidates, weighed.latencies_s, strict=True)])
    probed = _recovered_first(candidates) if given.allows_probe else None
    index = pick_of_two(weighed.weights, loads, given.draws) if probed is None else probed
    return Selection(index, "p2c" if probed is None else "probe", kind, weighed.latencies_s, weighed.weights, loads, warm)


def _warm(candidates: Sequence[Candidate]) -> int | None:
    """The one with the latest mark; a cooling target has lost its own."""
    marked = [
        (candidate.warm_at_s, index)
        for index, candidate in enumerate(candidates)
        if candidate.warm_at_s is not None and candidate.standing is not Standing.COOLING
    ]
    return max(marked, key=lambda mark: (mark[0], -mark[1]))[1] if marked else None


def _recovered_first(candidates: Sequence[Candidate]) -> int | None:
    """The candidate on probation whose cooldown ended first: whether it is well again is worth one attempt."""
    unproven = [(candidate.until_s, index) for index, candidate in enumerate(candidates) if candidate.standing is Standing.PROBATION]
    return min(unproven)[1] if unproven else None
