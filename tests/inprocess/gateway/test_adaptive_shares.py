"""Adaptive shares at the real constants: slowness, failing fast, and what the objective promises (behaviour.md §5)."""

import random
from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing

from support.arrivals import LIMIT_2_DF, Arrivals, chi_square
from support.inprocess import Play, open_gateway, pool, streaming

NO_AFFINITY = pool("a", "b", "c", strategy="adaptive", session_affinity=False)
PRICED = ("a/cheap", "b/middle", "c/dear")
PRICES = {"cheap": 2.0, "middle": 4.0, "dear": 8.0}


def drawing(seed: int) -> Any:
    return random.Random(seed).random


# ---- slowness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stream", "fraction"), [(True, "0.05"), (False, "0")])
async def test_a_target_slowed_five_times_loses_its_share_at_once_and_has_it_back_after_recovery(
    autojump_clock: trio.testing.MockClock, stream: bool, fraction: str
) -> None:
    def lasting(seconds: float) -> Play:
        return streaming(silence=seconds) if stream else Play(silence=seconds)

    async with open_gateway({**NO_AFFINITY, "PRO_ROUTING_MIN_WEIGHT_FRACTION": fraction}, draw=drawing(11)) as inside:
        arrivals = Arrivals(inside, {"stream": stream})
        for provider in "abc":
            inside.transport.always(provider, lasting(0.4))
        began_s = await arrivals.arrive(per_s=10, for_s=30)
        assert min(arrivals.shares(began_s + 10).values()) > 0.28
        inside.transport.always("a", lasting(2.0))
        slowed_s = await arrivals.arrive(per_s=10, for_s=60)
        assert arrivals.shares(slowed_s, slowed_s + 30)["a"] < 0.15
        assert arrivals.shares(slowed_s + 10)["a"] < 0.05
        inside.transport.always("a", lasting(0.4))
        cured_s = await arrivals.arrive(per_s=10, for_s=150)
        assert arrivals.shares(cured_s + 120)["a"] > 0.25
        assert len(arrivals.answers) == arrivals.sent("a") + arrivals.sent("b") + arrivals.sent("c")


# ---- failing fast ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("providers", ["ab", "abc"])
@pytest.mark.parametrize("per_s", [0.1, 2.0])
@pytest.mark.parametrize("service_s", [1.0, 80.0])
@pytest.mark.parametrize("order", ["every other", "by chance"])
async def test_a_target_that_fails_half_its_calls_at_once_gets_less_than_its_share(
    autojump_clock: trio.testing.MockClock, providers: str, service_s: float, per_s: float, order: str
) -> None:
    count, luck = 200, random.Random(7)
    async with open_gateway(pool(*providers, strategy="adaptive", session_affinity=False), draw=drawing(12)) as inside:
        failing, answering = Play(500, silence=0.005), Play(silence=service_s)
        fails = [number % 2 == 0 if order == "every other" else luck.random() < 0.5 for number in range(count)]
        inside.transport.tell("a", *[failing if fail else answering for fail in fails])
        for provider in providers:
            inside.transport.always(provider, answering)
        arrivals = Arrivals(inside)
        await arrivals.arrive(per_s=per_s, for_s=count / per_s - 0.5 / per_s)
        assert {answer.status for answer in arrivals.answers} == {200}
        assert len(arrivals.answers) == count
        assert 2 <= arrivals.sent("a") < 0.85 * len(inside.transport.sent) / len(providers)


# ---- what the objective promises ------------------------------------------------------------------------------------


async def served(objective: str, latencies_s: dict[str, float], targets: tuple[str, ...], *, seed: int, count: int = 1000) -> Counter[str]:
    """So many requests one after the other; a session each, so that a pin or a warm mark of one could not serve another."""
    models = [{"id": name, "pricing": {"input_per_mtok": price / 4, "output_per_mtok": price * 3 / 4}} for name, price in PRICES.items()]
    sections = {
        "providers": {
            name: {"type": "openai_compatible", "api_key": "k", "base_url": f"http://{name}.test/v1", "models": models} for name in "abc"
        }
    }
    variables = pool(strategy="adaptive", session_affinity=False, targets=[{"model": target} for target in targets])
    async with open_gateway({**variables, "PRO_ROUTING_OBJECTIVE": objective}, sections, draw=drawing(seed)) as inside:
        for target in targets:
            inside.transport.always(target[0], Play(silence=latencies_s[target[0]]))
        for target in targets:
            await inside.ask({"model": target})
        for number in range(count):
            assert (await inside.ask(headers={"X-Session-Id": f"s{number}"})).status == 200
        return Counter(inside.transport.calls[len(targets) :])


@pytest.mark.parametrize(("objective", "parts"), [("latency", (1, 1, 1)), ("balanced", (4, 2, 1)), ("cost", (16, 4, 1))])
async def test_equally_fast_targets_are_taken_as_their_prices_promise(
    autojump_clock: trio.testing.MockClock, objective: str, parts: tuple[int, ...]
) -> None:
    # Powers of two and their sums: the latencies are equal to the bit, so that no draw is overruled by the load.
    counts = await served(objective, dict.fromkeys("abc", 0.5), PRICED, seed=14)
    floored = {name: max(part, 0.05 * parts[0]) for name, part in zip("abc", parts, strict=True)}
    shares = {name: part / sum(floored.values()) for name, part in floored.items()}
    assert chi_square(counts, shares) < LIMIT_2_DF, (counts, shares)


async def test_targets_of_one_price_are_taken_as_their_latencies_promise(autojump_clock: trio.testing.MockClock) -> None:
    counts = await served("latency", {"a": 0.02, "b": 0.04, "c": 0.08}, ("a/cheap", "b/cheap", "c/cheap"), seed=14)
    # They weigh 4:2:1; of two draws the faster target wins, so a target needs both, or the other one drawn is slower.
    shares = {"a": 40 / 49, "b": 8 / 49, "c": 1 / 49}
    assert chi_square(counts, shares) < LIMIT_2_DF, (counts, shares)


async def test_a_price_makes_up_for_a_latency_in_the_weight_and_the_faster_of_two_drawn_wins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    counts = await served("balanced", {"a": 0.08, "b": 0.04, "c": 0.02}, PRICED, seed=14)
    shares = {"a": 1 / 9, "b": 3 / 9, "c": 5 / 9}
    assert chi_square(counts, shares) < LIMIT_2_DF, (counts, shares)
