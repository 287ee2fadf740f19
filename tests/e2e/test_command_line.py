"""The command line: exit codes, all faults at once and by name, and never a secret."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from support.gateway_process import GatewayProcess, run_command

pytestmark = pytest.mark.e2e

SECRETS = ("sk-first-secret", "sk-second-secret", "sk-ant-secret", "master-secret")
KEYS = {
    "OPENAI_API_KEY": SECRETS[0],
    "OPENAI_API_KEY_2": SECRETS[1],
    "ANTHROPIC_API_KEY": SECRETS[2],
    "GOMODEL_MASTER_KEY": SECRETS[3],
}
FAULTS = {
    "PORT": "99999",
    "BODY_SIZE_LIMIT": "much",
    "HTTP_TIMEOUT": "soon",
    "RETRY_MAX_RETRIES": "-1",
    "LOG_LEVEL": "chatty",
    "METRICS_ENABLED": "perhaps",
    "PRO_SMART_ROUTING_THRESHOLD": "1.5",
    "PRO_SMART_ROUTING_KEYWORDS": "tricky",
    "PRO_ROUTING_OBJECTIVE": "fast",
    "PRO_ROUTING_MIN_WEIGHT_FRACTION": "0.9",
    "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"openai/a"}}',
    "VIRTUAL_MODELS": '[{"source":"x","target":"x"},{"source":"y"}]',
    "SESSION_HEADER_1": "Authorization",
}


@pytest.mark.parametrize("command", [[], ["serve"], ["check-config"]])
def test_without_any_provider_it_ends_with_two_and_names_the_variables(tmp_path: Path, command: list[str]) -> None:
    run = run_command(*command, directory=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "--demo"):
        assert name in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", ["serve", "check-config", "explain"])
def test_every_fault_is_told_at_once_and_no_secret_is(tmp_path: Path, command: str) -> None:
    run = run_command(command, directory=tmp_path, variables={**KEYS, **FAULTS}, stdin="{}")
    assert (run.returncode, run.stdout) == (2, "")
    head, *told = run.stderr.splitlines()
    places = Counter(re.findall(r"^  ([A-Z_0-9]+)\S*: ", "\n".join(told), re.MULTILINE))
    assert head == "The configuration is wrong:"
    assert places == {**dict.fromkeys(FAULTS, 1), "VIRTUAL_MODELS": 2}
    assert len(told) == len(FAULTS) + 1
    assert not [secret for secret in SECRETS if secret in run.stderr]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("""'{"normal":{"easy":"a","hard":"b"}}'""", "single quotes"),
        ('''"{"normal":{"easy":"a","hard":"b"}}"''', "quotes"),
        (r"{\"normal\":{\"easy\":\"a\",\"hard\":\"b\"}}", "backslash"),
        ("{normal:{easy:a,hard:b}}", "quotes"),
        ('{"normal":{"easy":"a","hard":"b"}', "line 1, column 34"),
        ('{"normal":{"easy":"a"}}', "hard"),
        ('{"normal":{"easy":"a","hard":""}}', "hard"),
        ('{"normal":{"easy":"a","hard":7}}', "hard"),
        ("[]", "object"),
    ],
)
def test_a_broken_routes_variable_is_told_with_place_and_cause(tmp_path: Path, value: str, words: str) -> None:
    run = run_command("check-config", directory=tmp_path, variables={"ECHO_ENABLED": "true", "PRO_SMART_ROUTING_ROUTES": value})
    assert run.returncode == 2
    (line,) = [line for line in run.stderr.splitlines() if "PRO_SMART_ROUTING_ROUTES" in line]
    assert words in line


@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_an_empty_variable_is_unset(tmp_path: Path, value: str) -> None:
    run = run_command(
        "check-config", directory=tmp_path, variables={"ECHO_ENABLED": "true", "PRO_SMART_ROUTING_ROUTES": value, "PORT": value}
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "port 8080" in run.stdout


def test_a_good_configuration_is_described_without_its_secrets(tmp_path: Path) -> None:
    routes = '{"normal":{"easy":"openai/small","hard":"anthropic/opus"}}'
    run = run_command("check-config", directory=tmp_path, variables={**KEYS, "PRO_SMART_ROUTING_ROUTES": routes})
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[-1] == "The configuration is good."
    assert "alias normal: easy openai/small, hard anthropic/opus" in run.stdout
    assert "2 keys" in run.stdout
    assert not [secret for secret in SECRETS if secret in run.stdout]


def test_warnings_are_told_and_are_no_faults(tmp_path: Path) -> None:
    routes = '{"normal":{"easy":"nowhere/x","hard":"echo/echo-large"}}'
    variables = {"ECHO_ENABLED": "true", "PRO_SMART_ROUTING_ROUTES": routes, "GOMODEL_PRO_LICENSE": "license-secret"}
    run = run_command("check-config", directory=tmp_path, variables=variables)
    assert run.returncode == 0
    warnings = [line for line in run.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == len(run.stderr.splitlines()) == 2
    assert any("normal.easy" in line and "nowhere/x" in line for line in warnings)
    assert any("GOMODEL_PRO_LICENSE" in line for line in warnings)
    assert "license-secret" not in run.stderr + run.stdout


def test_files_are_read_in_their_order_and_the_environment_comes_first(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server: {port: 1111}\nproviders: {echo: {type: echo}}\n", encoding="utf-8")
    assert "port 1111" in run_command("check-config", directory=tmp_path).stdout
    (tmp_path / ".env").write_text("PORT=2222\n", encoding="utf-8")
    assert "port 2222" in run_command("check-config", directory=tmp_path).stdout
    (tmp_path / "other.env").write_text("PORT=3333\n", encoding="utf-8")
    assert "port 3333" in run_command("check-config", "--env-file", "other.env", directory=tmp_path).stdout
    assert "port 4444" in run_command("check-config", "--env-file", "other.env", directory=tmp_path, variables={"PORT": "4444"}).stdout


def test_an_unknown_key_in_the_yaml_file_is_a_fault_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("providers: {echo: {type: echo}}\nserver:\n  prot: 1\n", encoding="utf-8")
    run = run_command("check-config", directory=tmp_path)
    assert run.returncode == 2
    assert "config.yaml: server.prot (line 3): unknown key 'prot'; did you mean 'port'?" in run.stderr


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_told(tmp_path: Path, arguments: list[str]) -> None:
    run = run_command(*arguments, directory=tmp_path)
    assert run.returncode == 0
    assert re.fullmatch(r"gomodel-trio \d+\.\d+\.\d+\S*\n", run.stdout)


def test_help_names_every_command_and_a_wrong_one_ends_with_two(tmp_path: Path) -> None:
    told = run_command("--help", directory=tmp_path)
    assert told.returncode == 0
    assert all(name in told.stdout for name in ("serve", "check-config", "explain", "version"))
    wrong = run_command("sevre", directory=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'sevre'" in wrong.stderr


def test_a_port_that_is_taken_ends_with_two_and_says_which(tmp_path: Path) -> None:
    with GatewayProcess({"ECHO_ENABLED": "true"}, directory=tmp_path) as gateway:
        run = run_command("serve", directory=tmp_path, variables={"ECHO_ENABLED": "true", "HOST": "127.0.0.1", "PORT": str(gateway.port)})
    assert run.returncode == 2
    assert str(gateway.port) in run.stderr
    assert "Traceback" not in run.stderr + run.stdout


def test_keys_are_in_no_line_of_a_running_gateway(tmp_path: Path) -> None:
    variables = {**KEYS, "LOG_LEVEL": "debug", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "RETRY_MAX_RETRIES": "0"}
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        body = {"model": "openai/x", "messages": [{"role": "user", "content": "a private prompt"}]}
        answer = gateway.exchange("POST", "/v1/chat/completions?key=query-secret", headers={"X-Api-Key": SECRETS[3]}, body=body)
        gateway.exchange("POST", "/v1/chat/completions", headers={"Authorization": "Bearer not-the-key"}, body=body)
        gateway.wait_until(lambda: len(gateway.logged("request")) == 2)
        gateway.terminate()
        assert gateway.wait() == 0
    said = "\n".join([*gateway.stdout, *gateway.stderr, answer.text, json.dumps(answer.headers)])
    for private in (*SECRETS, "a private prompt", "query-secret", "not-the-key", "127.0.0.1:1/"):
        assert private not in said


def test_keys_that_clients_put_elsewhere_are_in_no_line_either(tmp_path: Path) -> None:
    variables = {**KEYS, "LOG_LEVEL": "debug", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "RETRY_MAX_RETRIES": "0"}
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        body = {"model": "openai/x", "messages": []}
        for key in SECRETS:
            headers = {"X-Api-Key": SECRETS[3], "X-Session-Id": key, "X-Request-ID": key, "X-GoModel-User-Path": f"/{key}"}
            gateway.exchange("POST", "/v1/chat/completions", headers=headers, body=body)
            gateway.exchange("GET", f"/v1/models/{key}", headers=headers)
            gateway.exchange("GET", f"/{key}/{key}")
        gateway.wait_until(lambda: len(gateway.logged("request")) == 3 * len(SECRETS))
    said = "\n".join([*gateway.stdout, *gateway.stderr])
    assert not [key for key in SECRETS if key in said]
    assert "[REDACTED]" in said
