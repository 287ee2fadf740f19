"""Adaptive routing through whole requests in virtual time: what went wrong in gateways of this kind must not here (behaviour.md §5)."""

import random
from email.utils import formatdate

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import CooldownStarted, PinHonored, PinReleased, SelectionDeclined, TargetSelected
from support.inprocess import EPOCH_S, FakeResponder, Inside, Play, open_gateway, pool, refusing, streaming

# Unless a test says otherwise every draw is 0.5: of three equal targets the second is taken, of two as well.
ADAPTIVE = pool("a", "b", "c", strategy="adaptive")
TWO = pool("a", "b", strategy="adaptive")
SESSION = {"X-Session-Id": "s"}


def cooldowns(inside: Inside) -> list[tuple[str, Outcome, float]]:
    return [(fact.target, fact.reason, round(fact.for_s, 3)) for fact in inside.facts if isinstance(fact, CooldownStarted)]


def target_of(answer: FakeResponder) -> str | None:
    assert answer.status == 200
    return answer.header(b"x-gomodel-target")


# ---- choosing -------------------------------------------------------------------------------------------------------


async def test_failing_fast_attracts_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO, draw=random.Random(5).random) as inside:
        failing, answering = Play(500, silence=0.005), Play(silence=0.005)
        inside.transport.tell("a", *(failing, answering) * 200)
        inside.transport.always("b", Play(silence=0.5))
        for _ in range(300):
            assert (await inside.ask()).status == 200
        assert cooldowns(inside) == []
        assert inside.transport.calls.count("a") < 60


async def test_a_target_nobody_used_gets_no_more_than_its_share_of_a_burst(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO, draw=random.Random(3).random) as inside:
        for name in "ab":
            inside.transport.always(name, Play(silence=0.8))
        await inside.ask({"model": "a/m"})
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(inside.ask)
        assert inside.transport.calls[1:].count("b") == pytest.approx(25, abs=2)


async def test_the_slower_target_gets_less(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({**TWO, "PRO_ROUTING_OBJECTIVE": "latency"}, draw=random.Random(1).random) as inside:
        inside.transport.always("a", streaming(silence=0.2))
        inside.transport.always("b", streaming(silence=0.8))
        for _ in range(200):
            await inside.ask({"stream": True})
        # It weighs a quarter, and is taken where it is drawn twice: (1/5)² of the requests.
        assert 2 <= inside.transport.calls.count("b") <= 16
        assert (await inside.target("b/m")).stream_latency_s == pytest.approx(0.8)


async def test_a_session_stays_on_one_target_for_all_its_turns(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE, draw=random.Random(2).random) as inside:
        served = []
        for _ in range(100):
            served.append(target_of(await inside.ask(headers=SESSION)))
            await inside.ask()
        assert len(set(served)) == 1
        assert len(set(inside.transport.calls)) == 3


async def test_without_affinity_a_session_is_drawn_to_the_target_that_is_warm(autojump_clock: trio.testing.MockClock) -> None:
    draws = iter([0.1, 0.1, 0.1] + [0.79] * 30)
    async with open_gateway(pool("a", "b", "c", strategy="adaptive", session_affinity=False), draw=lambda: next(draws)) as inside:
        assert [target_of(await inside.ask(headers=SESSION)) for _ in range(3)] == ["a/m"] * 3
        assert target_of(await inside.ask()) == "c/m"


# ---- sessions -------------------------------------------------------------------------------------------------------


async def test_a_pinned_session_fails_over_in_the_same_request_and_stays_where_it_went(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO) as inside:
        assert target_of(await inside.ask(headers=SESSION)) == "b/m"
        inside.transport.tell("b", refusing(429))
        assert target_of(await inside.ask(headers=SESSION)) == "a/m"
        assert inside.transport.calls == "bba"
        await trio.sleep(5)
        assert target_of(await inside.ask(headers=SESSION)) == "a/m"
        await trio.sleep(40)
        assert target_of(await inside.ask(headers=SESSION)) == "a/m"
        assert inside.facts.count(PinReleased("pool")) == 1
        # The second request honored its pin too, before that failed.
        assert inside.facts.count(PinHonored("pool")) == 3


# ---- cooldowns ------------------------------------------------------------------------------------------------------


async def test_where_all_are_cooling_one_is_tried_and_its_error_tells_the_least_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE) as inside:
        for name in "abc":
            inside.transport.always(name, refusing(429))
        assert ((await inside.ask()).status, inside.transport.calls) == (429, "bca")
        await trio.sleep(5)
        answer = await inside.ask()
        assert (answer.status, answer.header(b"retry-after"), inside.transport.calls[3:]) == (429, "25", "a")
        assert TargetSelected("pool", "a/m", "all_cooling") in inside.facts
        rows = {row.target: row for row in (await inside.inspect()).targets}
        assert [round(rows[f"{name}/m"].cooldown_left_s) for name in "abc"] == [30, 25, 25]


async def test_two_failures_of_one_burst_are_one_trigger_and_do_not_shorten(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.tell("a", Play(429, ((b"retry-after", b"1"),), silence=0.25), Play(429, silence=0.5))
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(inside.ask, {"model": "a/m"})
        assert cooldowns(inside) == [("a/m", Outcome.RATE, 30.0)]
        await trio.sleep(1.5)
        row = await inside.target("a/m")
        assert (row.is_cooling, row.streak) == (True, 1)


async def test_only_a_success_resets_the_doubling(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.tell("b", *[refusing(429)] * 6)
        for for_s in (30, 60, 120, 240, 300, 300):
            assert target_of(await inside.ask()) == "a/m"
            await trio.sleep(for_s)
        assert [for_s for _, _, for_s in cooldowns(inside)] == [30, 60, 120, 240, 300, 300]
        assert target_of(await inside.ask()) == "b/m"
        inside.transport.tell("b", refusing(429))
        await inside.ask({"model": "b/m"})
        assert cooldowns(inside)[6:] == [("b/m", Outcome.RATE, 30)]


async def test_an_empty_account_moves_the_request_and_benches_for_the_maximum(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.tell("b", refusing(400, message="Your credit balance is too low to access the API"))
        assert target_of(await inside.ask()) == "a/m"
        assert cooldowns(inside) == [("b/m", Outcome.ACCOUNT, 300)]


async def test_a_bad_request_is_the_clients_own_and_leaves_no_trace(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.always("b", refusing(400, message="messages.0.role: invalid"))
        for _ in range(5):
            answer = await inside.ask()
            assert (answer.status, answer.json()["error"]["message"]) == (400, "messages.0.role: invalid")
        assert (inside.transport.calls, cooldowns(inside)) == ("bbbbb", [])
        row = await inside.target("b/m")
        assert (row.unary_latency_s, row.streak, row.is_on_probation) == (None, 0, False)


@pytest.mark.parametrize(
    ("refusal", "reason", "for_s"),
    [
        (refusing(429, code="insufficient_quota"), Outcome.ACCOUNT, 300),
        (refusing(429, code="billing_hard_limit_reached"), Outcome.ACCOUNT, 300),
        (refusing(429, code="RESOURCE_EXHAUSTED", message="Quota exceeded for requests per minute"), Outcome.RATE, 30),
        (refusing(429, retry_after="432000"), Outcome.RATE, 300),
        (refusing(429, retry_after="45.5"), Outcome.RATE, 45.5),
        (refusing(429, retry_after=formatdate(EPOCH_S + 50, usegmt=True)), Outcome.RATE, 50),
        (refusing(429, retry_after=formatdate(EPOCH_S - 50, usegmt=True)), Outcome.RATE, 30),
        (refusing(429, retry_after="NaN"), Outcome.RATE, 30),
    ],
    ids=["quota", "billing", "per minute", "days", "fraction", "date", "date in the past", "nonsense"],
)
async def test_how_long_a_429_benches(autojump_clock: trio.testing.MockClock, refusal: Play, reason: Outcome, for_s: float) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.tell("b", refusal)
        assert target_of(await inside.ask()) == "a/m"
        assert cooldowns(inside) == [("b/m", reason, for_s)]


async def test_an_outage_costs_few_attempts_and_ends_within_a_cooldown(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.always("a", Play(503))
        for number in range(30):
            if number == 15:
                inside.transport.always("a", Play())
            assert (await inside.ask()).status == 200
            await trio.sleep(4)
        assert [round(sent.at_s) for sent in inside.transport.sent if sent.provider == "a"] == [0, 4, 8, 40, 100, 104, 108, 112, 116]
        assert (await inside.target("a/m")).streak == 0


async def test_after_a_cooldown_the_first_free_request_is_the_probe_and_the_others_keep_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_gateway(TWO) as inside:
        inside.transport.tell("b", refusing(429))
        await inside.ask()
        inside.transport.always("b", Play(silence=3.0))
        await trio.sleep(30)
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(inside.ask)
        assert sorted(inside.transport.calls[2:]) == ["a"] * 5 + ["b"]
        assert inside.facts.count(TargetSelected("pool", "b/m", "probe")) == 1


# ---- faults of ours -------------------------------------------------------------------------------------------------


async def test_a_selector_that_fails_leaves_it_to_round_robin_and_says_so_once(autojump_clock: trio.testing.MockClock) -> None:
    heavy = [{"model": f"{name}/m", "weight": 1e308} for name in "ab"]
    async with open_gateway(pool(strategy="adaptive", targets=heavy)) as inside:
        for _ in range(3):
            assert (await inside.ask()).status == 200
        await inside.inspect()
        assert sum(isinstance(fact, SelectionDeclined) for fact in inside.facts) == 3
        (told,) = inside.log.of("selection_declined")
        assert told["virtual_model"] == "pool"


async def test_switched_off_it_takes_turns_and_measures_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({**ADAPTIVE, "PRO_ROUTING_ENABLED": "false"}) as inside:
        for _ in range(6):
            await inside.ask()
        assert inside.transport.calls == "abcabc"
        row = await inside.target("a/m")
        assert (row.unary_latency_s, row.weights) == (None, ())
        assert not any(isinstance(fact, TargetSelected) for fact in inside.facts)
