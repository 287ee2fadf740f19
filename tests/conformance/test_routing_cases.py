"""The shared routing cases: cooldown arithmetic and session affinity."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.health import WELL, after_outcome
from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Leg, Policy, Price, Provider, Strategy, VirtualModel
from gomodel_trio.state.commands import Decide, Decision, Finish, NoTarget, ReplacePolicy, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

ROOT = Path(os.environ.get("GOMODEL_TRIO_SHARED", Path(__file__).parents[2].parent / "shared"))
FILE = ROOT / "cases" / "routing.json"
CASES: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"cooldown": [], "affinity": []}
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the shared cases are not here")


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


@pytest.mark.parametrize("case", CASES["cooldown"], ids=lambda case: case["name"])
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
    assert seen == [None if value is None else pytest.approx(value, abs=1e-9) for value in case["expect"]]


class Room:
    """Targets A, B, C behind one adaptive virtual model, and whoever uses them."""

    def __init__(self, **prices: float) -> None:
        self.prices = {TargetId(f"{name}/m"): Price(price, 0.0) for name, price in prices.items()}
        self.state = RoutingState(self.policy())
        self.facts: Counter[str] = Counter()
        self.seq = 0

    def policy(self, *, disabled: str = "") -> Policy:
        return Policy(
            providers={name: Provider(name, "openai", Dialect.OPENAI, True, ("m",)) for name in "ABC"},
            virtual_models={"v": VirtualModel("v", tuple(Leg(f"{name}/m") for name in "ABC"), Strategy.ADAPTIVE)},
            disabled_targets=frozenset(TargetId(f"{name}/m") for name in disabled),
            prices=self.prices,
        )

    def send(self, at_s: float, command: Decide | Finish | ReplacePolicy) -> Any:
        self.seq += 1
        reply, facts = step(self.state, Stamped(self.seq, at_s, (0.3, 0.6), command))
        self.facts.update(type(fact).__name__ for fact in facts)
        return reply

    def ask(self, at_s: float, session: str | None = None, tried: str = "") -> Any:
        key = None if session is None else SessionId(session)
        return self.send(at_s, Decide("v", key, "/", Kind.UNARY, tried=tuple(TargetId(f"{name}/m") for name in tried)))

    def end(self, at_s: float, lease: LeaseId, outcome: Outcome = Outcome.SUCCESS, retry_after_s: float | None = None) -> None:
        self.send(at_s, Finish(lease, outcome, retry_after_s=retry_after_s))

    def serve(self, at_s: float, session: str | None = None, tried: str = "") -> str:
        decision = self.ask(at_s, session, tried)
        assert isinstance(decision, Decision)
        self.end(at_s, decision.lease)
        return decision.target[0]

    def cool(self, at_s: float, name: str, outcome: Outcome = Outcome.RATE, for_s: float | None = None) -> None:
        lease = self.send(at_s, Decide(f"{name}/m", None, "/", Kind.UNARY)).lease
        self.end(at_s, lease, outcome, for_s)

    def disable(self, at_s: float, names: str) -> None:
        self.send(at_s, ReplacePolicy(self.policy(disabled=names)))

    def until_s(self, name: str) -> float:
        return self.state.health(TargetId(f"{name}/m")).until_s


def keep_a_healthy_pin() -> None:
    room = Room(A=10, B=1, C=1)
    assert room.serve(0, "s") == "A"
    assert room.serve(1, "s") == "A"
    assert room.facts["PinHonored"] == 1


def release_a_cooling_pin() -> None:
    room = Room()
    room.disable(0, "C")
    first = room.ask(0, "s")
    assert first.target == "A/m"
    room.end(1, first.lease, Outcome.RATE)
    assert room.serve(1, "s", tried="A") == "B"
    assert room.serve(2, "s") == "B"
    assert room.serve(40, "s") == "B"
    assert (room.facts["PinReleased"], room.facts["PinHonored"]) == (1, 2)


def leave_together() -> None:
    room = Room()
    assert room.serve(0, "s") == "A"
    room.cool(1, "A")
    assert room.serve(2, "s") == room.serve(2, "s") != "A"


def pin_the_only_one() -> None:
    room = Room()
    room.disable(0, "AB")
    assert room.ask(0, "s").reason == "single"
    room.disable(1, "")
    assert room.serve(1, "s") == "C"


def all_cooling() -> None:
    room = Room()
    room.cool(0, "A", for_s=40)
    room.cool(0, "B", Outcome.RATE, for_s=25 + 5)
    room.cool(0, "C", for_s=90)
    room.state.targets[TargetId("B/m")].health = type(WELL)(k=1, began_at_s=-5, until_s=25, reason=Outcome.RATE, is_unproven=True)
    chosen = room.ask(10, "s")
    assert (chosen.target, chosen.left) == ("B/m", ())
    room.end(10, chosen.lease, Outcome.RATE)
    assert room.until_s("B") == 40
    assert room.ask(10, "s", tried="B") == NoTarget(why="exhausted", retry_after_s=30.0)  # type: ignore[arg-type]
    assert len(room.state.target_pins) == 0


def wrong_keys_last() -> None:
    room = Room()
    room.disable(0, "C")
    room.cool(0, "A", Outcome.AUTH)
    room.state.targets[TargetId("A/m")].health = type(WELL)(began_at_s=0, until_s=20, reason=Outcome.AUTH, is_unproven=True)
    room.cool(0, "B", for_s=60)
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
    room.cool(0, "A")
    probe, other = room.ask(31), room.ask(31)
    assert (probe.target, probe.reason, other.target) == ("A/m", "probe", "B/m")


def no_crowd_at_the_probe() -> None:
    room = Room()
    room.disable(0, "BC")
    for number in range(100):
        assert room.serve(0, f"s{number}") == "A"
    room.disable(1, "")
    room.cool(1, "A")
    for number in range(50):
        assert room.serve(2, f"s{number}") != "A"
    pinned = {number: room.state.target_pins.get(("v", SessionId(f"s{number}")), at_s=2, ttl_s=1e9) for number in range(50)}
    at_once = [room.ask(40, f"s{number}").target for number in range(100)]
    assert at_once.count("A/m") == 1
    assert all(at_once[number] == target for number, target in pinned.items())


def silence() -> None:
    room = Room()
    room.disable(0, "BC")
    for at_s in (0, 100, 200):
        room.end(at_s + 60, room.ask(at_s, "s").lease, Outcome.CLIENT)
    assert room.until_s("A") == 290


def merely_unavailable() -> None:
    room = Room()
    assert room.serve(0, "s") == "A"
    room.disable(1, "AC")
    assert room.serve(1, "s") == "B"
    room.disable(2, "C")
    assert room.serve(2, "s") == "A"


AFFINITY: dict[str, Callable[[], None]] = {
    "a healthy pin is kept though another is ten times cheaper and faster": keep_a_healthy_pin,
    "a cooling pin is released and the session moves for good": release_a_cooling_pin,
    "simultaneous requests of one session leave a cooling pin together": leave_together,
    "one eligible target: the selector is skipped, the pin is recorded": pin_the_only_one,
    "all cooling": all_cooling,
    "all cooling: targets with a wrong key come last": wrong_keys_last,
    "all cooling and one is well again": one_is_well_again,
    "the first free request after a cooldown is the probe": first_free_request_probes,
    "a pinned session does not crowd a probe": no_crowd_at_the_probe,
    "the silent target": silence,
    "the pinned target is merely unavailable": merely_unavailable,
}


@pytest.mark.parametrize("case", [case for case in CASES["affinity"] if case["name"] in AFFINITY], ids=lambda case: case["name"])
def test_an_affinity_case(case: dict[str, Any]) -> None:
    AFFINITY[case["name"]]()


def test_the_affinity_cases_left_out_are_those_about_warm_caches() -> None:
    left_out = [case for case in CASES["affinity"] if case["name"] not in AFFINITY]
    assert all("warm" in json.dumps(case) for case in left_out)
    assert len(left_out) == 2
