"""`simulate` as an operator calls it."""

import json
from pathlib import Path

import pytest

from support.gateway_process import run_command

pytestmark = pytest.mark.e2e

SCENARIO = """
duration: 1m
targets:
  - {name: a/m, latency: {lognormal: 1s, sigma: 0.2}, outage: 503}
  - {name: b/m, latency: {lognormal: 1s, sigma: 0.2}}
traffic: {per_second: 2}
"""
SHIPPED = Path(__file__).parents[2] / "spec" / "scenarios"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path


def test_it_needs_no_configuration_and_prints_a_table(directory: Path) -> None:
    ran = run_command("simulate", "s.yaml", directory=directory)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == "s"
    assert [line.split()[0] for line in lines[4:9]] == ["adaptive", "round_robin", "cost", "least_loaded", "oracle"]


def test_the_same_seed_gives_the_same_bytes(directory: Path) -> None:
    outputs = []
    for number, seed in enumerate(("5", "5", "6")):
        ran = run_command("simulate", "s.yaml", "--seed", seed, "--json", "--html", f"{number}.html", directory=directory)
        assert ran.returncode == 0, ran.stderr
        outputs.append((ran.stdout, (directory / f"{number}.html").read_bytes()))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] != outputs[2][0]
    assert outputs[0][1] != outputs[2][1]
    assert outputs[0][1].startswith(b"<!DOCTYPE html>")


def test_json_has_all_the_numbers(directory: Path) -> None:
    ran = run_command("simulate", "s.yaml", "--json", "--strategy", "adaptive", "oracle", directory=directory)
    report = json.loads(ran.stdout)
    assert [one["strategy"] for one in report["strategies"]] == ["adaptive", "oracle"]
    adaptive, oracle = report["strategies"]
    assert (adaptive["shares"], adaptive["error_rate"]) == ({"a/m": 0.0, "b/m": 1.0}, 0.0)
    assert {bench["target"] for bench in adaptive["cooldowns"]} == {"a/m"}
    assert oracle["attempts_per_request"] == 1.0
    assert report["error_points_over_oracle"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["simulate"], 2, "the following arguments are required: FILE"),
        (["simulate", "none.yaml"], 2, "The scenario is wrong:\n  none.yaml: cannot be read: No such file or directory\n"),
        (["simulate", "bad.yaml"], 2, "bad.yaml: targets[0] (line 2): has no 'latency'"),
        (["simulate", "s.yaml", "--strategy", "oracel"], 2, "--strategy: oracel is none; use adaptive, "),
        (["simulate", "s.yaml", "--seed", "-1"], 2, "'-1' is no seed"),
        (["simulate", "s.yaml", "--html", "no/where.html"], 1, "--html: no/where.html: No such file or directory"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_and_by_the_exit_code(directory: Path, arguments: list[str], code: int, said: str) -> None:
    (directory / "bad.yaml").write_text("duration: 1m\ntargets: [{name: a/m}]\ntraffic: {per_second: 1}\n")
    ran = run_command(*arguments, directory=directory)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_shipped_scenario_runs(tmp_path: Path) -> None:
    ran = run_command("simulate", str(SHIPPED / "cold-start.yaml"), directory=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "Best by p95 (the oracle apart): adaptive." in ran.stdout
