"""Several keys of one provider through whole requests: stickiness, turns, failover between keys and their cooldowns (behaviour.md §7)."""

import json

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import CooldownEnded, CooldownStarted
from support.inprocess import FakeResponder, Inside, Play, open_gateway, pool, refusing, streaming

KEYED = {"providers": {"a": {"type": "openai_compatible", "api_keys": ["k0", "k1", "k2"], "base_url": "http://a.test/v1", "models": ["m"]}}}
TWO = {"providers": {"a": {**KEYED["providers"]["a"], "api_keys": ["k0", "k1"]}}}


def used(inside: Inside) -> str:
    """The indices of the keys that were shown to `a`, in order."""
    shown = [sent.header(b"authorization") or "" for sent in inside.transport.sent if sent.provider == "a"]
    return "".join(key.removeprefix("Bearer k") for key in shown)


async def ask(inside: Inside, model: str = "a/m", *, session: str | None = None, is_stream: bool = False) -> FakeResponder:
    headers = {} if session is None else {"X-Session-Id": session}
    return await inside.ask({"model": model, **({"stream": True} if is_stream else {})}, headers=headers)


async def standings(inside: Inside) -> list[str]:
    return [row.standing.value for row in (await inside.inspect()).keys]


async def test_requests_without_a_session_take_the_keys_in_turn_and_skip_one_that_cools(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(sections=KEYED) as inside:
        inside.transport.tell("a", refusing(429))
        assert [(await ask(inside)).status for _ in range(4)] == [200] * 4
        assert used(inside) == "01212"
        assert await standings(inside) == ["cooling", "well", "well"]
        await trio.sleep(29.9)
        await ask(inside)
        assert used(inside)[5:] == "1"
        await trio.sleep(0.2)
        assert [(await ask(inside)).status for _ in range(2)] == [200] * 2
        assert used(inside)[6:] == "20"
        assert await standings(inside) == ["well"] * 3


async def test_a_session_leaves_its_key_while_it_cools_and_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(sections=KEYED) as inside:
        for _ in range(3):
            await ask(inside, session="s")
        own = used(inside)[0]
        assert used(inside) == own * 3
        inside.transport.tell("a", refusing(401))
        answer = await ask(inside, session="s")
        assert (answer.status, answer.header(b"x-gomodel-attempts")) == (200, "2")
        other = used(inside)[4]
        assert other != own
        for _ in range(3):
            await ask(inside, session="s")
        await trio.sleep(299)  # a wrong key cools for the maximum
        await ask(inside, session="s")
        await trio.sleep(2)
        await ask(inside, session="s")
        assert used(inside)[3:] == own + other * 5 + own


@pytest.mark.parametrize("is_stream", [False, True])
async def test_the_target_cools_once_its_keys_all_do_and_until_the_first_is_back(
    autojump_clock: trio.testing.MockClock, is_stream: bool
) -> None:
    async with open_gateway(pool("a", "b"), TWO) as inside:
        inside.transport.tell("a", refusing(429))
        await ask(inside, "pool", session="s", is_stream=is_stream)
        first = used(inside)[0]
        await trio.sleep(20)
        inside.transport.tell("a", refusing(429))
        answer = await ask(inside, "pool", session="s", is_stream=is_stream)
        assert (answer.status, answer.header(b"x-gomodel-target")) == (200, "b/m")
        assert inside.transport.calls == "aaab"
        assert [(fact.target, fact.for_s) for fact in inside.facts if isinstance(fact, CooldownStarted)] == [("a/m", pytest.approx(10))]
        await ask(inside, "pool", session="s", is_stream=is_stream)
        assert inside.transport.calls == "aaabb"
        await trio.sleep(10.5)
        assert [fact.target for fact in inside.facts if isinstance(fact, CooldownEnded)] == ["a/m"]
        await ask(inside, "pool", session="s", is_stream=is_stream)
        assert inside.transport.calls == "aaabba"
        assert used(inside)[3] == first


async def test_where_all_keys_are_refused_each_is_tried_once_then_one_as_a_last_resort(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(sections=KEYED) as inside:
        inside.transport.always("a", refusing(429, retry_after="12"))
        answer = await ask(inside)
        assert (answer.status, answer.header(b"retry-after"), used(inside)) == (429, "12", "012")
        ended = await inside.attempts_ended()
        assert [fact.outcome for fact in ended] == [Outcome.RATE] * 3
        assert (await inside.target("a/m")).is_cooling
        assert (await ask(inside)).status == 429
        assert used(inside) == "0120"
        inside.transport.always("a", Play())
        assert (await ask(inside)).status == 200
        assert not (await inside.target("a/m")).is_cooling


async def test_a_later_key_is_measured_from_its_own_sending(autojump_clock: trio.testing.MockClock) -> None:
    models = json.dumps([{"source": "pool", "strategy": "adaptive", "targets": [{"model": "a/m"}, {"model": "b/m"}]}])
    async with open_gateway({"VIRTUAL_MODELS": models}, TWO) as inside:
        slow_refusal = refusing(401)
        inside.transport.tell(
            "a", Play(slow_refusal.status, slow_refusal.headers, slow_refusal.pieces, silence=9.0), streaming(silence=0.25)
        )
        answer = await ask(inside, is_stream=True)
        assert answer.head_at_s == pytest.approx(9.25)
        assert (await inside.target("a/m")).stream_latency_s == pytest.approx(0.25)
        assert [(fact.outcome, fact.elapsed_s) for fact in await inside.attempts_ended()] == [
            (Outcome.AUTH, pytest.approx(9.0)),
            (Outcome.SUCCESS, pytest.approx(0.25)),
        ]


async def test_a_key_on_probation_is_tried_by_one_request_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(sections=TWO) as inside:
        inside.transport.tell("a", refusing(429))
        await ask(inside)
        await trio.sleep(31)
        inside.transport.always("a", Play(silence=5))
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(ask, inside)
        assert used(inside)[2:].count("0") == 1
        assert await standings(inside) == ["well", "well"]
