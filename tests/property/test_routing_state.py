"""The routing state under any sequence of commands: counts, choices, pins, replay."""

import copy
import math

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, initialize, invariant, multiple, rule

from gomodel_trio.route.decide import decide as decide_again
from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Leg, Objective, Policy, Price, Provider, SmartRouting, Strategy, VirtualModel
from gomodel_trio.state.commands import (
    Command,
    CooldownEnded,
    CooldownStarted,
    Decide,
    Decision,
    EstimateChanged,
    Expire,
    Fact,
    Finish,
    FirstByte,
    InFlightChanged,
    Inspect,
    Inspection,
    KeyFailed,
    NoTarget,
    PinReleased,
    Preview,
    ReplacePolicy,
    Reply,
    ResetTarget,
    RouteTier,
    SelectionDeclined,
    Stamped,
    TargetSelected,
    TierReply,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.state.tables import Standing
from gomodel_trio.wire.dialect import Dialect

NAMES = ["rr", "cost", "first", "adaptive", "adaptive", "loose", "chain", "deep", "a/m", "b/m", "c/unlisted", "nowhere"]
FLAT = ["rr", "cost", "first", "adaptive", "loose"]
FLAT_ADAPTIVE = ["adaptive", "loose"]
DECLARED = [TargetId(f"{name}/m") for name in "abcd"]
PRICES = {TargetId("a/m"): Price(1.0, 2.0), TargetId("b/m"): Price(0.0, 0.0)}
SESSIONS = [None, SessionId("s"), SessionId("t")]
TTL_S = 50.0
AFFINITY_TTL_S = 400.0
MAX_PINS = 5
CAP_S = 60.0


def policy(providers: str, key_count: int, fingerprint: int, disabled: frozenset[TargetId], adaptive: AdaptiveRouting) -> Policy:
    legs = (Leg("a/m", weight=2), Leg("b/m"), Leg("c/m"))
    models = [
        VirtualModel("rr", legs),
        VirtualModel("cost", legs, Strategy.COST),
        VirtualModel("first", legs, Strategy.FAILOVER),
        VirtualModel("adaptive", legs, Strategy.ADAPTIVE),
        VirtualModel("loose", legs, Strategy.ADAPTIVE, session_affinity=False),
        VirtualModel("chain", (Leg("d/m"), Leg("rr", is_virtual=True))),
        VirtualModel("deep", (Leg("d/m"), Leg("adaptive", is_virtual=True)), Strategy.ADAPTIVE),
    ]
    return Policy(
        providers={
            name: Provider(
                name,
                "openai",
                Dialect.OPENAI,
                True,
                ("m",),
                key_count=1 if name == "d" else key_count,
                fingerprint=f"{name}{fingerprint if name == 'a' else ''}",
            )
            for name in providers
        },
        virtual_models={model.source: model for model in models},
        smart=SmartRouting(session_ttl_s=TTL_S),
        adaptive=adaptive,
        disabled_targets=disabled,
        prices=PRICES,
        affinity_ttl_s=AFFINITY_TTL_S,
        max_pins=MAX_PINS,
    )


policies = st.builds(
    policy,
    st.sampled_from(["abcd", "abcd", "bcd", "ab", "d"]),
    st.sampled_from([2, 2, 3, 1]),
    st.integers(0, 1),
    st.sets(st.sampled_from([TargetId("a/m"), TargetId("b/m"), TargetId("d/m")]), max_size=2).map(frozenset),
    st.builds(
        AdaptiveRouting,
        enabled=st.sampled_from([True, True, True, False]),
        objective=st.sampled_from(Objective),
        min_weight_fraction=st.sampled_from([0.0, 0.05, 0.5]),
        latency_cap_s=st.just(CAP_S),
    ),
)
uniform = st.floats(0, 1, exclude_max=True)
elapsed = st.sampled_from([0.0, 0.0, 0.5, 1.0, 10.0, 31.0, 200.0])
sessions = st.sampled_from(SESSIONS)


class RoutingMachine(RuleBasedStateMachine):
    """Plays clients, operators and time against `step`, with a model of what must be so beside it."""

    leases: Bundle[LeaseId] = Bundle("leases")

    @initialize(first=policies)
    def start(self, first: Policy) -> None:
        self.first = first
        self.state = RoutingState(first)
        self.at_s = 0.0
        self.draws = (0.1, 0.9)
        self.journal: list[Stamped] = []
        self.replies: list[tuple[Reply, tuple[Fact, ...]]] = []
        self.open: dict[LeaseId, TargetId] = {}
        self.keys_left: dict[LeaseId, tuple[int, ...]] = {}
        self.gauges: dict[TargetId, int] = {}
        self.shown_s: dict[tuple[TargetId, Kind], float] = {}
        self.reported_cooling: set[TargetId] = set()
        self.tiers: dict[SessionId, tuple[Tier, float]] = {}

    def send(self, command: Command) -> tuple[Reply, tuple[Fact, ...]]:
        stamped = Stamped(len(self.journal) + 1, self.at_s, self.draws, command)
        self.journal.append(stamped)
        answer = step(self.state, stamped)
        self.replies.append(copy.deepcopy(answer))
        for fact in answer[1]:
            match fact:
                case InFlightChanged(target, count):
                    self.gauges[target] = count
                case EstimateChanged(target, kind, None):
                    del self.shown_s[target, kind]
                case EstimateChanged(target, kind, float(value_s)):
                    self.shown_s[target, kind] = value_s
                case SelectionDeclined():
                    raise AssertionError(f"declined: {fact.error}")
                case CooldownStarted(target):
                    self.reported_cooling.add(target)
                case CooldownEnded(target):
                    assert target in self.reported_cooling, "an end without a begin"
                    self.reported_cooling.remove(target)
                case _:
                    pass
        return answer

    @rule(first=uniform, second=uniform)
    def throw_dice(self, first: float, second: float) -> None:
        self.draws = (first, second)

    @rule(by_s=elapsed)
    def pass_time(self, by_s: float) -> None:
        self.at_s += by_s

    @rule(
        target=leases,
        name=st.sampled_from(NAMES),
        session=sessions,
        kind=st.sampled_from(Kind),
        feeds=st.booleans(),
        tried=st.lists(st.sampled_from(DECLARED), max_size=3, unique=True),
        is_again=st.sampled_from([False, False, False, True]),
    )
    def decide(
        self, *, name: str, session: SessionId | None, kind: Kind, feeds: bool, tried: list[TargetId], is_again: bool
    ) -> LeaseId | MultipleResults[LeaseId]:
        again = tried.pop() if is_again and tried else None
        decide = Decide(name, session, "/", kind, feeds_routing=feeds, tried=tuple(tried), again=again)
        before = {target: self.state.standing(target, self.at_s) for target in DECLARED}
        key_standings = {name: [key.standing(self.at_s) for key in self.state.keys.of(name)] for name in "abcd"}
        pins_before, whole_before = self.pins(), self.copied()
        foretold, nothing = self.send(Preview(decide))
        assert nothing == ()
        assert self.state == whole_before, "a preview changed something"
        reply, facts = self.send(decide)
        self.check_pins(pins_before, reply, facts, before)
        if isinstance(reply, NoTarget):
            assert foretold == reply
            assert facts == ()
            return multiple()
        assert isinstance(reply, Decision)
        assert isinstance(foretold, Decision)
        assert (foretold.target, foretold.reason, foretold.left, foretold.keys) == (reply.target, reply.reason, reply.left, reply.keys)
        self.open[reply.lease] = reply.target
        self.keys_left[reply.lease] = reply.keys[1:]
        self.check_keys(reply, key_standings)
        if again is None:
            self.check_choice(reply, tried, before)
        self.check_selection(name, reply, facts)
        return reply.lease

    def check_keys(self, reply: Decision, before: dict[str, list[Standing]]) -> None:
        """Keys that cool are left out; where all do, one is used."""
        provider, _, _ = reply.target.partition("/")
        known = before[provider] or [Standing.WELL] * self.state.policy.providers[provider].key_count
        usable = [key for key, standing in enumerate(known) if standing is not Standing.COOLING]
        if usable:
            assert sorted(reply.keys) == usable
        else:
            assert len(reply.keys) == 1

    def copied(self) -> RoutingState:
        kept = copy.copy(self.state)
        for name in ("leases", "targets", "tier_pins", "target_pins", "warm", "turns", "key_turns", "keys"):
            setattr(kept, name, copy.deepcopy(getattr(self.state, name)))
        return kept

    def check_selection(self, name: str, reply: Decision, facts: tuple[Fact, ...]) -> None:
        """Each choice of an adaptive model is told once, with the target that was taken; who does not choose tells nothing."""
        told = [fact for fact in facts if isinstance(fact, TargetSelected)]
        assert all(fact.target == reply.target for fact in told)
        if not self.state.policy.adaptive.enabled or name not in (*FLAT_ADAPTIVE, "deep"):
            assert told == []
        elif name in FLAT_ADAPTIVE:
            chose = {"p2c": ["p2c"], "probe": ["probe"], "pinned": ["pinned"], "single": [], "again": []}
            if reply.reason in chose:
                assert [fact.reason for fact in told] == chose[reply.reason]
            elif reply.reason == "next":  # the pin's target, or the only one left, which is no choice
                assert [fact.reason for fact in told] in (["pinned"], [])
            else:
                assert reply.reason == "all_cooling"
                assert [fact.reason for fact in told] == (["all_cooling"] if len(reply.candidates) > 1 else [])
        assert {fact.source for fact in told} <= {"adaptive", "loose", "deep"}
        assert (reply.selected is not None) == any(fact.reason in ("p2c", "probe") for fact in told)
        if reply.selected is not None:
            assert decide_again(reply.selected.given) == reply.selected.made

    def pins(self) -> dict[tuple[str, SessionId], str]:
        live = {}
        for source in ("rr", "cost", "adaptive", "loose", "chain", "deep"):
            for session in SESSIONS:
                if session is not None:
                    pin = self.state.target_pins.get((source, session), at_s=self.at_s, ttl_s=AFFINITY_TTL_S)
                    if pin is not None:
                        live[source, session] = pin
        return live

    def check_choice(self, reply: Decision, tried: list[TargetId], before: dict[TargetId, Standing]) -> None:
        assert reply.target not in tried
        assert reply.target in reply.candidates
        assert not set(reply.left) & {reply.target, *tried}
        assert set(reply.left) <= set(reply.candidates)
        others = [target for target in reply.candidates if target not in tried]
        if reply.source in FLAT and any(before[target] is not Standing.COOLING for target in others):
            assert before[reply.target] is not Standing.COOLING, "a cooling target before an eligible one"
        if reply.was_cooling:
            assert reply.left == ()
            assert before.get(reply.target, Standing.COOLING) is Standing.COOLING

    def check_pins(
        self, old: dict[tuple[str, SessionId], str], reply: Reply, facts: tuple[Fact, ...], before: dict[TargetId, Standing]
    ) -> None:
        """A pin changes only if it was over, its leg cooled (told as released), or room was needed."""
        new = self.pins()
        if isinstance(reply, NoTarget) or (isinstance(reply, Decision) and reply.was_cooling):
            assert new == old
        moved = [key for key in old if key in new and new[key] != old[key]]
        assert sum(isinstance(fact, PinReleased) for fact in facts) == len(moved)
        for source, session in moved:
            if source in FLAT:
                assert before[TargetId(old[source, session])] is Standing.COOLING
        lost = [key for key in old if key not in new]
        assert not lost or len(self.state.target_pins) == MAX_PINS
        assert not [key for key in new if key[0] == "loose"]

    @rule(lease=leases, is_content=st.booleans())
    def first_byte(self, lease: LeaseId, is_content: bool) -> None:
        self.send(FirstByte(lease, is_content))

    @rule(
        lease=leases,
        outcome=st.sampled_from([Outcome.RATE, Outcome.AUTH, Outcome.ACCOUNT]),
        retry_after_s=st.sampled_from([None, 3.0, 1e9]),
    )
    def next_key(self, lease: LeaseId, outcome: Outcome, retry_after_s: float | None) -> None:
        """Go on with the next key, if the lease is open and has one; the target and its estimates stay as they are."""
        left = self.keys_left.get(lease, ())
        if not left:
            return
        self.keys_left[lease] = left[1:]
        target = self.open.get(lease)
        before = {name: (record.health, record.latency) for name, record in self.state.targets.items()}
        _, facts = self.send(KeyFailed(lease, left[0], outcome, retry_after_s=retry_after_s))
        assert (facts == ()) == (target is None)
        assert before == {name: (record.health, record.latency) for name, record in self.state.targets.items()}

    @rule(lease=leases, outcome=st.sampled_from(Outcome), retry_after_s=st.sampled_from([None, 3.0, 1e9]))
    def finish(self, lease: LeaseId, outcome: Outcome, retry_after_s: float | None) -> None:
        """Finish a lease, perhaps a closed one."""
        target = self.open.pop(lease, None)
        stored_s = dict(self.shown_s)
        _, facts = self.send(Finish(lease, outcome, retry_after_s=retry_after_s))
        assert (facts == ()) == (target is None)
        for fact in facts:
            if isinstance(fact, CooldownStarted) and outcome in (Outcome.RATE, Outcome.AUTH, Outcome.ACCOUNT):
                keys = self.state.keys.of(fact.target.partition("/")[0])
                assert all(key.health.is_benched(self.at_s) for key in keys), "a target blamed while a key is left"
        changed = {key for key, value_s in self.shown_s.items() if stored_s.get(key) != value_s}
        assert {key[0] for key in changed} <= {target}
        if outcome is not Outcome.SUCCESS:
            assert all(self.shown_s[key] > stored_s.get(key, 0.0) for key in changed), "a failure lowered an estimate"
        if outcome in (Outcome.REQUEST, Outcome.AUTH, Outcome.NOT_FOUND, Outcome.ACCOUNT):
            assert not changed

    @rule()
    def expire(self) -> None:
        self.send(Expire())
        assert self.reported_cooling == {target for target in self.state.targets if self.state.health(target).is_benched(self.at_s)}

    @rule(new=policies)
    def reload(self, new: Policy) -> None:
        self.send(ReplacePolicy(new))

    @rule(reset=st.sampled_from([TargetId("a/m"), TargetId("c/m")]))
    def reset(self, reset: TargetId) -> None:
        self.send(ResetTarget(reset))
        assert not [target for target, _ in self.shown_s if target == reset]
        assert self.state.standing(reset, self.at_s) is Standing.WELL

    @rule(session=st.sampled_from([SessionId("s"), SessionId("t")]), verdict=st.sampled_from(Tier))
    def route_tier(self, session: SessionId, verdict: Tier) -> None:
        reply, _ = self.send(RouteTier("normal", session, verdict))
        pin, used_at_s = self.tiers.get(session, (Tier.EASY, -TTL_S))
        is_hard = verdict is Tier.HARD or (pin is Tier.HARD and self.at_s < used_at_s + TTL_S)
        expected = Tier.HARD if is_hard else Tier.EASY
        self.tiers[session] = (expected, self.at_s)
        assert isinstance(reply, TierReply)
        assert reply.tier is expected

    @invariant()
    def in_flight_is_the_number_of_open_leases(self) -> None:
        shown, _ = step(self.state, Stamped(0, self.at_s, (0.0, 0.0), Inspect()))
        assert isinstance(shown, Inspection)
        assert shown.open_leases == len(self.open)
        counts = {row.target: row.in_flight for row in shown.targets if row.in_flight}
        for target in self.open.values():
            counts[target] -= 1
        assert set(counts.values()) <= {0}
        assert {target: count for target, count in self.gauges.items() if count} == {
            row.target: row.in_flight for row in shown.targets if row.in_flight
        }
        assert shown.target_pins <= MAX_PINS
        assert shown.tier_pins <= MAX_PINS
        assert len(self.state.warm) <= MAX_PINS

    @invariant()
    def keys_are_known_of_configured_providers_alone_and_count_what_runs(self) -> None:
        for name in "abcd":
            keys = self.state.keys.of(name)
            provider = self.state.policy.providers.get(name)
            assert not keys or (provider is not None and provider.key_count == len(keys) > 1)
            running = [lease for key in keys for lease in key.open_tries]
            assert len(set(running)) == len(running)
            assert {self.open[lease].partition("/")[0] for lease in running} <= {name}

    @invariant()
    def estimates_are_shown_as_stored_and_positive(self) -> None:
        stored_s = {
            (target, kind): estimate.value_s
            for target, record in self.state.targets.items()
            for kind in Kind
            if (estimate := record.latency.of(kind)) is not None
        }
        assert stored_s == self.shown_s
        assert all(0.0 < value_s < math.inf for value_s in stored_s.values())

    @invariant()
    def whoever_is_well_weighs_the_floor_at_least_and_whoever_cools_nothing(self) -> None:
        shown, _ = step(self.state, Stamped(0, self.at_s, (0.0, 0.0), Inspect()))
        assert isinstance(shown, Inspection)
        settings = self.state.policy.adaptive
        well = {row.target for row in shown.targets if self.state.standing(row.target, self.at_s) is Standing.WELL}
        for source in FLAT_ADAPTIVE:
            for kind in Kind:
                found = {row.target: one for row in shown.targets for one in row.weights if (one.source, one.kind) == (source, kind)}
                assert settings.enabled or not found
                heaviest = max((one.weight for target, one in found.items() if target in well), default=0.0)
                for target, one in found.items():
                    standing = self.state.standing(target, self.at_s)
                    if standing is Standing.COOLING:
                        assert one.weight == 0.0
                    elif target in well:
                        assert settings.min_weight_fraction * heaviest <= one.weight <= heaviest
                    elif well & set(found):
                        assert one.weight == max(settings.min_weight_fraction, 0.01) * heaviest
                assert sum(one.share for one in found.values()) in (0.0, pytest.approx(1.0))

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        replayed = RoutingState(self.first)
        assert [step(replayed, stamped) for stamped in self.journal] == self.replies
        assert replayed == self.state
        for lease in list(self.open):
            self.send(Finish(lease, Outcome.CLIENT))
        assert not any(self.gauges.values())


TestRoutingState = RoutingMachine.TestCase
TestRoutingState.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
