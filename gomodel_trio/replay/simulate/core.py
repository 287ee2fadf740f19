"""The gateway's routing core at work in a simulation: the real `step`, stamped with virtual time, and what it tells of cooldowns.

Layer: replay. Everything the gateway would do with a command is done by `state.routing_state.step`; nothing of its rules is repeated here.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from gomodel_trio.replay.simulate.scenario import Scenario, StrategyName
from gomodel_trio.route.names import TargetId, split_target
from gomodel_trio.route.policy import Leg, Policy, Price, Provider, Strategy, VirtualModel
from gomodel_trio.state.commands import Command, CooldownEnded, CooldownStarted, Expire, ReplacePolicy, Reply, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

POOL: Final = "pool"
"""The virtual model that stands for all of a scenario's targets."""

_CHOOSERS: Final = {
    StrategyName.ADAPTIVE: Strategy.ADAPTIVE,
    StrategyName.ROUND_ROBIN: Strategy.ROUND_ROBIN,
    StrategyName.COST: Strategy.COST,
}


class Cooldown(msgspec.Struct):
    """A target was benched from `from_s`; until `until_s`, or until something ended or renewed it."""

    target: TargetId
    reason: str
    from_s: float
    until_s: float


class Core:
    """A routing state under a scenario's policy. `call_at(at_s, callback)` is how it asks to be woken."""

    def __init__(
        self, scenario: Scenario, strategy: StrategyName, *, seed: int, call_at: Callable[[float, Callable[[float], None]], None]
    ) -> None:
        self._scenario = scenario
        self._strategy = strategy
        self._call_at = call_at
        self._chance = Random(seed)
        self._seq = 0
        self._running: dict[TargetId, Cooldown] = {}
        self.cooldowns: list[Cooldown] = []
        self.state = RoutingState(policy_at(scenario, strategy, 0.0))
        for at_s in _price_changes(scenario):
            call_at(at_s, self._reprice)

    def draw(self) -> float:
        """A uniform number in [0, 1)."""
        return self._chance.random()

    def take(self, command: Command, at_s: float) -> Reply:
        """Carry out a command at `at_s`."""
        self._seq += 1
        reply, facts = step(self.state, Stamped(self._seq, at_s, (self.draw(), self.draw()), command))
        for fact in facts:
            if isinstance(fact, CooldownStarted):
                self._began(fact, at_s)
            elif isinstance(fact, CooldownEnded):
                self._ended(fact.target, at_s)
        return reply

    def _began(self, fact: CooldownStarted, at_s: float) -> None:
        self._ended(fact.target, at_s)
        self._running[fact.target] = Cooldown(fact.target, fact.reason.value, at_s, fact.until_s)
        self.cooldowns.append(self._running[fact.target])
        self._call_at(fact.until_s, self._expire)

    def _ended(self, target: TargetId, at_s: float) -> None:
        running = self._running.pop(target, None)
        if running is not None:
            running.until_s = min(running.until_s, at_s)

    def _expire(self, at_s: float) -> None:
        self.take(Expire(), at_s)

    def _reprice(self, at_s: float) -> None:
        self.take(ReplacePolicy(policy_at(self._scenario, self._strategy, at_s)), at_s)


def policy_at(scenario: Scenario, strategy: StrategyName, at_s: float) -> Policy:
    """The policy a gateway would run with at `at_s`: one virtual model over all targets, and the prices of then."""
    models: dict[str, list[str]] = {}
    for target in scenario.targets:
        provider, model = split_target(target.name)
        models.setdefault(provider, []).append(model)
    return Policy(
        providers={
            name: Provider(name, "openai", Dialect.OPENAI, is_available=True, models=tuple(listed)) for name, listed in models.items()
        },
        virtual_models={
            POOL: VirtualModel(
                POOL,
                tuple(Leg(target.name, weight=target.weight) for target in scenario.targets),
                strategy=_CHOOSERS.get(strategy, Strategy.ROUND_ROBIN),
            )
        },
        adaptive=scenario.adaptive,
        prices=_prices_at(scenario, at_s),
    )


def _prices_at(scenario: Scenario, at_s: float) -> dict[TargetId, Price]:
    prices: dict[TargetId, Price] = {}
    for target in scenario.targets:
        price = next(conditions.price for from_s, conditions in reversed(target.segments) if from_s <= at_s)
        if price is not None:
            prices[target.name] = price
    return prices


def _price_changes(scenario: Scenario) -> list[float]:
    """The instants at which an operator would have to reload the prices."""
    edges = sorted({from_s for target in scenario.targets for from_s, _ in target.segments if from_s > 0})
    changes, before = [], _prices_at(scenario, 0.0)
    for edge in edges:
        now = _prices_at(scenario, edge)
        if now != before:
            changes.append(edge)
        before = now
    return changes
