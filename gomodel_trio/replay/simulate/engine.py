"""A scenario under one strategy, from its first arrival to its last answer: discrete events on a heap, in virtual time.

Layer: replay. A request's life is that of `gateway.exchange`: decide, attempt, and what `route.attempts` says follows; how long an attempt
is waited for is `gateway.delivery`'s rule. Each life is a generator that yields the instants it waits for; nothing here waits for real.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec

from gomodel_trio.replay.simulate.choosers import Asking, chooser_for
from gomodel_trio.replay.simulate.core import Cooldown, Core
from gomodel_trio.replay.simulate.scenario import Scenario, StrategyName
from gomodel_trio.replay.simulate.traffic import Conversation, Turn, Workload
from gomodel_trio.replay.simulate.world import Answer, Server, luck_of
from gomodel_trio.route import attempts
from gomodel_trio.route.classify import classify
from gomodel_trio.route.names import Kind, SessionId, TargetId
from gomodel_trio.route.outcome import Classification, Outcome
from gomodel_trio.state.commands import Decision, Finish, FirstByte, NoTarget
from gomodel_trio.upstream.attempt import failure_of_timeout

Life = Iterator[float]
"""What goes on over time: yields the instants it is to be woken at."""
_TIMEOUT: Final = failure_of_timeout().classification


class Served(msgspec.Struct, frozen=True):
    """How a request went. `target`: who answered it, None if nobody did; `latency_s`: from its arrival to the first content of a stream,
    or to a whole answer. `end`: "ok", "gone" where the client's patience ended, else the class of the last failure.
    """

    arrived_at_s: float
    kind: Kind
    target: TargetId | None
    latency_s: float
    end: str
    attempts: int
    cost_usd: float = 0.0
    is_cached: bool = False


class Run(msgspec.Struct, frozen=True):
    """What a strategy made of a scenario: requests in the order they arrived, cooldowns in the order they began."""

    strategy: StrategyName
    served: tuple[Served, ...]
    cooldowns: tuple[Cooldown, ...]


def run(scenario: Scenario, workload: Workload, strategy: StrategyName) -> Run:
    """Play a scenario to its end; the same arguments give the same run."""
    return _Engine(scenario, workload, strategy).run()


class _Engine:
    def __init__(self, scenario: Scenario, workload: Workload, strategy: StrategyName) -> None:
        self._scenario = scenario
        self._strategy = strategy
        self._conversations = workload.conversations
        self._now_s = 0.0
        self._events: list[tuple[float, int, Life | Callable[[float], None]]] = []
        self._count = 0
        self._servers = [Server(target) for target in scenario.targets]
        self._index = {server.target.name: index for index, server in enumerate(self._servers)}
        self._core = Core(scenario, strategy, seed=workload.router_seed, call_at=self._at)
        self._chooser = chooser_for(strategy, self._core, self._servers, scenario)
        self._served: list[Served] = []

    def run(self) -> Run:
        for conversation in self._conversations:
            self._at(conversation.at_s, self._life(conversation))
        while self._events:
            self._now_s, _, what = heapq.heappop(self._events)
            if callable(what):
                what(self._now_s)
                continue
            wake_at_s = next(what, None)
            if wake_at_s is not None:
                self._at(wake_at_s, what)
        served = sorted(self._served, key=lambda one: one.arrived_at_s)
        return Run(self._strategy, tuple(served), tuple(self._core.cooldowns))

    def _at(self, at_s: float, what: Life | Callable[[float], None]) -> None:
        """Of events at one instant the one that was put first comes first."""
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, what))

    # ---- lives ----

    def _life(self, conversation: Conversation) -> Life:
        for turn in conversation.turns:
            if turn.think_s:
                yield self._now_s + turn.think_s
            if self._now_s >= self._scenario.duration_s:
                return
            yield from self._request(turn, conversation.session)

    def _request(self, turn: Turn, session: SessionId | None) -> Life:
        arrived_at_s = self._now_s
        deadline_s = arrived_at_s + self._scenario.limits.request_timeout_s
        gone_at_s = arrived_at_s + self._scenario.traffic.patience_s
        asking = Asking(turn, session, min(deadline_s, gone_at_s), attempts={})
        retries, last, count = 0, "exhausted", 0

        def note(end: str, answer: Answer | None = None, target: TargetId | None = None) -> None:
            cost_usd, is_cached = (0.0, False) if answer is None else (answer.cost_usd, answer.is_cached)
            self._served.append(Served(arrived_at_s, turn.kind, target, self._now_s - arrived_at_s, end, count, cost_usd, is_cached))

        while True:
            decision = self._chooser.choose(asking, self._now_s)
            if isinstance(decision, NoTarget):
                return note(last)
            server = self._servers[self._index[decision.target]]
            nth = asking.attempts.get(decision.target, 0)
            answer = server.begin(turn, luck_of(turn, self._index[decision.target], nth), session, self._now_s)
            asking.attempts[decision.target] = nth + 1
            count += 1
            sent_at_s = self._now_s
            first_at_s = sent_at_s + answer.first_s
            given_up_at_s = sent_at_s + self._patience_s(decision, turn, len(asking.attempts), deadline_s - sent_at_s)
            if gone_at_s < min(first_at_s, given_up_at_s):
                yield gone_at_s
                self._finish(decision, server, session, Classification(Outcome.CLIENT, is_failover=False))
                return note("gone")
            yield min(first_at_s, given_up_at_s)
            if first_at_s <= given_up_at_s and answer.status == 200:
                note("ok", answer, decision.target)
                if turn.kind is Kind.STREAM:
                    self._core.take(FirstByte(decision.lease), self._now_s)
                if answer.whole_s > answer.first_s:
                    yield sent_at_s + answer.whole_s
                return self._finish(decision, server, session, Classification(Outcome.SUCCESS, is_failover=False))
            judged = _judged(answer.status, answer.retry_after_s) if first_at_s <= given_up_at_s else _TIMEOUT
            self._finish(decision, server, session, judged)
            last = judged.outcome.value
            if decision.target not in asking.tried:
                asking.tried = (*asking.tried, decision.target)
            match self._next(decision, judged, len(asking.attempts), retries, deadline_s):
                case attempts.TryNext():
                    asking.again = None
                case attempts.Wait(for_s=for_s):
                    retries += 1
                    asking.again = decision.target
                    yield min(self._now_s + for_s, gone_at_s)
                    if self._now_s >= gone_at_s:
                        return note("gone")
                case attempts.Respond():
                    return note(last)

    def _finish(self, decision: Decision, server: Server, session: SessionId | None, judged: Classification) -> None:
        server.end(session, self._now_s, is_success=judged.outcome is Outcome.SUCCESS)
        self._core.take(Finish(decision.lease, judged.outcome, judged.cause, judged.retry_after_s), self._now_s)

    def _patience_s(self, decision: Decision, turn: Turn, tried: int, left_s: float) -> float:
        """How long a target may be silent: at most half of what is left while another target is."""
        rules, limits = self._scenario.rules, self._scenario.limits
        is_within = rules.max_attempts == 0 or tried <= rules.max_attempts
        has_another = bool(decision.left) and decision.is_failover_allowed and rules.is_failover_enabled and is_within
        first_s = limits.first_event_timeout_s if turn.kind is Kind.STREAM else None
        return min(left_s / 2 if has_another else left_s, limits.header_timeout_s, math.inf if first_s is None else first_s)

    def _next(
        self, decision: Decision, judged: Classification, tried: int, retries: int, deadline_s: float
    ) -> attempts.TryNext | attempts.Wait | attempts.Respond:
        progress = attempts.Progress(
            targets_tried=tried,
            retries_made=retries,
            targets_left=len(decision.left),
            is_failover_allowed=decision.is_failover_allowed,
            was_cooling=decision.was_cooling,
            now_s=self._now_s,
            deadline_s=deadline_s,
        )
        return attempts.next_step(self._scenario.rules, progress, judged, self._core.draw())


@cache
def _judged(status: int | None, retry_after_s: float | None) -> Classification:
    """Judge a failed answer as the gateway would: by the status and headers of a provider that says no more."""
    headers = [] if retry_after_s is None else [(b"retry-after", f"{retry_after_s:g}".encode())]
    return classify(status=status or 0, headers=headers, body=b"{}", request_body=b"{}", model="", now_epoch_s=0.0)
