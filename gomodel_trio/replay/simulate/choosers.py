"""Who chooses the target of an attempt: the gateway's own strategies, or one of the simulator's to compare them with.

Layer: replay. Every choice opens a lease in the same routing core, so that health is judged alike; least_loaded heeds it, the oracle has no
need to.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from gomodel_trio.replay.simulate.core import POOL, Core
from gomodel_trio.replay.simulate.scenario import Scenario, StrategyName
from gomodel_trio.replay.simulate.traffic import Turn
from gomodel_trio.replay.simulate.world import Answer, Server, luck_of
from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import SessionId, TargetId
from gomodel_trio.route.policy import Objective
from gomodel_trio.route.strategies import pick_last_resort
from gomodel_trio.state.commands import Decide, Decision, NoTarget, Why
from gomodel_trio.wire.dialect import Dialect

_COST_EXPONENTS: Final = {Objective.LATENCY: 0, Objective.BALANCED: 1, Objective.COST: 2}


class Asking(msgspec.Struct):
    """A request on its way. `tried`: targets attempted, in order; `attempts` counts them; `again`: take this one once more.

    `until_s`: an answer that begins later is of no use.
    """

    turn: Turn
    session: SessionId | None
    until_s: float
    tried: tuple[TargetId, ...] = ()
    again: TargetId | None = None
    attempts: dict[TargetId, int] = {}


class Chooser(Protocol):
    """Opens a lease on a target."""

    def choose(self, asking: Asking, at_s: float) -> Decision | NoTarget:
        """Choose for a request at `at_s`."""


def chooser_for(strategy: StrategyName, core: Core, servers: Sequence[Server], scenario: Scenario) -> Chooser:
    """The chooser of a strategy."""
    match strategy:
        case StrategyName.LEAST_LOADED:
            return LeastLoaded(core, servers)
        case StrategyName.ORACLE:
            return Oracle(core, servers, scenario.adaptive.objective)
        case _:
            return Gateway(core)


class Gateway:
    """The gateway's own choice, by the strategy of the policy."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def choose(self, asking: Asking, at_s: float) -> Decision | NoTarget:
        """Ask the core as `gateway.exchange` does."""
        return _ask(self._core, POOL, asking, at_s, tried=asking.tried)


class LeastLoaded:
    """The target with the fewest attempts in flight, ties in turn; cooling ones last, and one of them once a request."""

    def __init__(self, core: Core, servers: Sequence[Server]) -> None:
        self._core = core
        self._targets = [server.target.name for server in servers]
        self._turn = 0

    def choose(self, asking: Asking, at_s: float) -> Decision | NoTarget:
        """Choose by the count of open leases."""
        if asking.again is not None:
            return _at(self._core, asking.again, asking, at_s, left=())
        state = self._core.state
        cooling = {target for target in self._targets if state.standing(target, at_s) is Standing.COOLING}
        untried = [target for target in self._targets if target not in asking.tried]
        usable = [target for target in untried if target not in cooling]
        benched = [target for target in untried if target in cooling]
        last_resort = benched[pick_last_resort([state.health(target) for target in benched], None)] if benched else None
        if not usable:
            has_had_one = any(target in cooling and state.record(target).was_last_resort for target in asking.tried)
            if last_resort is None or has_had_one:
                return NoTarget(Why.EXHAUSTED)
            return _at(self._core, last_resort, asking, at_s, left=(), was_cooling=True)
        self._turn += 1
        order = self._targets[self._turn % len(self._targets) :] + self._targets[: self._turn % len(self._targets)]
        chosen = min(usable, key=lambda target: (len(state.record(target).open_leases), order.index(target)))
        left = [target for target in usable if target != chosen]
        return _at(self._core, chosen, asking, at_s, left=(*left, *([last_resort] if last_resort is not None else [])))


class Oracle:
    """Knows what every target would answer to this very request now, and takes the best by the objective: latency × cost^a, as §5 weighs.

    It foresees answers, not arrivals: it does not hold back for what comes next.
    """

    def __init__(self, core: Core, servers: Sequence[Server], objective: Objective) -> None:
        self._core = core
        self._servers = servers
        self._exponent = _COST_EXPONENTS[objective]

    def choose(self, asking: Asking, at_s: float) -> Decision | NoTarget:
        """Choose among those that would succeed; where none would, in declared order."""
        if asking.again is not None:
            return _at(self._core, asking.again, asking, at_s, left=())
        untried = [(index, server) for index, server in enumerate(self._servers) if server.target.name not in asking.tried]
        if not untried:
            return NoTarget(Why.EXHAUSTED)
        foreseen = []
        for index, server in untried:
            luck = luck_of(asking.turn, index, asking.attempts.get(server.target.name, 0))
            answer = server.foresee(asking.turn, luck, asking.session, at_s)
            if answer.status == 200 and at_s + answer.first_s <= asking.until_s:
                foreseen.append((self._score(answer), answer.first_s, index))
        chosen = self._servers[min(foreseen)[2] if foreseen else untried[0][0]].target.name
        left = tuple(server.target.name for _, server in untried if server.target.name != chosen)
        return _at(self._core, chosen, asking, at_s, left=left)

    def _score(self, answer: Answer) -> float:
        score: float = answer.first_s * answer.cost_usd**self._exponent
        return score


def _at(
    core: Core, target: TargetId, asking: Asking, at_s: float, *, left: tuple[TargetId, ...], was_cooling: bool = False
) -> Decision | NoTarget:
    """Open a lease on a named target; the decision tells the failover that the simulator allows, for the core sees one candidate only."""
    decision = _ask(core, target, asking, at_s, tried=())
    return decision if isinstance(decision, NoTarget) else msgspec.structs.replace(decision, left=left, was_cooling=was_cooling)


def _ask(core: Core, name: str, asking: Asking, at_s: float, *, tried: tuple[TargetId, ...]) -> Decision | NoTarget:
    reply = core.take(
        Decide(
            name=name,
            session=asking.session,
            user_path="",
            kind=asking.turn.kind,
            tried=tried,
            again=asking.again,
            dialect=Dialect.OPENAI,
        ),
        at_s,
    )
    assert isinstance(reply, Decision | NoTarget)
    return reply
