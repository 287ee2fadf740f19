"""Adaptive routing of a real process before three targets: what moves, what cools and what comes back (behaviour.md §5).

The same at the real constants, in virtual time: inprocess/gateway/test_adaptive_*.py. Here the constants are small, so that counts and
shares are asserted with wide margins, and never durations.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.gateway_process import wait_for
from support.raw_http import Answer, Connection
from support.replies import Reply
from support.stage import SERIES, Pool, Stage, leg_of, open_stage

pytestmark = pytest.mark.e2e

LEGS = ("a", "b", "c")
BRIEF = {"PRO_ROUTING_COOLDOWN_BASE": "300ms", "PRO_ROUTING_COOLDOWN_MAX": "1s", "PRO_ROUTING_LATENCY_DECAY": "300ms"}
QUICK_S, SLOW_S = 0.04, 0.2
SESSIONS = [f"s-{number}" for number in range(20)]
IN_TIME_S = 20.0
"""Many times what a recovery takes here."""


def free(number: int, **more: Any) -> dict[str, Any]:
    """The virtual model without affinity over the targets of a pool."""
    targets = [{"model": f"{leg}/abc-{number}"} for leg in LEGS]
    return {"source": f"free-a-b-c-{number}", "strategy": "adaptive", "session_affinity": False, "targets": targets, **more}


def opened(directory: Path, variables: dict[str, str], *, pools: int = 8) -> Any:
    models = [free(number) for number in range(pools)]
    return open_stage(directory, variables, pools={"abc": pools}, strategies=("adaptive",), configuration={"virtual_models": models})


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Cooldowns of 0.3 to 1 s, and latencies that are forgotten as soon."""
    with opened(tmp_path_factory.mktemp("brief"), BRIEF) as running:
        yield running


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The constants as they are: no cooldown ends within a test."""
    with opened(tmp_path_factory.mktemp("real"), {}) as running:
        yield running


def sticky(stage: Stage) -> Pool:
    return stage.pool(*LEGS, strategy="adaptive")


def unpinned(stage: Stage) -> Pool:
    return stage.pool(*LEGS, strategy="free")


def drive(pool: Pool, sessions: Sequence[str], *, at_once: int = 8) -> list[Answer]:
    """A request of each session, so many at a time over kept connections; the answers in the order of the sessions."""

    def talk(first: int) -> list[Answer]:
        answers = []
        with Connection(pool.stage.gateway.port, timeout_s=IN_TIME_S) as connection:
            for session in sessions[first::at_once]:
                connection.request("POST", pool.path, headers={"X-Session-Id": session}, body=pool.body())
                answers.append(connection.read_answer())
        return answers

    at_once = min(at_once, len(sessions))
    answers: list[Answer | None] = [None] * len(sessions)
    with ThreadPoolExecutor(at_once) as threads:
        for first, part in enumerate(threads.map(talk, range(at_once))):
            answers[first::at_once] = part
    return [answer for answer in answers if answer is not None]


def fresh(count: int) -> list[str]:
    """Sessions that nobody had before."""
    began = time.monotonic_ns()
    return [f"{began}-{number}" for number in range(count)]


def shares(pool: Pool, act: Callable[[], object]) -> dict[str, float]:
    """How the attempts that something causes are spread over the legs."""
    before = len(pool.calls())
    act()
    counts = Counter(pool.calls()[before:])
    return {leg: counts[leg] / counts.total() for leg in LEGS}


def targets(answers: Sequence[Answer]) -> list[str]:
    assert {answer.status for answer in answers} == {200}
    return [answer.get("x-gomodel-target") or "" for answer in answers]


def all_legs(pool: Pool, reply: Reply | None) -> None:
    for index in range(len(LEGS)):
        pool.always(index, reply)


def standing(pool: Pool, index: int) -> str:
    """How the admin API says that a leg stands."""
    rows = pool.stage.gateway.exchange("GET", "/admin/routing").json()["targets"]
    return next(str(row["standing"]) for row in rows if row["target"] == pool.target(index))


# ---- one target fails -----------------------------------------------------------------------------------------------


def test_a_429_is_answered_by_another_target_where_the_session_stays_and_the_metrics_say_so(brief: Stage) -> None:
    pool, session = sticky(brief), {"X-Session-Id": "mine"}
    released, honored = (brief.metric(SERIES + "session_affinity_total", outcome=outcome) for outcome in ("released", "honored"))
    first = targets([pool.ask(headers=session)])[0]
    index = [pool.target(each) for each in range(3)].index(first)
    pool.tell(index, pool.error(429))
    answer = pool.ask(headers=session)
    (second,) = targets([answer])
    assert second != first
    line = pool.log_line()
    assert (line["attempts"], [(each["target"], each["status"]) for each in line["failed"]]) == (2, [(first, 429)])
    brief.gateway.wait_for_log("cooldown_ended", target=first)
    assert targets([pool.ask(headers=session) for _ in range(5)]) == [second] * 5
    assert targets([pool.ask()]) == [first]  # the probe of whoever has no pin
    assert targets([pool.ask(headers=session) for _ in range(5)]) == [second] * 5
    assert pool.outcomes(index) == {"rate_limited": 1, "success": 2}
    assert brief.metric(SERIES + "cooldowns_total", target=first, reason="rate") == 1
    assert brief.metric(SERIES + "selections_total", source=pool.name, target=first, reason="probe") == 1
    assert brief.metric(SERIES + "selections_total", source=pool.name, target=second, reason="pinned") == 10
    assert brief.metric(SERIES + "session_affinity_total", outcome="released") == released + 1
    assert brief.metric(SERIES + "session_affinity_total", outcome="honored") == honored + 11
    assert not pool.is_cooling(index)


def test_a_target_slowed_five_times_loses_its_share_and_has_it_back_after_recovery(brief: Stage) -> None:
    pool = unpinned(brief)
    all_legs(pool, pool.whole().held(QUICK_S))
    drive(pool, fresh(60))
    pool.always(0, pool.whole().held(SLOW_S))
    drive(pool, fresh(60))
    assert shares(pool, lambda: drive(pool, fresh(240)))["a"] < 0.15
    pool.always(0, pool.whole().held(QUICK_S))
    wait_for(lambda: shares(pool, lambda: drive(pool, fresh(90)))["a"] > 0.2, timeout_s=IN_TIME_S, what="a has its share again")


@pytest.mark.parametrize(("service_s", "at_once"), [(0.05, 8), (0.4, 32)])
def test_a_target_that_fails_half_its_calls_at_once_gets_less_than_its_share(brief: Stage, service_s: float, at_once: int) -> None:
    pool = unpinned(brief)
    answering = pool.whole().held(service_s)
    all_legs(pool, answering)
    pool.tell(0, *[pool.error(500).held(0.005), answering] * 150)
    spread = shares(pool, lambda: targets(drive(pool, fresh(200), at_once=at_once)))
    pool.forget(0)
    assert 0 < spread["a"] < 0.28


def test_a_recovered_target_gets_one_probe_of_two_hundred_requests_and_its_sessions_stay_where_they_went(brief: Stage) -> None:
    pool, sessions = sticky(brief), fresh(300)
    first = targets(drive(pool, sessions))
    hit = [session for session, target in zip(sessions, first, strict=True) if target == pool.target(1)]
    assert len(hit) > 60
    pool.always(1, pool.error(429))
    moved = targets(drive(pool, hit))
    assert pool.target(1) not in moved
    pool.tell(1, pool.whole().held())
    wait_for(lambda: standing(pool, 1) == "probation", timeout_s=IN_TIME_S, what="b may be probed")
    before = len(pool.exchanges())
    asked = [(hit * 2)[number // 2] if number % 2 else "" for number in range(200)]
    connections = [
        pool.open(headers={"X-Session-Id": session} if session else {}, text=str(number), timeout_s=IN_TIME_S)
        for number, session in enumerate(asked)
    ]
    brief.upstream.wait_until(lambda _: any(leg_of(each.request) == "b" for each in pool.exchanges()[before:]), IN_TIME_S)
    (probe,) = [each for each in pool.exchanges()[before:] if leg_of(each.request) == "b"]
    waiting = connections.pop(int(probe.request.json["messages"][0]["content"]))
    targets([connection.read_answer() for connection in connections])
    assert Counter(pool.calls()[before:])["b"] == 1
    assert len(pool.exchanges()) - before == 200
    for connection in (waiting, *connections):
        connection.close()
    # Whoever waited for the probe has left, which says nothing: there is another one.
    brief.wait_for_quiet()
    pool.always(1, None)
    assert targets([pool.ask()]) == [pool.target(1)]
    assert targets(drive(pool, hit)) == moved


# ---- all targets fail -----------------------------------------------------------------------------------------------


def test_where_all_are_cooling_a_request_is_one_attempt_and_told_when_to_come_back(real: Stage) -> None:
    pool = sticky(real)
    all_legs(pool, pool.error(429))
    assert pool.ask().status == 429
    assert sorted(pool.calls()) == ["a", "b", "c"]
    answers = [pool.ask() for _ in range(6)]
    assert len(pool.calls()) == 3 + 6
    assert {answer.status for answer in answers} == {429}
    assert all(0 < int(answer.get("retry-after") or 0) <= 30 for answer in answers)
    assert real.metric(SERIES + "selections_total", source=pool.name, reason="all_cooling") == 6


def test_where_all_keys_are_wrong_the_one_that_is_cured_is_found_at_once(real: Stage) -> None:
    pool = unpinned(real)
    all_legs(pool, pool.error(401, "Incorrect API key provided.", "invalid_api_key"))
    assert [pool.ask().status for _ in range(5)] == [502] * 5
    assert [standing(pool, index) for index in range(3)] == ["cooling"] * 3
    pool.always(2, None)
    found = next(number for number in range(4) if pool.ask().status == 200)
    assert found < 3
    assert targets([pool.ask() for _ in range(10)]) == [pool.target(2)] * 10
    assert [standing(pool, index) for index in range(3)] == ["cooling", "cooling", "well"]


@pytest.mark.parametrize("fraction", ["0.05", "0"])
def test_after_an_outage_of_all_targets_they_all_serve_again_and_share(tmp_path: Path, fraction: str) -> None:
    with opened(tmp_path, {**BRIEF, "PRO_ROUTING_MIN_WEIGHT_FRACTION": fraction}, pools=1) as stage:
        pool = unpinned(stage)
        all_legs(pool, pool.whole().held(0.02))
        drive(pool, fresh(60))
        all_legs(pool, pool.error(503).held(0.005))
        assert {answer.status for answer in drive(pool, fresh(100))} == {503}
        assert all(stage.metric(SERIES + "cooldowns_total", target=pool.target(index)) >= 1 for index in range(3))
        all_legs(pool, pool.whole().held(0.02))

        def is_shared() -> bool:
            spread = shares(pool, lambda: targets(drive(pool, fresh(90))))
            return min(spread.values()) > 0.1 and max(spread.values()) < 0.7

        wait_for(is_shared, timeout_s=IN_TIME_S, what="all serve again")


# ---- shares and sessions --------------------------------------------------------------------------------------------


def test_the_cheaper_target_gets_more_as_the_objective_says(tmp_path: Path) -> None:
    models = {
        leg: {"id": "abc-0", "pricing": {"input_per_mtok": price, "output_per_mtok": price}}
        for leg, price in zip(LEGS, (1, 2, 4), strict=True)
    }
    variables = {"PRO_ROUTING_OBJECTIVE": "cost", "PRO_ROUTING_LATENCY_DECAY": "50ms"}
    with open_stage(
        tmp_path,
        variables,
        pools={"abc": 1},
        strategies=("adaptive",),
        configuration={"virtual_models": [free(0)]},
        extra_providers={
            leg: {"type": "openai_compatible", "base_url": f"http://{{upstream}}/{leg}/v1", "api_key": f"key-of-{leg}", "models": [model]}
            for leg, model in models.items()
        },
    ) as stage:
        pool = unpinned(stage)
        all_legs(pool, pool.whole().held(0.015))
        for index in range(3):
            pool.ask(content=json.dumps({"model": pool.target(index), "messages": []}).encode())
        spread = shares(pool, lambda: targets(drive(pool, fresh(300), at_once=1)))
        # 16 : 4 : 1 at equal latencies. Whichever of two drawn is the faster just then, the share lies between p² and 1 - (1 - p)².
        assert 0.58 - 0.15 < spread["a"] < 0.95 + 0.04
        assert spread["a"] > spread["b"] > spread["c"]
        assert spread["c"] < 0.15


def test_all_turns_of_a_hundred_sessions_go_to_the_first_one_s_target(brief: Stage) -> None:
    pool, sessions = sticky(brief), fresh(100)
    served = [targets(drive(pool, sessions)) for _ in range(50)]
    assert all(turn == served[0] for turn in served)
    assert min(Counter(served[0]).values()) >= 10


def test_a_session_keeps_both_targets_of_a_main_and_a_small_model_warm(tmp_path: Path) -> None:
    with opened(tmp_path, BRIEF, pools=4) as stage:
        main, small = sticky(stage), sticky(stage)
        served: dict[str, set[str]] = defaultdict(set)
        for _ in range(5):
            for pool in (main, small):
                for session, target in zip(SESSIONS, targets(drive(pool, SESSIONS)), strict=True):
                    served[f"{session} {pool.name}"].add(target)
        assert all(len(each) == 1 for each in served.values())
        main, small = unpinned(stage), unpinned(stage)
        for pool in (main, small):
            all_legs(pool, pool.whole().held(0.01))
        stayed, last = Counter[str](), dict.fromkeys((main.name, small.name), "")
        for _ in range(150):
            for pool in (main, small):
                (target,) = targets([pool.ask(headers={"X-Session-Id": "both"})])
                stayed[pool.name] += target == last[pool.name]
                last[pool.name] = target
        # Drawn at 8 of 10, the warm target is taken in 64 to 96 of 100 cases, a cold one in 33.
        assert min(stayed.values()) > 0.5 * 150
