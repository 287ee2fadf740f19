"""The routing state under any sequence of commands: counts, choices, pins, replay."""

import copy

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, initialize, invariant, multiple, rule

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import Leg, Policy, Provider, SmartRouting, Strategy, VirtualModel
from gomodel_trio.state.commands import (
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
    NoTarget,
    PinReleased,
    Preview,
    ReplacePolicy,
    Reply,
    ResetTarget,
    RouteTier,
    Stamped,
    TierReply,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.state.tables import Standing
from gomodel_trio.wire.dialect import Dialect

NAMES = ["rr", "cost", "first", "adaptive", "chain", "a/m", "b/m", "c/unlisted", "nowhere"]
FLAT = ["rr", "cost", "first", "adaptive"]
SESSIONS = [None, SessionId("s"), SessionId("t")]
TTL_S = 50.0
AFFINITY_TTL_S = 400.0


def policy(providers: str, fingerprint: int, disabled: frozenset[TargetId]) -> Policy:
    legs = (Leg("a/m", weight=2), Leg("b/m"), Leg("c/m"))
    models = [
        VirtualModel("rr", legs),
        VirtualModel("cost", legs, Strategy.COST),
        VirtualModel("first", legs, Strategy.FAILOVER),
        VirtualModel("adaptive", legs, Strategy.ADAPTIVE),
        VirtualModel("chain", (Leg("d/m"), Leg("rr", is_virtual=True))),
    ]
    return Policy(
        providers={
            name: Provider(
                name, "openai", Dialect.OPENAI, True, ("m",), key_count=2, fingerprint=f"{name}{fingerprint if name == 'a' else ''}"
            )
            for name in providers
        },
        virtual_models={model.source: model for model in models},
        smart=SmartRouting(session_ttl_s=TTL_S),
        disabled_targets=disabled,
        affinity_ttl_s=AFFINITY_TTL_S,
        max_pins=5,
    )


policies = st.builds(
    policy,
    st.sampled_from(["abcd", "abcd", "bcd", "ab", "d"]),
    st.integers(0, 1),
    st.sets(st.sampled_from([TargetId("a/m"), TargetId("b/m"), TargetId("d/m")]), max_size=2).map(frozenset),
)
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
        self.journal: list[Stamped] = []
        self.replies: list[tuple[Reply, tuple[Fact, ...]]] = []
        self.open: dict[LeaseId, TargetId] = {}
        self.gauges: dict[TargetId, int] = {}
        self.reported_cooling: set[TargetId] = set()
        self.tiers: dict[SessionId, tuple[Tier, float]] = {}

    def send(self, command: Command) -> tuple[Reply, tuple[Fact, ...]]:
        stamped = Stamped(len(self.journal) + 1, self.at_s, (0.1, 0.9), command)
        self.journal.append(stamped)
        answer = step(self.state, stamped)
        self.replies.append(copy.deepcopy(answer))
        for fact in answer[1]:
            match fact:
                case InFlightChanged(target, count):
                    self.gauges[target] = count
                case CooldownStarted(target):
                    self.reported_cooling.add(target)
                case CooldownEnded(target):
                    assert target in self.reported_cooling, "an end without a begin"
                    self.reported_cooling.remove(target)
                case _:
                    pass
        return answer

    @rule(by_s=elapsed)
    def pass_time(self, by_s: float) -> None:
        self.at_s += by_s

    @rule(
        target=leases,
        name=st.sampled_from(NAMES),
        session=sessions,
        kind=st.sampled_from(Kind),
        feeds=st.booleans(),
        tried=st.lists(st.sampled_from(["a/m", "b/m", "c/m"]), max_size=3, unique=True),
    )
    def decide(
        self, name: str, session: SessionId | None, kind: Kind, feeds: bool, tried: list[TargetId]
    ) -> LeaseId | MultipleResults[LeaseId]:
        decide = Decide(name, session, "/", kind, feeds_routing=feeds, tried=tuple(tried))
        before = {target: self.state.standing(target, self.at_s) for target in map(TargetId, ("a/m", "b/m", "c/m", "d/m"))}
        pins_before = self.pins()
        foretold, nothing = self.send(Preview(decide))
        assert nothing == ()
        assert self.pins() == pins_before
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
        self.check_choice(reply, tried, before)
        return reply.lease

    def pins(self) -> dict[tuple[str, SessionId], str]:
        live = {}
        for source in ("rr", "cost", "adaptive", "chain"):
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
        assert not lost or len(self.state.target_pins) == 5

    @rule(lease=leases)
    def first_byte(self, lease: LeaseId) -> None:
        self.send(FirstByte(lease))

    @rule(lease=leases, outcome=st.sampled_from(Outcome), retry_after_s=st.sampled_from([None, 3.0, 1e9]))
    def finish(self, lease: LeaseId, outcome: Outcome, retry_after_s: float | None) -> None:
        """Finish a lease, perhaps a closed one."""
        target = self.open.pop(lease, None)
        _, facts = self.send(Finish(lease, outcome, retry_after_s=retry_after_s))
        assert (facts == ()) == (target is None)

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
        assert shown.target_pins <= 5

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
