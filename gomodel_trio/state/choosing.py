"""The choice of a target, worked out without changing anything: slice → decide; `routing_state` applies it.

Layer: state. Source: behaviour.md §4 (strategies, affinity, failover chain), §5 (probation, all cooling, affinity).

Theory. A virtual model is a tree of legs (`route.expand`). A first choice walks down from the root: at each virtual model the live pin of
the session if it may be used, else the strategy, over the legs that are not cooling. A later choice of the same request (`tried`) takes the
flat list of targets in declared order. Where every candidate is cooling one of them is tried as a last resort, once a request, and no pin
is touched. What pins and cursors must become is noted as moves and turns on the way down.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gomodel_trio.route.expand import Branch, Node, is_allowed, is_available, path_to, slowdown_of
from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import NEVER_MEASURED_S
from gomodel_trio.route.names import TargetId, split_target
from gomodel_trio.route.policy import Strategy, VirtualModel
from gomodel_trio.route.resolve import resolve_concrete
from gomodel_trio.route.strategies import pick_cheapest, pick_last_resort, pick_round_robin
from gomodel_trio.state.commands import Decide, NoTarget, Picked, Reason, Selected, Why
from gomodel_trio.state.selector import select, standing_of
from gomodel_trio.state.tables import PinKey, RoutingState, TurnKey
from gomodel_trio.wire.dialect import Dialect


class PinMove(msgspec.Struct, frozen=True):
    """What becomes of a pin. `kind`: *write* a new one, *keep* it (honored), *release* it for another, or *use* it (kept, not counted)."""

    key: PinKey
    name: str
    kind: Literal["write", "keep", "release", "use"]


class Pick(msgspec.Struct, frozen=True):
    """An adaptive virtual model chose: how, or None and the fault for which its selector declined."""

    source: str
    how: Picked | None
    error: str = ""


class Choice(msgspec.Struct, frozen=True):
    """A chosen target and what choosing it changes: pins, round robin's turns, and the provider whose key cursor advances.

    `picks`: what adaptive virtual models did on the way. `presumed_s`: what the target was taken to need.
    """

    target: TargetId
    reason: Reason
    source: str | None
    candidates: tuple[TargetId, ...]
    left: tuple[TargetId, ...]
    is_failover_allowed: bool
    was_cooling: bool
    keys: tuple[int, ...]
    slowdown: float | None
    picks: tuple[Pick, ...] = ()
    selected: Selected | None = None
    presumed_s: float = NEVER_MEASURED_S
    moves: tuple[PinMove, ...] = ()
    turns: tuple[TurnKey, ...] = ()
    key_turn: str | None = None


def choose(state: RoutingState, decide: Decide, at_s: float, draws: tuple[float, float]) -> Choice | NoTarget:
    """Tell the target that `decide` gets at `at_s`; `draws` are two uniform numbers in [0, 1)."""
    model = state.policy.virtual_models.get(decide.name) if decide.provider is None else None
    if model is not None and model.enabled:
        if not is_allowed(model, decide.user_path):
            return NoTarget(Why.FORBIDDEN)
        branch = state.branch(model, decide.dialect)
        if not branch.targets:
            return _unavailable(state, state.branch(model).targets)
        return _Chooser(state, decide, at_s, draws, candidates=branch.targets, branch=branch).choose()
    target = resolve_concrete(state.policy.providers, decide.name, decide.provider, decide.dialect)
    if target is None:
        return NoTarget(Why.UNKNOWN)
    if not is_available(state.policy, target, decide.dialect):
        return _unavailable(state, (target,) if is_available(state.policy, target) else ())
    return _Chooser(state, decide, at_s, draws, candidates=(target,), branch=None).choose()


def pin_of(state: RoutingState, branch: Branch, decide: Decide, at_s: float) -> tuple[PinKey | None, str | None]:
    """Tell the key of the session's pin, None where none is kept; and the live pin, if it is still one of the model's legs."""
    model, session = branch.model, decide.session
    keeps = model.session_affinity and model.strategy is not Strategy.FAILOVER and len(branch.configured) > 1
    if session is None or not keeps or not decide.feeds_routing:
        return None, None
    key = (model.source, session)
    pin = state.target_pins.get(key, at_s=at_s, ttl_s=state.policy.affinity_ttl_s)
    return key, pin if pin in branch.configured else None


def _unavailable(state: RoutingState, others: tuple[TargetId, ...]) -> NoTarget:
    """Nobody is available; `others` would be to requests in another dialect."""
    if not others:
        return NoTarget(Why.UNAVAILABLE)
    providers = [state.policy.providers[split_target(target)[0]] for target in others]
    spoken = tuple(dialect for dialect in Dialect if any(provider.speaks(dialect) for provider in providers))
    return NoTarget(Why.DIALECT, target=others[0], dialects=spoken)


class _Chooser:
    """One choice in the making. `branch` is None for a concrete name, which has one candidate."""

    __slots__ = (
        "at_s",
        "branch",
        "candidates",
        "decide",
        "draws",
        "is_aware",
        "is_failover_allowed",
        "moves",
        "picks",
        "selected",
        "state",
        "turns",
    )

    def __init__(
        self,
        state: RoutingState,
        decide: Decide,
        at_s: float,
        draws: tuple[float, float],
        *,
        candidates: tuple[TargetId, ...],
        branch: Branch | None,
    ) -> None:
        self.state = state
        self.decide = decide
        self.at_s = at_s
        self.draws = draws
        self.candidates = candidates
        self.branch = branch
        self.is_aware = state.policy.is_health_enabled if branch is None else self._is_health_aware(branch.model)
        self.is_failover_allowed = branch is None or branch.model.failover
        self.moves: list[PinMove] = []
        self.turns: list[TurnKey] = []
        self.picks: list[Pick] = []
        self.selected: Selected | None = None

    def choose(self) -> Choice | NoTarget:
        decide = self.decide
        if decide.again is not None:
            return self._chosen(decide.again, "again") if decide.again in self.candidates else self._exhausted()
        if decide.tried:
            return self._choose_next()
        if self.branch is None:
            target = self.candidates[0]
            return self._chosen(target, "all_cooling" if self._is_cooling(target, self.is_aware) else "single")
        return self._chosen(*self._descend(self.branch))

    # ---- the first choice of a request ----

    def _descend(self, branch: Branch) -> tuple[TargetId, Reason]:
        """Choose at a virtual model and below it; the outermost real choice gives the reason."""
        usable = self._usable(branch)
        if not usable:
            self._count(branch, "all_cooling")
            return self._last_resort(branch.targets, branch), "all_cooling"
        node, reason = self._pick(branch, usable)
        if node.branch is None:
            return node.targets[0], reason
        target, inner_reason = self._descend(node.branch)
        return target, inner_reason if reason == "single" or inner_reason == "all_cooling" else reason

    def _pick(self, branch: Branch, usable: list[Node]) -> tuple[Node, Reason]:
        """Take the pinned leg if it may be used, else choose and note what the pin becomes."""
        key, pin = self._pin(branch)
        for node in usable:
            if node.name == pin and key is not None:
                self.moves.append(PinMove(key, node.name, "keep"))
                self._count(branch, "pinned")
                return node, "single" if len(branch.nodes) == 1 else "pinned"
        node, reason = self._by_strategy(branch, usable, has_pin=pin is not None)
        if key is not None:
            self._repin(branch, key, pin, node)
        return node, reason

    def _by_strategy(self, branch: Branch, usable: list[Node], *, has_pin: bool) -> tuple[Node, Reason]:
        if len(branch.nodes) == 1:
            return usable[0], "single"
        match branch.model.strategy:
            case Strategy.FAILOVER:
                return usable[0], "failover"
            case Strategy.COST:
                return usable[pick_cheapest([node.price for node in usable])], "cost"
            case Strategy.ADAPTIVE if self.state.policy.adaptive.enabled:
                selected = self._selected(branch, branch.nodes, allows_probe=not has_pin)
                if selected is not None:
                    return branch.nodes[selected.made.index], selected.made.reason
        key = (branch.model.source, self.decide.dialect)
        self.turns.append(key)
        return usable[pick_round_robin([node.weight for node in usable], self.state.turns.get(key, 0))], "round_robin"

    # ---- adaptive ----

    def _selected(self, branch: Branch, legs: Sequence[Node], *, allows_probe: bool) -> Selected | None:
        """Ask the selector; None: it failed, and the cursor decides."""
        source = branch.model.source
        try:
            selected = select(self.state, source, legs, self.decide, at_s=self.at_s, draws=self.draws, allows_probe=allows_probe)
        except Exception as error:  # whatever is wrong with one decision, the request has to go somewhere
            self.picks.append(Pick(source, None, repr(error)))
            return None
        self.selected = selected
        self.picks.append(Pick(source, selected.made.reason))
        return selected

    def _count(self, branch: Branch, how: Picked) -> None:
        """Note how an adaptive virtual model chose without its selector; of one candidate there is no choice."""
        if self._is_adaptive(branch.model) and len(branch.nodes) > 1:
            self.picks.append(Pick(branch.model.source, how))

    def _is_adaptive(self, model: VirtualModel) -> bool:
        return model.strategy is Strategy.ADAPTIVE and self.state.policy.adaptive.enabled

    # ---- the later choices ----

    def _choose_next(self) -> Choice | NoTarget:
        """Choose among the untried: in declared order, the session's live pin first, cooling ones last and only once a request."""
        tried = self.decide.tried
        remaining = [target for target in self.candidates if target not in tried]
        if not remaining or not self.is_failover_allowed:
            return self._exhausted()
        usable = [target for target in remaining if not self._is_cooling(target, self.is_aware)]
        if not usable:
            if any(self._was_last_resort(target) for target in tried):
                return self._exhausted()
            if self.branch is not None:
                self._count(self.branch, "all_cooling")
            return self._chosen(self._last_resort(remaining, self.branch), "all_cooling")
        if self.branch is None:
            return self._chosen(usable[0], "next")
        target, reason = self._next_of(self.branch, remaining, usable)
        self._follow(self.branch, target)
        return self._chosen(target, reason)

    def _next_of(self, root: Branch, remaining: Sequence[TargetId], usable: Sequence[TargetId]) -> tuple[TargetId, Reason]:
        """The target of the session's live pin, for the session may have moved meanwhile; else the healthiest, or the next in order."""
        pinned = self._pinned_targets(root)
        for target in usable:
            if target in pinned:
                self._count(root, "pinned")
                return target, "next"
        if self._is_adaptive(root.model) and len(remaining) > 1:
            # A request that has failed once is no guinea pig: `allows_probe` is for first choices.
            selected = self._selected(root, [self._flat_leg(root, target) for target in remaining], allows_probe=False)
            if selected is not None:
                return remaining[selected.made.index], selected.made.reason
        return usable[0], "next"

    def _flat_leg(self, root: Branch, target: TargetId) -> Node:
        """A target as a leg of its own, with the weight of the leg it is under."""
        price = self.state.policy.prices.get(target)
        return Node(target, path_to(root, target)[0][1].weight, (target,), None if price is None else price.total_usd_per_mtok)

    def _follow(self, root: Branch, target: TargetId) -> None:
        """Note what the pins on the way to `target` become: the session moves with the request where its pin is cooling."""
        for branch, node in path_to(root, target):
            key, pin = self._pin(branch)
            if key is None:
                continue
            if pin == node.name:
                self.moves.append(PinMove(key, node.name, "use"))
            elif pin is None or not any(other.name == pin for other in self._usable(branch)):
                self._repin(branch, key, pin, node)

    def _was_last_resort(self, target: TargetId) -> bool:
        record = self.state.targets.get(target)
        return record is not None and record.was_last_resort and self._is_cooling(target, self.is_aware)

    # ---- pins ----

    def _pin(self, branch: Branch) -> tuple[PinKey | None, str | None]:
        """The key of this session's pin, None where none is kept; and the live pin, if it is still one of the model's legs."""
        return pin_of(self.state, branch, self.decide, self.at_s)

    def _repin(self, branch: Branch, key: PinKey, pin: str | None, node: Node) -> None:
        if pin is None:
            self.moves.append(PinMove(key, node.name, "write"))
        elif any(other.name == pin for other in branch.nodes):
            self.moves.append(PinMove(key, node.name, "release"))
        # else the pinned leg is merely unavailable: the pin waits for it

    def _pinned_targets(self, branch: Branch) -> tuple[TargetId, ...]:
        pin = self._pin(branch)[1]
        return next((node.targets for node in branch.nodes if node.name == pin), ())

    # ---- health ----

    def _is_health_aware(self, model: VirtualModel) -> bool:
        return self.state.policy.is_health_enabled or self._is_adaptive(model)

    def _is_cooling(self, target: TargetId, is_aware: bool) -> bool:
        return is_aware and self.state.standing(target, self.at_s) is Standing.COOLING

    def _usable(self, branch: Branch) -> list[Node]:
        if not self._is_health_aware(branch.model):
            return list(branch.nodes)
        return [node for node in branch.nodes if standing_of(self.state, node, self.at_s) is not Standing.COOLING]

    def _last_resort(self, targets: Sequence[TargetId], branch: Branch | None) -> TargetId:
        pinned = () if branch is None else self._pinned_targets(branch)
        index = next((index for index, target in enumerate(targets) if target in pinned), None)
        return targets[pick_last_resort([self.state.health(target) for target in targets], index)]

    # ---- the outcome ----

    def _chosen(self, target: TargetId, reason: Reason) -> Choice:
        was_cooling = reason == "all_cooling"
        provider, session = self.state.policy.providers[split_target(target)[0]], self.decide.session
        turn = self.state.key_turns.get(provider.name, 0)
        return Choice(
            target=target,
            reason=reason,
            source=None if self.branch is None else self.branch.model.source,
            candidates=self.candidates,
            left=() if was_cooling or not self.is_failover_allowed else self._left(target),
            is_failover_allowed=self.is_failover_allowed,
            was_cooling=was_cooling,
            keys=self.state.keys.to_use(provider, session=session, turn=turn, at_s=self.at_s, is_aware=self.is_aware),
            slowdown=None if self.branch is None else slowdown_of(path_to(self.branch, target)),
            picks=tuple(self.picks),
            selected=self.selected,
            presumed_s=self._presumed_s(target),
            moves=() if was_cooling else tuple(self.moves),
            turns=tuple(self.turns),
            key_turn=provider.name if provider.key_count > 1 and session is None else None,
        )

    def _presumed_s(self, target: TargetId) -> float:
        """What the selector took the target to need; under a chained leg that is not known of the target itself."""
        if self.selected is not None:
            made, given = self.selected.made, self.selected.given
            if given.candidates[made.index].name == target:
                return made.latencies_s[made.index]
        return NEVER_MEASURED_S

    def _left(self, chosen: TargetId) -> tuple[TargetId, ...]:
        """The untried others in declared order, behind them the one cooling target that would be tried."""
        others = [target for target in self.candidates if target != chosen and target not in self.decide.tried]
        if not others:
            return ()
        usable = [target for target in others if not self._is_cooling(target, self.is_aware)]
        if len(usable) == len(others):
            return tuple(usable)
        cooling = [target for target in others if target not in usable]
        return (*usable, self._last_resort(cooling, self.branch))

    def _exhausted(self) -> NoTarget:
        deadlines_s = [until_s for target in self.candidates if (until_s := self.state.health(target).until_s) > self.at_s]
        return NoTarget(Why.EXHAUSTED, min(deadlines_s) - self.at_s if deadlines_s and self.is_aware else None)
