"""The shared routing cases: weights, draws, estimates, cooldowns, Retry-After, and session affinity played on `step`."""

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from gomodel_trio.route.choose import pick_of_two
from gomodel_trio.route.health import WELL, Standing, after_outcome
from gomodel_trio.route.latency import READ_DECAY_S, UNMEASURED, Estimate, Latency, after_answer, read
from gomodel_trio.route.names import Kind
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Objective
from gomodel_trio.route.weigh import Weighed, weigh
from gomodel_trio.state.commands import NoTarget, Why
from gomodel_trio.wire.retry_after import parse_retry_after
from support.adaptive_room import Room
from support.shared_cases import load_json, needs_shared_cases

PARTS = ("weights", "draws", "latency_estimate", "latency_reading", "failure_sample", "cooldown", "retry_after", "affinity")
CASES: dict[str, Any] = load_json("routing.json") or {part: [] for part in PARTS}
pytestmark = needs_shared_cases


def cases(part: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize("case", CASES[part], ids=lambda case: case.get("name") or case["header"])


def near(value: Any) -> Any:
    return None if value is None else pytest.approx(value, rel=0, abs=1e-9)


def test_every_part_of_the_file_is_run() -> None:
    assert set(CASES) == {"about", *PARTS}


# ---- the pure parts -------------------------------------------------------------------------------------------------


@cases("weights")
def test_a_weight_case(case: dict[str, Any]) -> None:
    candidates = [
        Weighed(
            one.get("latency_s"),
            one.get("price"),
            one.get("weight", 0.0),
            Standing.COOLING if one.get("cooling") else Standing.PROBATION if one.get("probation") else Standing.WELL,
            is_warm=one.get("warm", False),
        )
        for one in case["candidates"]
    ]
    objective, floor = Objective(case["objective"]), case["min_weight_fraction"]
    weights = weigh(candidates, objective, min_fraction=floor, warm_weight=case["warm_cache_weight"]).weights
    names = [one["id"] for one in case["candidates"]]
    assert {name: weight for name, weight in zip(names, weights, strict=True) if weight} == near(case["weights"])
    total = sum(weights)
    assert {name: weight / total for name, weight in zip(names, weights, strict=True) if weight} == near(case["share_at_equal_load"])
    # And it is what is drawn: over evenly spread draws nobody is off by more than one.
    count = 1000
    drawn = Counter(names[pick_of_two(weights, [1.0] * len(weights), ((n + 0.5) / count, 1 - (n + 0.5) / count))] for n in range(count))
    assert all(abs(drawn[name] - count * share) <= 1 for name, share in case["share_at_equal_load"].items())


@cases("draws")
def test_a_draw_case(case: dict[str, Any]) -> None:
    assert pick_of_two(case["weights"], case["loads"], tuple(case["draws"])) == case["expect"]


@cases("latency_estimate")
def test_an_estimate_case(case: dict[str, Any]) -> None:
    latency, seen = UNMEASURED, []
    for at_s, sample_s in case["samples"]:
        latency = after_answer(latency, Kind.UNARY, sample_s, at_s=at_s, decay_s=case["decay_s"])
        assert latency.unary is not None
        seen.append(latency.unary.value_s)
    assert seen == near(case["expect"])


@cases("latency_reading")
def test_a_reading_case(case: dict[str, Any]) -> None:
    assert case["read_decay_s"] == READ_DECAY_S
    assert read([Estimate(*stored) for stored in case["stored"]], at_s=case["at_s"]) == near(case["expect"])


@cases("failure_sample")
def test_a_failure_case(case: dict[str, Any]) -> None:
    room = Room(latency_cap_s=case.get("http_timeout_s", 600))
    if case["stored"] is not None:
        room.state.record(room.target("A")).latency = Latency(unary=Estimate(case["stored"], 0.0))
    room.end(case["elapsed_s"], room.ask_for(0, "A"), Outcome(case["outcome"]))
    estimate = room.state.targets[room.target("A")].latency.unary
    assert estimate is not None
    assert estimate.value_s == near(case["expect"])


@cases("retry_after")
def test_a_retry_after_case(case: dict[str, Any]) -> None:
    now_s = datetime.fromisoformat(case.get("now", "2026-10-21T07:27:30Z")).timestamp()
    headers = [(case.get("name", "retry-after").encode(), case["header"].encode())]
    assert parse_retry_after(headers, now_s) == near(case["seconds"])


def outcome_of(event: dict[str, Any]) -> Outcome:
    """A status as the wire would class it; only what the cases need."""
    status, message = event["status"], event.get("message", "")
    if status == 402 or event.get("code") == "insufficient_quota" or "credit balance" in message:
        return Outcome.ACCOUNT
    if "Request too large" in message or event.get("in_client_body"):
        return Outcome.REQUEST
    named = {429: Outcome.RATE, 401: Outcome.AUTH, 403: Outcome.AUTH, 404: Outcome.NOT_FOUND, 0: Outcome.FAULT, 408: Outcome.FAULT}
    by_class = {2: Outcome.SUCCESS, 4: Outcome.REQUEST, 5: Outcome.FAULT}
    return named.get(status) or by_class[status // 100]


@cases("cooldown")
def test_a_cooldown_case(case: dict[str, Any]) -> None:
    config = AdaptiveRouting(cooldown_base_s=case["base_s"], cooldown_max_s=case["max_s"])
    health, seen = WELL, []
    for event in case["events"]:
        health, _ = after_outcome(
            health,
            started_at_s=event["started_at_s"],
            at_s=event["at_s"],
            outcome=outcome_of(event),
            retry_after_s=float(event["retry_after"]) if "retry_after" in event else None,
            config=config,
        )
        seen.append(None if health.until_s == -math.inf else health.until_s)
    assert seen == [near(value) for value in case["expect"]]


# ---- affinity, played on the state ----------------------------------------------------------------------------------


def keep_a_healthy_pin() -> None:
    room = Room(prices={"A": 10, "B": 1, "C": 1})
    room.disable(0, "BC")
    assert room.serve(0, "s", for_s=1.0) == "A"
    room.disable(1, "C")
    room.end(1.1, room.ask_for(1, "B"))
    room.facts.clear()
    assert room.ask(2, draws=(0.2, 0.2)).target == "B/m"
    for draw in (0.0, 0.5, 0.99):
        assert room.ask(2, "s", draws=(draw, draw)).target == "A/m"
    assert room.facts["PinHonored"] == 3


def release_a_cooling_pin() -> None:
    room = Room()
    room.disable(0, "C")
    first = room.ask(0, "s", draws=(0.1, 0.1))
    assert first.target == "A/m"
    room.end(1, first.lease, Outcome.RATE)
    assert room.serve(1, "s", tried="A") == "B"
    assert room.pin("s", 1) == "B"
    assert room.serve(2, "s", draws=(0.0, 0.0)) == "B"
    assert room.serve(40, "s", draws=(0.0, 0.0)) == "B"
    assert (room.facts["PinReleased"], room.facts["PinHonored"]) == (1, 2)


def leave_together() -> None:
    room = Room()
    assert room.serve(0, "s", draws=(0.1, 0.1)) == "A"
    room.cool(1, "A")
    assert room.ask(2, "s", draws=(0.1, 0.1)).target == room.ask(2, "s", draws=(0.9, 0.9)).target == "B/m"
    assert room.facts["PinReleased"] == 1


def pin_the_only_one() -> None:
    room = Room()
    room.disable(0, "AB")
    assert room.ask(0, "s").reason == "single"
    assert room.selected == Counter()
    room.disable(1, "")
    assert room.serve(1, "s", draws=(0.0, 0.0)) == "C"
    assert room.selected == Counter({"pinned": 1})


def affinity_off() -> None:
    room = Room(session_affinity=False)
    room.disable(0, "C")
    assert room.serve(0, "s", draws=(0.1, 0.1)) == "A"
    made = room.ask(0, "s").selected.made
    assert made.weights == (8.0, 1.0)
    assert len(room.state.target_pins) == 0


def all_cooling() -> None:
    room = Room()
    room.cool(-5, "B")
    room.cool(0, "A", for_s=40)
    room.cool(0, "C", for_s=90)
    assert [room.until_s(name) for name in "ABC"] == [40, 25, 90]
    chosen = room.ask(10, "s")
    assert (chosen.target, chosen.reason, chosen.left) == ("B/m", "all_cooling", ())
    room.end(10, chosen.lease, Outcome.RATE)
    assert room.until_s("B") == 40
    assert room.ask(10, "s", tried="B") == NoTarget(Why.EXHAUSTED, retry_after_s=30.0)
    assert len(room.state.target_pins) == 0


def wrong_keys_last() -> None:
    room = Room()
    room.disable(-280, "C")
    room.cool(-280, "A", Outcome.AUTH)
    room.cool(0, "B", for_s=60)
    assert [room.until_s(name) for name in "AB"] == [20, 60]
    assert room.ask(10).target == "B/m"


def one_is_well_again() -> None:
    room = Room()
    room.disable(0, "C")
    room.cool(0, "A", for_s=40)
    room.cool(0, "B", for_s=300)
    assert room.serve(10) == "A"
    assert room.until_s("A") == 10
    assert room.ask(10).was_cooling is False


def first_free_request_probes() -> None:
    room = Room()
    room.disable(0, "C")
    room.end(0.1, room.ask_for(0, "B"))
    room.cool(1, "A")
    probe, other = room.ask(31, draws=(0.99, 0.99)), room.ask(31, draws=(0.0, 0.0))
    assert (probe.target, probe.reason, other.target, other.reason) == ("A/m", "probe", "B/m", "p2c")


def no_crowd_at_the_probe() -> None:
    room = Room()
    room.disable(0, "BC")
    for number in range(100):
        assert room.serve(0, f"s{number}") == "A"
    room.disable(1, "")
    room.cool(1, "A")
    for number in range(50):
        assert room.serve(2, f"s{number}", draws=(number / 50, number / 50)) != "A"
    pinned = {number: room.pin(f"s{number}", 2) for number in range(50)}
    assert set(pinned.values()) == {"B", "C"}
    # Who did not come meanwhile still holds A: the first of them is its probe, the others leave it.
    at_once = [room.ask(40, f"s{number}", draws=(0.0, 0.0)).target[0] for number in range(100)]
    assert at_once.count("A") == 1
    assert all(at_once[number] == name for number, name in pinned.items())


def one_session_two_models() -> None:
    room = Room(session_affinity=False, pools={"big": "AB", "small": "CD"})
    room.end(0, room.ask(0, "s", model="big", draws=(0.1, 0.1)).lease)
    room.end(0, room.ask(0, "s", model="small", draws=(0.1, 0.1)).lease)
    for model, names in (("big", "AB"), ("small", "CD")):
        selected = room.ask(1, "s", model=model).selected
        assert [candidate.name[0] for candidate in selected.given.candidates] == list(names)
        assert (selected.made.warm, selected.made.weights) == (0, (8.0, 1.0))


def silence() -> None:
    room = Room()
    room.disable(0, "BC")
    room.end(1, room.ask(0, "s").lease)
    for at_s in (10, 100, 200):
        room.end(at_s + 60, room.ask(at_s, "s").lease, Outcome.CLIENT)
    assert room.until_s("A") == 290


def merely_unavailable() -> None:
    room = Room()
    assert room.serve(0, "s", draws=(0.1, 0.1)) == "A"
    room.disable(1, "AC")
    assert room.serve(1, "s") == "B"
    room.disable(2, "C")
    assert room.serve(2, "s", draws=(0.99, 0.99)) == "A"


AFFINITY: dict[str, Callable[[], None]] = {
    "a healthy pin is kept though another is ten times cheaper and faster": keep_a_healthy_pin,
    "a cooling pin is released and the session moves for good": release_a_cooling_pin,
    "simultaneous requests of one session leave a cooling pin together": leave_together,
    "one eligible target: the selector is skipped, the pin is recorded": pin_the_only_one,
    "affinity off": affinity_off,
    "all cooling": all_cooling,
    "all cooling: targets with a wrong key come last": wrong_keys_last,
    "all cooling and one is well again": one_is_well_again,
    "the first free request after a cooldown is the probe": first_free_request_probes,
    "a pinned session does not crowd a probe": no_crowd_at_the_probe,
    "one session, two virtual models": one_session_two_models,
    "the silent target": silence,
    "the pinned target is merely unavailable": merely_unavailable,
}


@cases("affinity")
def test_an_affinity_case(case: dict[str, Any]) -> None:
    AFFINITY[case["name"]]()
