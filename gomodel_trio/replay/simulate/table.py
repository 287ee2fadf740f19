"""A simulation as a text table.

Layer: replay.
"""

from collections.abc import Sequence
from typing import Final

from gomodel_trio.replay.simulate.report import Report, StrategyReport
from gomodel_trio.units import format_duration

COLUMNS: Final = ("strategy", "p50 s", "p95 s", "p99 s", "mean s", "errors", "attempts", "cost $", "cache", "cooldowns")
_MOST_COOLDOWNS: Final = 12
"""Lines a strategy's timeline may take; a flapping target can have hundreds."""


def table_of(report: Report) -> list[str]:
    """The lines: what was simulated, a row a strategy, shares, adaptive against the oracle, and adaptive's cooldowns."""
    lines = [f"{report.scenario}: {report.description}" if report.description else report.scenario]
    lines.append(extent_of(report))
    lines += ["", *_aligned([COLUMNS, *[cells_of(one) for one in report.strategies]])]
    shares = [[one.strategy.value, *[f"{one.shares[name]:.1%}" for name in report.targets]] for one in report.strategies]
    lines += ["", "Shares of the answered requests", *_aligned([["", *report.targets], *shares])]
    lines += ["", *conclusions_of(report)]
    for one in report.strategies:
        lines += _timeline(one)
    return lines


def extent_of(report: Report) -> str:
    """How much was simulated."""
    return f"{format_duration(report.duration_s)} of virtual time, {report.strategies[0].requests} requests, seed {report.seed}"


def conclusions_of(report: Report) -> list[str]:
    """What the numbers say, in sentences."""
    said = []
    if report.best is not None:
        said.append(f"Best by {report.measure.value} (the oracle apart): {report.best.value}.")
    if report.p95_over_oracle is not None and report.error_points_over_oracle is not None:
        said.append(
            f"adaptive's p95 is {report.p95_over_oracle:.2f} times the oracle's, "
            f"its error rate {report.error_points_over_oracle:+.2f} points."
        )
    return said


def seconds(value_s: float | None) -> str:
    """Seconds to three digits behind the point, a dash for none."""
    return "-" if value_s is None else f"{value_s:.3f}"


def cells_of(one: StrategyReport) -> list[str]:
    """A strategy's numbers as text, in the order of the table's columns."""
    return [
        one.strategy.value,
        *[seconds(value_s) for value_s in (one.p50_s, one.p95_s, one.p99_s, one.mean_s)],
        f"{one.error_rate:.2%}",
        f"{one.attempts_per_request:.3f}",
        f"{one.cost_usd:.2f}",
        f"{one.cache_hit_rate:.1%}",
        str(len(one.cooldowns)),
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]]
        lines.append("  ".join(cells).rstrip())
    return lines


def _timeline(one: StrategyReport) -> list[str]:
    if not one.cooldowns:
        return []
    lines = ["", f"Cooldowns under {one.strategy.value}"]
    lines += [
        f"  {format_duration(round(bench.from_s)):>9} for {format_duration(round(bench.until_s - bench.from_s)):>6}  "
        f"{bench.target} ({bench.reason})"
        for bench in one.cooldowns[:_MOST_COOLDOWNS]
    ]
    if len(one.cooldowns) > _MOST_COOLDOWNS:
        lines.append(f"  … and {len(one.cooldowns) - _MOST_COOLDOWNS} more")
    return lines
