"""The numbers of a simulation, and what is made of them for a reader."""

import json
import re
from typing import Final
from xml.etree import ElementTree

import msgspec
import pytest

from gomodel_trio.replay.simulate.page import page_of
from gomodel_trio.replay.simulate.report import BUCKETS, Report, quantile, simulate
from gomodel_trio.replay.simulate.scenario import StrategyName
from gomodel_trio.replay.simulate.scenario_file import parse_scenario
from gomodel_trio.replay.simulate.table import table_of

NASTY: Final = "</style><script>alert(1)</script>&\"'"
TEXT: Final = """
name: NAME
description: DESCRIPTION
duration: 10m
measure: MEASURE
targets:
  - {name: 'a/NAME', latency: 1s, price: {input: 1, output: 1}, cache: {latency_factor: 0.5}}
  - {name: b/m, latency: 3s, price: {input: 1, output: 1}, phases: [{from: 5m, outage: 500}]}
traffic: {per_second: 0.5, input_tokens: 1000, output_tokens: 1000, sessions: {turns: [1, 2], think: 1s}}
"""


def text(name: str = "small", measure: str = "mean") -> str:
    return TEXT.replace("NAME", name.replace("'", "''")).replace("DESCRIPTION", "words").replace("MEASURE", measure)


@pytest.fixture(scope="module")
def report() -> Report:
    return simulate(parse_scenario(text().encode()))


@pytest.fixture(scope="module")
def nasty(report: Report) -> Report:
    """The same under names that would break out of any page that does not escape them."""
    encoded = msgspec.json.encode(report).decode().replace('"a/small"', json.dumps("a/" + NASTY)).replace('"small"', json.dumps(NASTY))
    return msgspec.json.decode(encoded, type=Report)


def test_quantiles_are_by_nearest_rank() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert [quantile(hundred, fraction) for fraction in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert quantile([7.0], 0.95) == 7.0
    assert quantile([], 0.95) is None


def test_every_strategy_sees_the_same_traffic(report: Report) -> None:
    assert [one.strategy for one in report.strategies] == list(StrategyName)
    # Further turns depend on when the answers come; the arrivals do not.
    counts = [one.requests for one in report.strategies]
    assert max(counts) - min(counts) <= 2


def test_numbers_add_up(report: Report) -> None:
    for one in report.strategies:
        answered = sum(sum(each.answered) for each in one.slices)
        failed = sum(each.failed for each in one.slices)
        assert sum(one.shares.values()) == pytest.approx(1.0, abs=1e-5)
        assert (answered + failed, failed) == (one.requests, sum(one.errors.values()))
        assert len(one.slices) == BUCKETS
        assert one.measure == one.mean_s
    assert report.of(StrategyName.ADAPTIVE).cost_usd == pytest.approx(0.002 * report.of(StrategyName.ADAPTIVE).requests)
    assert report.best is StrategyName.COST  # it takes the first, which is the faster one


def test_a_strategy_that_did_not_run_has_no_report() -> None:
    alone = simulate(parse_scenario(text().encode()), strategies=[StrategyName.COST])
    assert (alone.best, alone.p95_over_oracle, alone.error_points_over_oracle) == (StrategyName.COST, None, None)
    with pytest.raises(KeyError):
        alone.of(StrategyName.ORACLE)


@pytest.mark.parametrize("measure", ["p95", "mean", "errors", "cost", "p95_times_cost"])
def test_the_measure_is_the_scenarios(measure: str) -> None:
    one = simulate(parse_scenario(text(measure=measure).encode()), strategies=[StrategyName.COST]).strategies[0]
    assert one.p95_s is not None
    values = {
        "p95": one.p95_s,
        "mean": one.mean_s,
        "errors": one.error_rate,
        "cost": one.cost_usd,
        "p95_times_cost": one.p95_s * one.cost_usd,
    }
    assert one.measure == pytest.approx(values[measure])


def test_the_warm_up_is_left_out_of_the_numbers() -> None:
    warm = simulate(parse_scenario((text() + "warm_up: 5m\n").encode()), strategies=[StrategyName.COST]).strategies[0]
    assert warm.requests < sum(sum(each.answered) for each in warm.slices)


def test_without_traffic_there_is_nothing_to_tell() -> None:
    silent = simulate(parse_scenario(text().replace("per_second: 0.5", "per_second: 0").encode()))
    assert [one.p95_s for one in silent.strategies] == [None] * 5
    assert (silent.best, silent.p95_over_oracle, silent.error_points_over_oracle) == (None, None, 0.0)
    assert "0 requests" in table_of(silent)[1]
    ElementTree.fromstring(page_of(silent).partition("\n")[2])


def test_the_table_has_a_row_for_every_strategy(report: Report) -> None:
    lines = table_of(report)
    assert lines[0] == "small: words"
    assert lines[1] == f"10m of virtual time, {report.strategies[0].requests} requests, seed 1"
    assert [line.split()[0] for line in lines[4:9]] == [strategy.value for strategy in StrategyName]
    assert "Best by mean (the oracle apart): cost." in lines
    assert re.search(r"^adaptive's p95 is \d\.\d\d times the oracle's, its error rate [+-]\d\.\d\d points\.$", "\n".join(lines), re.M)
    assert re.search(r"^ +5m\S* for +30s  b/m \(fault\)$", "\n".join(lines), re.M)


def test_the_page_is_well_formed_and_needs_nothing_but_itself(nasty: Report) -> None:
    page = page_of(nasty)
    root = ElementTree.fromstring(page.partition("\n")[2])
    tags = {element.tag for element in root.iter()}
    assert {"svg", "polygon", "polyline", "rect", "table", "style"} <= tags
    assert not tags & {"script", "link", "img", "iframe", "object", "image", "use", "a"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_tells_names_as_they_are(nasty: Report) -> None:
    root = ElementTree.fromstring(page_of(nasty).partition("\n")[2])
    assert root.findtext("body/header/h1") == NASTY
    assert f"→ a/{NASTY}" in [cell.text for cell in root.iter("th")]


def test_the_page_has_the_plots_of_every_strategy(report: Report) -> None:
    root = ElementTree.fromstring(page_of(report).partition("\n")[2])
    labels = [svg.attrib["aria-label"] for svg in root.iter("svg")]
    assert labels[:6] == ["p95 over time", *[f"Shares over time under {strategy.value}" for strategy in StrategyName]]
    assert "Cooldowns under round_robin" in labels
    polylines = [line.findtext("title") for line in root.iter("polyline")]
    assert set(polylines) == {strategy.value for strategy in StrategyName}
    bars = [bar for bar in root.iter("rect") if bar.attrib["class"] == "bar"]
    assert len(bars) == sum(1 for one in report.strategies for bench in one.cooldowns if bench.from_s < report.duration_s)


def test_everything_drawn_is_inside_its_plot(report: Report) -> None:
    root = ElementTree.fromstring(page_of(report).partition("\n")[2])
    for svg in root.iter("svg"):
        _, _, width, height = map(float, svg.attrib["viewBox"].split())
        for shape in (*svg.iter("polygon"), *svg.iter("polyline")):
            points = [tuple(map(float, point.split(","))) for point in shape.attrib["points"].split()]
            assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_equal_runs_print_alike() -> None:
    one, two = (simulate(parse_scenario(text().encode())) for _ in range(2))
    assert page_of(one) == page_of(two)
    assert table_of(one) == table_of(two)
    assert msgspec.json.encode(one) == msgspec.json.encode(two)
