"""The plots of a simulation as inline SVG: shares as stacked areas, p95 as lines, cooldowns as bars.

Layer: replay. Colours come from the page's style sheet by class (`c0`…), so that they follow light and dark; every plot has a title for
those who cannot see it, and all text is escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from gomodel_trio.replay.simulate.report import Report, StrategyReport
from gomodel_trio.units import format_duration

COLOURS: Final = 8
"""Colour classes; further targets begin anew."""
_WIDTH, _HEIGHT = 720, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 8, 22
_TICKS: Final = 6


def share_plot(report: Report, one: StrategyReport) -> str:
    """Each target's share of a strategy's answered requests over time, stacked."""
    times = [slice_.from_s for slice_ in one.slices]
    below = [0.0] * len(times)
    areas = []
    for index, name in enumerate(report.targets):
        above = []
        for slice_, base in zip(one.slices, below, strict=True):
            total = sum(slice_.answered)
            above.append(base + (slice_.answered[index] / total if total else 0.0))
        points = [*zip(times, above, strict=True), *reversed(list(zip(times, below, strict=True)))]
        path = " ".join(f"{_x(report, at_s):.1f},{_y(share):.1f}" for at_s, share in points)
        areas.append(f'<polygon class="c{index % COLOURS} area" points="{path}"><title>{escape(name)}</title></polygon>')
        below = above
    labels = "".join(_left_label(_y(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0))
    return _svg(report, f"Shares over time under {one.strategy.value}", labels + "".join(areas))


def p95_plot(report: Report) -> str:
    """Every strategy's p95 over time, cut where a strategy leaves the picture far behind the others."""
    tops = sorted(max((slice_.p95_s or 0.0 for slice_ in one.slices), default=0.0) for one in report.strategies)
    # One strategy that lets a queue grow without bound would flatten all the others into one line.
    most_s = min(tops[-1], 2.5 * tops[len(tops) // 2]) or 1.0
    lines = []
    for index, one in enumerate(report.strategies):
        pieces: list[list[str]] = []
        piece: list[str] = []
        for slice_ in one.slices:
            if slice_.p95_s is None:
                pieces.append(piece)
                piece = []
            else:
                piece.append(f"{_x(report, slice_.from_s):.1f},{_y(min(slice_.p95_s / most_s, 1.0)):.1f}")
        name = escape(one.strategy.value)
        lines += [
            f'<polyline class="c{index % COLOURS} line" points="{" ".join(each)}"><title>{name}</title></polyline>'
            for each in (*pieces, piece)
            if each
        ]
    labels = "".join(_left_label(_y(share), f"{share * most_s:.2f} s") for share in (0.0, 0.5, 1.0))
    return _svg(report, "p95 over time", labels + "".join(lines))


def cooldown_plot(report: Report, one: StrategyReport) -> str:
    """A row a target, a bar a cooldown."""
    row_height = 22
    height = _TOP + row_height * len(report.targets) + _BOTTOM
    parts = []
    for row, name in enumerate(report.targets):
        y = _TOP + row * row_height
        parts.append(f'<rect class="lane" x="{_LEFT}" y="{y + 3}" width="{_WIDTH - _LEFT - _RIGHT}" height="{row_height - 6}"/>')
        parts.append(f'<text class="name" x="{_LEFT + 4}" y="{y + row_height / 2 + 4:.0f}">{escape(name)}</text>')
        for bench in one.cooldowns:
            if bench.target != name or bench.from_s >= report.duration_s:
                continue
            left, right = _x(report, bench.from_s), _x(report, min(bench.until_s, report.duration_s))
            words = f"{name}: {bench.reason}, {format_duration(round(bench.from_s, 1))} to {format_duration(round(bench.until_s, 1))}"
            parts.append(
                f'<rect class="bar" x="{left:.1f}" y="{y + 3}" width="{max(right - left, 1.0):.1f}" height="{row_height - 6}">'
                f"<title>{escape(words)}</title></rect>"
            )
    return _svg(report, f"Cooldowns under {one.strategy.value}", "".join(parts), height=height)


def legend(names: Sequence[str]) -> str:
    """The names with their colours."""
    keys = "".join(f'<li><span class="key c{index % COLOURS}"></span>{escape(name)}</li>' for index, name in enumerate(names))
    return f'<ul class="legend">{keys}</ul>'


def _svg(report: Report, title: str, content: str, *, height: int = _HEIGHT) -> str:
    ticks = []
    for number in range(_TICKS + 1):
        at_s = report.duration_s * number / _TICKS
        anchor = "end" if number == _TICKS else "middle"
        ticks.append(
            f'<line class="grid" x1="{_x(report, at_s):.1f}" y1="{_TOP}" x2="{_x(report, at_s):.1f}" y2="{height - _BOTTOM}"/>'
            f'<text x="{_x(report, at_s):.1f}" y="{height - 6}" text-anchor="{anchor}">{format_duration(round(at_s))}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f"{''.join(ticks)}{content}</svg>"
    )


def _left_label(y: float, text: str) -> str:
    return f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _x(report: Report, at_s: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / report.duration_s


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share
