"""The actor: order, time, faults, cancellation, stopping."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import Leg, Policy, Provider, VirtualModel
from gomodel_trio.state.actor import Actor, ActorStopped
from gomodel_trio.state.commands import (
    CooldownStarted,
    Decide,
    Decision,
    Fact,
    Finish,
    FirstByte,
    Inspect,
    Preview,
    ReplacePolicy,
    ResetTarget,
    RouteTier,
    Stamped,
    TierReply,
)
from gomodel_trio.state.lease import open_lease
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

POLICY = Policy(
    providers={name: Provider(name, "openai", Dialect.OPENAI, True, ("m",)) for name in "ab"},
    virtual_models={"v": VirtualModel("v", (Leg("a/m"), Leg("b/m")))},
)
ASK = Decide("v", SessionId("s"), "/", Kind.UNARY)


def make_actor(on_facts: Callable[[Sequence[Fact]], None] = lambda facts: None, **more: Any) -> Actor:
    return Actor(POLICY, draws=lambda: (0.25, 0.75), on_facts=on_facts, **more)


@asynccontextmanager
async def _running(actor: Actor) -> Any:
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        yield actor
        nursery.cancel_scope.cancel()


def running(actor: Actor) -> AbstractAsyncContextManager[Actor]:
    return _running(actor)


async def test_each_command_gets_its_reply_and_its_stamp(mock_clock: MockClock) -> None:
    journal: list[Stamped] = []
    async with running(make_actor(journal=journal.append)) as actor:
        mock_clock.jump(2.5)
        decision = await actor.ask(ASK)
        assert isinstance(decision, Decision)
        assert (decision.target, decision.lease) == ("a/m", 1)
        assert isinstance(await actor.ask(Preview(ASK)), Decision)
        assert await actor.ask(RouteTier("x", SessionId("s"), Tier.HARD)) == TierReply(Tier.HARD, False, False)
        mock_clock.jump(1.5)
        actor.tell(FirstByte(decision.lease))
        actor.tell(Finish(decision.lease, Outcome.SUCCESS))
        assert (await actor.ask(Inspect())).open_leases == 0
        assert await actor.ask(ResetTarget(TargetId("a/m"))) is True
        assert await actor.ask(ReplacePolicy(POLICY)) is None  # type: ignore[func-returns-value]
        assert actor.now_s() == pytest.approx(4.0)
    assert [stamped.seq for stamped in journal] == list(range(1, 9))
    assert [stamped.at_s for stamped in journal] == pytest.approx([2.5, 2.5, 2.5, 4.0, 4.0, 4.0, 4.0, 4.0])
    assert journal[0].draws == (0.25, 0.75)
    assert journal[3].command == FirstByte(decision.lease)


async def test_what_is_sent_before_the_start_is_done_at_the_start() -> None:
    actor = make_actor()
    assert actor.now_s() == 0.0
    actor.tell(ASK)
    async with running(actor):
        assert (await actor.ask(Inspect())).open_leases == 1


async def test_facts_come_in_order_and_a_cooldown_is_signalled() -> None:
    facts: list[Fact] = []
    async with running(make_actor(facts.extend)) as actor:
        begun = actor.ending_begun
        decision = await actor.ask(ASK)
        assert isinstance(decision, Decision)
        assert not begun.is_set()
        actor.tell(Finish(decision.lease, Outcome.RATE))
        await actor.ask(Inspect())
    assert [type(fact).__name__ for fact in facts] == ["InFlightChanged", "AttemptEnded", "InFlightChanged", "CooldownStarted"]
    assert begun.is_set()
    assert not actor.ending_begun.is_set()


async def test_a_command_that_raises_raises_at_its_asker_and_the_actor_lives() -> None:
    async with running(make_actor()) as actor:
        with pytest.raises(AttributeError):
            await actor.ask(Preview(None))  # type: ignore[arg-type]
        actor.tell(Preview(None))  # type: ignore[arg-type]
        assert (await actor.ask(Inspect())).open_leases == 0
        assert actor.tell_failures == 1


async def test_what_callbacks_raise_is_contained_and_counted() -> None:
    def fail(_: object) -> None:
        raise RuntimeError

    async with running(make_actor(fail, journal=fail)) as actor:
        assert isinstance(await actor.ask(ASK), Decision)
        assert isinstance(await actor.ask(ASK), Decision)
    assert actor.callback_failures == 4


async def test_a_callback_may_tell_without_starving_others() -> None:
    def echo(facts: Sequence[Fact]) -> None:
        actor.tell(ASK)

    actor = make_actor(echo)
    with trio.fail_after(5):
        async with running(actor):
            actor.tell(ASK)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            assert (await actor.ask(Inspect())).open_leases > 2


async def test_a_cancelled_asker_whose_command_was_not_taken_leaves_nothing() -> None:
    actor = make_actor()
    with trio.move_on_after(0):
        await actor.ask(ASK)
    async with running(actor):
        assert (await actor.ask(Inspect())).open_leases == 0


async def test_an_asker_cancelled_after_the_taking_gets_its_reply() -> None:
    scope = trio.CancelScope()
    replies: list[object] = []

    async def ask() -> None:
        with scope:
            replies.append(await actor.ask(ASK))
            await trio.lowlevel.checkpoint()
            replies.append("not cancelled")

    # Cancelling in the callback is the latest instant: the command was taken, its asker not yet awake.
    async with running(make_actor(lambda facts: scope.cancel())) as actor, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
    assert len(replies) == 1
    assert isinstance(replies[0], Decision)


async def test_after_the_stop_asks_raise_and_tells_still_count() -> None:
    async with running(make_actor()) as actor:
        decision = await actor.ask(ASK)
        assert isinstance(decision, Decision)
        actor.tell(FirstByte(decision.lease))
    actor.tell(Finish(decision.lease, Outcome.CLIENT))
    assert actor._state.leases == {}
    with pytest.raises(ActorStopped):
        await actor.ask(ASK)


async def test_whoever_asks_while_the_actor_stops_is_told(nursery: trio.Nursery) -> None:
    actor, scope = make_actor(), trio.CancelScope()

    async def host(task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await actor.run(task_status)

    await nursery.start(host)
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()
    actor.tell(ASK)
    with pytest.raises(ActorStopped):
        await actor.ask(ASK)
    assert len(actor._state.leases) == 1


@pytest.mark.parametrize("seed", range(5))
async def test_no_lease_leaks_whatever_is_cancelled_where(seed: int) -> None:
    rng = random.Random(seed)
    journal: list[Stamped] = []

    async def client() -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            async with open_lease(actor, Decide("v", SessionId(str(rng.random())), "/", Kind.STREAM)) as lease:
                for _ in range(rng.randrange(4)):
                    await trio.lowlevel.checkpoint()
                lease.first_byte()
                await trio.lowlevel.checkpoint()
                lease.finish(rng.choice([Outcome.SUCCESS, Outcome.RATE, Outcome.FAULT]))

    scopes: list[trio.CancelScope] = []
    async with running(make_actor(journal=journal.append)) as actor:
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(client)
                if rng.random() < 0.7:
                    await trio.lowlevel.checkpoint()
                if scopes:
                    rng.choice(scopes).cancel()
        inspection = await actor.ask(Inspect())
        assert inspection.open_leases == 0
        assert {row.in_flight for row in inspection.targets} == {0}
    replayed = RoutingState(POLICY)
    for stamped in journal:
        step(replayed, stamped)
    assert replayed == actor._state


async def test_a_cooldown_is_a_fact_of_its_own_batch() -> None:
    batches: list[list[Fact]] = []
    async with running(make_actor(lambda facts: batches.append(list(facts)))) as actor:
        for _ in range(3):
            actor.tell(ASK)
        for lease in (1, 2, 3):
            actor.tell(Finish(LeaseId(lease), Outcome.AUTH))
        await actor.ask(Inspect())
    assert len(batches) == 1
    assert sum(isinstance(fact, CooldownStarted) for fact in batches[0]) == 1
