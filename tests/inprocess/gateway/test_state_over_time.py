"""What the routing state remembers, and for how long: tier pins, cooldowns and probation through whole requests (behaviour.md §3, §5)."""

import json

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import CooldownEnded, CooldownStarted, TierEscalated, TierPinsCounted
from support.inprocess import FakeResponder, Inside, open_gateway, pool, refusing

ROUTES = {"PRO_SMART_ROUTING_ROUTES": json.dumps({"normal": {"easy": "a/m", "hard": "b/m"}})}
HARD = {"model": "normal", "messages": [{"role": "user", "content": "think hard"}]}
EASY = {"model": "normal", "messages": [{"role": "user", "content": "hi"}]}
SESSION = {"X-Session-Id": "s"}


async def tier(inside: Inside, body: dict[str, object], **headers: str) -> tuple[str | None, str | None]:
    answer = await inside.ask(body, headers={**SESSION, **headers})
    assert answer.status == 200
    return answer.header(b"x-gomodel-pro-tier"), answer.header(b"x-gomodel-pro-tier-reason")


async def test_a_pin_holds_for_its_time_and_each_turn_begins_it_anew(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({**ROUTES, "PRO_SMART_ROUTING_SESSION_TTL": "30m"}) as inside:
        assert await tier(inside, HARD) == ("hard", "score")
        for _ in range(5):
            await trio.sleep(1799)
            assert await tier(inside, EASY) == ("hard", "session_pin")
        await trio.sleep(1801)
        assert await tier(inside, EASY) == ("easy", "score")
        assert inside.facts.count(TierEscalated("normal")) == 0
        assert await tier(inside, HARD) == ("hard", "score")
        assert inside.facts.count(TierEscalated("normal")) == 1


async def test_the_gauge_of_pins_falls_when_the_last_one_ends(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({**ROUTES, "PRO_SMART_ROUTING_SESSION_TTL": "1m"}) as inside:
        await tier(inside, HARD)
        assert (await inside.inspect()).tier_pins == 1
        await trio.sleep(120)
        assert (await inside.inspect()).tier_pins == 0
        assert [fact.count for fact in inside.facts if isinstance(fact, TierPinsCounted)] == [1, 0]


async def test_a_forced_tier_neither_reads_nor_refreshes_the_pin(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({**ROUTES, "PRO_SMART_ROUTING_SESSION_TTL": "10m"}) as inside:
        assert await tier(inside, HARD) == ("hard", "score")
        await trio.sleep(400)
        assert await tier(inside, HARD, **{"X-GoModel-Tier": "EASY"}) == ("easy", "forced")
        await trio.sleep(400)
        assert await tier(inside, EASY) == ("easy", "score")


@pytest.mark.parametrize("ttl", ["0", "-1s"])
async def test_without_a_lifetime_there_are_no_pins(autojump_clock: trio.testing.MockClock, ttl: str) -> None:
    async with open_gateway({**ROUTES, "PRO_SMART_ROUTING_SESSION_TTL": ttl}) as inside:
        assert await tier(inside, HARD) == ("hard", "score")
        assert await tier(inside, EASY) == ("easy", "score")


async def test_concurrent_turns_never_lower_the_pin(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ROUTES) as inside:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(tier, inside, HARD if number == 7 else EASY)
        assert await tier(inside, EASY) == ("hard", "session_pin")


# ---- cooldowns ------------------------------------------------------------------------------------------------------


async def test_a_cooldown_ends_by_itself_and_doubles_on_the_next_failure(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.always("a", refusing(429))
        for _ in range(2):
            assert (await inside.ask()).header(b"x-gomodel-target") == "b/m"
        assert inside.transport.calls == "abb"
        await trio.sleep(30)
        await inside.ask()
        assert inside.transport.calls == "abbab"
        await trio.sleep(59)
        await inside.ask()
        assert inside.transport.calls == "abbabb"
        await trio.sleep(2)
        await inside.ask()
        assert inside.transport.calls == "abbabbab"
        started = [fact for fact in inside.facts if isinstance(fact, CooldownStarted)]
        assert [(fact.target, fact.reason, fact.for_s) for fact in started] == [
            ("a/m", Outcome.RATE, 30.0),
            ("a/m", Outcome.RATE, 60.0),
            ("a/m", Outcome.RATE, 120.0),
        ]


async def test_the_end_of_a_cooldown_is_reported_when_it_comes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", refusing(429))
        await inside.ask()
        await trio.sleep(29)
        assert CooldownEnded("a/m") not in inside.facts
        assert (await inside.target("a/m")).is_cooling
        await trio.sleep(1.1)
        assert CooldownEnded("a/m") in inside.facts
        assert (await inside.target("a/m")).is_on_probation
        assert inside.log.of("cooldown_ended") == [{"target": "a/m"}]


async def test_the_third_fault_in_a_row_benches_a_target(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.always("a", refusing(500))
        for _ in range(5):
            await inside.ask()
        assert inside.transport.calls == "ababab" + "bb"


async def test_retry_after_lengthens_a_cooldown(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", refusing(429, retry_after="100"))
        await inside.ask()
        await trio.sleep(99)
        await inside.ask()
        await trio.sleep(2)
        await inside.ask()
        assert inside.transport.calls == "abba"


async def test_all_cooling_asks_one_target_and_tells_the_least_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.always("a", refusing(429, retry_after="100"))
        inside.transport.always("b", refusing(429, retry_after="200"))
        first = await inside.ask()
        assert (first.status, first.header(b"retry-after"), inside.transport.calls) == (429, "200", "ab")
        await trio.sleep(10)
        second = await inside.ask()
        assert (second.status, second.header(b"retry-after"), inside.transport.calls) == (429, "100", "aba")


@pytest.mark.parametrize("model", ["a/m", "pool"])
async def test_a_429_that_names_no_time_is_told_with_the_least_cooldown(autojump_clock: trio.testing.MockClock, model: str) -> None:
    async with open_gateway({**pool("b", "a"), "RETRY_MAX_RETRIES": "0"}) as inside:
        inside.transport.always("a", refusing(429))
        inside.transport.always("b", refusing(429, retry_after="100"))
        answer = await inside.ask({"model": model, "messages": []})
        assert (answer.status, answer.header(b"retry-after")) == (429, "30")


async def test_a_429_of_a_target_that_is_never_benched_names_no_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"CIRCUIT_BREAKER_ENABLED": "false"}) as inside:
        inside.transport.always("a", refusing(429))
        answer = await inside.ask({"model": "a/m", "messages": []})
        assert (answer.status, answer.header(b"retry-after")) == (429, None)


async def test_on_probation_one_attempt_runs_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", refusing(429))
        await inside.ask()
        await trio.sleep(31)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(inside.ask)
        assert sorted(inside.transport.calls[2:]) == ["a", "b", "b", "b", "b"]
        await inside.ask()
        assert inside.transport.calls[-1] == "a"


async def test_in_flight_is_counted_from_the_choice_to_the_end(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        answers: list[FakeResponder] = []

        async def one() -> None:
            answers.append(await inside.ask({"stream": True}, responder=FakeResponder(write_s=1.0)))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
            await trio.sleep(2.5)
            assert (await inside.target("a/m")).in_flight == 3
        assert [answer.ending for answer in answers] == ["ended"] * 3
        assert (await inside.target("a/m")).in_flight == 0
