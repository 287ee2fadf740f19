"""Deadlines of many things, watched by one task: setting one costs a comparison, no cancel scope and no timer.

Layer: listen. Source: performance.md (deadlines).

The theory. Most deadlines are moved away before they are due. So an item stands in a slot of the wheel that is no later than its deadline,
and is only moved there when a sooner one is set; when its slot comes it is looked at and, if its deadline has moved on, put further on.
"""

import math
from typing import Final, Protocol

import trio

TICK_S: Final = 0.1
"""A deadline is noticed at most two ticks late."""


class Timed(Protocol):
    """What can have a deadline. `slot` belongs to the wheel; None: the item stands nowhere."""

    deadline_s: float
    slot: int | None

    def expire(self) -> None:
        """The deadline has passed. Must not raise."""


class Deadlines:
    """The wheel. Instants are those of trio's clock."""

    def __init__(self) -> None:
        self._slots: dict[int, set[Timed]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def set(self, item: Timed, at_s: float) -> None:
        """Let `item` expire at `at_s`; infinity takes the deadline away."""
        item.deadline_s = at_s
        if item.slot is None or at_s < item.slot * TICK_S:
            self._move(item)

    def forget(self, item: Timed) -> None:
        """Take an item out for good."""
        if item.slot is not None:
            slot = self._slots.get(item.slot)
            if slot is not None:
                slot.discard(item)
                if not slot:
                    del self._slots[item.slot]
            item.slot = None

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await trio.sleep(TICK_S)
            self.expire(trio.current_time())

    def expire(self, now_s: float) -> None:
        """Let go of what is due."""
        for number in [number for number in self._slots if number * TICK_S <= now_s]:
            for item in self._slots.pop(number):
                item.slot = None
                if item.deadline_s <= now_s:
                    item.deadline_s = math.inf
                    item.expire()
                else:
                    self._move(item)

    def _move(self, item: Timed) -> None:
        self.forget(item)
        if item.deadline_s != math.inf:
            # The slot's own instant is the first tick at or after the deadline.
            item.slot = math.ceil(item.deadline_s / TICK_S)
            self._slots.setdefault(item.slot, set()).add(item)
