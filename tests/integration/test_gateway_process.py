"""The process harness, on a stand-in program: it starts, tells, stops and never leaves a process behind."""

import os
import signal
import sys
from pathlib import Path

import pytest

from support.gateway_process import PARTS, GatewayDidNotStart, GatewayProcess, run_command, wait_for

STAND_IN = """#!{python}
import json, os, signal, sys
mode = os.environ.get("MODE", "")
def say(**line):
    print(json.dumps(line), flush=True)
if sys.argv[1] != "serve":
    print(sys.argv[1:], sorted(os.environ), sys.stdin.read())
    sys.exit(3)
if mode == "dies":
    print("PORT: bad", file=sys.stderr)
    sys.exit(2)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
print("not JSON {{", flush=True)
if mode != "mute":
    parts = [os.environ.get(name) for name in ("FRONT_DOOR", "UPSTREAM_TRANSPORT")]
    say(event="listening", host="127.0.0.1", port=4711, arguments=sys.argv[2:], variables=sorted(os.environ), parts=parts)
while True:
    if signal.sigwait([signal.SIGTERM, signal.SIGHUP]) == signal.SIGHUP:
        say(event="reloaded", provider="a")
    elif mode != "deaf":
        say(event="stopped")
        sys.exit(0)
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("GOMODEL_TRIO_BINARY", str(program))
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "x")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_ready_when_it_says_so_and_sees_only_what_it_was_given(tmp_path: Path) -> None:
    with GatewayProcess({"METRICS_ENABLED": "false"}, directory=tmp_path, arguments=["--demo"]) as gateway:
        assert (gateway.port, gateway.url) == (4711, "http://127.0.0.1:4711")
        (line,) = gateway.logged("listening")
        assert line["arguments"] == ["--demo"]
        assert {"HOST", "PORT", "METRICS_ENABLED"} <= set(line["variables"])
        assert "SECRET_OF_THE_MACHINE" not in line["variables"]
        assert gateway.stdout[0] == "not JSON {"
        pid = gateway.pid
    assert not is_alive(pid)


def test_it_is_made_of_the_parts_that_are_chosen_unless_the_test_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in PARTS:
        monkeypatch.delenv(part.variable, raising=False)
    with GatewayProcess(directory=tmp_path) as gateway:
        assert gateway.logs[0]["parts"] == [None, None]
    monkeypatch.setenv("GOMODEL_TRIO_FRONT_DOOR", "hypercorn")
    monkeypatch.setenv("GOMODEL_TRIO_TRANSPORT", "httpx")
    with GatewayProcess({"FRONT_DOOR": "h1"}, directory=tmp_path) as gateway:
        assert gateway.logs[0]["parts"] == ["h1", "httpx"]


def test_signals_logs_and_the_exit_code(tmp_path: Path) -> None:
    with GatewayProcess(directory=tmp_path) as gateway:
        gateway.hang_up()
        assert gateway.wait_for_log("reloaded", provider="a") == {"event": "reloaded", "provider": "a"}
        gateway.terminate()
        assert gateway.wait(5.0) == 0
        assert gateway.logs[-1] == {"event": "stopped"}
        assert not gateway.is_running()
        with pytest.raises(TimeoutError, match="stopped"):
            gateway.wait_for_log("never")


def test_a_start_that_fails_tells_the_exit_code_and_all_that_was_said(tmp_path: Path) -> None:
    gateway = GatewayProcess({"MODE": "dies"}, directory=tmp_path)
    with pytest.raises(GatewayDidNotStart, match=r"(?s)exit code 2.*PORT: bad"):
        gateway.__enter__()


def test_a_start_that_takes_too_long_leaves_no_process(tmp_path: Path) -> None:
    gateway = GatewayProcess({"MODE": "mute"}, directory=tmp_path, start_timeout_s=0.3)
    with pytest.raises(GatewayDidNotStart, match="not JSON"):
        gateway.__enter__()
    assert not is_alive(gateway.pid)


def test_one_that_ignores_term_is_killed_and_a_failing_test_shows_its_output(tmp_path: Path) -> None:
    gateway = GatewayProcess({"MODE": "deaf"}, directory=tmp_path, stop_timeout_s=0.1)
    with pytest.raises(ZeroDivisionError) as failure, gateway:
        raise ZeroDivisionError
    assert "listening" in failure.value.__notes__[0]
    assert gateway.wait(5.0) == -signal.SIGKILL


def test_another_command_runs_to_its_end(tmp_path: Path) -> None:
    done = run_command("explain", "--x", directory=tmp_path, variables={"A": "1"}, stdin="body")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("['explain', '--x'] ['A', 'HOME', ")
    assert done.stdout.endswith(" body\n")


def test_waiting_for_what_never_comes_ends() -> None:
    with pytest.raises(TimeoutError, match="the moon"):
        wait_for(lambda: False, timeout_s=0.01, what="the moon")
