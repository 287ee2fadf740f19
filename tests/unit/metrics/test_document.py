"""The operators' page of metrics."""

from pathlib import Path

from gomodel_trio.metrics.document import render
from gomodel_trio.metrics.families import CATALOGUE

SPEC = Path(__file__).parents[3] / "spec"


def test_every_metric_has_one_row_with_its_labels_and_help() -> None:
    lines = render().splitlines()
    for family in CATALOGUE:
        rows = [line for line in lines if line.startswith(f"| `{family.name}` | {family.kind} |")]
        assert len(rows) == 1
        assert family.help in rows[0]
        assert all(f"`{label}`" in rows[0] for label in family.labels)


def test_buckets_are_listed() -> None:
    assert "| `gomodel_pro_smartroute_score` | 0 1 2 3 4 5 6 8 10 12 16 22 |" in render()


def test_the_page_in_spec_is_current() -> None:
    assert (SPEC / "metrics.md").read_text(encoding="utf-8") == render()
