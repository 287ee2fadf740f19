"""The gateway as a process among others: readers who stall, descriptors that run out, odd locales, closed streams, early signals."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import raw_http
from support.gateway_process import GatewayProcess, command, environment, free_port, wait_for
from support.raw_http import Connection

pytestmark = pytest.mark.e2e

ECHO = {"ECHO_ENABLED": "true", "HOST": "127.0.0.1"}
ASCII_ONLY = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
NAMES = {
    "ECHO_ENABLED": "true",
    "VIRTUAL_MODELS": json.dumps([{"source": "größe→", "targets": [{"model": "echo/a"}]}]),
    "PRO_SMART_ROUTING_ROUTES": '{"größe":{"easy":"größe→","hard":"größe→"}}',
}
ASKING = json.dumps({"model": "größe", "messages": [{"role": "user", "content": "仔细思考"}]}, ensure_ascii=False).encode()


@contextlib.contextmanager
def started(directory: Path, variables: dict[str, str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """`serve`, without anybody who reads its output."""
    process = subprocess.Popen([*command(), "serve"], env=environment(variables, directory), cwd=directory, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(5.0)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def is_ready(port: int) -> bool:
    with contextlib.suppress(OSError):
        return raw_http.exchange(port, "GET", "/health").status == 200
    return False


def run(arguments: list[bytes | str], directory: Path, variables: dict[str, str], **options: object) -> subprocess.CompletedProcess[bytes]:
    """Another command, with bytes for output."""
    env = environment(variables, directory)
    options = {"input": b"", "capture_output": True, **options}
    return subprocess.run([*command(), *arguments], env=env, cwd=directory, timeout=30, check=False, **options)  # type: ignore[call-overload,no-any-return]


# ---- the log's reader -----------------------------------------------------------------------------------------------


def test_a_reader_of_the_log_who_stalls_stops_nothing(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, {**ECHO, "PORT": str(port)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: is_ready(port), timeout_s=20.0)
        with Connection(port) as connection:
            for _ in range(60):  # far more than a pipe holds
                connection.request("GET", "/" + "m" * 3000)
                connection.read_answer()
        assert is_ready(port)
        process.terminate()
        assert process.wait(5.0) == 0


def test_what_a_reader_lost_is_told_when_he_is_back(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, {**ECHO, "PORT": str(port)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: is_ready(port), timeout_s=20.0)
        with Connection(port) as connection:
            for _ in range(2000):  # of 3 kB each
                connection.request("GET", "/" + "m" * 3000)
                connection.read_answer()
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline())]
        while lines[-1]["event"] != "log_lines_dropped":
            lines.append(json.loads(process.stdout.readline()))
        assert lines[-1]["count"] + len([line for line in lines if line["event"] == "request"]) == 2000
        process.terminate()
        rest = [json.loads(line) for line in process.stdout.read().splitlines()]
        assert process.wait(5.0) == 0
    assert [line["event"] for line in rest] == ["draining", "stopped"]


def test_closed_standard_streams_are_no_sockets_to_write_the_log_into(tmp_path: Path) -> None:
    port = free_port()

    def close() -> None:
        for descriptor in range(3):
            os.close(descriptor)

    with started(tmp_path, {**ECHO, "PORT": str(port)}, preexec_fn=close) as process:
        wait_for(lambda: is_ready(port), timeout_s=20.0)
        for descriptor in range(3):
            assert os.readlink(f"/proc/{process.pid}/fd/{descriptor}") == "/dev/null"
        process.terminate()
        assert process.wait(5.0) == 0


# ---- descriptors ----------------------------------------------------------------------------------------------------


def limited(directory: Path, monkeypatch: pytest.MonkeyPatch, *limits: str) -> None:
    """Have the gateway started under other limits."""
    script = directory / "limited"
    lines = [f"ulimit {limit}" for limit in limits]
    script.write_text("\n".join(["#!/bin/bash", *lines, f'exec {" ".join(command())} "$@"', ""]), encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("GOMODEL_TRIO_BINARY", str(script))


@pytest.mark.parametrize("door", ["h1", "hypercorn"])
def test_clients_who_say_nothing_leave_descriptors_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str) -> None:
    limited(tmp_path, monkeypatch, "-n 128")
    with GatewayProcess({"ECHO_ENABLED": "true", "FRONT_DOOR": door}, directory=tmp_path) as gateway, contextlib.ExitStack() as stack:
        warning = gateway.wait_for_log("few_descriptors")
        assert (warning["connections"], warning["configured"], warning["descriptors"]) == (48, 10_000, 128)
        served = stack.enter_context(Connection(gateway.port))
        served.request("GET", "/health")
        assert served.read_answer().status == 200
        for _ in range(150):
            silent = socket.create_connection(("127.0.0.1", gateway.port))
            stack.callback(silent.close)
        served.request("POST", "/v1/chat/completions", body={"model": "echo/x", "messages": []})
        assert served.read_answer().status == 200
        assert len(os.listdir(f"/proc/{gateway.pid}/fd")) < 128
        assert not gateway.logged("connection_failed")


def test_the_soft_limit_is_raised_and_nothing_is_said_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(tmp_path, monkeypatch, "-S -n 64")
    with GatewayProcess({"ECHO_ENABLED": "true", "SERVER_MAX_CONNECTIONS": "100"}, directory=tmp_path) as gateway:
        limits = Path(f"/proc/{gateway.pid}/limits").read_text(encoding="ascii")
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3] == line.split()[4]
        assert not gateway.logged("few_descriptors")


# ---- early signals --------------------------------------------------------------------------------------------------


def takes_signals(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has handlers for TERM and HUP (proc(5), SigCgt)."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    (caught,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt")]
    return all(caught >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGHUP))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("later_s", [0.0, 0.1, 0.3, 0.5])
def test_a_gateway_that_is_stopped_while_it_starts_ends_with_0_and_says_nothing(
    tmp_path: Path, number: signal.Signals, later_s: float
) -> None:
    with started(tmp_path, {**ECHO, "PORT": "0"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: takes_signals(process), timeout_s=20.0)
        time.sleep(later_s)  # any moment of the start
        process.send_signal(number)
        said = process.communicate(timeout=5.0)
        assert (process.returncode, said[1]) == (0, b"")


@pytest.mark.parametrize("later_s", [0.0, 0.2])
def test_a_wish_to_reload_while_it_starts_is_heard(tmp_path: Path, later_s: float) -> None:
    port = free_port()
    with started(tmp_path, {**ECHO, "PORT": str(port)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: takes_signals(process), timeout_s=20.0)
        time.sleep(later_s)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: is_ready(port), timeout_s=20.0)
        process.terminate()
        out, _ = process.communicate(timeout=5.0)
        assert process.returncode == 0
        assert out.count(b'"reloaded"') == 1


def test_an_interrupted_command_leaves_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*command(), "explain", "--demo"], env=environment({}, tmp_path), cwd=tmp_path, stdin=reading, stderr=subprocess.PIPE
    )
    with process:
        wait_for(lambda: "pipe" in Path(f"/proc/{process.pid}/wchan").read_text(encoding="ascii") or _is_reading(process), timeout_s=20.0)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert (process.wait(5.0), process.stderr.read()) == (-signal.SIGINT, b"")
    os.close(reading)
    os.close(writing)


def _is_reading(process: subprocess.Popen[bytes]) -> bool:
    """Whether it sleeps in read(0, …)."""
    try:
        return Path(f"/proc/{process.pid}/syscall").read_text(encoding="ascii").split()[:2] == ["0", "0x0"]
    except OSError:
        return False


# ---- output ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", ASCII_ONLY)
def test_any_name_can_be_printed_in_any_locale(tmp_path: Path, locale: dict[str, str]) -> None:
    checked = run(["check-config"], tmp_path, {**NAMES, **locale})
    assert (checked.returncode, checked.stderr) == (0, b"")
    assert rb"gr\xf6\xdfe\u2192" in checked.stdout
    explained = run(["explain"], tmp_path, {**NAMES, **locale}, input=ASKING)
    assert (explained.returncode, explained.stderr) == (0, b"")
    assert json.loads(explained.stdout)["tier"]["target"] == "größe→"
    wrong = run(["check-config"], tmp_path, {**NAMES, **locale, "HOST": "größe@"})
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert b"Traceback" not in wrong.stderr
    assert run(["--help"], tmp_path, locale).returncode == 0


@pytest.mark.parametrize("locale", [{}, *ASCII_ONLY])
def test_a_header_may_hold_any_byte(tmp_path: Path, locale: dict[str, str]) -> None:
    explained = run(["explain", "--demo", "-H", b"X-Session-Id: \xff\xfe"], tmp_path, locale, input=b'{"model":"normal","messages":[]}')
    assert (explained.returncode, explained.stderr) == (0, b"")
    assert run(["explain", "--demo", "-H", b"\xff\xfe"], tmp_path, locale).returncode == 2


@pytest.mark.parametrize("arguments", [["version"], ["check-config", "--demo"], ["--help"]])
def test_output_that_cannot_be_written_is_a_failure_without_a_traceback(tmp_path: Path, arguments: list[bytes | str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    gone = run(arguments, tmp_path, {}, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (gone.returncode, gone.stderr) == (1, b"")
    with open("/dev/full", "wb") as full:
        assert run(arguments, tmp_path, {}, capture_output=False, stdout=full, stderr=subprocess.PIPE).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code"), [(["version"], 0), (["check-config", "--demo"], 0), (["check-config"], 2), (["nonsense"], 2)]
)
def test_closed_streams_do_not_change_the_exit_code(tmp_path: Path, arguments: list[bytes | str], code: int) -> None:
    def close() -> None:
        for descriptor in range(3):
            os.close(descriptor)

    assert run(arguments, tmp_path, {}, input=None, capture_output=False, preexec_fn=close).returncode == code
    reading, writing = os.pipe()
    os.close(reading)
    assert run(arguments, tmp_path, {}, capture_output=False, stdout=subprocess.DEVNULL, stderr=writing).returncode == code
    os.close(writing)


def test_a_key_in_the_place_of_its_files_path_is_not_shown(tmp_path: Path) -> None:
    for key in ("sk-the-key-itself", "/base64/looking+key==", "x" * 5000):
        wrong = run(["check-config"], tmp_path, {"OPENAI_API_KEY_FILE": key})
        assert wrong.returncode == 2
        assert b"OPENAI_API_KEY_FILE" in wrong.stderr
        assert key.encode()[:40] not in wrong.stderr
