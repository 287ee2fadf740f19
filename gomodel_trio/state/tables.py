"""The tables of the routing state: pins, targets, open leases, cursors, and the policy they belong to.

Layer: state. Owned by the actor's task; nothing else touches them. Source: architecture.md rule 3; behaviour.md §3 (pins), §4, §5.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import msgspec

from gomodel_trio.route.expand import Branch, expand
from gomodel_trio.route.health import WELL, Standing, TargetHealth, standing_of
from gomodel_trio.route.latency import NEVER_MEASURED_S, UNMEASURED, Latency
from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier, target_id
from gomodel_trio.route.policy import Policy, Strategy, VirtualModel
from gomodel_trio.state.keys import KeyTable, KeyTry
from gomodel_trio.wire.dialect import Dialect

Value = TypeVar("Value", bound=Hashable)
PinKey = tuple[str, SessionId]
"""(alias or virtual model, session)."""

TurnKey = tuple[str, Dialect | None]
"""(virtual model, dialect of the requests): each dialect goes round its own candidates, so that the shares of both come out even."""

MAX_UNDECLARED: Final = 1024
"""Targets that only a client's own model name made known; their records must not grow with what clients invent."""


class PinTable(Generic[Value]):
    """Pins by (name, session), the one used longest ago first.

    All pins of a table live equally long, so the order of use is the order of expiry: the instant of the last use is stored, and a
    changed TTL holds for the pins there are.
    """

    __slots__ = ("_counts", "_entries")

    def __init__(self) -> None:
        self._entries: OrderedDict[PinKey, tuple[Value, float]] = OrderedDict()
        self._counts: Counter[Value] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PinTable) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: PinKey, *, at_s: float, ttl_s: float) -> Value | None:
        """Tell the live pin; reading does not use it."""
        entry = self._entries.get(key)
        return None if entry is None or entry[1] + ttl_s <= at_s else entry[0]

    def put(self, key: PinKey, value: Value, *, at_s: float, limit: int) -> None:
        """Write or use a pin at `at_s`; over `limit` the ones expiring soonest go."""
        old = self._entries.pop(key, None)
        if old is not None:
            self._uncount(old[0])
        self._entries[key] = (value, at_s)
        self._counts[value] += 1
        self.shrink(limit)

    def shrink(self, limit: int) -> None:
        """Keep at most `limit` pins, those that expire last."""
        while len(self._entries) > max(limit, 0):
            self._pop_oldest()

    def expire(self, *, at_s: float, ttl_s: float) -> int:
        """Free the pins that are over and tell how many."""
        count = 0
        while self._entries and next(iter(self._entries.values()))[1] + ttl_s <= at_s:
            self._pop_oldest()
            count += 1
        return count

    def drop(self, is_dropped: Callable[[str], bool]) -> None:
        """Free the pins whose name `is_dropped` says so of."""
        for key in [key for key in self._entries if is_dropped(key[0])]:
            self._uncount(self._entries.pop(key)[0])

    def used_at_s(self, key: PinKey, *, at_s: float, ttl_s: float) -> float | None:
        """Tell when the live pin was used last."""
        entry = self._entries.get(key)
        return None if entry is None or entry[1] + ttl_s <= at_s else entry[1]

    def next_expiry_s(self, ttl_s: float) -> float | None:
        """Tell when the first pin ends; None without pins."""
        return next(iter(self._entries.values()))[1] + ttl_s if self._entries else None

    def count_of(self, value: Value) -> int:
        """Tell how many pins hold `value`."""
        return self._counts[value]

    def _pop_oldest(self) -> None:
        _, (value, _) = self._entries.popitem(last=False)
        self._uncount(value)

    def _uncount(self, value: Value) -> None:
        self._counts[value] -= 1
        if not self._counts[value]:
            del self._counts[value]


class OpenLease(msgspec.Struct):
    """One running attempt. `started_at_s` and `order`: when it was sent, and its number among all attempts; a further key takes both anew.

    `epoch` is its target's at the choice: an attempt of an earlier epoch says nothing about the target any more. `presumed_s`: what the
    target was taken to need at the choice, in the place of an estimate. `has_byte`: the target answered 2xx. `content_at_s`: when its first
    content came, None before. `key_try`: with which key, None where the provider has only one.
    """

    target: TargetId
    kind: Kind
    session: SessionId | None
    started_at_s: float
    order: int
    epoch: int
    feeds_routing: bool
    is_again: bool
    was_cooling: bool
    presumed_s: float = NEVER_MEASURED_S
    has_byte: bool = False
    content_at_s: float | None = None
    key_try: KeyTry | None = None


class TargetRecord(msgspec.Struct):
    """What is known of a target. In-flight is the number of `open_leases` by construction, so it cannot drift.

    `open_leases`: with the number of the attempt that each runs, in that order. `is_reported_cooling`: a CooldownStarted without its
    CooldownEnded. `was_last_resort`: the attempt that ended last was chosen while the target was cooling.
    """

    health: TargetHealth = WELL
    latency: Latency = UNMEASURED
    epoch: int = 0
    open_leases: dict[LeaseId, int] = {}
    is_reported_cooling: bool = False
    was_last_resort: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether forgetting it loses nothing."""
        return not self.open_leases and self.health is WELL and self.latency is UNMEASURED


class RoutingState:
    """All mutable routing state. `step` alone changes it.

    `last_order` numbers the attempts in the order they began; a lease has the number of its first. `keys`: of providers with several.
    `turns`: round robin's cursors; `key_turns`: per provider. `sweep_at`: the number of records at which those of undeclared targets are
    thrown out. `warm`: when a session last succeeded at a target (its name is the target's); `has_selector`: whether anything reads
    estimates and warm marks.
    """

    __slots__ = (
        "_branches",
        "declared",
        "has_selector",
        "key_turns",
        "keys",
        "last_order",
        "leases",
        "policy",
        "sweep_at",
        "target_pins",
        "targets",
        "tier_pins",
        "turns",
        "warm",
    )

    def __init__(self, policy: Policy) -> None:
        self.leases: dict[LeaseId, OpenLease] = {}
        self.targets: dict[TargetId, TargetRecord] = {}
        self.tier_pins: PinTable[Tier] = PinTable()
        self.target_pins: PinTable[str] = PinTable()
        self.warm: PinTable[bool] = PinTable()
        self.turns: dict[TurnKey, int] = {}
        self.key_turns: dict[str, int] = {}
        self.keys = KeyTable()
        self.last_order = 0
        self.install(policy)

    def __eq__(self, other: object) -> bool:
        kept = [name for name in self.__slots__ if name != "_branches"]  # that one is only remembered
        return isinstance(other, RoutingState) and all(getattr(self, name) == getattr(other, name) for name in kept)

    __hash__ = None  # type: ignore[assignment]

    def install(self, policy: Policy) -> None:
        """Take a policy and what follows from it."""
        self.policy = policy
        self._branches: dict[TurnKey, Branch] = {}
        self.declared = _declared(policy)
        models = policy.virtual_models.values()
        self.has_selector = policy.adaptive.enabled and any(model.strategy is Strategy.ADAPTIVE for model in models)
        self.sweep_at = len(self.declared) + MAX_UNDECLARED

    def branch(self, model: VirtualModel, dialect: Dialect | None = None) -> Branch:
        """Tell what a virtual model of the policy stands for to requests in `dialect`; worked out once a policy."""
        key = (model.source, dialect)
        branch = self._branches.get(key)
        if branch is None:
            branch = self._branches[key] = expand(self.policy, model, dialect)
        return branch

    def record(self, target: TargetId) -> TargetRecord:
        """Tell a target's record, made if there is none."""
        record = self.targets.get(target)
        if record is None:
            record = self.targets[target] = TargetRecord()
        return record

    def health(self, target: TargetId) -> TargetHealth:
        """Tell a target's health."""
        record = self.targets.get(target)
        return WELL if record is None else record.health

    def standing(self, target: TargetId, at_s: float) -> Standing:
        """Tell how a target stands; on probation with an attempt in flight it counts as cooling."""
        record = self.targets.get(target)
        if record is None or record.health is WELL:
            return Standing.WELL
        return standing_of(record.health, newest_order=next(reversed(record.open_leases.values()), 0), at_s=at_s)


def _declared(policy: Policy) -> dict[TargetId, None]:
    """The targets the configuration names, in its order: legs first, then what providers list."""
    legs = [TargetId(leg.name) for model in policy.virtual_models.values() for leg in model.legs if not leg.is_virtual]
    listed = [target_id(provider.name, model) for provider in policy.providers.values() for model in provider.models]
    return dict.fromkeys((*legs, *listed))
