"""The traffic of a scenario: who asks when, for what, and with what luck; drawn once, the same for every strategy.

Layer: replay. Common random numbers: a request's luck at each target is drawn with the request, so that two strategies which send it to the
same target in the same state see the same answer, and what differs between them is the choice alone.
"""

from random import Random

import msgspec

from gomodel_trio.replay.simulate.scenario import Scenario, Traffic
from gomodel_trio.route.names import Kind, SessionId


class Luck(msgspec.Struct, frozen=True):
    """Two uniform numbers in (0, 1): how long an attempt takes within its target's distribution, and whether it is among the errors."""

    latency: float
    error: float


class Turn(msgspec.Struct, frozen=True):
    """One request. `think_s`: it is sent so long after the answer to the turn before. `lucks`: one a target, in the scenario's order."""

    think_s: float
    kind: Kind
    input_tokens: int
    output_tokens: int
    lucks: tuple[Luck, ...]


class Conversation(msgspec.Struct, frozen=True):
    """An arrival: the first turn comes at `at_s`, the others after it. `session` None: requests that belong to none."""

    at_s: float
    session: SessionId | None
    turns: tuple[Turn, ...]


class Workload(msgspec.Struct, frozen=True):
    """All arrivals in order, and the seed of the router's own draws."""

    conversations: tuple[Conversation, ...]
    router_seed: int


def draw_workload(scenario: Scenario, seed: int) -> Workload:
    """Draw all arrivals of a scenario; equal seeds give equal ones."""
    chance = Random(seed)
    traffic, sessions = scenario.traffic, scenario.traffic.sessions
    conversations = []
    for number, at_s in enumerate(_arrivals(traffic, scenario.duration_s, chance)):
        count = 1 if sessions is None else chance.randint(sessions.least_turns, sessions.most_turns)
        turns = tuple([_turn(traffic, index, len(scenario.targets), chance) for index in range(count)])
        conversations.append(Conversation(at_s, None if sessions is None else SessionId(f"session-{number}"), turns))
    return Workload(tuple(conversations), chance.getrandbits(64))


def _arrivals(traffic: Traffic, duration_s: float, chance: Random) -> list[float]:
    """Poisson arrivals by phase: exponential gaps, begun anew at each change of the rate (they have no memory)."""
    arrivals: list[float] = []
    ends_s = [*(rate.from_s for rate in traffic.rates[1:]), duration_s]
    for rate, end_s in zip(traffic.rates, ends_s, strict=True):
        at_s = rate.from_s
        while rate.per_second > 0:
            at_s += chance.expovariate(rate.per_second)
            if at_s >= end_s:
                break
            arrivals.append(at_s)
    return arrivals


def _turn(traffic: Traffic, index: int, targets: int, chance: Random) -> Turn:
    sessions = traffic.sessions
    grown = 0 if sessions is None else index * sessions.prompt_growth_tokens
    think_s = chance.expovariate(1.0 / sessions.think_s) if index and sessions is not None and sessions.think_s > 0 else 0.0
    return Turn(
        think_s=think_s,
        kind=Kind.STREAM if chance.random() < traffic.stream_fraction else Kind.UNARY,
        input_tokens=chance.randint(*traffic.input_tokens) + grown,
        output_tokens=chance.randint(*traffic.output_tokens),
        lucks=tuple([Luck(chance.random(), chance.random()) for _ in range(targets)]),
    )
