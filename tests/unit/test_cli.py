"""The command line, without a process of its own (behaviour.md §10)."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio import __version__, cli
from gomodel_trio.errors import AddressUnavailable, ConfigFault, ConfigurationError

BODY = b'{"model":"normal","messages":[{"role":"user","content":"think hard"}]}'


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory, and no variables but those that any process needs."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - {"PATH", "HOME", "TMPDIR", "LANG"}:
        monkeypatch.delenv(name)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `serve` was called with, in its place."""
    called: list[Any] = []
    monkeypatch.setattr(cli, "_serve", lambda options: called.append(options) or 0)
    monkeypatch.setattr(cli, "_take_process", lambda *, is_serving: None)  # this process's signals are not the gateway's
    return called


def give_stdin(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))


@pytest.mark.parametrize("arguments", [[], ["serve"]])
def test_without_a_command_it_serves(commands: list[Any], arguments: list[str]) -> None:
    assert cli.main(arguments) == 0
    assert (commands[0].demo, commands[0].config, commands[0].env_file) == (False, None, None)


@pytest.mark.parametrize("before", [[], ["serve"]])
def test_options_without_a_command_are_those_of_serve(commands: list[Any], before: list[str]) -> None:
    assert cli.main([*before, "--demo", "--config", "c.yaml", "--env-file", "e.env"]) == 0
    assert (commands[0].demo, commands[0].config, commands[0].env_file) == (True, Path("c.yaml"), Path("e.env"))


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--env-file", "e.env", "check-config"], "check-config"),
        (["--config", "c.yaml", "--demo", "check-config"], "check-config"),
        (["--env-file=e.env", "serve", "--demo"], "serve"),
        (["--config", "serve", "explain"], "explain"),
        (["--config", "serve"], None),
        (["--demo", "version", "--help"], "version"),
    ],
)
def test_shared_options_may_come_before_the_command(arguments: list[str], command: str | None) -> None:
    found = cli._command_first(arguments)
    if command is None:
        assert found == ["serve", *arguments]
    else:
        at = len(arguments) - 1 - arguments[::-1].index(command)
        assert found == [command, *arguments[:at], *arguments[at + 1 :]]


def test_options_before_the_command_are_heeded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.env").write_text("OPENAI_API_KEY=sk-your-key\nPORT=1234\n")
    assert cli.main(["--env-file", "e.env", "check-config"]) == 0
    assert "port 1234" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fault", "head"),
    [(AddressUnavailable, "The gateway cannot start:"), (ConfigurationError, "The configuration is wrong:")],
)
def test_an_address_that_cannot_be_had_is_no_wrong_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: type[ConfigurationError], head: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise fault([ConfigFault("PORT", "port 1 is in use already")])

    monkeypatch.setattr("gomodel_trio.service.run.Service.run", refuse)
    assert cli.main(["serve", "--demo"]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == [head, "  PORT: port 1 is in use already"]


def test_the_arguments_of_the_process_are_the_default(commands: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gomodel-trio", "--demo"])
    assert cli.main() == 0
    assert commands[0].demo


@pytest.mark.parametrize("arguments", [["nonsense"], ["serve", "--nonsense"], ["serve", "extra"], ["--config"], ["explain", "--header"]])
def test_a_wrong_call_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: gomodel-trio" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["explain", "--help"]])
def test_help_is_exit_code_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    assert "usage: gomodel-trio" in capsys.readouterr().out


def test_the_version_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == 0
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"gomodel-trio {__version__}\n" * 2


def test_a_configuration_is_checked_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://a.test/v1")
    assert cli.main(["check-config"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("The configuration is good.\n")
    assert "sk-secret" not in said.out + said.err


def test_every_fault_is_told_at_once_and_is_exit_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PRO_SMART_ROUTING_THRESHOLD", "many")
    monkeypatch.setenv("BODY_SIZE_LIMIT", "-1")
    for command in ("check-config", "serve"):
        assert cli.main([command]) == 2
        said = capsys.readouterr().err
        assert "PRO_SMART_ROUTING_THRESHOLD" in said
        assert "BODY_SIZE_LIMIT" in said


def test_without_a_provider_it_does_not_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


def test_warnings_of_a_good_configuration_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GOMODEL_PRO_LICENSE", "x")
    assert cli.main(["check-config", "--demo"]) == 0
    assert "warning: " in capsys.readouterr().err


@pytest.mark.parametrize("api", ["chat", "/v1/chat/completions", "v1/chat/completions", "/v1/chat/completions/?x=1"])
def test_a_request_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], api: str) -> None:
    give_stdin(monkeypatch, BODY)
    assert cli.main(["explain", "--demo", "--api", api, "-H", "X-Session-Id:  s ", "-H", "X-GoModel-Tier: easy"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["api"], shown["session"], shown["tier"]["reason"], shown["tier"]["target"]) == (
        "openai.chat",
        "s",
        "forced",
        "normal-easy",
    )


def test_a_request_that_would_be_refused_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give_stdin(monkeypatch, b"{")
    assert cli.main(["explain", "--demo"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "invalid_json"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--api", "images"], "'images' is no endpoint"),
        (["-H", "no colon"], "'no colon' is no header"),
        (["-H", ": x"], "': x' is no header"),
    ],
)
def test_what_cannot_be_explained_says_why(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--demo", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_faults_that_show_while_serving_are_told_as_those_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(self: object, task_status: object) -> None:
        raise ConfigurationError([ConfigFault("PORT", "is taken")])

    monkeypatch.setattr("gomodel_trio.service.run.Service.run", run)
    assert cli.main(["serve", "--demo"]) == 2
    assert "PORT: is taken" in capsys.readouterr().err
