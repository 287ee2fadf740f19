"""The YAML file: keys as written, faults with lines, nothing that runs or swells."""

from pathlib import Path

import pytest

from gomodel_trio.config.findings import Findings
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.yaml_file import parse_yaml
from gomodel_trio.errors import ConfigurationError


def read(text: str) -> tuple[dict[str, object], list[str]]:
    findings = Findings()
    document = parse_yaml(text.encode(), "f", findings)
    return document.values, [str(fault) for fault in findings.faults]


def test_values_and_keys_are_as_written() -> None:
    text = "on: yes\n2: [1, 1.5, null, ~, 'a', 2024-10-21]\nnested: {a.b: x}\n"
    assert read(text) == ({"on": True, "2": [1, 1.5, None, None, "a", "2024-10-21"], "nested": {"a.b": "x"}}, [])


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "\ufeff"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert read(text) == ({}, [])


def test_merge_keys_fill_in_what_is_missing() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 3}\nd: {<<: *a}\n"
    values, faults = read(text)
    assert faults == []
    assert values["c"] == {"x": 3, "y": 1, "z": 2}
    assert values["d"] == {"x": 1, "y": 1}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3\n", "f: a (line 3): the key is given twice, first in line 1"),
        ("a: {b: 1, b: 2}\n", "f: a.b (line 1): the key is given twice, first in line 1"),
        ("a: [1\nb: }", "f line 2, column 2: is no valid YAML: expected ',' or ']', but got ':'"),
        ("a:\n\t- b\n", "f line 2, column 1: is no valid YAML: found character '\\t' that cannot start any token"),
        ("a: 'open\n", "f line 2, column 1: is no valid YAML: found unexpected end of stream"),
        ("a: *b\n", "f line 1, column 4: is no valid YAML: found undefined alias 'b'"),
        ("a: 1\n---\nb: 2\n", "f line 2, column 1: is no valid YAML: but found another document"),
        ("- 1\n", "f: must be a mapping of sections at the top, such as 'server:'"),
        ("words\n", "f: must be a mapping of sections at the top, such as 'server:'"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "f line 1: a has a tag that is not allowed here: tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("a: !!binary aGk=\n", "f line 1: a has a tag that is not allowed here: tag:yaml.org,2002:binary"),
        ("a: !mine x\n", "f line 1: a has a tag that is not allowed here: !mine"),
        ("? [a]\n: 1\n", "f line 1: the top: a key must be a plain word"),
        ("a: {<<: 5}\n", "f line 1: a: '<<' must name a mapping"),
        ("a: &a [*a]\n", "f line 1: has too many values, is nested too deeply, or an anchor refers to itself"),
        ("a: " + "[" * 60 + "]" * 60, "f line 1: has too many values, is nested too deeply, or an anchor refers to itself"),
        ("a: " + "[" * 5000, "f: is nested too deeply"),
        ("a: " + "9" * 5000, "f line 1: a is no usable number"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, fault: str) -> None:
    assert read(text)[1] == [fault]


def test_anchors_do_not_swell() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    _, (fault,) = read("\n".join(lines))
    assert "has too many values" in fault


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a: \x00", b"\x80"])
def test_bytes_that_are_no_text_are_a_fault(content: bytes) -> None:
    findings = Findings()
    assert parse_yaml(content, "f", findings).values == {}
    assert len(findings.faults) == 1


def test_a_file_may_not_be_large(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"#" * ((1 << 20) + 1))
    (tmp_path / ".env").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, config_file=None, env_file=None, cwd=tmp_path)
    assert str(caught.value) == ".env: is larger than 1 MiB\nconfig.yaml: is larger than 1 MiB"


def test_unknown_keys_are_faults_and_those_of_gomodel_warn(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
server: {prot: 1, swagger_enabled: true}
cache: {model: {anything: 1}}
logging: {enabled: true}
serverr: 1
models:
resilience: {retry: {max_retires: 1, jitter_factor: 0.1}}
metrics: [1]
"""
    )
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, config_file=None, env_file=None, cwd=tmp_path)
    assert str(caught.value).splitlines() == [
        "config.yaml: server.prot (line 2): unknown key 'prot'; did you mean 'port'?",
        "config.yaml: serverr (line 5): unknown key 'serverr'; did you mean 'server'?",
        "config.yaml: resilience.retry.max_retires (line 7): unknown key 'max_retires'; did you mean 'max_retries'?",
        "config.yaml: metrics (line 8): must be a section with keys, not a list",
    ]
    (tmp_path / "config.yaml").write_text("server: {swagger_enabled: true}\ncache: {x: 1}\nlogging: {enabled: true}\n")
    assert load_settings({}, config_file=None, env_file=None, cwd=tmp_path).warnings == (
        "config.yaml: server.swagger_enabled (line 1): is GoModel's and not in this version: ignored",
        "config.yaml: cache (line 2): is GoModel's and not in this version: ignored",
        "config.yaml: logging (line 3): comes in a later version: ignored",
    )


def test_references_in_values_are_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden ${PORT_1}\n")
    (tmp_path / "config.yaml").write_text(
        f"""
server:
  port: ${{PORT_1}}
  base_path: ${{BASE:-/g}}
  master_key: ${{file:{tmp_path}/secret}}
metrics: {{enabled: "${{M:-off}}"}}
virtual_models: [{{source: "${{NAME}}", target: ollama/x, enabled: "${{E:-false}}", slowdown: "${{S:-0.5}}"}}]
"""
    )
    settings = load_settings({"PORT_1": "7", "NAME": "n"}, config_file=None, env_file=None, cwd=tmp_path)
    assert (settings.server.port, settings.server.base_path, settings.metrics_enabled) == (7, "/g", False)
    assert settings.server.master_key is not None
    assert settings.server.master_key.reveal() == "hidden ${PORT_1}"
    assert (settings.virtual_models["n"].enabled, settings.virtual_models["n"].slowdown) == (False, 0.5)


def test_references_that_lead_nowhere_are_faults_outside_of_providers(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        'server: {port: "${P}", master_key: "${K", base_path: "${B:-}"}\n'
        'virtual_models: [{source: s, target: x, slowdown: "${W:-wide}", enabled: "${E:-2}"}]\n'
    )
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, config_file=None, env_file=None, cwd=tmp_path)
    assert str(caught.value).splitlines() == [
        "config.yaml: server.master_key (line 1): a '${' has no closing '}' (write '$${' for a literal one)",
        "config.yaml: server.port (line 1): ${P} is not set and has no default; write ${NAME:-} for an empty one",
        "config.yaml: virtual_models[0].enabled (line 2): must be true or false, not a string",
        "config.yaml: virtual_models[0].slowdown (line 2): must be a number, not 'wide'",
    ]


def test_scalars_of_the_wrong_kind_are_faults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "server: {port: true, master_key: 123, host: [1], base_path: ''}\nhttp: {timeout: 1.5, connect_timeout: 1m}\n"
        "metrics: {enabled: 1}\nadaptive_routing: {objective: off}\n"
    )
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, config_file=None, env_file=None, cwd=tmp_path)
    assert str(caught.value).splitlines() == [
        "config.yaml: server.master_key (line 1): must be a secret, not a number (put it in quotes)",
        "config.yaml: server.host (line 1): must be a string, not a list",
        "config.yaml: server.port (line 1): must be a whole number, not 'true'",
        "config.yaml: adaptive_routing.objective (line 4): must be one of latency, cost, balanced, not 'false'",
    ]
