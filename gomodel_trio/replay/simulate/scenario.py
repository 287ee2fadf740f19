"""A scenario: targets and what befalls them, traffic, policy; read by `scenario_file`, played by `engine`.

Layer: replay. Source: behaviour.md §10. Instants are seconds of virtual time from the scenario's start, durations seconds.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from gomodel_trio.route.attempts import Rules
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.policy import AdaptiveRouting, Price


class StrategyName(StrEnum):
    """Who chooses. The first three are the gateway's own; least_loaded and oracle are the simulator's, to compare with."""

    ADAPTIVE = "adaptive"
    ROUND_ROBIN = "round_robin"
    COST = "cost"
    LEAST_LOADED = "least_loaded"
    ORACLE = "oracle"


class Measure(StrEnum):
    """What tells which strategy did better; less is better."""

    P95 = "p95"
    MEAN = "mean"
    ERRORS = "errors"
    COST = "cost"
    P95_TIMES_COST = "p95_times_cost"


class Distribution(msgspec.Struct, frozen=True):
    """How long a target takes to its first content. `low`, `high`: constant: both the value; uniform: the ends; lognormal: both the median.

    `sigma` is the standard deviation of the logarithm, of lognormal alone.
    """

    shape: Literal["constant", "uniform", "lognormal"]
    low_s: float
    high_s: float
    sigma: float = 0.0


class Outage(msgspec.Struct, frozen=True):
    """Every attempt fails: with `status` after `after_s`, or, `status` None, by silence."""

    status: int | None = None
    after_s: float = 0.05


class Errors(msgspec.Struct, frozen=True):
    """A share of the attempts fails with `status`; `after_s` None: after as long as an answer would have taken."""

    fraction: float
    status: int = 500
    after_s: float | None = None


class RateLimit(msgspec.Struct, frozen=True):
    """A token bucket: what it has no token for is a 429, with a Retry-After if `retry_after_s` is given."""

    per_second: float
    burst: float
    retry_after_s: float | None = None


class Cache(msgspec.Struct, frozen=True):
    """A prompt cache: a session's turn within `ttl_s` of its last one here takes and costs so many times as much (input tokens)."""

    latency_factor: float = 1.0
    price_factor: float = 1.0
    ttl_s: float = 300.0


class Conditions(msgspec.Struct, frozen=True):
    """What a target is like at an instant.

    `slower` multiplies all its times. `tokens_per_second` None: the whole answer comes with the first content. `concurrency`: attempts it
    serves at full speed at once; more of them share that speed. `outage`, `errors`, `rate_limit`, `price` None: none.
    """

    latency: Distribution
    slower: float = 1.0
    tokens_per_second: float | None = None
    concurrency: int | None = None
    outage: Outage | None = None
    errors: Errors | None = None
    rate_limit: RateLimit | None = None
    price: Price | None = None
    cache: Cache = Cache()


class Target(msgspec.Struct, frozen=True):
    """A target and its conditions over time: (from, conditions), the first from 0, ascending."""

    name: TargetId
    weight: float
    segments: tuple[tuple[float, Conditions], ...]


class Rate(msgspec.Struct, frozen=True):
    """Arrivals a second from an instant on."""

    from_s: float
    per_second: float


class Sessions(msgspec.Struct, frozen=True):
    """Arrivals are sessions of several turns; the next turn comes a think time (exponential) after the answer to the last.

    `prompt_growth_tokens` are added to the prompt with each turn.
    """

    least_turns: int
    most_turns: int
    think_s: float
    prompt_growth_tokens: int = 0


class Traffic(msgspec.Struct, frozen=True):
    """An open loop of Poisson arrivals by phase. Without `sessions` each arrival is one request without a session.

    `patience_s`: so long a client waits for the first content of a stream or a whole unary answer, then it hangs up.
    """

    rates: tuple[Rate, ...]
    stream_fraction: float = 0.0
    input_tokens: tuple[int, int] = (1000, 1000)
    output_tokens: tuple[int, int] = (200, 200)
    patience_s: float = 60.0
    sessions: Sessions | None = None


class Limits(msgspec.Struct, frozen=True):
    """The timeouts of attempts, as in behaviour.md §6."""

    request_timeout_s: float = 600.0
    header_timeout_s: float = 600.0
    first_event_timeout_s: float | None = None


class Scenario(msgspec.Struct, frozen=True):
    """All of it. `measure` tells which strategy did better; `warm_up_s`: requests that arrive before are left out of the numbers."""

    name: str
    description: str
    duration_s: float
    seed: int
    measure: Measure
    targets: tuple[Target, ...]
    traffic: Traffic
    adaptive: AdaptiveRouting = AdaptiveRouting()
    rules: Rules = Rules()
    limits: Limits = Limits()
    warm_up_s: float = 0.0
    strategies: tuple[StrategyName, ...] = tuple(StrategyName)
