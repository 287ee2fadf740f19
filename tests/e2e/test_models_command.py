"""The command `models`: what there is to be asked, at what price, as a table and as JSON."""

import json
from pathlib import Path

import pytest

from support.gateway_process import run_command

pytestmark = pytest.mark.e2e

_YAML = """
providers:
  openai: {api_key: sk-first-secret, models: [gpt-4o-mini, {id: own, pricing: {input_per_mtok: 0.5, output_per_mtok: 1}}]}
virtual_models:
  - {source: cheapest, strategy: cost, targets: [{model: openai/gpt-4o-mini}, {model: openai/own}]}
"""


def test_models_are_listed_with_prices_and_their_origin(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(_YAML, encoding="utf-8")
    run = run_command("models", directory=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    head, mini, own, units = run.stdout.splitlines()
    assert head.split("  ")[0] == "TARGET"
    assert mini.split()[:5] == ["openai/gpt-4o-mini", "openai", "openai", "0.15", "0.6"]
    assert "packaged list of 20" in mini
    assert own.split() == ["openai/own", "openai", "openai", "0.5", "1", "configuration", "cheapest", "yes"]
    assert "USD per million tokens" in units
    assert "sk-first-secret" not in run.stdout


def test_models_as_json_are_one_object_each(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(_YAML, encoding="utf-8")
    run = run_command("models", "--json", directory=tmp_path)
    assert run.returncode == 0
    mini, own = json.loads(run.stdout)
    assert mini["price_from"].startswith("packaged list of 20")
    assert own == {
        "target": "openai/own",
        "provider": "openai",
        "model": "own",
        "type": "openai",
        "dialect": "openai",
        "available": True,
        "why_unavailable": None,
        "input_usd_per_mtok": 0.5,
        "output_usd_per_mtok": 1.0,
        "price_from": "configuration",
        "used_by": ["cheapest"],
    }


def test_a_bad_price_is_told_with_its_place_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(_YAML.replace("0.5", "-0.5"), encoding="utf-8")
    run = run_command("models", directory=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert "providers.openai.models[1].pricing.input_per_mtok" in run.stderr
