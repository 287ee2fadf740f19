"""The operators' list of metrics, `spec/metrics.md`, written from the table.

Layer: metrics. `scripts/generate_docs` writes it, and checks that the file is current.
"""

from collections.abc import Sequence

from gomodel_trio.metrics.families import CATALOGUE, LABEL_VALUES, Family

_HEAD = """# Metrics

<!-- Written by scripts/generate_docs from gomodel_trio/metrics/families.py; do not edit. -->

`GET /metrics`, in the Prometheus text format, without a key; `METRICS_ENABLED=false` ends it. Label values come from the configuration or
from the closed sets below, never from clients. After a reload the series of what is no longer configured are gone; all others go on.
Counters belong to one process and start at 0 with it.
"""


def render() -> str:
    """Return the whole page, Markdown with a newline at its end."""
    parts = [_HEAD, "## Always\n", _table([family for family in CATALOGUE if not family.is_routing])]
    parts += ["## While `PRO_ROUTING_ENABLED` is true\n", _table([family for family in CATALOGUE if family.is_routing])]
    parts += ["## Labels\n", _rows(("label", "values"), [(f"`{label}`", values) for label, values in LABEL_VALUES.items()])]
    parts += ["## Histogram buckets\n", _rows(("metric", "upper bounds, besides `+Inf`"), _buckets())]
    return "\n".join(parts)


def _table(families: list[Family]) -> str:
    rows = [(f"`{family.name}`", family.kind, ", ".join(f"`{label}`" for label in family.labels), family.help) for family in families]
    return _rows(("metric", "kind", "labels", "what it says"), rows)


def _buckets() -> list[tuple[str, str]]:
    return [(f"`{family.name}`", " ".join(f"{bound:g}" for bound in family.buckets)) for family in CATALOGUE if family.buckets]


def _rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
