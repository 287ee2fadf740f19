"""The selector's view of the state: legs → candidates → `route.decide`.

Layer: state; reads the tables, changes nothing. Source: behaviour.md §5.

A chained virtual model is one leg. It is taken for as fast as the fastest of its targets that can be had, as busy as they are on average,
and as warm as the one where the session succeeded last.
"""

from collections.abc import Sequence

from gomodel_trio.route.decide import Candidate, DecisionInput, decide
from gomodel_trio.route.expand import Node
from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import UNMEASURED, Estimate, Latency
from gomodel_trio.route.names import SessionId, TargetId
from gomodel_trio.state.commands import Decide, Selected
from gomodel_trio.state.tables import RoutingState


def select(
    state: RoutingState, source: str, legs: Sequence[Node], asked: Decide, *, at_s: float, draws: tuple[float, float], allows_probe: bool
) -> Selected:
    """Choose among `legs` of the virtual model `source`, of which at least one does not cool.

    Raises:
        ValueError: see `route.decide.decide`.
    """
    session = asked.session if asked.feeds_routing else None
    candidates = tuple([candidate_of(state, leg, session, at_s) for leg in legs])
    given = DecisionInput(candidates, asked.kind, at_s, draws, state.policy.adaptive, allows_probe)
    return Selected(source, given, decide(given))


def standing_of(state: RoutingState, leg: Node, at_s: float) -> Standing:
    """Tell how a leg stands: as the best of its targets does."""
    if len(leg.targets) == 1:
        return state.standing(leg.targets[0], at_s)
    standings = {state.standing(target, at_s) for target in leg.targets}
    return next(standing for standing in Standing if standing in standings)


def candidate_of(state: RoutingState, leg: Node, session: SessionId | None, at_s: float) -> Candidate:
    """Tell what is known of a leg at `at_s`; `session` None: nothing is warm."""
    if len(leg.targets) == 1:
        target = leg.targets[0]
        record = state.targets.get(target)
        warm_at_s = None if session is None else _warm_at_s(state, target, session, at_s)
        if record is None:
            return Candidate(leg.name, price=leg.price, weight=leg.weight, warm_at_s=warm_at_s)
        standing, until_s = state.standing(target, at_s), record.health.until_s
        return Candidate(leg.name, record.latency, len(record.open_leases), leg.price, leg.weight, standing, until_s, warm_at_s)
    return _chained(state, leg, session, at_s)


def _chained(state: RoutingState, leg: Node, session: SessionId | None, at_s: float) -> Candidate:
    standing = standing_of(state, leg, at_s)
    targets = [target for target in leg.targets if state.standing(target, at_s) is standing]
    records = [record for target in targets if (record := state.targets.get(target)) is not None]
    marks = [] if session is None else [mark for target in targets if (mark := _warm_at_s(state, target, session, at_s)) is not None]
    return Candidate(
        name=leg.name,
        latency=_fastest([record.latency for record in records]),
        in_flight=sum(len(record.open_leases) for record in records) // len(targets),
        price=leg.price,
        weight=leg.weight,
        standing=standing,
        until_s=min(state.health(target).until_s for target in targets),
        warm_at_s=max(marks, default=None),
    )


def _fastest(latencies: Sequence[Latency]) -> Latency:
    if not latencies:
        return UNMEASURED
    return Latency(_least([latency.stream for latency in latencies]), _least([latency.unary for latency in latencies]))


def _least(estimates: Sequence[Estimate | None]) -> Estimate | None:
    return min((estimate for estimate in estimates if estimate is not None), key=lambda estimate: estimate.value_s, default=None)


def _warm_at_s(state: RoutingState, target: TargetId, session: SessionId, at_s: float) -> float | None:
    return state.warm.used_at_s((target, session), at_s=at_s, ttl_s=state.policy.adaptive.warm_cache_ttl_s)
