"""The numbers of a simulation: per strategy and over time, and how adaptive compares.

Layer: replay. Quantiles are by nearest rank, over requests that were answered; those that were not are in the error rate. All numbers are
rounded to what a reader can use, so that equal runs print alike.
"""

import math
from collections.abc import Sequence

import msgspec

from gomodel_trio.replay.simulate.engine import Run, Served, run
from gomodel_trio.replay.simulate.scenario import Measure, Scenario, StrategyName
from gomodel_trio.replay.simulate.traffic import draw_workload

BUCKETS = 60
"""Slices of time that plots show."""


class Bench(msgspec.Struct, frozen=True):
    """A cooldown: whose, why, from when to when."""

    target: str
    reason: str
    from_s: float
    until_s: float


class Slice(msgspec.Struct, frozen=True):
    """A slice of time, by arrival: answered requests of each target, in the scenario's order; None where nothing was answered."""

    from_s: float
    answered: tuple[int, ...]
    p95_s: float | None
    failed: int


class StrategyReport(msgspec.Struct, frozen=True):
    """What a strategy came to. `shares`: of the answered requests, by target. `errors`: the failures by their kind.

    `cache_hit_rate` is of the answered requests. Costs are in USD.
    """

    strategy: StrategyName
    requests: int
    shares: dict[str, float]
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    mean_s: float | None
    error_rate: float
    errors: dict[str, int]
    attempts_per_request: float
    cost_usd: float
    cache_hit_rate: float
    measure: float | None
    cooldowns: tuple[Bench, ...]
    slices: tuple[Slice, ...]


class Report(msgspec.Struct, frozen=True):
    """A whole simulation. `best`: the strategy with the least measure, the oracle left out.

    `p95_over_oracle`: adaptive's p95 divided by the oracle's; `error_points_over_oracle`: the difference of error rates in points of a
    hundred; both None unless both strategies ran.
    """

    scenario: str
    description: str
    seed: int
    duration_s: float
    measure: Measure
    targets: tuple[str, ...]
    strategies: tuple[StrategyReport, ...]
    best: StrategyName | None
    p95_over_oracle: float | None
    error_points_over_oracle: float | None

    def of(self, strategy: StrategyName) -> StrategyReport:
        """The report of one strategy.

        Raises:
            KeyError: it did not run.
        """
        for one in self.strategies:
            if one.strategy is strategy:
                return one
        raise KeyError(strategy)


def simulate(scenario: Scenario, *, seed: int | None = None, strategies: Sequence[StrategyName] = ()) -> Report:
    """Play a scenario under each strategy, all with the same traffic and luck; without `strategies` those of the scenario."""
    seed = scenario.seed if seed is None else seed
    workload = draw_workload(scenario, seed)
    reports = [_of_run(scenario, run(scenario, workload, strategy)) for strategy in strategies or scenario.strategies]
    known = {report.strategy: report for report in reports}
    adaptive, oracle = known.get(StrategyName.ADAPTIVE), known.get(StrategyName.ORACLE)
    ratio = points = None
    if adaptive is not None and oracle is not None:
        points = _round((adaptive.error_rate - oracle.error_rate) * 100)
        if adaptive.p95_s is not None and oracle.p95_s:
            ratio = _round(adaptive.p95_s / oracle.p95_s)
    rivals = [(report.measure, report.strategy) for report in reports if report.strategy is not StrategyName.ORACLE]
    measured = [(measure, strategy) for measure, strategy in rivals if measure is not None]
    return Report(
        scenario=scenario.name,
        description=scenario.description,
        seed=seed,
        duration_s=scenario.duration_s,
        measure=scenario.measure,
        targets=tuple(target.name for target in scenario.targets),
        strategies=tuple(reports),
        best=min(measured, key=lambda each: each[0])[1] if measured else None,
        p95_over_oracle=ratio,
        error_points_over_oracle=points,
    )


def quantile(ascending: Sequence[float], fraction: float) -> float | None:
    """Tell the value at a fraction by nearest rank; None of nothing."""
    return ascending[max(math.ceil(fraction * len(ascending)) - 1, 0)] if ascending else None


def _of_run(scenario: Scenario, ran: Run) -> StrategyReport:
    served = [one for one in ran.served if one.arrived_at_s >= scenario.warm_up_s]
    answered = [one for one in served if one.target is not None]
    latencies_s = sorted(one.latency_s for one in answered)
    names = [target.name for target in scenario.targets]
    failed = sorted(one.end for one in served if one.target is None)
    p95_s, cost_usd = quantile(latencies_s, 0.95), math.fsum(one.cost_usd for one in answered)
    error_rate = len(failed) / len(served) if served else 0.0
    mean_s = math.fsum(latencies_s) / len(answered) if answered else None
    return StrategyReport(
        strategy=ran.strategy,
        requests=len(served),
        shares={name: _round(sum(one.target == name for one in answered) / max(len(answered), 1)) for name in names},
        p50_s=_rounded(quantile(latencies_s, 0.5)),
        p95_s=_rounded(p95_s),
        p99_s=_rounded(quantile(latencies_s, 0.99)),
        mean_s=_rounded(mean_s),
        error_rate=_round(error_rate),
        errors={kind: failed.count(kind) for kind in dict.fromkeys(failed)},
        attempts_per_request=_round(sum(one.attempts for one in served) / max(len(served), 1)),
        cost_usd=_round(cost_usd),
        cache_hit_rate=_round(sum(one.is_cached for one in answered) / max(len(answered), 1)),
        measure=_rounded(_measure(scenario.measure, p95_s=p95_s, mean_s=mean_s, error_rate=error_rate, cost_usd=cost_usd)),
        cooldowns=tuple(Bench(each.target, each.reason, _round(each.from_s), _round(each.until_s)) for each in ran.cooldowns),
        slices=_slices(scenario, names, ran.served),
    )


def _measure(measure: Measure, *, p95_s: float | None, mean_s: float | None, error_rate: float, cost_usd: float) -> float | None:
    match measure:
        case Measure.P95:
            return p95_s
        case Measure.MEAN:
            return mean_s
        case Measure.ERRORS:
            return error_rate
        case Measure.COST:
            return cost_usd
        case Measure.P95_TIMES_COST:
            return None if p95_s is None else p95_s * cost_usd


def _slices(scenario: Scenario, names: Sequence[str], served: Sequence[Served]) -> tuple[Slice, ...]:
    width_s = scenario.duration_s / BUCKETS
    sorted_in: list[list[Served]] = [[] for _ in range(BUCKETS)]
    for one in served:
        sorted_in[min(int(one.arrived_at_s / width_s), BUCKETS - 1)].append(one)
    slices = []
    for index, within in enumerate(sorted_in):
        answered = [one for one in within if one.target is not None]
        counts = tuple(sum(one.target == name for one in answered) for name in names)
        p95_s = quantile(sorted(one.latency_s for one in answered), 0.95)
        slices.append(Slice(_round(index * width_s), counts, _rounded(p95_s), len(within) - len(answered)))
    return tuple(slices)


def _round(number: float) -> float:
    return round(number, 6)


def _rounded(number: float | None) -> float | None:
    return None if number is None else _round(number)
