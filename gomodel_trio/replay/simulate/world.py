"""The targets of a scenario, in virtual time: what each answers to an attempt, and when.

Layer: replay. An attempt is judged by the conditions at the instant it begins, as far as they are settled then: how busy the target is,
what is left in its bucket, whether it holds the session's prompt.
"""

import math
from bisect import bisect_right
from statistics import NormalDist
from typing import Final

import msgspec

from gomodel_trio.replay.simulate.scenario import Conditions, Distribution, RateLimit, Target
from gomodel_trio.replay.simulate.traffic import Luck, Turn
from gomodel_trio.route.names import Kind, SessionId

_NORMAL: Final = NormalDist()
_LEAST_UNIFORM: Final = 1e-9
"""The ends of (0, 1) have no normal quantile."""
REFUSED_AFTER_S: Final = 0.05
"""A 429 comes at once."""
_GOLDEN: Final = 0.6180339887498949


class Answer(msgspec.Struct, frozen=True):
    """What an attempt comes to. `status` 200: first content after `first_s`, over after `whole_s`; an error is both at once.

    `status` None: silence, both infinite. `cost_usd` of a success; `is_cached`: the target held the session's prompt.
    """

    status: int | None
    first_s: float
    whole_s: float
    cost_usd: float = 0.0
    is_cached: bool = False
    retry_after_s: float | None = None


class TokenBucket:
    """A token bucket: full at first, `take` takes one token if there is one."""

    __slots__ = ("_at_s", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf  # full, whatever the limit will be
        self._at_s = 0.0

    def has(self, limit: RateLimit, at_s: float) -> bool:
        """Whether a token is there at `at_s`; instants must not run backwards."""
        return self._filled(limit, at_s) >= 1.0

    def take(self, limit: RateLimit, at_s: float) -> bool:
        """Take a token; whether there was one."""
        tokens = self._filled(limit, at_s)
        is_there = tokens >= 1.0
        self._tokens, self._at_s = tokens - 1.0 if is_there else tokens, at_s
        return is_there

    def _filled(self, limit: RateLimit, at_s: float) -> float:
        return min(limit.burst, self._tokens + (at_s - self._at_s) * limit.per_second)


class Server:
    """One target as it is: how many attempts it serves, its bucket, and which sessions' prompts it holds."""

    __slots__ = ("_bucket", "_cached", "_edges", "in_flight", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.in_flight = 0
        self._edges = [from_s for from_s, _ in target.segments]
        self._bucket = TokenBucket()
        self._cached: dict[SessionId, float] = {}

    def conditions(self, at_s: float) -> Conditions:
        """What the target is like at `at_s`."""
        return self.target.segments[bisect_right(self._edges, at_s) - 1][1]

    def foresee(self, turn: Turn, luck: Luck, session: SessionId | None, at_s: float) -> Answer:
        """Tell what an attempt that begins at `at_s` would come to; nothing changes."""
        now = self.conditions(at_s)
        if now.outage is not None:
            if now.outage.status is None:
                return Answer(None, math.inf, math.inf)
            return Answer(now.outage.status, now.outage.after_s, now.outage.after_s)
        if now.rate_limit is not None and not self._bucket.has(now.rate_limit, at_s):
            return Answer(429, REFUSED_AFTER_S, REFUSED_AFTER_S, retry_after_s=now.rate_limit.retry_after_s)
        cached_at_s = None if session is None else self._cached.get(session)
        is_cached = cached_at_s is not None and at_s - cached_at_s <= now.cache.ttl_s
        busy = 1.0 if now.concurrency is None else max(1.0, (self.in_flight + 1) / now.concurrency)
        first_s = sample(now.latency, luck.latency) * now.slower * busy * (now.cache.latency_factor if is_cached else 1.0)
        body_s = 0.0 if now.tokens_per_second is None else turn.output_tokens / now.tokens_per_second * now.slower * busy
        if now.errors is not None and luck.error < now.errors.fraction:
            after_s = first_s if now.errors.after_s is None else now.errors.after_s
            return Answer(now.errors.status, after_s, after_s)
        whole_s = first_s + body_s
        return Answer(200, first_s if turn.kind is Kind.STREAM else whole_s, whole_s, _cost_usd(now, turn, is_cached=is_cached), is_cached)

    def begin(self, turn: Turn, luck: Luck, session: SessionId | None, at_s: float) -> Answer:
        """Begin an attempt: what it comes to. It counts as in flight until `end`."""
        answer = self.foresee(turn, luck, session, at_s)
        now = self.conditions(at_s)
        if now.rate_limit is not None and now.outage is None:
            self._bucket.take(now.rate_limit, at_s)
        self.in_flight += 1
        return answer

    def end(self, session: SessionId | None, at_s: float, *, is_success: bool) -> None:
        """End an attempt; after a success the target holds the session's prompt."""
        self.in_flight -= 1
        if is_success and session is not None:
            self._cached[session] = at_s


def sample(distribution: Distribution, uniform: float) -> float:
    """Tell the value of a distribution at a uniform number in [0, 1), in seconds."""
    if distribution.shape == "lognormal":
        within = min(max(uniform, _LEAST_UNIFORM), 1.0 - _LEAST_UNIFORM)
        return distribution.low_s * math.exp(distribution.sigma * _NORMAL.inv_cdf(within))
    return distribution.low_s + (distribution.high_s - distribution.low_s) * uniform


def luck_of(turn: Turn, index: int, attempt: int) -> Luck:
    """Tell the luck of the `attempt`-th attempt (from 0) of a request at a target: each turned on by the golden ratio."""
    luck = turn.lucks[index]
    if attempt == 0:
        return luck
    return Luck((luck.latency + attempt * _GOLDEN) % 1.0, (luck.error + attempt * _GOLDEN) % 1.0)


def _cost_usd(now: Conditions, turn: Turn, *, is_cached: bool) -> float:
    if now.price is None:
        return 0.0
    input_factor = now.cache.price_factor if is_cached else 1.0
    return (turn.input_tokens * now.price.input_usd_per_mtok * input_factor + turn.output_tokens * now.price.output_usd_per_mtok) / 1e6
