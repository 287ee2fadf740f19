"""The step function: tiers, leases, health, expiry, reload, inspection."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import Leg, Policy, Provider, SmartRouting, VirtualModel
from gomodel_trio.state.commands import (
    AttemptEnded,
    Command,
    CooldownEnded,
    CooldownStarted,
    Decide,
    Decision,
    Expire,
    Fact,
    Finish,
    FirstByte,
    InFlightChanged,
    Inspect,
    Inspection,
    NextExpiry,
    PinExpired,
    ReplacePolicy,
    Reply,
    ResetTarget,
    RouteTier,
    Stamped,
    TargetState,
    TierEscalated,
    TierPinsCounted,
    TierReply,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.state.tables import MAX_UNDECLARED
from gomodel_trio.wire.dialect import Dialect

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/tiers.json").read_text())
A, B = TargetId("a/m"), TargetId("b/m")
SESSION = SessionId("s")


def policy(*, fingerprint: str = "1", providers: str = "ab", ttl_s: float = 100) -> Policy:
    return Policy(
        providers={name: Provider(name, "openai", Dialect.OPENAI, True, ("m",), fingerprint=fingerprint) for name in providers},
        virtual_models={"v": VirtualModel("v", (Leg(A), Leg(B)))},
        smart=SmartRouting(session_ttl_s=ttl_s),
    )


class Run:
    """A state and the facts of the last command sent to it."""

    def __init__(self, first: Policy | None = None) -> None:
        self.state = RoutingState(first or policy())
        self.seq = 0
        self._facts: tuple[Fact, ...] = ()

    def facts(self) -> tuple[Fact, ...]:
        return self._facts

    def send(self, at_s: float, command: Command) -> Reply:
        self.seq += 1
        reply, self._facts = step(self.state, Stamped(self.seq, at_s, (0.5, 0.5), command))
        return reply

    def ask(self, at_s: float, name: str = "a/m", session: SessionId | None = None, **more: Any) -> LeaseId:
        reply = self.send(at_s, Decide(name, session, "/", Kind.STREAM, **more))
        assert isinstance(reply, Decision)
        return reply.lease

    def end(self, at_s: float, lease: LeaseId, outcome: Outcome, **more: Any) -> tuple[Fact, ...]:
        assert self.send(at_s, Finish(lease, outcome, **more)) is None
        return self.facts()

    def row(self, at_s: float, target: TargetId = A) -> TargetState:
        shown = self.send(at_s, Inspect())
        assert isinstance(shown, Inspection)
        return next(row for row in shown.targets if row.target == target)


# ---- tiers ----


@pytest.mark.parametrize("case", VECTORS["pins"], ids=lambda case: case["name"])
def test_each_tier_vector_is_played_as_written(case: dict[str, Any]) -> None:
    run = Run(policy(ttl_s=case["ttl_s"]))
    for turn, (tier, is_pinned, is_escalated) in zip(case["turns"], case["expect"], strict=True):
        if "ttl_s" in turn:
            run.send(turn["at_s"], ReplacePolicy(policy(ttl_s=turn["ttl_s"])))
        reply = run.send(turn["at_s"], RouteTier(turn.get("alias", "normal"), turn["session"], Tier(turn["verdict"])))
        assert reply == TierReply(Tier(tier), is_pinned, is_escalated)


def test_tier_pins_are_counted_when_they_come_and_go() -> None:
    run = Run()
    run.send(0, RouteTier("normal", SESSION, Tier.EASY))
    assert run.facts() == (TierPinsCounted(1),)
    run.send(1, RouteTier("normal", SESSION, Tier.HARD))
    assert run.facts() == (TierEscalated("normal"),)
    assert run.send(101, Expire()) == NextExpiry(None)
    assert run.facts() == (PinExpired("tier", 1), TierPinsCounted(0))


def test_a_reload_without_pins_forgets_them_and_says_so() -> None:
    run = Run()
    run.send(0, RouteTier("normal", SESSION, Tier.EASY))
    run.send(1, ReplacePolicy(policy(ttl_s=0)))
    assert run.facts() == (TierPinsCounted(0),)


def test_the_tier_pin_expiring_soonest_makes_room() -> None:
    run = Run(msgspec.structs.replace(policy(), max_pins=2))
    for at_s, session in enumerate(("s", "t", "s", "u")):
        run.send(at_s, RouteTier("normal", SessionId(session), Tier.HARD))
    assert run.facts() == ()
    replies = [run.send(5, RouteTier("normal", SessionId(session), Tier.EASY)) for session in ("s", "u", "t")]
    assert [reply.tier for reply in replies if isinstance(reply, TierReply)] == [Tier.HARD, Tier.HARD, Tier.EASY]


# ---- leases ----


def test_in_flight_is_counted_from_the_choice_to_the_end() -> None:
    run = Run()
    first = run.ask(0)
    assert run.facts() == (InFlightChanged(A, 1),)
    second = run.ask(1)
    assert run.facts() == (InFlightChanged(A, 2),)
    assert run.end(3, first, Outcome.SUCCESS) == (AttemptEnded(A, Outcome.SUCCESS, Cause.NONE, 3.0), InFlightChanged(A, 1))
    assert run.end(4, second, Outcome.REQUEST) == (AttemptEnded(A, Outcome.REQUEST, Cause.NONE, 3.0), InFlightChanged(A, 0))


def test_a_closed_or_unknown_lease_is_ignored() -> None:
    run = Run()
    lease = run.ask(0)
    run.end(1, lease, Outcome.SUCCESS)
    assert run.end(2, lease, Outcome.RATE) == ()
    assert run.end(2, LeaseId(99), Outcome.RATE) == ()
    assert run.send(2, FirstByte(lease)) is None
    assert run.row(3).in_flight == 0
    assert not run.row(3).is_cooling


def test_a_trigger_is_reported_with_its_reason() -> None:
    run = Run()
    assert run.end(2, run.ask(1), Outcome.RATE, retry_after_s=45)[2:] == (CooldownStarted(A, Outcome.RATE, 47, 45),)
    assert run.row(12) == TargetState(A, 0, True, False, 35.0, 1, 0, cooldown_reason=Outcome.RATE)
    assert run.row(47) == TargetState(A, 0, False, True, 0.0, 1, 0, cooldown_reason=Outcome.RATE)


def test_a_success_during_the_cooldown_is_reported_as_its_end() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.RATE)
    assert run.end(6, run.ask(5), Outcome.SUCCESS)[2:] == (CooldownEnded(A),)
    assert run.row(6) == TargetState(A, 0, False, False, 0.0, 0, 0)


def test_a_silent_target_is_blamed_when_its_client_leaves_after_thirty_seconds() -> None:
    run = Run()
    facts: tuple[Fact, ...] = ()
    for at_s in (0, 100, 200):
        facts = run.end(at_s + 60, run.ask(at_s), Outcome.CLIENT)
        assert facts[0] == AttemptEnded(A, Outcome.FAULT, Cause.SILENT, 60.0)
    assert facts[2:] == (CooldownStarted(A, Outcome.FAULT, 290, 30),)


def test_a_client_that_leaves_early_or_after_the_first_byte_blames_nobody() -> None:
    run = Run()
    assert run.end(29, run.ask(0), Outcome.CLIENT)[0] == AttemptEnded(A, Outcome.CLIENT, Cause.NONE, 29.0)
    lease = run.ask(100)
    run.send(101, FirstByte(lease))
    assert run.end(200, lease, Outcome.CLIENT)[0] == AttemptEnded(A, Outcome.CLIENT, Cause.NONE, 100.0)


def test_one_request_triggers_a_target_once_however_often_it_retries() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.RATE)
    assert run.end(5, run.ask(5, again=A), Outcome.RATE)[2:] == ()
    assert run.row(5).cooldown_left_s == 25
    assert run.end(31, run.ask(31, again=A), Outcome.RATE)[2:] == (CooldownEnded(A),)
    assert (run.row(31).is_on_probation, run.row(31).streak) == (True, 1)


def test_a_request_whose_retries_are_the_run_of_faults_triggers() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.FAULT)
    run.end(1, run.ask(1, again=A), Outcome.FAULT)
    assert run.end(2, run.ask(2, again=A), Outcome.FAULT)[2:] == (CooldownStarted(A, Outcome.FAULT, 32, 30),)


# ---- time ----


def test_expiry_reports_the_end_of_a_cooldown_once_and_tells_when_to_come_again() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.RATE)
    run.ask(3, "v", SESSION)
    assert run.send(5, Expire()) == NextExpiry(30)
    assert run.facts() == ()
    assert run.send(30, Expire()) == NextExpiry(21603)
    assert run.facts() == (CooldownEnded(A),)
    assert run.send(31, Expire()) == NextExpiry(21603)
    assert run.facts() == ()
    assert run.send(21603, Expire()) == NextExpiry(None)
    assert run.facts() == (PinExpired("target", 1),)


def test_a_cooldown_whose_end_nobody_saw_is_reported_before_the_next() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.RATE)
    facts = run.end(40, run.ask(40), Outcome.RATE)
    assert facts[2:] == (CooldownEnded(A), CooldownStarted(A, Outcome.RATE, 100, 60))


# ---- reload and operators ----


def test_a_reload_keeps_health_by_name() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.AUTH)
    run.send(1, ReplacePolicy(policy()))
    assert run.facts() == ()
    assert run.row(1).cooldown_left_s == 299


@pytest.mark.parametrize("changed", [policy(fingerprint="2"), policy(providers="b")], ids=["new key", "gone"])
def test_a_target_that_is_gone_or_changed_starts_fresh_and_its_leases_still_close(changed: Policy) -> None:
    run = Run()
    old = run.ask(0)
    run.end(0, run.ask(0), Outcome.AUTH)
    run.send(1, ReplacePolicy(changed))
    assert run.facts() == (CooldownEnded(A),)
    assert (run.row(1).is_cooling, run.row(1).in_flight) == (False, 1)
    run.send(2, FirstByte(old))
    assert run.end(2, old, Outcome.AUTH)[1:] == (InFlightChanged(A, 0),)
    assert A not in run.state.targets or not run.row(2).is_cooling


def test_a_provider_that_comes_back_finds_no_old_health() -> None:
    run = Run()
    run.end(0, run.ask(0), Outcome.AUTH)
    run.send(1, ReplacePolicy(policy(providers="b")))
    run.send(2, ReplacePolicy(policy()))
    assert not run.row(2).is_cooling


def test_cursors_of_models_that_are_gone_are_forgotten() -> None:
    run = Run(Policy(providers={"a": Provider("a", "openai", Dialect.OPENAI, True, ("m",), key_count=2)}, virtual_models={}))
    run.ask(0)
    run.state.turns["gone", None] = 7
    assert run.state.key_turns == {"a": 1}
    run.send(1, ReplacePolicy(policy(providers="b")))
    assert (run.state.turns, run.state.key_turns) == ({}, {})


def test_a_reset_forgets_health_and_what_still_runs_does_not_tell() -> None:
    run = Run()
    running = run.ask(0)
    run.end(0, run.ask(0), Outcome.AUTH)
    assert run.send(1, ResetTarget(A)) is True
    assert run.facts() == (CooldownEnded(A),)
    run.end(2, running, Outcome.AUTH)
    assert not run.row(2).is_cooling
    assert run.send(3, ResetTarget(B)) is True
    assert run.send(3, ResetTarget(TargetId("x/y"))) is False


def test_an_inspection_shows_every_declared_target_and_the_sizes() -> None:
    run = Run()
    run.ask(0, "v", SESSION)
    run.ask(0, "a/unlisted")
    run.send(0, RouteTier("normal", SESSION, Tier.EASY))
    assert run.send(1, Inspect()) == Inspection(
        (
            TargetState(A, 1, False, False, 0.0, 0, 1),
            TargetState(B, 0, False, False, 0.0, 0, 0),
            TargetState(TargetId("a/unlisted"), 1, False, False, 0.0, 0, 0),
        ),
        open_leases=2,
        tier_pins=1,
        target_pins=1,
        at_s=1,
    )


def test_an_invented_name_is_forgotten_one_longest_cooldown_after_its_own() -> None:
    run = Run()
    run.end(0, run.ask(0, "a/invented"), Outcome.NOT_FOUND)
    run.end(0, run.ask(0), Outcome.NOT_FOUND)
    assert run.send(1, Expire()) == NextExpiry(300)
    assert run.send(300, Expire()) == NextExpiry(600)
    assert set(run.state.targets) == {A, "a/invented"}
    assert run.send(600, Expire()) == NextExpiry(None)
    assert set(run.state.targets) == {A}


@pytest.mark.parametrize("is_expired", [False, True])
def test_whether_it_was_freed_before_does_not_tell_on_what_comes_next(is_expired: bool) -> None:
    run = Run()
    run.end(0, run.ask(0, "a/invented"), Outcome.RATE)
    running = run.ask(329, "a/invented")
    if is_expired:
        run.send(335, Expire())
    assert run.end(336, running, Outcome.RATE)[-1] == CooldownStarted(TargetId("a/invented"), Outcome.RATE, 396, 60)
    if is_expired:
        run.send(700, Expire())
    assert run.end(700, run.ask(700, "a/invented"), Outcome.RATE)[-1] == CooldownStarted(TargetId("a/invented"), Outcome.RATE, 730, 30)


def test_names_that_clients_invent_leave_nothing_behind() -> None:
    run = Run()
    run.end(1, run.ask(0, "a/invented"), Outcome.SUCCESS)
    assert run.state.targets == {}
    for number in range(3 * MAX_UNDECLARED):
        run.end(2, run.ask(2, f"a/{number}"), Outcome.NOT_FOUND)
        assert len(run.state.targets) <= MAX_UNDECLARED + 2
    run.end(2, run.ask(2), Outcome.RATE)
    for number in range(2 * MAX_UNDECLARED):
        run.end(2, run.ask(2, f"a/{number}"), Outcome.NOT_FOUND)
    assert run.row(2).is_cooling
