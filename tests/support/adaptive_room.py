"""Targets A, B, C, D behind adaptive virtual models, played on `step` with given instants and draws."""

import math
from collections import Counter
from typing import Any

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Leg, Policy, Price, Provider, Strategy, VirtualModel
from gomodel_trio.state.commands import (
    Command,
    Decide,
    Decision,
    Fact,
    Finish,
    FirstByte,
    Inspect,
    ReplacePolicy,
    Stamped,
    TargetSelected,
    TargetState,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

Draws = tuple[float, float]


class Room:
    """A policy, its state, and whoever uses them. `pools`: source → names of its targets; `weights` and `prices` by name.

    `facts` and `selected` count what was reported, `last` holds what the last command did.
    """

    def __init__(
        self,
        *,
        pools: dict[str, str] | None = None,
        prices: dict[str, float] | None = None,
        weights: dict[str, float] | None = None,
        session_affinity: bool = True,
        **adaptive: Any,
    ) -> None:
        self.pools = pools or {"v": "ABC"}
        self.prices = {self.target(name): Price(price, 0.0) for name, price in (prices or {}).items()}
        self.weights = weights or {}
        self.session_affinity = session_affinity
        self.adaptive = AdaptiveRouting(**adaptive)
        self.state = RoutingState(self.policy())
        self.facts: Counter[str] = Counter()
        self.selected: Counter[str] = Counter()
        self.last: tuple[Fact, ...] = ()
        self.seq = 0

    @staticmethod
    def target(name: str) -> TargetId:
        return TargetId(f"{name}/m")

    def policy(self, *, disabled: str = "", changed: str = "", max_pins: int = 100_000) -> Policy:
        return Policy(
            providers={name: Provider(name, "openai", Dialect.OPENAI, True, ("m",), fingerprint=str(name in changed)) for name in "ABCD"},
            virtual_models={
                source: VirtualModel(
                    source,
                    tuple(Leg(self.target(name), weight=self.weights.get(name, 0.0)) for name in names),
                    Strategy.ADAPTIVE,
                    session_affinity=self.session_affinity,
                )
                for source, names in self.pools.items()
            },
            adaptive=self.adaptive,
            disabled_targets=frozenset(map(self.target, disabled)),
            prices=self.prices,
            max_pins=max_pins,
        )

    def send(self, at_s: float, command: Command, draws: Draws = (0.3, 0.6)) -> Any:
        self.seq += 1
        reply, self.last = step(self.state, Stamped(self.seq, at_s, draws, command))
        self.facts.update(type(fact).__name__ for fact in self.last)
        self.selected.update(fact.reason for fact in self.last if isinstance(fact, TargetSelected))
        return reply

    def ask(
        self,
        at_s: float,
        session: str | None = None,
        tried: str = "",
        *,
        model: str = "v",
        draws: Draws = (0.3, 0.6),
        kind: Kind = Kind.UNARY,
        **more: Any,
    ) -> Any:
        key = None if session is None else SessionId(session)
        return self.send(at_s, Decide(model, key, "/", kind, tried=tuple(map(self.target, tried)), **more), draws)

    def ask_for(self, at_s: float, name: str, session: str | None = None, **more: Any) -> LeaseId:
        """An attempt at a target by its own name."""
        return LeaseId(self.ask(at_s, session, model=self.target(name), **more).lease)

    def content(self, at_s: float, lease: LeaseId, *, is_content: bool = True) -> None:
        self.send(at_s, FirstByte(lease, is_content))

    def end(self, at_s: float, lease: LeaseId, outcome: Outcome = Outcome.SUCCESS, retry_after_s: float | None = None) -> None:
        self.send(at_s, Finish(lease, outcome, retry_after_s=retry_after_s))

    def serve(self, at_s: float, session: str | None = None, tried: str = "", *, draws: Draws = (0.3, 0.6), for_s: float = 0.0) -> str:
        """One request, answered after `for_s`; tells by whom."""
        decision = self.ask(at_s, session, tried, draws=draws)
        assert isinstance(decision, Decision)
        self.end(at_s + for_s, decision.lease)
        return decision.target[0]

    def measure(self, at_s: float, name: str, for_s: float, kind: Kind = Kind.UNARY) -> None:
        """An answer of a target that took `for_s` and ends at `at_s`."""
        self.end(at_s, self.ask_for(at_s - for_s, name, kind=kind))

    def cool(self, at_s: float, name: str, outcome: Outcome = Outcome.RATE, for_s: float | None = None) -> None:
        self.end(at_s, self.ask_for(at_s, name), outcome, for_s)

    def reload(self, at_s: float, **changes: Any) -> None:
        self.send(at_s, ReplacePolicy(self.policy(**changes)))

    def disable(self, at_s: float, names: str) -> None:
        self.reload(at_s, disabled=names)

    def until_s(self, name: str) -> float:
        return self.state.health(self.target(name)).until_s

    def pin(self, session: str, at_s: float) -> str | None:
        name = self.state.target_pins.get(("v", SessionId(session)), at_s=at_s, ttl_s=math.inf)
        return None if name is None else name[0]

    def row(self, at_s: float, name: str = "A") -> TargetState:
        rows: tuple[TargetState, ...] = self.send(at_s, Inspect()).targets
        return next(row for row in rows if row.target == self.target(name))
