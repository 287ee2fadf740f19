"""Sessions behind adaptive virtual models: they stay where their prompt cache is, and what moves one moves it once (behaviour.md §5)."""

import json
import random
from collections import Counter, defaultdict

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import CooldownStarted, PinHonored, PinReleased
from support.inprocess import FakeResponder, Inside, Play, open_gateway, pool, refusing

ADAPTIVE = pool("a", "b", "c", strategy="adaptive")
SESSIONS = [f"session-{number}" for number in range(100)]
TURNS = 50


def pools(**names: str) -> dict[str, str]:
    """Adaptive virtual models over the models `large` and `small` of the three providers; the values say `affinity` or none."""
    declared = [
        {
            "source": source,
            "strategy": "adaptive",
            "session_affinity": affinity == "affinity",
            "targets": [{"model": f"{provider}/{source}"} for provider in "abc"],
        }
        for source, affinity in names.items()
    ]
    return {"VIRTUAL_MODELS": json.dumps(declared)}


async def turn(inside: Inside, session: str, model: str = "pool", *, stream: bool = False) -> str:
    """One turn; tells the target."""
    answer: FakeResponder = await inside.ask({"model": model, "stream": stream}, headers={"X-Session-Id": session})
    assert answer.status == 200
    return answer.header(b"x-gomodel-target") or ""


async def test_every_turn_of_a_hundred_sessions_goes_where_the_first_one_went(autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(31)
    async with open_gateway({**ADAPTIVE, "PRO_ROUTING_OBJECTIVE": "latency"}, draw=chance.random) as inside:
        inside.transport.always("a", Play(silence=0.8))
        inside.transport.always("b", Play(silence=1.0))
        inside.transport.always("c", Play(silence=1.2))
        served: dict[str, list[str]] = defaultdict(list)

        async def talk(session: str) -> None:
            await trio.sleep(chance.uniform(0, 20))
            for number in range(TURNS):
                served[session].append(await turn(inside, session))
                if number == TURNS // 2:
                    # A target that has become slow keeps its sessions.
                    inside.transport.always("a", Play(silence=4.0))
                await trio.sleep(chance.uniform(0, 20))

        async with trio.open_nursery() as nursery:
            for session in SESSIONS:
                nursery.start_soon(talk, session)
        assert {len(targets) for targets in served.values()} == {TURNS}
        assert all(len(set(targets)) == 1 for targets in served.values())
        assert min(Counter(targets[0] for targets in served.values()).values()) > 10
        assert inside.facts.count(PinHonored("pool")) == len(SESSIONS) * (TURNS - 1)
        assert inside.facts.count(PinReleased("pool")) == 0


async def test_a_429_moves_the_requests_of_its_own_target_s_sessions_for_good_and_no_others(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(ADAPTIVE, draw=random.Random(32).random) as inside:
        first = {session: await turn(inside, session) for session in SESSIONS}
        inside.transport.tell("b", refusing(429))
        second = {session: await turn(inside, session, stream=True) for session in SESSIONS}
        hit = {session for session in SESSIONS if first[session] == "b/m"}
        assert len(hit) > 20
        assert all((second[session] != first[session]) == (session in hit) for session in SESSIONS)
        for wait_s in (1, 30, 300):
            await trio.sleep(wait_s)
            assert {session: await turn(inside, session) for session in SESSIONS} == second
        assert inside.facts.count(PinReleased("pool")) == len(hit)
        assert [(fact.target, fact.reason) for fact in inside.facts if isinstance(fact, CooldownStarted)] == [("b/m", Outcome.RATE)]
        assert inside.transport.calls.count("b") == len(hit) + 1


async def test_a_session_keeps_its_target_in_its_main_and_in_its_small_virtual_model(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pools(large="affinity", small="affinity"), draw=random.Random(33).random) as inside:
        served: dict[str, set[str]] = defaultdict(set)
        for _ in range(10):
            for session in SESSIONS[:30]:
                for model in ("large", "small", "small"):
                    served[f"{session} {model}"].add(await turn(inside, session, model))
        assert all(len(targets) == 1 for targets in served.values())
        assert len({targets.copy().pop() for targets in served.values()}) == 6


@pytest.mark.parametrize("model", ["large", "small"])
async def test_without_affinity_each_of_two_models_finds_the_session_s_own_warm_target(
    autojump_clock: trio.testing.MockClock, model: str
) -> None:
    async with open_gateway(pools(large="none", small="none"), draw=random.Random(34).random) as inside:
        for provider in "abc":
            inside.transport.always(provider, Play(silence=0.5))
        stayed, last = 0, {"large": "", "small": ""}
        for _ in range(300):
            for name in ("large", "small"):
                target = await turn(inside, "s", name)
                stayed += name == model and target == last[name]
                last[name] = target
        # Warm, a target weighs 8 of 10; cold it would be one of three.
        assert stayed == pytest.approx(0.8 * 300, abs=25)
