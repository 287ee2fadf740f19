"""Load in virtual time, and where it went: requests that arrive on the clock, whether or not the earlier ones are answered."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from support.inprocess import FakeResponder, Inside

LIMIT_2_DF = 9.21
"""What chi-square with two degrees of freedom exceeds once in a hundred times."""


class Arrivals:
    """Requests to the pool of an open gateway. `answers` in the order of their ends; instants as `Sent.at_s`."""

    def __init__(self, inside: Inside, body: dict[str, Any] | None = None) -> None:
        self.inside = inside
        self.answers: list[FakeResponder] = []
        self._body = body

    @property
    def now_s(self) -> float:
        """The instant."""
        return self.inside.transport.now_s

    async def arrive(self, *, per_s: float, for_s: float) -> float:
        """Send evenly at a rate, and tell when it began; returns when the last one is answered."""
        began_s = self.now_s
        async with self.arriving(per_s=per_s):
            await trio.sleep(for_s)
        return began_s

    @asynccontextmanager
    async def arriving(self, *, per_s: float) -> AsyncIterator[None]:
        """Send evenly at a rate as long as this is open; closes when the last one is answered."""
        async with trio.open_nursery() as requests, trio.open_nursery() as source:
            source.start_soon(self._send_forever, requests, per_s)
            yield
            source.cancel_scope.cancel()

    def sent(self, provider: str, begin_s: float = 0.0, end_s: float = float("inf")) -> int:
        """How many attempts a provider got in [begin, end)."""
        return sum(sent.provider == provider and begin_s <= sent.at_s < end_s for sent in self.inside.transport.sent)

    def shares(self, begin_s: float = 0.0, end_s: float = float("inf")) -> dict[str, float]:
        """The shares of all attempts in [begin, end), of every provider that was ever asked."""
        counts = {provider: self.sent(provider, begin_s, end_s) for provider in set(self.inside.transport.calls)}
        return {provider: count / sum(counts.values()) for provider, count in counts.items()}

    def first_s(self, provider: str, begin_s: float) -> float:
        """When a provider was asked first since `begin_s`, in seconds since then; infinity: never."""
        return (
            min(
                (sent.at_s for sent in self.inside.transport.sent if sent.provider == provider and sent.at_s >= begin_s),
                default=float("inf"),
            )
            - begin_s
        )

    async def _send_forever(self, requests: trio.Nursery, per_s: float) -> None:
        while True:
            requests.start_soon(self._ask)
            await trio.sleep(1.0 / per_s)

    async def _ask(self) -> None:
        self.answers.append(await self.inside.ask(self._body))


async def at_once(ask: Callable[..., Any], *arguments: Any) -> list[FakeResponder]:
    """Ask with each of the arguments at one instant; the answers in the order of their ends."""
    answers: list[FakeResponder] = []

    async def one(argument: Any) -> None:
        answers.append(await ask(argument))

    async with trio.open_nursery() as nursery:
        for argument in arguments:
            nursery.start_soon(one, argument)
    return answers


def chi_square(counts: Counter[str], shares: dict[str, float]) -> float:
    """How far counts are from what shares promise."""
    total = counts.total()
    return sum((counts[name] - total * share) ** 2 / (total * share) for name, share in shares.items())
