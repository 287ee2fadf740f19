"""The one function that changes the routing state: step(state, stamped command) → (reply, facts).

Layer: state; pure but for the state it is given: no clock, no chance, no I/O. Source: architecture.md rules 3–6; spec/state.md.

Theory. Time comes with the command and never runs backwards; everything that ends is compared with it (`until_s <= at_s`), so `Expire` only
frees memory and reports. A choice is worked out first (`choosing`) and applied in one go, hence choosing and counting are one step and a
preview is the first half alone. Equal commands from an equal state give equal replies, facts and states: a journal can be replayed.
"""

import math
from collections.abc import Sequence
from typing import assert_never

import msgspec

from gomodel_trio.route.health import (
    OF_A_KEY,
    WELL,
    Benched,
    Recovered,
    Standing,
    TargetHealth,
    after_first_byte,
    after_outcome,
    is_silence,
)
from gomodel_trio.route.latency import UNMEASURED, after_answer, after_failure, after_hang_up
from gomodel_trio.route.names import Kind, LeaseId, TargetId, split_target
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import Policy
from gomodel_trio.route.tier import raise_tier
from gomodel_trio.state.choosing import Choice, choose
from gomodel_trio.state.commands import (
    AttemptEnded,
    CooldownEnded,
    CooldownStarted,
    Decide,
    Decision,
    EstimateChanged,
    Expire,
    Explain,
    Fact,
    Finish,
    FirstByte,
    InFlightChanged,
    Inspect,
    Inspection,
    KeyFailed,
    NextExpiry,
    NoTarget,
    PinExpired,
    PinHonored,
    PinReleased,
    Preview,
    ReplacePolicy,
    Reply,
    ResetTarget,
    RouteTier,
    SelectionDeclined,
    Stamped,
    TargetSelected,
    TargetState,
    TargetWeight,
    TierEscalated,
    TierPinsCounted,
    TierReply,
)
from gomodel_trio.state.explaining import cooldown_reason, explanation, raised
from gomodel_trio.state.keys import KeyTry
from gomodel_trio.state.shares import weights_of
from gomodel_trio.state.tables import MAX_UNDECLARED, OpenLease, RoutingState, TargetRecord

__all__ = ["RoutingState", "step"]

Facts = tuple[Fact, ...]


def step(state: RoutingState, stamped: Stamped) -> tuple[Reply, Facts]:
    """Carry out one command at its instant and tell its reply and what there is to report."""
    at_s, command = stamped.at_s, stamped.command
    match command:
        case Decide():
            return _decide(state, command, at_s, stamped.draws)
        case Finish():
            return None, _finish(state, command, at_s)
        case FirstByte():
            return None, _first_byte(state, command, at_s)
        case KeyFailed():
            return None, _key_failed(state, command, at_s)
        case RouteTier():
            return _route_tier(state, command, at_s)
        case Expire():
            return _expire(state, at_s)
        case ReplacePolicy():
            return None, _replace_policy(state, command.policy)
        case ResetTarget():
            return _reset(state, command.target)
        case Inspect():
            return _inspect(state, at_s), ()
        case Preview():
            return _preview(state, command.decide, at_s, stamped.draws), ()
        case Explain():
            decide, tier = raised(state, command, at_s)
            return explanation(state, decide, tier, _preview(state, decide, at_s, stamped.draws), at_s), ()
        case _:
            assert_never(command)


# ---- tiers ----------------------------------------------------------------------------------------------------------


def _route_tier(state: RoutingState, command: RouteTier, at_s: float) -> tuple[TierReply, Facts]:
    ttl_s = state.policy.smart.session_ttl_s
    if ttl_s <= 0:
        return TierReply(command.verdict, is_pinned=False, is_escalated=False), ()
    key, pins = (command.alias, command.session), state.tier_pins
    raised = raise_tier(pins.get(key, at_s=at_s, ttl_s=ttl_s), command.verdict)
    count = len(pins)
    pins.put(key, raised.tier, at_s=at_s, limit=state.policy.max_pins)
    facts: list[Fact] = [TierEscalated(command.alias)] if raised.is_escalated else []
    if len(pins) != count:
        facts.append(TierPinsCounted(len(pins)))
    return TierReply(raised.tier, raised.is_pinned, raised.is_escalated), tuple(facts)


# ---- leases ---------------------------------------------------------------------------------------------------------


def _decide(state: RoutingState, command: Decide, at_s: float, draws: tuple[float, float]) -> tuple[Decision | NoTarget, Facts]:
    choice = choose(state, command, at_s, draws)
    if isinstance(choice, NoTarget):
        return choice, ()
    facts = _apply_moves(state, choice, at_s)
    for key in choice.turns:
        state.turns[key] = state.turns.get(key, 0) + 1
    if choice.key_turn is not None:
        state.key_turns[choice.key_turn] = state.key_turns.get(choice.key_turn, 0) + 1
    facts += _forget_old(state, choice.target, at_s)
    facts += _sweep(state)
    for pick in choice.picks:
        facts.append(
            SelectionDeclined(pick.source, pick.error) if pick.how is None else TargetSelected(pick.source, choice.target, pick.how)
        )
    state.last_order += 1
    lease = LeaseId(state.last_order)
    record = state.record(choice.target)
    record.open_leases[lease] = state.last_order
    opened = state.leases[lease] = OpenLease(
        target=choice.target,
        kind=command.kind,
        session=command.session,
        started_at_s=at_s,
        order=state.last_order,
        epoch=record.epoch,
        feeds_routing=command.feeds_routing,
        is_again=choice.reason == "again",
        was_cooling=choice.was_cooling,
        presumed_s=choice.presumed_s,
    )
    _use_key(state, lease, opened, choice.keys[0])
    facts.append(InFlightChanged(choice.target, len(record.open_leases)))
    return _decision(choice, lease), tuple(facts)


def _use_key(state: RoutingState, lease: LeaseId, opened: OpenLease, key: int) -> None:
    """Count the attempt that an open lease begins with a key; who has only one has no record of it."""
    provider = split_target(opened.target)[0]
    declared = state.policy.providers.get(provider)
    if declared is None or not key < declared.key_count > 1:  # a reload may have taken it meanwhile
        opened.key_try = None
        return
    opened.key_try = KeyTry(lease, provider, key, opened.started_at_s, opened.order)
    state.keys.begin(opened.key_try, declared.key_count)


def _preview(state: RoutingState, decide: Decide, at_s: float, draws: tuple[float, float]) -> Decision | NoTarget:
    choice = choose(state, decide, at_s, draws)
    return choice if isinstance(choice, NoTarget) else _decision(choice, LeaseId(0))


def _apply_moves(state: RoutingState, choice: Choice, at_s: float) -> list[Fact]:
    facts: list[Fact] = []
    for move in choice.moves:
        state.target_pins.put(move.key, move.name, at_s=at_s, limit=state.policy.max_pins)
        if move.kind == "keep":
            facts.append(PinHonored(move.key[0]))
        elif move.kind == "release":
            facts.append(PinReleased(move.key[0]))
    return facts


def _decision(choice: Choice, lease: LeaseId) -> Decision:
    return Decision(
        lease=lease,
        target=choice.target,
        reason=choice.reason,
        source=choice.source,
        candidates=choice.candidates,
        left=choice.left,
        is_failover_allowed=choice.is_failover_allowed,
        was_cooling=choice.was_cooling,
        keys=choice.keys,
        slowdown=choice.slowdown,
        selected=choice.selected,
    )


def _first_byte(state: RoutingState, command: FirstByte, at_s: float) -> Facts:
    lease = state.leases.get(command.lease)
    if lease is None:
        return ()
    lease.has_byte = True
    is_answer = command.is_content or lease.kind is Kind.UNARY
    record = state.record(lease.target)
    facts: list[Fact] = []
    if command.is_content and lease.content_at_s is None:
        lease.content_at_s = at_s
        facts = _learn(state, record, lease, Outcome.SUCCESS, at_s)
    if is_answer and lease.epoch == record.epoch:
        record.health = after_first_byte(record.health, started_at_s=lease.started_at_s, started_order=lease.order)
    if is_answer and lease.key_try is not None:
        state.keys.prove(lease.key_try)
    return tuple(facts)


def _key_failed(state: RoutingState, command: KeyFailed, at_s: float) -> Facts:
    """End the attempt with one key and begin the next on the same lease; the target is not to blame as long as a key is left."""
    lease = state.leases.get(command.lease)
    if lease is None:
        return ()
    ended = AttemptEnded(lease.target, command.outcome, command.cause, at_s - lease.started_at_s)
    _end_try(state, lease, command, at_s)
    state.last_order += 1
    lease.started_at_s, lease.order = at_s, state.last_order
    record = state.record(lease.target)
    record.open_leases.pop(command.lease, None)
    record.open_leases[command.lease] = lease.order
    _use_key(state, command.lease, lease, command.next_key)
    return (ended,)


def _end_try(state: RoutingState, lease: OpenLease, end: KeyFailed | Finish, at_s: float) -> None:
    if lease.key_try is not None:
        order, config = state.last_order, state.policy.adaptive
        state.keys.end(lease.key_try, end.outcome, end.retry_after_s, at_s=at_s, order=order, is_again=lease.is_again, config=config)


def _finish(state: RoutingState, command: Finish, at_s: float) -> Facts:
    lease = state.leases.pop(command.lease, None)
    if lease is None:
        return ()
    record = state.record(lease.target)
    record.open_leases.pop(command.lease, None)
    _end_try(state, lease, command, at_s)
    outcome, cause, elapsed_s = command.outcome, command.cause, at_s - lease.started_at_s
    answered = record.latency.answered(lease.kind)
    if outcome is Outcome.CLIENT and not lease.has_byte and is_silence(elapsed_s, None if answered is None else answered.value_s):
        outcome, cause = Outcome.FAULT, Cause.SILENT
    facts: list[Fact] = [
        AttemptEnded(lease.target, outcome, cause, elapsed_s),
        InFlightChanged(lease.target, len(record.open_leases)),
    ]
    if lease.epoch == record.epoch:
        facts += _judge(state, record, lease, msgspec.structs.replace(command, outcome=outcome), at_s)
    # An answer whose content was seen has told what it had to; its end can only add that it was cut.
    if outcome is not Outcome.SUCCESS or lease.content_at_s is None:
        facts += _learn(state, record, lease, outcome, at_s)
    is_warm = outcome is Outcome.SUCCESS and state.has_selector and lease.feeds_routing and lease.epoch == record.epoch
    if is_warm and lease.session is not None:
        state.warm.put((lease.target, lease.session), True, at_s=at_s, limit=state.policy.max_pins)
    if record.is_blank and lease.target not in state.declared:
        del state.targets[lease.target]
    return tuple(facts)


def _learn(state: RoutingState, record: TargetRecord, lease: OpenLease, outcome: Outcome, at_s: float) -> list[Fact]:
    """Let an attempt feed the latency estimate of its target: at its first content, or at its end."""
    is_fed = state.has_selector and lease.feeds_routing and lease.epoch == record.epoch and lease.target in state.declared
    if not is_fed:
        return []
    old, kind = record.latency, lease.kind
    elapsed_s = (at_s if lease.content_at_s is None else lease.content_at_s) - lease.started_at_s
    match outcome:
        case Outcome.SUCCESS:
            record.latency = after_answer(old, kind, elapsed_s, at_s=at_s, decay_s=state.policy.adaptive.latency_decay_s)
        case Outcome.RATE | Outcome.FAULT:
            cap_s = state.policy.adaptive.latency_cap_s
            record.latency = after_failure(old, kind, elapsed_s, at_s=at_s, cap_s=cap_s, presumed_s=lease.presumed_s)
        case Outcome.CLIENT if lease.content_at_s is None:
            record.latency = after_hang_up(old, kind, elapsed_s, at_s=at_s, presumed_s=lease.presumed_s)
        case _:
            return []
    was, now = old.of(kind), record.latency.of(kind)
    return [] if now is None or now is was else [EstimateChanged(lease.target, kind, now.value_s)]


def _judge(state: RoutingState, record: TargetRecord, lease: OpenLease, end: Finish, at_s: float) -> list[Fact]:
    """Let the end of an attempt tell on its target's health."""
    facts = _report_lapsed(lease.target, record, at_s)
    record.was_last_resort = lease.was_cooling
    first_back: TargetHealth | None = None
    if lease.key_try is not None and end.outcome in OF_A_KEY:
        first_back = state.keys.first_back(lease.key_try.provider, at_s)
        if first_back is None:
            return facts
    was = record.health
    # A retry is made only on a target that was not cooling when the request came to it. If it is benched or unproven now, this request has
    # triggered it already, and one request triggers a target at most once.
    may_trigger = not (lease.is_again and (record.health.is_benched(at_s) or record.health.is_unproven))
    record.health, change = after_outcome(
        record.health,
        started_at_s=lease.started_at_s,
        at_s=at_s,
        outcome=end.outcome,
        retry_after_s=end.retry_after_s,
        config=state.policy.adaptive,
        started_order=lease.order,
        order=state.last_order,
        may_trigger=may_trigger,
    )
    if isinstance(change, Benched) and first_back is not None:
        record.health, change = _until_a_key_is_back(was, record.health, change, first_back, at_s)
    match change:
        case Benched():
            record.is_reported_cooling = True
            facts.append(CooldownStarted(lease.target, change.reason, change.until_s, change.for_s))
        case Recovered():
            facts += _report_ended(lease.target, record)
        case None:
            pass
        case _:
            assert_never(change)
    return facts


def _until_a_key_is_back(
    was: TargetHealth, now: TargetHealth, change: Benched, key: TargetHealth, at_s: float
) -> tuple[TargetHealth, Benched]:
    """Have a cooldown that all keys together made end with the first of theirs, unless an earlier one of the target's own lasts longer."""
    until_s = max(was.until_s, key.until_s)
    if until_s >= now.until_s:
        return now, change
    reason = was.reason if was.until_s > key.until_s else key.reason
    return msgspec.structs.replace(now, until_s=until_s, reason=reason), Benched(change.reason, until_s, until_s - at_s)


def _sweep(state: RoutingState) -> list[Fact]:
    """Throw out idle records of undeclared targets when there are too many; doubling the mark keeps the cost of a step bounded."""
    if len(state.targets) < state.sweep_at:
        return []
    facts: list[Fact] = []
    for target, record in list(state.targets.items()):
        if not record.open_leases and target not in state.declared:
            facts += _report_ended(target, record)
            del state.targets[target]
    state.sweep_at = max(len(state.declared) + MAX_UNDECLARED, 2 * len(state.targets))
    return facts


def _forgotten_at_s(state: RoutingState, target: TargetId, record: TargetRecord) -> float | None:
    """When an undeclared target is forgotten: one longest cooldown after its own was over; None while it runs or never cooled."""
    if record.open_leases or target in state.declared or record.health.until_s == -math.inf:
        return None
    return record.health.until_s + state.policy.adaptive.cooldown_max_s


def _forget_old(state: RoutingState, target: TargetId, at_s: float) -> list[Fact]:
    """Do for one target what `Expire` does for all, so that no decision depends on whether it came before."""
    record = state.targets.get(target)
    forgotten_at_s = None if record is None else _forgotten_at_s(state, target, record)
    if record is None or forgotten_at_s is None or forgotten_at_s > at_s:
        return []
    del state.targets[target]
    return _report_ended(target, record)


# ---- time -----------------------------------------------------------------------------------------------------------


def _expire(state: RoutingState, at_s: float) -> tuple[NextExpiry, Facts]:
    facts: list[Fact] = []
    ends_s: list[float | None] = []
    for target, record in list(state.targets.items()):
        facts += _report_lapsed(target, record, at_s)
        facts += _forget_old(state, target, at_s)
        if record.is_reported_cooling:
            ends_s.append(record.health.until_s)
        elif target in state.targets:
            ends_s.append(_forgotten_at_s(state, target, record))
    tier_ttl_s, target_ttl_s = state.policy.smart.session_ttl_s, state.policy.affinity_ttl_s
    if count := state.tier_pins.expire(at_s=at_s, ttl_s=tier_ttl_s):
        facts += [PinExpired("tier", count), TierPinsCounted(len(state.tier_pins))]
    if count := state.target_pins.expire(at_s=at_s, ttl_s=target_ttl_s):
        facts.append(PinExpired("target", count))
    state.warm.expire(at_s=at_s, ttl_s=state.policy.adaptive.warm_cache_ttl_s)
    ends_s += [state.tier_pins.next_expiry_s(tier_ttl_s), state.target_pins.next_expiry_s(target_ttl_s)]
    return NextExpiry(min((end_s for end_s in ends_s if end_s is not None), default=None)), tuple(facts)


def _report_lapsed(target: TargetId, record: TargetRecord, at_s: float) -> list[Fact]:
    return [] if record.health.is_benched(at_s) else _report_ended(target, record)


def _report_ended(target: TargetId, record: TargetRecord) -> list[Fact]:
    if not record.is_reported_cooling:
        return []
    record.is_reported_cooling = False
    return [CooldownEnded(target)]


# ---- operators ------------------------------------------------------------------------------------------------------


def _replace_policy(state: RoutingState, policy: Policy) -> Facts:
    """Take a policy; targets of providers that are gone or changed are forgotten, their open leases still close."""
    facts: list[Fact] = []
    old_providers, providers = state.policy.providers, policy.providers
    changed = {name for name, old in old_providers.items() if (new := providers.get(name)) is None or new.fingerprint != old.fingerprint}
    for target, record in list(state.targets.items()):
        if (provider := split_target(target)[0]) in changed or provider not in old_providers:
            facts += _forget(state, target, record)
    for provider in changed:
        state.keys.forget(provider)
    state.keys.keep(providers)
    state.warm.drop(lambda target: split_target(TargetId(target))[0] in changed)
    state.install(policy)
    for target, record in list(state.targets.items()):
        if target not in state.declared:
            facts += _unlearn(state, target, record)
    state.turns = {key: turn for key, turn in state.turns.items() if key[0] in policy.virtual_models}
    state.key_turns = {name: turn for name, turn in state.key_turns.items() if name in providers}
    tier_pins = len(state.tier_pins)
    state.tier_pins.shrink(policy.max_pins if policy.smart.session_ttl_s > 0 else 0)
    state.target_pins.shrink(policy.max_pins)
    state.warm.shrink(policy.max_pins)
    if len(state.tier_pins) != tier_pins:
        facts.append(TierPinsCounted(len(state.tier_pins)))
    return tuple(facts)


def _reset(state: RoutingState, target: TargetId) -> tuple[bool, Facts]:
    record = state.targets.get(target)
    if record is not None or target in state.declared:
        # What the operator has put right may be a key; one that is not is found out by one attempt.
        state.keys.forget(split_target(target)[0])
    if record is None:
        return target in state.declared, ()
    return True, tuple(_forget(state, target, record))


def _forget(state: RoutingState, target: TargetId, record: TargetRecord) -> list[Fact]:
    """Make a target fresh; what runs still counts as in flight, but its end says nothing about the fresh one."""
    facts = _report_ended(target, record)
    facts += [EstimateChanged(target, kind, None) for kind in Kind if record.latency.of(kind) is not None]
    record.health, record.latency, record.was_last_resort = WELL, UNMEASURED, False
    record.epoch += 1
    if not record.open_leases:
        del state.targets[target]
    return facts


def _unlearn(state: RoutingState, target: TargetId, record: TargetRecord) -> list[Fact]:
    """Drop the estimates of a target that no virtual model can choose any more."""
    facts: list[Fact] = [EstimateChanged(target, kind, None) for kind in Kind if record.latency.of(kind) is not None]
    record.latency = UNMEASURED
    if record.is_blank:
        del state.targets[target]
    return facts


def _inspect(state: RoutingState, at_s: float) -> Inspection:
    weights = weights_of(state, at_s)
    rows = tuple(_row(state, target, at_s, weights.get(target, ())) for target in dict.fromkeys((*state.declared, *state.targets)))
    return Inspection(
        rows, len(state.leases), len(state.tier_pins), len(state.target_pins), at_s, state.keys.rows(state.policy.providers, at_s)
    )


def _row(state: RoutingState, target: TargetId, at_s: float, weights: Sequence[TargetWeight]) -> TargetState:
    record = state.targets.get(target)
    latency = UNMEASURED if record is None else record.latency
    health: TargetHealth = state.health(target)
    return TargetState(
        target=target,
        in_flight=0 if record is None else len(record.open_leases),
        is_cooling=state.standing(target, at_s) is Standing.COOLING,
        is_on_probation=health.is_on_probation(at_s),
        cooldown_left_s=max(0.0, health.until_s - at_s),
        streak=health.k,
        pins=state.target_pins.count_of(target),
        stream_latency_s=None if latency.stream is None else latency.stream.value_s,
        unary_latency_s=None if latency.unary is None else latency.unary.value_s,
        weights=tuple(weights),
        cooldown_reason=cooldown_reason(state, target, at_s),
    )
