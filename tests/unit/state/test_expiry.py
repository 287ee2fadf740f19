"""The expiry scheduler, in virtual time."""

from collections.abc import Sequence

import msgspec
import pytest
import trio
from trio.testing import MockClock

from gomodel_trio.route.names import Kind, SessionId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Policy, Provider, SmartRouting
from gomodel_trio.state.actor import Actor
from gomodel_trio.state.commands import (
    AttemptEnded,
    CooldownEnded,
    Decide,
    Expire,
    Fact,
    InFlightChanged,
    PinExpired,
    ReplacePolicy,
    RouteTier,
    Stamped,
)
from gomodel_trio.state.expiry import run_expiry
from gomodel_trio.state.lease import open_lease
from gomodel_trio.wire.dialect import Dialect

POLICY = Policy(
    providers={"a": Provider("a", "openai", Dialect.OPENAI, True, ("m",))},
    smart=SmartRouting(session_ttl_s=100),
    adaptive=AdaptiveRouting(cooldown_base_s=2),
)
ASK = Decide("a/m", None, "/", Kind.UNARY)


class Watched:
    """An actor whose facts are kept with the instant they came, and whose Expires are counted."""

    def __init__(self) -> None:
        self.facts: list[tuple[float, Fact]] = []
        self.expired_at_s: list[float] = []
        self.actor = Actor(POLICY, draws=lambda: (0.0, 0.0), on_facts=self.keep, journal=self.count)

    def keep(self, facts: Sequence[Fact]) -> None:
        noise = (AttemptEnded, InFlightChanged)
        self.facts += [(round(self.actor.now_s(), 3), fact) for fact in facts if not isinstance(fact, noise)]

    def count(self, stamped: Stamped) -> None:
        if isinstance(stamped.command, Expire):
            self.expired_at_s.append(round(stamped.at_s, 3))


@pytest.fixture
async def watched(nursery: trio.Nursery) -> Watched:
    watched = Watched()
    await nursery.start(watched.actor.run)
    await nursery.start(run_expiry, watched.actor)
    return watched


async def test_a_cooldown_is_reported_over_at_its_end(autojump_clock: MockClock, watched: Watched) -> None:
    await trio.sleep(7)
    async with open_lease(watched.actor, ASK) as lease:
        lease.finish(Outcome.RATE)
    await trio.sleep(5)
    ends = [(at_s, fact) for at_s, fact in watched.facts if isinstance(fact, CooldownEnded)]
    assert len(ends) == 1
    assert ends[0][0] == pytest.approx(9.0, abs=0.06)


async def test_a_pin_is_reported_over_at_its_end(autojump_clock: MockClock, watched: Watched) -> None:
    await watched.actor.ask(RouteTier("normal", SessionId("s"), Tier.HARD))
    await trio.sleep(110)
    assert [at_s for at_s, fact in watched.facts if fact == PinExpired("tier", 1)] == pytest.approx([100.0], abs=0.06)


async def test_the_only_pin_is_reported_over_at_its_end_however_short_its_life(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    watched = Watched()
    await nursery.start(watched.actor.run)
    await watched.actor.ask(ReplacePolicy(msgspec.structs.replace(POLICY, smart=SmartRouting(session_ttl_s=2))))
    await nursery.start(run_expiry, watched.actor)
    await trio.sleep(7)
    await watched.actor.ask(RouteTier("normal", SessionId("s"), Tier.HARD))
    await trio.sleep(1)
    await watched.actor.ask(RouteTier("normal", SessionId("t"), Tier.HARD))
    await trio.sleep(5)
    assert [at_s for at_s, fact in watched.facts if fact == PinExpired("tier", 1)] == pytest.approx([9.0, 10.0], abs=0.06)


async def test_an_idle_gateway_is_looked_at_every_half_minute(autojump_clock: MockClock, watched: Watched) -> None:
    await trio.sleep(95)
    assert watched.expired_at_s == pytest.approx([0, 30.05, 60.1, 90.15], abs=0.01)


async def test_a_storm_of_cooldowns_is_answered_at_most_every_fifty_milliseconds(autojump_clock: MockClock, watched: Watched) -> None:
    await trio.sleep(1)
    for _ in range(100):
        async with open_lease(watched.actor, ASK) as lease:
            lease.finish(Outcome.AUTH)
        await trio.sleep(0.001)
    gaps = [later - earlier for earlier, later in zip(watched.expired_at_s, watched.expired_at_s[1:], strict=False)]
    assert min(gaps) >= 0.049
    assert len(watched.expired_at_s) <= 5


async def test_it_ends_with_the_actor(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    actor, scope = Watched().actor, trio.CancelScope()

    async def host(task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await actor.run(task_status)

    await nursery.start(host)
    scope.cancel()
    with trio.fail_after(60):
        await run_expiry(actor)
