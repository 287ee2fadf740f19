"""What models cost: the rules from spec/vectors/prices.json, the packaged list, and what goes before what."""

import json
import math
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import genai_prices.data
import msgspec
import pytest

from gomodel_trio.config.compile import compile_policy, priced_targets
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.prices import CONFIGURATION, LIST_OF_TYPE, Entry, Priced, PriceList
from gomodel_trio.config.provider_types import PROVIDER_TYPES
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import ConfigurationError
from gomodel_trio.route.policy import Price

PROJECT = Path(__file__).parents[3]
VECTORS: dict[str, Any] = json.loads((PROJECT / "spec" / "vectors" / "prices.json").read_text(encoding="utf-8"))
PACKAGED: dict[str, Any] = json.loads((PROJECT / "gomodel_trio" / "config" / "prices.json").read_text(encoding="utf-8"))
ENTRIES = [(seller, msgspec.convert(row, Entry)) for seller, each in PACKAGED["lists"].items() for row in each["models"]]
UNPRICED_TYPES = {"ollama", "vllm", "sglang", "llamacpp", "openai_compatible", "echo"}


def load(yaml: str, cwd: Path, **environ: str) -> Settings:
    (cwd / "config.yaml").write_text(yaml, encoding="utf-8")
    return load_settings(environ, config_file=None, env_file=None, cwd=cwd)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_the_price_of_a_model(case: dict[str, Any]) -> None:
    prices = PriceList(json.dumps(VECTORS["document"]).encode())
    entry, priced = prices.find(case["type"], case["model"]), prices.price_of(case["type"], case["model"])
    assert (entry.id if entry is not None else None) == case["entry"]
    assert priced == (Priced(Price(*case["price"]), "packaged list of 2026-01-31") if case["price"] is not None else None)


def test_only_the_lists_that_are_asked_are_read() -> None:
    broken = {**VECTORS["document"]["lists"], "anthropic": {"models": "none"}}
    prices = PriceList(json.dumps({**VECTORS["document"], "lists": broken}).encode())
    assert prices.price_of("azure", "sol-6") is not None
    assert prices.price_of("vertex", "gem-3-pro") is not None
    with pytest.raises(msgspec.ValidationError):
        prices.price_of("anthropic", "clay-2")


def test_nothing_is_read_for_types_that_have_no_price() -> None:
    assert PriceList(b"no JSON").price_of("vllm", "llama") is None


# ---- the packaged list ----------------------------------------------------------------------------------------------


def test_the_packaged_list_tells_its_date_source_and_licence() -> None:
    day = date.fromisoformat(PACKAGED["date"])
    assert date(2026, 11, 30) <= day
    assert PriceList().origin == f"packaged list of {day}"
    assert PriceList().source.startswith("genai-prices ")
    assert "MIT License" in PACKAGED["licence"]
    assert "The above copyright notice and this permission notice shall be included" in " ".join(PACKAGED["licence"].split())


def test_every_packaged_price_is_finite_and_not_negative() -> None:
    rates = [rate for _, entry in ENTRIES for rate in msgspec.structs.astuple(entry)[2:] if rate is not None]
    assert len(rates) > 3000
    assert [rate for rate in rates if not math.isfinite(rate) or rate < 0] == []
    assert [entry.id for _, entry in ENTRIES if (entry.input_usd_per_mtok is None) != (entry.output_usd_per_mtok is None)] == []


def test_every_rule_is_one_that_can_be_read() -> None:
    tests = [test for _, entry in ENTRIES for rule in entry.rules for test in ([rule] if isinstance(rule, str) else rule)]
    assert [test for test in tests if test[0] not in "=^$*~" or not test[1:]] == []
    assert [entry.id for _, entry in ENTRIES if not entry.rules] == []


def test_every_type_of_this_gateway_has_a_list_or_is_known_to_have_none() -> None:
    ours = {name for name, row in PROVIDER_TYPES.items() if row.is_in_this_version} | {"vertex", "bedrock"}
    assert ours == LIST_OF_TYPE.keys() | UNPRICED_TYPES
    assert {*LIST_OF_TYPE.values()} <= PACKAGED["lists"].keys()


@pytest.mark.parametrize(
    ("provider_type", "model", "price"),
    [
        ("openai", "gpt-4o-mini", (0.15, 0.6)),
        ("openai", "gpt-4o-mini-2024-07-18", (0.15, 0.6)),
        ("openai", "gpt-5.1", (1.25, 10)),
        ("openai", "text-embedding-3-small", (0.02, 0)),
        ("azure", "gpt-4o-mini", (0.15, 0.6)),
        ("anthropic", "claude-sonnet-4-5-20250929", (3, 15)),
        ("anthropic", "claude-opus-4-5", (5, 25)),
        ("vertex", "claude-opus-4-5@20251101", (5, 25)),
        ("vertex", "gemini-2.5-pro", (1.25, 10)),
        ("gemini", "models/gemini-2.5-pro", (1.25, 10)),
        ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", (3.3, 16.5)),
        ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", (3, 15)),
        ("bedrock", "amazon.nova-pro-v1:0", (0.8, 3.2)),
        ("groq", "llama-3.3-70b-versatile", (0.59, 0.79)),
    ],
)
def test_well_known_models_are_priced(provider_type: str, model: str, price: tuple[float, float]) -> None:
    priced = PriceList().price_of(provider_type, model)
    assert priced is not None
    assert priced.price == Price(*price)


@pytest.mark.parametrize(
    ("provider_type", "model"),
    [("openai", "whisper-1"), ("openai", "tts-1"), ("openai", "claude-opus-4-5"), ("anthropic", "gpt-5.1"), ("groq", "nope")],
)
def test_what_is_not_sold_by_the_token_or_not_there_has_no_price(provider_type: str, model: str) -> None:
    assert PriceList().price_of(provider_type, model) is None


@pytest.mark.skipif(f"genai-prices {version('genai-prices')}" != PACKAGED["source"], reason="another version is installed than packaged")
@pytest.mark.parametrize("provider_type", sorted(LIST_OF_TYPE.keys() - {"gemini"}))
def test_models_are_found_as_genai_prices_finds_them(provider_type: str) -> None:
    packaged, sellers = PriceList(), genai_prices.data.providers
    seller = next(each for each in sellers if each.id == LIST_OF_TYPE[provider_type])
    ids = [entry.id for name, entry in ENTRIES if name in ("openai", "anthropic", "google", "aws", seller.id)][::9]
    for model in [*ids, *(f"{each}-20260101" for each in ids[::4]), *(f"eu.{each}" for each in ids[::4])]:
        theirs, ours = seller.find_model(model, all_providers=sellers), packaged.find(provider_type, model)
        assert (model, ours.id if ours is not None else None) == (model, theirs.id if theirs is not None else None)


# ---- the configuration's prices and the list ------------------------------------------------------------------------

_PROVIDERS = """
providers:
  openai:
    api_key: k
    models:
      - gpt-5.1
      - {id: gpt-4o-mini, pricing: {input_per_mtok: 7, output_per_mtok: 9}}
      - {id: gpt-4o, metadata: {pricing: {input_per_mtok: 1, output_per_mtok: 2}}}
  local: {type: vllm, base_url: "http://h:8000/v1", models: [gpt-5.1]}
virtual_models:
  - {source: v, targets: [{model: openai/gpt-4.1}, {model: local/other}, {model: nowhere}]}
"""


def test_the_operators_price_goes_before_the_packaged_one(tmp_path: Path) -> None:
    settings = load(_PROVIDERS, tmp_path)
    policy = compile_policy(settings)
    packaged = f"packaged list of {PACKAGED['date']}"
    assert priced_targets(settings, policy) == {
        "openai/gpt-5.1": Priced(Price(1.25, 10.0), packaged),
        "openai/gpt-4o-mini": Priced(Price(7.0, 9.0), CONFIGURATION),
        "openai/gpt-4o": Priced(Price(1.0, 2.0), CONFIGURATION),
        "openai/gpt-4.1": Priced(Price(2.0, 8.0), packaged),
    }
    assert policy.prices == {target: priced.price for target, priced in priced_targets(settings, policy).items()}


def test_tier_targets_and_models_a_provider_tells_of_are_priced(tmp_path: Path) -> None:
    routes = '{"normal":{"easy":"openai/gpt-4.1-mini","hard":"v"}}'
    policy = compile_policy(load(_PROVIDERS, tmp_path, PRO_SMART_ROUTING_ROUTES=routes), {"openai": ["gpt-4.1-nano"]})
    assert policy.prices["openai/gpt-4.1-mini"] == Price(0.4, 1.6)
    assert policy.prices["openai/gpt-4.1-nano"] == Price(0.1, 0.4)


@pytest.mark.parametrize("rate", ["-1", ".nan", ".inf", "cheap", '"1"', "true"])
def test_a_bad_price_is_a_fault_at_its_place(tmp_path: Path, rate: str) -> None:
    yaml = (
        f"providers:\n  openai:\n    api_key: k\n    models:\n      - {{id: m, pricing: {{input_per_mtok: 1, output_per_mtok: {rate}}}}}\n"
    )
    with pytest.raises(ConfigurationError) as caught:
        load(yaml, tmp_path)
    assert [fault.place for fault in caught.value.faults] == ["config.yaml: providers.openai.models[0].pricing.output_per_mtok (line 5)"]
