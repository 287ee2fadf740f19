"""How a request would be routed now, and out of what, for operators.

Layer: state; reads the tables, changes nothing. Source: behaviour.md §5, §10 (explain). The choice itself is `choosing`'s.
"""

from collections.abc import Sequence

import msgspec

from gomodel_trio.route.decide import Selection
from gomodel_trio.route.expand import Branch, Node
from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import Kind, TargetId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import Strategy
from gomodel_trio.route.tier import raise_tier
from gomodel_trio.state.choosing import pin_of
from gomodel_trio.state.commands import Decide, Decision, Explain, Explanation, LegState, NoTarget, PinState, TierReply, TierState
from gomodel_trio.state.selector import candidate_of, select, standing_of
from gomodel_trio.state.tables import RoutingState


def raised(state: RoutingState, command: Explain, at_s: float) -> tuple[Decide, TierState | None]:
    """Tell what would be decided on once the tier pin had its say, and that pin; it is neither written nor used."""
    route, ttl_s = command.route, state.policy.smart.session_ttl_s
    if route is None or ttl_s <= 0:
        return command.decide, None
    key = (route.alias, route.session)
    pin, used_at_s = state.tier_pins.get(key, at_s=at_s, ttl_s=ttl_s), state.tier_pins.used_at_s(key, at_s=at_s, ttl_s=ttl_s)
    tier = raise_tier(pin, route.verdict)
    shown = TierState(TierReply(tier.tier, tier.is_pinned, tier.is_escalated), pin, None if used_at_s is None else used_at_s + ttl_s - at_s)
    if tier.tier is Tier.HARD and route.verdict is Tier.EASY and command.raised_name is not None:
        return msgspec.structs.replace(command.decide, name=command.raised_name), shown
    return command.decide, shown


def explanation(state: RoutingState, decide: Decide, tier: TierState | None, decision: Decision | NoTarget, at_s: float) -> Explanation:
    """Tell the candidates that `decide` has at `at_s`; `decision` is what becomes of it."""
    plain = Explanation(at_s, decide, decision, tier)
    if isinstance(decision, NoTarget):
        return plain
    if decision.source is None:
        return msgspec.structs.replace(plain, legs=tuple([_target(state, target, at_s) for target in decision.candidates]))
    branch = state.branch(state.policy.virtual_models[decision.source], decide.dialect)
    candidates = {node.name for node in branch.nodes}
    return msgspec.structs.replace(
        plain,
        strategy=branch.model.strategy,
        legs=_legs(state, branch, decide, at_s),
        unavailable=tuple([leg.name for leg in branch.model.legs if leg.name not in candidates]),
        pin=_pin(state, branch, decide, at_s),
    )


def cooldown_reason(state: RoutingState, target: TargetId, at_s: float) -> Outcome | None:
    """Tell why a target was set aside; None once it has proven itself."""
    health = state.health(target)
    return health.reason if health.is_unproven or health.is_benched(at_s) else None


def _pin(state: RoutingState, branch: Branch, decide: Decide, at_s: float) -> PinState | None:
    key, name = pin_of(state, branch, decide, at_s)
    if key is None or name is None:
        return None
    ttl_s = state.policy.affinity_ttl_s
    used_at_s = state.target_pins.used_at_s(key, at_s=at_s, ttl_s=ttl_s)
    assert used_at_s is not None
    is_honored = any(node.name == name and not _is_cooling(state, branch, node, at_s) for node in branch.nodes)
    return PinState(name, used_at_s + ttl_s - at_s, is_honored)


def _is_cooling(state: RoutingState, branch: Branch, node: Node, at_s: float) -> bool:
    is_aware = state.policy.is_health_enabled or (branch.model.strategy is Strategy.ADAPTIVE and state.policy.adaptive.enabled)
    return is_aware and standing_of(state, node, at_s) is Standing.COOLING


def _legs(state: RoutingState, branch: Branch, decide: Decide, at_s: float) -> tuple[LegState, ...]:
    pin = pin_of(state, branch, decide, at_s)[1]
    made = _selection(state, branch, decide, at_s)
    weights = made.weights if made is not None else _weights(state, branch, at_s)
    total = sum(weights or ()) or 1.0
    legs = []
    for index, node in enumerate(branch.nodes):
        leg = _leg(state, node, decide, at_s)
        legs.append(
            msgspec.structs.replace(
                leg,
                latency_s=None if made is None else made.latencies_s[index],
                load_s=None if made is None else made.loads[index],
                weight=None if weights is None else weights[index],
                share=None if weights is None else weights[index] / total,
                is_warm=made is not None and made.warm == index,
                is_pinned=node.name == pin,
            )
        )
    return tuple(legs)


def _selection(state: RoutingState, branch: Branch, decide: Decide, at_s: float) -> Selection | None:
    """What the selector would make of an adaptive model, pin or not; None where it is not asked."""
    is_adaptive = branch.model.strategy is Strategy.ADAPTIVE and state.policy.adaptive.enabled
    if not is_adaptive or len(branch.nodes) < 2:
        return None
    try:
        return select(state, branch.model.source, branch.nodes, decide, at_s=at_s, draws=(0.0, 0.0), allows_probe=False).made
    except ValueError:  # all of them cool: nobody would be drawn
        return None


def _weights(state: RoutingState, branch: Branch, at_s: float) -> Sequence[float] | None:
    """The weights of round robin's slots; a sole candidate has them all. None: the strategy has no weights."""
    if len(branch.nodes) > 1 and branch.model.strategy in (Strategy.FAILOVER, Strategy.COST):
        return None
    return [0.0 if _is_cooling(state, branch, node, at_s) else node.weight or 1.0 for node in branch.nodes]


def _leg(state: RoutingState, node: Node, decide: Decide, at_s: float) -> LegState:
    """A candidate by itself; `_legs` adds what it is beside the others."""
    candidate = candidate_of(state, node, decide.session if decide.feeds_routing else None, at_s)
    stream, unary = candidate.latency.stream, candidate.latency.unary
    return LegState(
        name=node.name,
        in_flight=candidate.in_flight,
        standing=candidate.standing,
        cooldown_left_s=max(0.0, candidate.until_s - at_s),
        cooldown_reason=cooldown_reason(state, node.targets[0], at_s) if len(node.targets) == 1 else None,
        stream_latency_s=None if stream is None else stream.value_s,
        unary_latency_s=None if unary is None else unary.value_s,
        price=node.price,
        strategy=None if node.branch is None else node.branch.model.strategy,
        legs=() if node.branch is None else _legs(state, node.branch, decide, at_s),
    )


def _target(state: RoutingState, target: TargetId, at_s: float) -> LegState:
    """The one candidate of a concrete name."""
    price = state.policy.prices.get(target)
    node = Node(target, 0.0, (target,), None if price is None else price.total_usd_per_mtok)
    return _leg(state, node, Decide(target, None, "", Kind.UNARY), at_s)
