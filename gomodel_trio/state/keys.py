"""The keys of the providers that have several: the health of each, which of them a request uses, and when they bench a target.

Layer: state. Owned by the actor's task. Source: behaviour.md §7 (keys), §5.

Theory. A key is known by its provider and its index; it is shared by all targets of the provider and has the health of a target
(`route.health`), fed by the attempts made with it. Of failures only those for which another key may do better are the key's: the
rest are the target's. The target is blamed for a key's failure once none of the keys is left, and for no longer than they are all away.
"""

from collections.abc import Sequence

import msgspec

from gomodel_trio.route.health import OF_A_KEY, WELL, Standing, TargetHealth, after_first_byte, after_outcome, standing_of
from gomodel_trio.route.names import LeaseId, SessionId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Provider
from gomodel_trio.route.strategies import order_keys, pick_last_resort
from gomodel_trio.state.commands import KeyState


class KeyRecord(msgspec.Struct):
    """What is known of a key. `open_tries`: leases whose running attempt uses it, with the attempt's number, in the order they began."""

    health: TargetHealth = WELL
    open_tries: dict[LeaseId, int] = {}

    def standing(self, at_s: float) -> Standing:
        """Tell how the key stands; on probation with an attempt in flight it counts as cooling."""
        return standing_of(self.health, newest_order=next(reversed(self.open_tries.values()), 0), at_s=at_s)


class KeyTry(msgspec.Struct, frozen=True):
    """One attempt with a key: whose lease, which key of which provider, when it was sent, and its number among all attempts."""

    lease: LeaseId
    provider: str
    key: int
    started_at_s: float
    order: int


class KeyTable:
    """Records of keys by provider: as many as it has keys, made with the first attempt."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[str, tuple[KeyRecord, ...]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyTable) and self._records == other._records

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    def of(self, provider: str) -> Sequence[KeyRecord]:
        """Tell the records of a provider's keys, by index; none if nothing is known of them."""
        return self._records.get(provider, ())

    def to_use(self, provider: Provider, *, session: SessionId | None, turn: int, at_s: float, is_aware: bool) -> tuple[int, ...]:
        """Tell the indices of the keys that a request uses, in order: those not cooling; if all are, the one that comes back first."""
        if provider.key_count <= 1:
            return (0,)
        records = self.of(provider.name) if is_aware else ()
        cooling = {index for index, record in enumerate(records) if record.standing(at_s) is Standing.COOLING}
        usable = [index for index in range(provider.key_count) if index not in cooling]
        if not usable:
            return (pick_last_resort([record.health for record in records]),)
        return order_keys(usable, provider=provider.name, session=session, turn=turn)

    def begin(self, made: KeyTry, key_count: int) -> None:
        """Count an attempt that begins."""
        records = self._records.get(made.provider)
        if records is None:
            records = self._records[made.provider] = tuple([KeyRecord() for _ in range(key_count)])
        records[made.key].open_tries[made.lease] = made.order

    def prove(self, made: KeyTry) -> None:
        """Note that a running attempt has its 2xx (a stream: its first content)."""
        record = self._record(made)
        if record is not None:
            record.health = after_first_byte(record.health, started_at_s=made.started_at_s, started_order=made.order)

    def end(
        self,
        made: KeyTry,
        outcome: Outcome,
        retry_after_s: float | None,
        *,
        at_s: float,
        order: int,
        is_again: bool,
        config: AdaptiveRouting,
    ) -> None:
        """Let the end of an attempt tell on its key; one of a key that was forgotten meanwhile says nothing."""
        record = self._record(made)
        if record is None:
            return
        del record.open_tries[made.lease]
        if outcome is not Outcome.SUCCESS and outcome not in OF_A_KEY:
            return
        record.health, _ = after_outcome(
            record.health,
            started_at_s=made.started_at_s,
            at_s=at_s,
            outcome=outcome,
            retry_after_s=retry_after_s,
            config=config,
            started_order=made.order,
            order=order,
            # As with targets: this request has benched the key before, when it came to it first.
            may_trigger=not (is_again and (record.health.is_benched(at_s) or record.health.is_unproven)),
        )

    def first_back(self, provider: str, at_s: float) -> TargetHealth | None:
        """Tell the health of the key whose cooldown ends first; None unless all of the provider's keys cool."""
        healths = [record.health for record in self.of(provider)]
        if not healths or not all(health.is_benched(at_s) for health in healths):
            return None
        return min(healths, key=lambda health: health.until_s)

    def forget(self, provider: str) -> None:
        """Make the keys of a provider fresh; attempts that run say nothing about the fresh ones."""
        self._records.pop(provider, None)

    def keep(self, providers: dict[str, Provider]) -> None:
        """Forget the keys of providers that are gone or have another number of them."""
        for name, records in list(self._records.items()):
            if (provider := providers.get(name)) is None or provider.key_count != len(records):
                del self._records[name]

    def rows(self, providers: dict[str, Provider], at_s: float) -> tuple[KeyState, ...]:
        """Show the keys of all providers that have several, known or not."""
        rows = []
        for provider in providers.values():
            if provider.key_count > 1:
                records = self.of(provider.name) or [KeyRecord()] * provider.key_count
                rows += [_row(provider.name, index, record, at_s) for index, record in enumerate(records)]
        return tuple(rows)

    def _record(self, made: KeyTry) -> KeyRecord | None:
        records = self._records.get(made.provider, ())
        record = records[made.key] if made.key < len(records) else None
        return record if record is not None and record.open_tries.get(made.lease) == made.order else None


def _row(provider: str, index: int, record: KeyRecord, at_s: float) -> KeyState:
    health = record.health
    return KeyState(
        provider=provider,
        index=index,
        in_flight=len(record.open_tries),
        standing=record.standing(at_s),
        cooldown_left_s=max(0.0, health.until_s - at_s),
        cooldown_reason=health.reason if health.is_unproven or health.is_benched(at_s) else None,
        streak=health.k,
    )
