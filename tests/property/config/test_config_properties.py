"""Whatever an operator writes, the configuration is read or its faults are told; nothing else is ever raised."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.config.catalogue import VARIABLES
from gomodel_trio.config.dotenv import parse_dotenv
from gomodel_trio.config.expand import ReferenceFault, expand
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.yaml_file import parse_yaml
from gomodel_trio.errors import ConfigurationError

NOWHERE = Path("/nonexistent")
NAMES = st.sampled_from(["a", "b", "c", "openai/x", "d", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TARGET = st.fixed_dictionaries({}, optional={"model": NAMES | JSON, "weight": JSON, "provider": NAMES | JSON})
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "source": NAMES | JSON,
        "target": NAMES,
        "targets": st.lists(TARGET, max_size=4),
        "strategy": JSON,
        "slowdown": JSON,
        "enabled": JSON,
    },
)
NO_SURROGATES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def attempt(environ: dict[str, str], cwd: Path = NOWHERE) -> None:
    """Load, and accept faults that name a place."""
    try:
        load_settings(environ, config_file=None, env_file=None, cwd=cwd)
        return
    except ConfigurationError as error:
        faults = error.faults
    assert faults
    assert all(fault.place and fault.message for fault in faults)


@given(st.lists(ENTRY | JSON, max_size=5))
def test_any_virtual_models_are_read_or_faulty(entries: list[object]) -> None:
    attempt({"VIRTUAL_MODELS": json.dumps(entries), "OPENAI_API_KEY": "k"})


@given(JSON, JSON)
def test_any_routes_and_keywords_are_read_or_faulty(routes: object, keywords: object) -> None:
    attempt({"PRO_SMART_ROUTING_ROUTES": json.dumps(routes), "PRO_SMART_ROUTING_KEYWORDS": json.dumps(keywords)})


@given(
    st.dictionaries(
        st.sampled_from([*VARIABLES, "OPENAI_API_KEY", "OPENAI_MODELS", "AZURE_BASE_URL", "SESSION_HEADER_1"]), st.text(max_size=30)
    )
)
def test_any_variables_are_read_or_faulty(environ: dict[str, str]) -> None:
    attempt(environ)


@given(JSON)
@settings(max_examples=60)
def test_any_yaml_file_is_read_or_faulty(value: object) -> None:
    sections = {"server": value, "providers": {"openai": value, "local": {"type": "ollama", "models": value}}, "virtual_models": value}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yaml").write_text(json.dumps(sections))
        attempt({}, Path(folder))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_yaml_or_faulty(content: bytes) -> None:
    findings = Findings()
    assert isinstance(parse_yaml(content, "f", findings).values, dict)


@given(NO_SURROGATES, NO_SURROGATES)
def test_text_without_references_stays_and_escaped_ones_come_back(text: str, inner: str) -> None:
    if "${" not in text:
        assert expand(text, {}.get) == text
    if "${" not in inner and "}" not in inner and not text.endswith("$"):
        assert expand(text.replace("${", "") + "$${" + inner + "}", {}.get).endswith("${" + inner + "}")


@given(st.text("${}:-aA_", max_size=60))
def test_any_reference_is_followed_or_refused(text: str) -> None:
    try:
        outcome = expand(text, {"A": "x"}.get)
    except ReferenceFault as fault:
        outcome = str(fault)
    assert isinstance(outcome, str)


@given(st.dictionaries(st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,8}\Z"), NO_SURROGATES.filter(lambda text: "'" not in text and "\r" not in text)))
def test_single_quoted_values_come_back_as_they_are(values: dict[str, str]) -> None:
    findings = Findings()
    text = "".join(f"{name}='{value}'\n" for name, value in values.items())
    assert parse_dotenv(text, "f", findings) == values
    assert findings.faults == ()
