"""Choosing among targets, scenario by scenario from spec/vectors/virtual_models.json."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Leg, Policy, Price, Provider, Strategy, VirtualModel
from gomodel_trio.state.commands import (
    Command,
    Decide,
    Decision,
    Finish,
    FirstByte,
    NoTarget,
    Preview,
    ReplacePolicy,
    Reply,
    Stamped,
    TargetSelected,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/virtual_models.json").read_text())


def model_of(source: str, spec: dict[str, Any]) -> VirtualModel:
    legs = tuple(
        Leg(name, is_virtual="/" not in name, weight=weight)
        for leg in spec["legs"]
        for name, weight in [(leg, 0) if isinstance(leg, str) else (leg["name"], leg["weight"])]
    )
    more = {key: value for key, value in spec.items() if key in ("session_affinity", "failover", "enabled", "slowdown")}
    strategy = Strategy(spec.get("strategy", "round_robin"))
    return VirtualModel(source, legs, strategy, user_paths=tuple(spec.get("user_paths", ())), **more)


def policy_of(case: dict[str, Any]) -> Policy:
    keys = case.get("keys", {})
    return Policy(
        providers={
            name: Provider(
                name,
                "openai",
                Dialect.ANTHROPIC if name in case.get("anthropic", ()) else Dialect.OPENAI,
                True,
                ("m",),
                keys.get(name, 1),
                other_dialects=frozenset(Dialect) if name in case.get("both_dialects", ()) else frozenset(),
            )
            for name in "abcd"
        },
        virtual_models={source: model_of(source, spec) for source, spec in case["models"].items()},
        adaptive=AdaptiveRouting(enabled=case.get("adaptive_enabled", True)),
        is_health_enabled=case.get("health", True),
        disabled_targets=frozenset(TargetId(target) for target in case.get("disabled", ())),
        prices={TargetId(target): Price(*price) for target, price in case.get("prices", {}).items()},
    )


class Run:
    """A scenario being played; every ask is previewed first, and the preview must foretell it."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = dict(case)
        self.state = RoutingState(policy_of(case))
        self.at_s = 0.0
        self.seq = 0
        self.leases: dict[str, LeaseId] = {}
        self.facts: Counter[str] = Counter()
        self.selected: Counter[str] = Counter()

    def send(self, command: Command, draws: tuple[float, float] = (0.5, 0.5)) -> Reply:
        self.seq += 1
        reply, facts = step(self.state, Stamped(self.seq, self.at_s, draws, command))
        self.facts.update(type(fact).__name__ for fact in facts)
        self.selected.update(fact.reason for fact in facts if isinstance(fact, TargetSelected))
        return reply

    def play(self, event: dict[str, Any]) -> None:
        self.at_s = event.get("at_s", self.at_s)
        if "reload" in event:
            self.case |= event["reload"]
            self.send(ReplacePolicy(policy_of(self.case)))
        elif "end" in event:
            self.send(Finish(self.leases[event["end"]], Outcome(event["outcome"])))
        elif "byte" in event:
            self.send(FirstByte(self.leases[event["byte"]]))
        else:
            self.ask(event)

    def ask(self, event: dict[str, Any]) -> None:
        session = event.get("session")
        decide = Decide(
            event["ask"],
            SessionId(session) if session is not None else None,
            event.get("user_path", "/"),
            Kind.UNARY,
            feeds_routing=event.get("feeds", True),
            provider=event.get("provider"),
            tried=tuple(TargetId(target) for target in event.get("tried", ())),
            again=event.get("again"),
            dialect=Dialect(event["dialect"]) if "dialect" in event else None,
        )
        draws = event.get("draws", (0.5, 0.5))
        foretold = self.send(Preview(decide), draws)
        reply = self.send(decide, draws)
        assert isinstance(reply, Decision | NoTarget)
        for name, expected in event["expect"].items():
            shown = getattr(reply, name, reply)
            assert (list(shown) if isinstance(shown, tuple) else shown) == expected, (name, event, reply)
        if isinstance(reply, Decision):
            assert isinstance(foretold, Decision)
            assert (foretold.lease, foretold.target, foretold.left, foretold.keys) == (0, reply.target, reply.left, reply.keys)
            self.leases[event.get("as", "last")] = reply.lease
            if "ends" in event:
                self.send(Finish(reply.lease, Outcome(event["ends"])))
        else:
            assert foretold == reply


@pytest.mark.parametrize("case", VECTORS["scenarios"], ids=lambda case: case["name"])
def test_each_scenario_is_played_as_written(case: dict[str, Any]) -> None:
    run = Run(case)
    for event in case["steps"]:
        run.play(event)
    for name, fact in (("honored", "PinHonored"), ("released", "PinReleased"), ("declined", "SelectionDeclined")):
        if name in case:
            assert run.facts[fact] == case[name], name
    if "selected" in case:
        assert run.selected == case["selected"]
