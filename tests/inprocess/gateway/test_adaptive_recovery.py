"""Adaptive routing in and after outages, at the real constants: probes, last resorts, silence (behaviour.md §5, recovery)."""

import json
import random
from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.state.commands import CooldownStarted, PinHonored, PinReleased, TargetSelected
from support.arrivals import Arrivals, at_once
from support.inprocess import FOREVER, FakeRequest, FakeResponder, Inside, Play, open_gateway, pool, refusing

ADAPTIVE = pool("a", "b", "c", strategy="adaptive")
NO_AFFINITY = pool("a", "b", "c", strategy="adaptive", session_affinity=False)
SESSIONS = [f"session-{number}" for number in range(100)]
BASE_S = 30.0
FRACTIONS = ["0.05", "0"]


def target_of(answer: FakeResponder) -> str | None:
    assert answer.status == 200
    return answer.header(b"x-gomodel-target")


def as_session(inside: Inside) -> Any:
    return lambda session: inside.ask(headers={"X-Session-Id": session} if session else {})


async def homes(inside: Inside) -> dict[str, str | None]:
    """The target of each session, one turn after the other."""
    return {session: target_of(await as_session(inside)(session)) for session in SESSIONS}


async def leave(inside: Inside, model: str, after_s: float, session: str = "") -> FakeResponder:
    """A request whose client hangs up, the way a front door tells of it, unless it has its answer before."""
    headers = [(b"x-session-id", session.encode())] if session else []
    sent = FakeRequest(headers=headers, body=json.dumps({"model": model, "messages": []}).encode())
    answer = FakeResponder()
    async with trio.open_nursery() as nursery:

        async def hang_up() -> None:
            await trio.sleep(after_s)
            sent.is_disconnected = True
            nursery.cancel_scope.cancel()

        nursery.start_soon(hang_up)
        await inside.handle(sent, answer)
        nursery.cancel_scope.cancel()
    return answer


# ---- one target -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [Play(silence=8.0), Play(503, silence=8.0)], ids=["well", "still ill"])
async def test_two_hundred_requests_at_once_send_a_recovered_target_one_probe_and_its_sessions_stay_where_they_went(
    autojump_clock: trio.testing.MockClock, probe: Play
) -> None:
    async with open_gateway(ADAPTIVE) as inside:  # each draw is 0.5: all sessions begin on b
        assert set((await homes(inside)).values()) == {"b/m"}
        inside.transport.tell("b", refusing(429))
        moved = await homes(inside)
        assert "b/m" not in moved.values()
        assert (inside.transport.calls.count("b"), inside.facts.count(PinReleased("pool"))) == (101, 100)
        await trio.sleep(BASE_S)
        inside.transport.tell("b", probe)
        for provider in "ac":
            inside.transport.always(provider, Play(silence=1.0))
        before = len(inside.transport.sent)
        answers = await at_once(as_session(inside), *SESSIONS, *[""] * 100)
        assert {answer.status for answer in answers} == {200}
        assert inside.transport.calls[before:].count("b") == 1
        assert inside.facts.count(TargetSelected("pool", "b/m", "probe")) == 1
        inside.transport.always("b", Play(503))
        assert await homes(inside) == moved
        assert inside.facts.count(PinReleased("pool")) == 100


async def test_while_the_probe_runs_the_target_stays_closed_however_long_that_takes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(NO_AFFINITY, draw=random.Random(21).random) as inside:
        inside.transport.tell("a", refusing(429), Play(silence=80.0))
        await inside.ask({"model": "a/m"})
        await trio.sleep(BASE_S)
        arrivals = Arrivals(inside)
        began_s = await arrivals.arrive(per_s=20, for_s=79)
        assert arrivals.sent("a", began_s) == 1
        row = await inside.target("a/m")
        assert (row.is_cooling, row.is_on_probation, row.streak) == (False, False, 0)
        assert {answer.status for answer in arrivals.answers} == {200}


async def test_a_probe_that_its_client_gave_up_is_followed_by_the_next(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(NO_AFFINITY) as inside:
        inside.transport.tell("b", refusing(429), Play(silence=FOREVER))
        await inside.ask()
        await trio.sleep(BASE_S)
        await leave(inside, "pool", 5.0)
        assert target_of(await inside.ask()) == "b/m"
        assert inside.facts.count(TargetSelected("pool", "b/m", "probe")) == 2


# ---- all targets ----------------------------------------------------------------------------------------------------


async def test_where_all_cool_two_hundred_requests_at_once_are_one_attempt_each(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE) as inside:
        for provider in "abc":
            inside.transport.always(provider, refusing(429))
        await inside.ask()
        await trio.sleep(10)
        before = len(inside.transport.sent)
        answers = await at_once(as_session(inside), *[""] * 200)
        assert len(inside.transport.sent) - before == 200
        assert {answer.status for answer in answers} == {429}
        assert all(20 <= int(answer.header(b"retry-after") or 0) <= 30 for answer in answers)


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("retries", ["0", "3"])
async def test_after_five_seconds_of_503_everywhere_all_serve_again_in_time_and_evenly(
    autojump_clock: trio.testing.MockClock, fraction: str, retries: str
) -> None:
    variables = {"PRO_ROUTING_MIN_WEIGHT_FRACTION": fraction, "RETRY_MAX_RETRIES": retries}
    async with open_gateway({**NO_AFFINITY, **variables}, draw=random.Random(22).random) as inside:
        arrivals = Arrivals(inside)
        for provider in "abc":
            inside.transport.always(provider, Play(silence=0.4))
        await arrivals.arrive(per_s=20, for_s=20)
        failed_s = arrivals.now_s
        async with arrivals.arriving(per_s=20):
            for provider in "abc":
                inside.transport.always(provider, Play(503, silence=0.005))
            await trio.sleep(5)
            for provider in "abc":
                inside.transport.always(provider, Play(silence=0.4))
            await trio.sleep(60)
        # One is back with the first request after the outage and has all the traffic until the others' cooldowns are over.
        assert min(arrivals.first_s(provider, failed_s + 5.0) for provider in "abc") < 0.1
        assert max(arrivals.first_s(provider, failed_s + 5.0) for provider in "abc") < BASE_S + 1.0
        assert max(arrivals.shares(failed_s + BASE_S + 6.0).values()) < 0.45
        assert max(arrivals.shares(failed_s + 5.0).values()) < 0.7
        assert sum(answer.status == 503 for answer in arrivals.answers) <= 101
        assert all(answer.status in (200, 503) for answer in arrivals.answers)


@pytest.mark.parametrize("fraction", FRACTIONS)
async def test_where_all_keys_are_wrong_the_one_that_is_cured_is_found_and_the_others_follow(
    autojump_clock: trio.testing.MockClock, fraction: str
) -> None:
    async with open_gateway({**NO_AFFINITY, "PRO_ROUTING_MIN_WEIGHT_FRACTION": fraction}, draw=random.Random(23).random) as inside:
        for provider in "abc":
            inside.transport.always(provider, refusing(401, code="invalid_api_key"))
        arrivals = Arrivals(inside)
        await arrivals.arrive(per_s=1, for_s=30.5)
        assert {answer.status for answer in arrivals.answers} == {502}
        assert len(inside.transport.sent) == 31 + 2
        inside.transport.always("b", Play(silence=0.4))
        cured_s = await arrivals.arrive(per_s=1, for_s=20)
        assert [answer.status for answer in arrivals.answers].index(200) <= 31 + 2
        assert arrivals.sent("b", cured_s) >= 18
        assert (await inside.target("b/m")).cooldown_left_s == 0
        for provider in "ac":
            inside.transport.always(provider, Play(silence=0.4))
        # A wrong key benches for the maximum; then one probe each, and they share again.
        await arrivals.arrive(per_s=1, for_s=300)
        healed_s = await arrivals.arrive(per_s=1, for_s=300)
        assert set(arrivals.shares(healed_s)) == set("abc")
        assert min(arrivals.shares(healed_s).values()) > 0.2


# ---- silence --------------------------------------------------------------------------------------------------------


async def test_a_silent_target_is_cooling_once_three_clients_have_left_after_a_minute(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE) as inside:
        for provider in "abc":
            inside.transport.always(provider, Play(silence=2.0))
        assert set((await homes(inside)).values()) == {"b/m"}
        inside.transport.always("b", Play(silence=FOREVER))
        for number in range(3):
            assert not (await inside.target("b/m")).is_cooling
            assert (await leave(inside, "pool", 60.0, SESSIONS[number])).ending == "open"
        row = await inside.target("b/m")
        assert (row.is_cooling, row.cooldown_reason, row.cooldown_left_s) == (True, Outcome.FAULT, BASE_S)
        causes = Counter(fact.cause for fact in await inside.attempts_ended() if fact.outcome is Outcome.FAULT)
        assert causes == {Cause.SILENT: 3}
        assert target_of(await leave(inside, "pool", 60.0, SESSIONS[3])) != "b/m"


async def test_a_silent_target_under_load_costs_the_clients_of_one_minute_and_then_single_probes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_gateway(NO_AFFINITY, draw=random.Random(24).random) as inside:
        for provider in "abc":
            inside.transport.always(provider, Play(silence=2.0))
        arrivals = Arrivals(inside)
        await arrivals.arrive(per_s=5, for_s=20)
        inside.transport.always("a", Play(silence=FOREVER))
        began_s, left = arrivals.now_s, Counter[float]()

        async def one() -> None:
            asked_s = arrivals.now_s - began_s
            if (await leave(inside, "pool", 60.0)).ending == "open":
                left[asked_s // 60] += 1

        async with trio.open_nursery() as nursery:
            for _ in range(5 * 300):
                nursery.start_soon(one)
                await trio.sleep(0.2)
        # With its load the heaviest it is taken where it is drawn twice: 1/9 of a minute. Then they blame it, and each probe costs one.
        assert sum(isinstance(fact, CooldownStarted) and fact.target == "a/m" for fact in inside.facts) >= 2
        assert 3 <= left[0] < 0.2 * 300
        assert sum(left[minute] for minute in (1, 2, 3, 4)) <= 4


async def test_clients_who_leave_a_slow_but_working_target_in_time_do_not_bench_it(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE) as inside:
        inside.transport.tell("b", Play(silence=20.0))
        inside.transport.always("b", Play(silence=FOREVER))
        await inside.ask({"model": "b/m"})
        for _ in range(5):
            await leave(inside, "b/m", 60.0)
        assert not (await inside.target("b/m")).is_cooling
        assert not any(isinstance(fact, PinHonored | CooldownStarted) for fact in inside.facts)
