"""A simulation as one HTML page that needs nothing but itself: no script, no font, no network.

Layer: replay. The content security policy says so to the browser, too; all names are escaped, for a scenario is anyone's file.
"""

from html import escape
from typing import Final

from gomodel_trio.replay.simulate.plots import COLOURS, cooldown_plot, legend, p95_plot, share_plot
from gomodel_trio.replay.simulate.report import Report, StrategyReport
from gomodel_trio.replay.simulate.table import COLUMNS, cells_of, conclusions_of, extent_of

_COLOURS_LIGHT: Final = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#57534e")
_COLOURS_DARK: Final = ("#60a5fa", "#fbbf24", "#34d399", "#f472b6", "#a78bfa", "#22d3ee", "#a3e635", "#a8a29e")

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1917; --dim: #57534e; --paper: #fff; --lane: #f5f5f4; --rule: #d6d3d1; --bar: #dc2626; LIGHT }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f5f5f4; --dim: #a8a29e; --paper: #1c1917; --lane: #292524; --rule: #44403c; --bar: #f87171; DARK }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.5rem; }
h2 { margin: 2rem 0 .25rem; font-size: 1.1rem; }
p { margin: .25rem 0; color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
svg text.name { fill: var(--ink); }
.grid { stroke: var(--rule); stroke-width: .5; }
.area { opacity: .85; }
.line { fill: none !important; stroke-width: 1.8; }
.lane { fill: var(--lane); }
.bar { fill: var(--bar); opacity: .75; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0; padding: 0; list-style: none; font-size: .85rem; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px; }
"""

_FRAME: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>{title}: simulation</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page_of(report: Report) -> str:
    """The page as text; equal reports give equal pages."""
    strategies = report.strategies
    parts = [
        f"<header><h1>{escape(report.scenario)}</h1><p>{escape(report.description)}</p>",
        f"<p>{escape(extent_of(report))}, through the gateway's own routing code</p></header>",
        f'<section><h2>Comparison</h2><div class="wide">{_table(report)}</div>',
        *[f"<p>{escape(sentence)}</p>" for sentence in conclusions_of(report)],
        "</section>",
        f"<section><h2>p95 over time</h2>{legend([one.strategy.value for one in strategies])}{p95_plot(report)}</section>",
        f"<section><h2>Shares over time</h2>{legend(report.targets)}",
        *[f"<h3>{escape(one.strategy.value)}</h3>{share_plot(report, one)}" for one in strategies],
        "</section>",
        "<section><h2>Cooldowns</h2>",
        *[_cooldowns(report, one) for one in strategies],
        "</section>",
    ]
    return _FRAME.format(title=escape(report.scenario), style=_style(), body="\n".join(parts))


def _table(report: Report) -> str:
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in (*COLUMNS, *(f"→ {name}" for name in report.targets)))
    rows = []
    for one in report.strategies:
        cells = [*cells_of(one), *[f"{one.shares[name]:.1%}" for name in report.targets]]
        mark = ' class="best"' if one.strategy is report.best else ""
        rows.append(f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cooldowns(report: Report, one: StrategyReport) -> str:
    if not one.cooldowns:
        return f"<h3>{escape(one.strategy.value)}</h3><p>none</p>"
    return f"<h3>{escape(one.strategy.value)}</h3>{cooldown_plot(report, one)}"


def _style() -> str:
    style = _STYLE.replace("LIGHT", _variables(_COLOURS_LIGHT)).replace("DARK", _variables(_COLOURS_DARK))
    rule = ".c{0} {{ fill: var(--c{0}); stroke: var(--c{0}); background: var(--c{0}); }}\n"
    return style + "".join(rule.format(index) for index in range(COLOURS))


def _variables(colours: tuple[str, ...]) -> str:
    return " ".join(f"--c{index}: {colour};" for index, colour in enumerate(colours))
