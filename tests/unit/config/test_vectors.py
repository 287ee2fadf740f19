"""The rules of configuration, from spec/vectors/config.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.config.base_url import check_base_url, is_own_listener
from gomodel_trio.config.catalogue import VARIABLES
from gomodel_trio.config.dotenv import parse_dotenv
from gomodel_trio.config.env_providers import parse_provider_variable
from gomodel_trio.config.environment import Variables
from gomodel_trio.config.expand import ReferenceFault, expand
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.reader import Reader
from gomodel_trio.config.sessions import is_credential_header
from gomodel_trio.config.settings import Settings
from gomodel_trio.config.yaml_file import YamlDocument
from gomodel_trio.errors import ConfigurationError

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "config.json").read_text(encoding="utf-8"))
PROVIDERS = {"OPENAI_API_KEY": "k", "GROQ_API_KEY": "k", "OPENAI_COMPATIBLE_BASE_URL": ""}
LOCAL = "providers:\n  openai: {type: openai}\n  groq: {type: groq}\n  local: {type: vllm, models: [listed]}\n"


def cases(topic: str) -> list[Any]:
    return [pytest.param(case, id=str(case.get("name", index))) for index, case in enumerate(VECTORS[topic])]


def load(environ: dict[str, str], cwd: Path) -> tuple[Settings | None, list[str]]:
    try:
        return load_settings(environ, config_file=None, env_file=None, cwd=cwd), []
    except ConfigurationError as error:
        return None, str(error).splitlines()


def assert_lines(lines: list[str], parts: list[str]) -> None:
    """Every part is in exactly one line, and every line has a part."""
    assert len(lines) == len(parts), lines
    for part in parts:
        assert sum(part in line for line in lines) == 1, (part, lines)


@pytest.mark.parametrize("case", cases("routes"))
def test_routes(case: dict[str, Any], tmp_path: Path) -> None:
    settings, faults = load({"PRO_SMART_ROUTING_ROUTES": case["value"]}, tmp_path)
    assert_lines(faults, case.get("faults", []))
    if settings is not None:
        assert {name: [alias.easy, alias.hard] for name, alias in settings.smart.aliases.items()} == case["aliases"]
    if "cause" in case:
        assert case["cause"] in faults[0]
        assert "systemd unit Environment='PRO_SMART_ROUTING_ROUTES={" in faults[0]


@pytest.mark.parametrize("case", cases("values"))
def test_values(case: dict[str, Any]) -> None:
    findings = Findings()
    name = case["variable"]
    reader = Reader(Variables([("", {name: case["text"]})]), YamlDocument("config.yaml", {}, {}), findings)
    value = reader.value(name)
    if "fault" in case:
        (fault,) = findings.faults
        assert fault.place == name
        assert case["fault"] in fault.message
        default = VARIABLES[name].default
        assert value == Reader(Variables([("", {name: default or ""})]), YamlDocument("config.yaml", {}, {}), findings).value(name)
    else:
        assert findings.faults == ()
        assert value == case["value"]
        assert type(value) is type(case["value"])


@pytest.mark.parametrize("case", cases("virtual_models"))
def test_virtual_models(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(LOCAL)
    environ = {**PROVIDERS, "VIRTUAL_MODELS": json.dumps(case["entries"])}
    settings, faults = load(environ, tmp_path)
    assert_lines(faults, case.get("faults", []))
    if settings is None:
        return
    legs = {
        source: [leg.name + "*" * leg.is_virtual + (f"{leg.weight:g}" if leg.weight else "") for leg in model.legs]
        for source, model in settings.virtual_models.items()
    }
    assert legs == case["legs"]
    first = next(iter(settings.virtual_models.values()))
    assert list(first.user_paths) == case.get("user_paths", [])
    assert first.slowdown == case.get("slowdown")
    for part in case.get("warnings", []):
        assert sum(part in line for line in settings.warnings) == 1, settings.warnings
    if "warnings" not in case:
        assert settings.warnings == ()


@pytest.mark.parametrize("case", cases("session_headers"))
def test_credential_headers(case: dict[str, Any]) -> None:
    assert is_credential_header(case["header"]) is case["is_credential"]


@pytest.mark.parametrize("case", cases("provider_variables"))
def test_provider_variables(case: dict[str, Any]) -> None:
    parsed = parse_provider_variable(case["variable"])
    if case["provider"] is None:
        assert parsed is None
    else:
        assert parsed is not None
        assert (parsed.provider, parsed.type.name, parsed.field, parsed.number) == (
            case["provider"],
            case["type"],
            case["field"],
            case["number"],
        )


@pytest.mark.parametrize("case", cases("base_urls"))
def test_base_urls(case: dict[str, Any]) -> None:
    if "value" in case:
        assert check_base_url(case["url"]) == case["value"]
        return
    with pytest.raises(ValueError, match=case["fault"].replace("?", r"\?")) as caught:
        check_base_url(case["url"])
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("case", cases("own_listener"))
def test_own_listener(case: dict[str, Any]) -> None:
    assert is_own_listener(case["url"], case["host"], [case["port"], case.get("http2_port", 0)]) is case["is_own"]


@pytest.mark.parametrize("spelling", ["gw-1.example.com", "GW-1", "gw-1.local", "gw-1.example.com."])
def test_own_listener_by_the_machines_name(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "gw-1.Example.com")
    assert is_own_listener(f"http://{spelling}:8080/v1", "", [8080])
    assert not is_own_listener(f"http://{spelling}:8080/v1", "127.0.0.1", [8080])
    assert not is_own_listener("http://gw-2.example.com:8080/v1", "", [8080])


@pytest.mark.parametrize("case", cases("references"))
def test_references(case: dict[str, Any]) -> None:
    lookup = {"SET": "value", "TRICKY": "${SET}"}.get
    if "value" in case:
        assert expand(case["text"], lookup) == case["value"]
        return
    with pytest.raises(ReferenceFault) as caught:
        expand(case["text"], lookup)
    assert case["fault"] in str(caught.value)


@pytest.mark.parametrize("case", cases("dotenv"))
def test_dotenv(case: dict[str, Any]) -> None:
    findings = Findings()
    assert parse_dotenv(case["text"], "f", findings) == case["values"]
    assert_lines([str(fault) for fault in findings.faults], case["faults"])
