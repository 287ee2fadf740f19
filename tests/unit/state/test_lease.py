"""The lease: what a request holds while an attempt runs."""

from collections.abc import Sequence

import pytest
import trio

from gomodel_trio.route.names import Kind
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import Policy, Provider
from gomodel_trio.state.actor import Actor
from gomodel_trio.state.commands import Decide, Decision, Fact, Finish, FirstByte, NoTarget, Stamped, Why
from gomodel_trio.state.lease import open_lease
from gomodel_trio.wire.dialect import Dialect

POLICY = Policy(providers={"a": Provider("a", "openai", Dialect.OPENAI, True, ("m",))})
ASK = Decide("a/m", None, "/", Kind.STREAM)


def ignore(facts: Sequence[Fact]) -> None:
    """Nobody listens."""


class Journal(list[Stamped]):
    """What the actor took, but for the choices."""

    def told(self) -> list[object]:
        return [stamped.command for stamped in self if isinstance(stamped.command, FirstByte | Finish)]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
async def actor(journal: Journal, nursery: trio.Nursery) -> Actor:
    actor = Actor(POLICY, draws=lambda: (0.0, 0.0), on_facts=ignore, journal=journal.append)
    await nursery.start(actor.run)
    return actor


async def test_only_the_first_finish_counts(actor: Actor, journal: Journal) -> None:
    async with open_lease(actor, ASK) as lease:
        assert isinstance(lease.decision, Decision)
        lease.first_byte()
        lease.first_byte()
        lease.finish(Outcome.FAULT, cause=Cause.TRUNCATED, retry_after_s=2.0)
        lease.finish(Outcome.SUCCESS)
        lease.first_byte()
    await trio.testing.wait_all_tasks_blocked()
    number = lease.decision.lease
    assert journal.told() == [FirstByte(number), Finish(number, Outcome.FAULT, Cause.TRUNCATED, 2.0)]


async def test_leaving_without_a_word_is_the_clients_doing(actor: Actor, journal: Journal) -> None:
    async with open_lease(actor, ASK):
        pass
    await trio.testing.wait_all_tasks_blocked()
    assert [command.outcome for command in journal.told() if isinstance(command, Finish)] == [Outcome.CLIENT]


async def test_a_fault_of_the_gateway_is_never_the_targets(actor: Actor, journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_lease(actor, ASK):
            raise ZeroDivisionError
    await trio.testing.wait_all_tasks_blocked()
    assert [command.outcome for command in journal.told() if isinstance(command, Finish)] == [Outcome.CLIENT]


async def test_a_cancelled_scope_closes_its_lease(actor: Actor, journal: Journal) -> None:
    with trio.CancelScope() as scope:
        async with open_lease(actor, ASK):
            scope.cancel()
            await trio.sleep_forever()
    await trio.testing.wait_all_tasks_blocked()
    assert [command.outcome for command in journal.told() if isinstance(command, Finish)] == [Outcome.CLIENT]


async def test_no_target_is_told_not_raised_and_opens_nothing(actor: Actor, journal: Journal) -> None:
    async with open_lease(actor, Decide("nowhere", None, "/", Kind.UNARY)) as lease:
        assert lease.decision == NoTarget(Why.UNKNOWN)
        lease.first_byte()
        lease.finish(Outcome.SUCCESS)
    await trio.testing.wait_all_tasks_blocked()
    assert journal.told() == []
