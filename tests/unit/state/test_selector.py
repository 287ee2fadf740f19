"""What the selector is shown of the state (behaviour.md §5; spec/state.md)."""

import math

import pytest

from gomodel_trio.route.decide import Candidate
from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import Estimate, Latency
from gomodel_trio.route.names import Kind, TargetId
from gomodel_trio.route.policy import Leg, Strategy, VirtualModel
from gomodel_trio.state.commands import Decision, ReplacePolicy
from gomodel_trio.state.tables import RoutingState
from support.adaptive_room import Room


def shown(decision: Decision) -> tuple[Candidate, ...]:
    assert decision.selected is not None
    return decision.selected.given.candidates


class Chained(Room):
    """v is A or w, and w is B, C or D in turn, weighing 3."""

    def __init__(self) -> None:
        super().__init__(prices={"C": 5, "D": 4})
        policy = self.policy()
        inner = VirtualModel("w", tuple(Leg(self.target(name)) for name in "BCD"))
        outer = VirtualModel("v", (Leg(self.target("A")), Leg("w", is_virtual=True, weight=3)), Strategy.ADAPTIVE)
        self.send(0, ReplacePolicy(type(policy)(policy.providers, {"v": outer, "w": inner}, prices=policy.prices)))


def test_a_target_nobody_used_is_shown_as_configured() -> None:
    room = Room(prices={"A": 3}, weights={"B": 2})
    a, b, c = shown(room.ask(0))
    assert a == Candidate("A/m", price=3.0)
    assert b == Candidate("B/m", weight=2.0)
    assert c == Candidate("C/m")


def test_a_used_one_is_shown_with_what_is_known_of_it() -> None:
    room = Room()
    room.end(2, room.ask_for(0, "A", "s"))
    room.ask_for(2, "A")
    room.cool(3, "B")
    a, b, c = shown(room.ask(4, "s"))
    assert a == Candidate("A/m", Latency(unary=Estimate(2, 2), answered_unary=Estimate(2, 2)), in_flight=1, until_s=-math.inf, warm_at_s=2)
    assert (b.standing, b.until_s, c.standing) == (Standing.COOLING, 33, Standing.WELL)


def test_marks_are_shown_only_to_requests_that_feed_routing() -> None:
    room = Room()
    room.end(2, room.ask_for(0, "A", "s"))
    assert shown(room.ask(3, "s", feeds_routing=False))[0].warm_at_s is None


def test_a_later_choice_is_shown_the_untried_alone_with_the_weights_of_their_legs() -> None:
    room = Room(weights={"B": 2}, prices={"C": 9})
    assert shown(room.ask(0, tried="A")) == (Candidate("B/m", weight=2.0), Candidate("C/m", price=9.0))


def test_a_chained_model_is_one_candidate_as_fast_as_its_fastest_and_as_busy_as_the_average() -> None:
    room = Chained()
    room.measure(1, "B", 0.8)
    room.measure(2, "C", 0.25)
    room.measure(3, "D", 1.5, Kind.STREAM)
    for name in "BBCDD":
        room.ask_for(3, name)
    _, w = shown(room.ask(4))
    assert (w.name, w.in_flight, w.price, w.weight, w.standing) == ("w", 1, 4.0, 3.0, Standing.WELL)
    assert w.latency == Latency(Estimate(1.5, 3), Estimate(0.25, 2))


def test_a_chained_model_nobody_used_is_not_measured() -> None:
    _, w = shown(Chained().ask(0))
    assert (w.latency, w.in_flight, w.warm_at_s) == (Latency(), 0, None)


def test_a_chained_model_stands_as_the_best_of_its_targets_and_is_what_those_are() -> None:
    room = Chained()
    room.measure(1, "B", 0.1)
    room.measure(1, "C", 0.9)
    room.ask_for(1, "D")
    room.cool(2, "B")
    _, w = shown(room.ask(3))
    assert (w.standing, w.latency.unary, w.in_flight) == (Standing.WELL, Estimate(0.9, 1), 0)
    for name in "CD":
        room.cool(3, name)
    _, w = shown(room.ask(32))
    assert (w.standing, w.until_s) == (Standing.PROBATION, 32)


def test_a_chained_model_is_warm_since_the_latest_success_under_it() -> None:
    room = Chained()
    room.end(2, room.ask_for(0, "B", "s"))
    room.end(4, room.ask_for(0, "D", "s"))
    room.end(5, room.ask_for(0, "C", "t"))
    assert shown(room.ask(6, "s"))[1].warm_at_s == 4


def test_what_it_was_given_and_made_is_in_the_reply() -> None:
    room = Room()
    decision = room.ask(1, draws=(0.9, 0.1))
    assert decision.selected.source == "v"
    assert (decision.selected.given.draws, decision.selected.given.at_s, decision.selected.given.kind) == ((0.9, 0.1), 1, Kind.UNARY)
    assert decision.selected.made.index == 2
    assert decision.target == "C/m"


@pytest.mark.parametrize("name", ["A/m", "v"])
def test_where_there_is_no_choice_nobody_is_asked(name: str) -> None:
    room = Room()
    room.disable(0, "BC")
    assert room.ask(0, model=name).selected is None


def test_only_an_adaptive_model_that_is_not_switched_off_has_a_selector() -> None:
    assert RoutingState(Room().policy()).has_selector
    assert not RoutingState(Room(enabled=False).policy()).has_selector
    assert TargetId("A/m") in RoutingState(Room().policy()).declared
