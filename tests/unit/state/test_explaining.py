"""How a request would be routed, and out of what, without any change (behaviour.md §10)."""

import copy
from typing import Any

import msgspec
import pytest

from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import Kind, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import Alias, Leg, Policy, Price, Provider, SmartRouting, Strategy, VirtualModel
from gomodel_trio.state.commands import (
    Command,
    Decide,
    Decision,
    Explain,
    Explanation,
    Finish,
    FirstByte,
    NoTarget,
    PinState,
    Preview,
    Reply,
    RouteTier,
    Stamped,
    TierReply,
    TierState,
    Why,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

SESSION = SessionId("s")
LEGS = (Leg("a/m"), Leg("b/m"), Leg("none/m"))


def provider(name: str, *, is_available: bool = True) -> Provider:
    return Provider(name, "openai", Dialect.OPENAI, is_available, ("m",))


POLICY = Policy(
    providers={"a": provider("a"), "b": provider("b"), "none": provider("none", is_available=False)},
    virtual_models={
        "adaptive": VirtualModel("adaptive", LEGS, Strategy.ADAPTIVE),
        "robin": VirtualModel("robin", (Leg("a/m", weight=3), Leg("b/m")), Strategy.ROUND_ROBIN),
        "failover": VirtualModel("failover", LEGS, Strategy.FAILOVER),
        "chain": VirtualModel("chain", (Leg("robin", is_virtual=True), Leg("b/m")), Strategy.ADAPTIVE),
    },
    smart=SmartRouting(aliases={"normal": Alias("normal", "failover", "adaptive")}, session_ttl_s=100),
    prices={TargetId("a/m"): Price(1, 1), TargetId("b/m"): Price(1, 3)},
)


class Run:
    """A state being asked."""

    def __init__(self) -> None:
        self.state = RoutingState(POLICY)
        self.seq = 0

    def send(self, at_s: float, command: Command) -> Reply:
        self.seq += 1
        return step(self.state, Stamped(self.seq, at_s, (0.5, 0.5), command))[0]

    def serve(self, at_s: float, name: str, outcome: Outcome, session: SessionId | None = None, took_s: float = 1.0) -> str:
        decision = self.send(at_s, Decide(name, session, "", Kind.UNARY))
        assert isinstance(decision, Decision)
        if outcome is Outcome.SUCCESS:
            self.send(at_s + took_s, FirstByte(decision.lease))
        self.send(at_s + took_s, Finish(decision.lease, outcome))
        return decision.target

    def explain(self, at_s: float, name: str, session: SessionId | None = None, **more: Any) -> Explanation:
        """The explanation, which must foretell what a preview does and leave all as it was."""
        before = copy.deepcopy(self.state)
        shown = self.send(at_s, Explain(Decide(name, session, "", Kind.UNARY), **more))
        assert isinstance(shown, Explanation)
        assert self.state == before
        assert shown.decision == self.send(at_s, Preview(shown.decide))
        return shown


def test_a_fresh_adaptive_model_weighs_by_price() -> None:
    shown = Run().explain(0, "adaptive")
    assert (shown.strategy, shown.unavailable, shown.pin) == (Strategy.ADAPTIVE, ("none/m",), None)
    assert [(leg.name, leg.price, leg.weight, leg.share) for leg in shown.legs] == [("a/m", 2.0, 1.0, 2 / 3), ("b/m", 4.0, 0.5, 1 / 3)]
    assert [(leg.unary_latency_s, leg.latency_s, leg.load_s) for leg in shown.legs] == [(None, 1.0, 1.0)] * 2


def test_estimates_attempts_in_flight_warmth_and_the_pin_are_those_of_the_moment() -> None:
    run = Run()
    assert run.serve(0, "adaptive", Outcome.SUCCESS, SESSION, took_s=2.0) == "a/m"
    run.send(3, Decide("a/m", None, "", Kind.UNARY))
    shown = run.explain(3, "adaptive", SESSION)
    a, b = shown.legs
    assert (a.in_flight, a.unary_latency_s, a.latency_s, a.load_s, a.is_warm, a.is_pinned) == (1, 2.0, 2.0, 4.0, True, True)
    assert (b.in_flight, b.unary_latency_s, b.latency_s, b.load_s, b.is_warm, b.is_pinned) == (0, None, 2.0, 2.0, False, False)
    assert (a.weight, b.weight) == (8.0, 0.5)
    assert shown.pin == PinState("a/m", 6 * 3600 - 3, is_honored=True)
    assert isinstance(shown.decision, Decision)
    assert (shown.decision.target, shown.decision.reason) == ("a/m", "pinned")


def test_a_cooling_candidate_shows_why_and_how_long_and_weighs_nothing() -> None:
    run = Run()
    run.serve(0, "adaptive", Outcome.SUCCESS, SESSION)
    run.serve(2, "adaptive", Outcome.RATE, SESSION)
    a, b = run.explain(10, "adaptive", SESSION).legs
    assert (a.standing, a.cooldown_left_s, a.cooldown_reason, a.weight) == (Standing.COOLING, 23.0, Outcome.RATE, 0.0)
    assert (b.standing, b.cooldown_left_s, b.cooldown_reason, b.share) == (Standing.WELL, 0.0, None, 1.0)
    shown = run.explain(10, "adaptive", SESSION)
    assert shown.pin == PinState("a/m", 6 * 3600 - 8, is_honored=False)
    assert isinstance(shown.decision, Decision)
    assert shown.decision.target == "b/m"


def test_where_all_are_cooling_nobody_weighs_anything() -> None:
    run = Run()
    for name in ("a/m", "b/m"):
        run.serve(0, name, Outcome.AUTH)
    shown = run.explain(2, "adaptive")
    assert [(leg.weight, leg.share, leg.latency_s) for leg in shown.legs] == [(0.0, 0.0, None)] * 2
    assert isinstance(shown.decision, Decision)
    assert shown.decision.reason == "all_cooling"


def test_round_robin_shows_its_slots_and_failover_has_no_weights() -> None:
    run = Run()
    assert [(leg.weight, leg.share) for leg in run.explain(0, "robin").legs] == [(3.0, 0.75), (1.0, 0.25)]
    run.serve(0, "a/m", Outcome.RATE)
    assert [(leg.weight, leg.share) for leg in run.explain(2, "robin").legs] == [(0.0, 0.0), (1.0, 1.0)]
    assert [(leg.weight, leg.share) for leg in run.explain(2, "failover").legs] == [(None, None)] * 2


def test_a_chained_model_shows_its_own_candidates() -> None:
    chained, plain = Run().explain(0, "chain").legs
    assert (chained.name, chained.strategy, chained.price) == ("robin", Strategy.ROUND_ROBIN, 2.0)
    assert [(leg.name, leg.weight) for leg in chained.legs] == [("a/m", 3.0), ("b/m", 1.0)]
    assert (plain.name, plain.strategy, plain.legs) == ("b/m", None, ())


def test_a_concrete_name_is_its_only_candidate() -> None:
    shown = Run().explain(0, "b/m", SESSION)
    assert [(leg.name, leg.price, leg.weight) for leg in shown.legs] == [("b/m", 4.0, None)]
    assert (shown.strategy, shown.pin, shown.unavailable) == (None, None, ())


def test_a_name_that_resolves_to_nothing_has_no_candidates() -> None:
    shown = Run().explain(0, "nothing")
    assert (shown.decision, shown.legs) == (NoTarget(Why.UNKNOWN), ())


@pytest.mark.parametrize(
    ("held", "verdict", "name", "reply"),
    [
        (None, Tier.EASY, "failover", TierReply(Tier.EASY, is_pinned=False, is_escalated=False)),
        (Tier.HARD, Tier.EASY, "adaptive", TierReply(Tier.HARD, is_pinned=True, is_escalated=False)),
        (Tier.EASY, Tier.HARD, "adaptive", TierReply(Tier.HARD, is_pinned=False, is_escalated=True)),
        (Tier.HARD, Tier.HARD, "adaptive", TierReply(Tier.HARD, is_pinned=False, is_escalated=False)),
    ],
)
def test_the_tier_pin_has_its_say_and_is_not_used(held: Tier | None, verdict: Tier, name: str, reply: TierReply) -> None:
    run = Run()
    if held is not None:
        run.send(0, RouteTier("normal", SESSION, held))
    route = RouteTier("normal", SESSION, verdict)
    shown = run.explain(40, "adaptive" if verdict is Tier.HARD else "failover", SESSION, route=route, raised_name="adaptive")
    assert shown.decide.name == name
    assert shown.tier == TierState(reply, held, None if held is None else 60.0)
    assert run.send(40, route) == reply


def test_a_tier_pin_that_is_over_has_no_say() -> None:
    run = Run()
    run.send(0, RouteTier("normal", SESSION, Tier.HARD))
    shown = run.explain(100, "failover", SESSION, route=RouteTier("normal", SESSION, Tier.EASY), raised_name="adaptive")
    assert (shown.decide.name, shown.tier) == ("failover", TierState(TierReply(Tier.EASY, False, False), None, None))


def test_without_pins_none_has_a_say() -> None:
    run = Run()
    run.state.install(msgspec.structs.replace(POLICY, smart=msgspec.structs.replace(POLICY.smart, session_ttl_s=0)))
    shown = run.explain(0, "failover", SESSION, route=RouteTier("normal", SESSION, Tier.EASY), raised_name="adaptive")
    assert (shown.decide.name, shown.tier) == ("failover", None)
