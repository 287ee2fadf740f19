"""What attempts feed: latency estimates and warm marks, and what becomes of them at a reload or reset (behaviour.md §5)."""

import msgspec
import pytest

from gomodel_trio.route.latency import UNMEASURED
from gomodel_trio.route.names import Kind, SessionId, TargetId
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.state.commands import AttemptEnded, EstimateChanged, Expire, InFlightChanged, ReplacePolicy, ResetTarget
from support.adaptive_room import Room

A = TargetId("A/m")


def estimates(room: Room, at_s: float, name: str = "A") -> tuple[float | None, float | None]:
    row = room.row(at_s, name)
    return row.stream_latency_s, row.unary_latency_s


def warm(room: Room, at_s: float, name: str = "A", session: str = "s") -> float | None:
    return room.state.warm.used_at_s((room.target(name), SessionId(session)), at_s=at_s, ttl_s=room.adaptive.warm_cache_ttl_s)


# ---- estimates ------------------------------------------------------------------------------------------------------


def test_a_unary_answer_is_measured_to_its_end() -> None:
    room = Room()
    room.end(0.75, room.ask_for(0, "A"))
    assert room.last == (AttemptEnded(A, Outcome.SUCCESS, Cause.NONE, 0.75), InFlightChanged(A, 0), EstimateChanged(A, Kind.UNARY, 0.75))
    assert estimates(room, 1) == (None, 0.75)


def test_a_stream_is_measured_to_its_first_content_at_once_and_its_end_adds_nothing() -> None:
    room = Room()
    lease = room.ask_for(0, "A", kind=Kind.STREAM)
    room.content(0.2, lease, is_content=False)
    assert room.last == ()
    room.content(0.5, lease)
    assert room.last == (EstimateChanged(A, Kind.STREAM, 0.5),)
    room.content(0.9, lease)
    room.end(30, lease)
    assert not any(isinstance(fact, EstimateChanged) for fact in room.last)
    assert estimates(room, 30) == (0.5, None)


def test_a_stream_without_any_content_is_measured_to_its_end() -> None:
    room = Room()
    room.end(2, room.ask_for(0, "A", kind=Kind.STREAM))
    assert estimates(room, 2) == (2, None)


@pytest.mark.parametrize("outcome", [Outcome.RATE, Outcome.FAULT])
def test_a_stream_that_is_cut_later_doubles_what_was_measured(outcome: Outcome) -> None:
    room = Room()
    lease = room.ask_for(0, "A", kind=Kind.STREAM)
    room.content(0.5, lease)
    room.end(60, lease, outcome)
    assert estimates(room, 60) == (1.0, None)


def test_a_client_that_leaves_after_the_content_adds_nothing() -> None:
    room = Room()
    lease = room.ask_for(0, "A", kind=Kind.STREAM)
    room.content(0.5, lease)
    room.end(60, lease, Outcome.CLIENT)
    assert estimates(room, 60) == (0.5, None)


def test_a_client_that_leaves_before_the_content_raises_to_its_wait_though_a_head_came() -> None:
    room = Room()
    lease = room.ask_for(0, "A", kind=Kind.STREAM)
    room.content(0.5, lease, is_content=False)
    room.end(20, lease, Outcome.CLIENT)
    assert room.last[-1] == EstimateChanged(A, Kind.STREAM, 20)


@pytest.mark.parametrize("outcome", [Outcome.REQUEST, Outcome.AUTH, Outcome.NOT_FOUND, Outcome.ACCOUNT])
def test_other_refusals_feed_nothing(outcome: Outcome) -> None:
    room = Room()
    room.measure(1, "A", 1.0)
    room.end(40, room.ask_for(2, "A"), outcome)
    assert estimates(room, 40) == (None, 1.0)


def test_a_failure_of_a_target_never_measured_doubles_what_the_decision_took_it_to_need() -> None:
    room = Room()
    room.measure(10, "B", 8.0)
    chosen = room.ask(10, draws=(0.1, 0.1))
    assert chosen.target == A
    room.end(10.1, chosen.lease, Outcome.FAULT)
    assert estimates(room, 11) == (None, 16.0)


def test_a_failure_of_a_pinned_or_named_target_never_measured_doubles_one_second() -> None:
    room = Room()
    room.measure(10, "B", 8.0)
    room.end(10.1, room.ask_for(10, "A"), Outcome.FAULT)
    assert estimates(room, 11) == (None, 2.0)


def test_retries_feed_too() -> None:
    room = Room()
    room.end(1, room.ask_for(0, "A"), Outcome.FAULT)
    room.end(1, room.ask(1, model=A, again=A).lease, Outcome.FAULT)
    assert estimates(room, 1) == (None, 4.0)


def test_what_does_not_feed_routing_only_counts_in_flight() -> None:
    room = Room()
    lease = room.ask_for(0, "A", "s", feeds_routing=False)
    assert room.row(0).in_flight == 1
    room.end(1, lease)
    assert (estimates(room, 1), warm(room, 1)) == ((None, None), None)


def test_targets_that_no_configuration_names_are_not_measured() -> None:
    room = Room()
    room.end(1, room.ask(0, model="A/invented").lease)
    assert TargetId("A/invented") not in room.state.targets


def test_without_a_virtual_model_that_is_adaptive_nothing_is_measured() -> None:
    room = Room(enabled=False)
    room.end(1, room.ask_for(0, "A", "s"))
    assert (estimates(room, 1), warm(room, 1)) == ((None, None), None)


def test_a_silent_target_is_judged_by_its_answers_not_by_who_left_it() -> None:
    room = Room()
    room.measure(5, "A", 5.0)
    room.end(105, room.ask_for(60, "A"), Outcome.CLIENT)
    assert room.last[0] == AttemptEnded(A, Outcome.FAULT, Cause.SILENT, 45.0)
    assert estimates(room, 105) == (None, 45.0)
    room.end(155, room.ask_for(110, "A"), Outcome.CLIENT)
    assert room.last[0] == AttemptEnded(A, Outcome.FAULT, Cause.SILENT, 45.0)


def test_a_target_that_needs_long_is_given_eight_times_as_long() -> None:
    room = Room()
    room.measure(10, "A", 10.0)
    room.end(99, room.ask_for(20, "A"), Outcome.CLIENT)
    assert room.last[0] == AttemptEnded(A, Outcome.CLIENT, Cause.NONE, 79.0)


def test_an_attempt_of_before_a_reset_says_nothing() -> None:
    room = Room()
    room.measure(1, "A", 1.0)
    running, streaming = room.ask_for(1, "A", "s"), room.ask_for(1, "A", kind=Kind.STREAM)
    room.send(2, ResetTarget(A))
    assert room.last == (EstimateChanged(A, Kind.UNARY, None),)
    room.content(3, streaming)
    room.end(3, running)
    assert (estimates(room, 3), warm(room, 3)) == ((None, None), None)


def test_estimates_outlive_a_reload_but_not_another_key() -> None:
    room = Room()
    room.measure(1, "A", 1.0)
    room.measure(2, "B", 1.5)
    room.measure(3, "B", 0.5, Kind.STREAM)
    room.reload(4, changed="B")
    assert room.last == (EstimateChanged(room.target("B"), Kind.STREAM, None), EstimateChanged(room.target("B"), Kind.UNARY, None))
    assert (estimates(room, 4), estimates(room, 4, "B")) == ((None, 1.0), (None, None))


def test_a_target_that_leaves_the_configuration_loses_its_estimates() -> None:
    room = Room()
    room.measure(1, "A", 1.0)
    room.measure(1, "B", 1.0)
    room.cool(2, "B")
    room.pools, cooled, policy = {"v": "CD"}, room.target("B"), room.policy()
    unlisted = {name: msgspec.structs.replace(provider, models=()) for name, provider in policy.providers.items()}
    room.send(3, ReplacePolicy(msgspec.structs.replace(room.policy(), providers=unlisted)))
    assert room.last == (EstimateChanged(A, Kind.UNARY, None), EstimateChanged(cooled, Kind.UNARY, None))
    assert A not in room.state.targets
    assert room.state.targets[cooled].latency is UNMEASURED
    assert room.until_s("B") == 32


# ---- warm marks -----------------------------------------------------------------------------------------------------


def test_a_success_marks_its_target_warm_for_its_session_from_then_on() -> None:
    room = Room()
    lease = room.ask_for(0, "A", "s")
    assert warm(room, 0) is None
    room.end(3, lease)
    assert (warm(room, 602.9), warm(room, 603)) == (3, None)
    assert warm(room, 4, session="t") is None


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SUCCESS])
def test_only_a_success_warms(outcome: Outcome) -> None:
    room = Room()
    room.end(3, room.ask_for(0, "A", "s"), outcome)
    assert warm(room, 3) is None


def test_marks_are_bounded_the_oldest_go_and_expiry_frees_them() -> None:
    room = Room()
    room.reload(0, max_pins=2)
    for at_s, session in enumerate(("s", "t", "u")):
        room.end(at_s, room.ask_for(at_s, "A", session))
    assert [warm(room, 3, session=session) for session in "stu"] == [None, 1, 2]
    room.reload(3, max_pins=1)
    assert [warm(room, 3, session=session) for session in "tu"] == [None, 2]
    room.send(602, Expire())
    assert len(room.state.warm) == 0


def test_marks_go_with_the_key_and_what_still_runs_on_the_old_one_makes_none() -> None:
    room = Room()
    room.end(1, room.ask_for(0, "A", "s"))
    running = room.ask_for(2, "A", "s")
    room.reload(3, changed="A")
    assert warm(room, 3) is None
    room.end(4, running)
    assert warm(room, 4) is None


def test_a_reset_keeps_marks_and_pins() -> None:
    room = Room()
    room.serve(0, "s", draws=(0.1, 0.1))
    room.send(1, ResetTarget(A))
    assert (warm(room, 1), room.pin("s", 1)) == (0, "A")
