"""The gateway as a process of its own, the way an operator starts it, with a clean environment on a free port.

`GOMODEL_TRIO_BINARY` names an executable to be tested in place of `python -m gomodel_trio`; `GOMODEL_TRIO_FRONT_DOOR` and
`GOMODEL_TRIO_TRANSPORT` name the parts that every process is made of, where a test does not say it.
"""

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from support import raw_http


@dataclass(frozen=True)
class Part:
    """A part of the gateway that there are two of: pytest's option and our variable that choose, and the gateway's setting."""

    option: str
    variable: str
    setting: str
    choices: tuple[str, ...]

    def chosen(self) -> str | None:
        """What is chosen; None: the gateway's default."""
        return os.environ.get(self.variable)


FRONT_DOOR = Part("--front-door", "GOMODEL_TRIO_FRONT_DOOR", "FRONT_DOOR", ("h1", "hypercorn"))
TRANSPORT = Part("--transport", "GOMODEL_TRIO_TRANSPORT", "UPSTREAM_TRANSPORT", ("h1", "httpx"))
PARTS = (FRONT_DOOR, TRANSPORT)


class GatewayDidNotStart(Exception):
    """The process ended, or was not ready in time; the message holds all it said."""


class GatewayProcess:
    """A running gateway, as a context manager.

    `variables` are its whole configuration besides HOST, PORT and what a process needs to run; `arguments` follow `serve`; `directory` is
    where it runs (a `config.yaml` or `.env` there is read). `client_tls` is what its clients trust, where it serves HTTPS. `logs` are the
    JSON lines of its stdout so far; `stdout` and `stderr` hold all.
    """

    def __init__(
        self,
        variables: Mapping[str, str] | None = None,
        *,
        directory: Path,
        arguments: Sequence[str] = (),
        client_tls: ssl.SSLContext | None = None,
        start_timeout_s: float = 20.0,
        stop_timeout_s: float = 5.0,
    ) -> None:
        parts = {part.setting: chosen for part in PARTS if (chosen := part.chosen()) is not None}
        self._variables = {"HOST": "127.0.0.1", "PORT": "0", **parts, **(variables or {})}
        self._directory = directory
        self._arguments = list(arguments)
        self.client_tls = client_tls
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._changed = threading.Condition()
        self._open_pipes = 2
        self.logs: list[dict[str, Any]] = []
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.port = 0
        self.http2_port: int | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*command(), "serve", *self._arguments],
            env=environment(self._variables, self._directory),
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        for pipe, lines in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            assert pipe is not None
            threading.Thread(target=self._collect, args=(pipe, lines), daemon=True).start()
        try:
            listening = self.wait_for_log("listening", timeout_s=self._start_timeout_s)
            self.port, self.http2_port = listening["port"], listening.get("http2_port")
        except BaseException as error:
            self._end()
            if isinstance(error, TimeoutError):
                raise GatewayDidNotStart(f"exit code {self._process.returncode}\n{self.output}") from None
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()
        if error is not None:
            error.add_note(f"the gateway said:\n{self.output}")

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self.port}" if self.client_tls is None else f"https://localhost:{self.port}"

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what it said, stderr after stdout."""
        return "\n".join([*self.stdout[-60:], *self.stderr[-60:]])

    def exchange(self, method: str, target: str, **kwargs: Any) -> raw_http.Answer:
        """One request on a connection of its own (see `raw_http.exchange`)."""
        return raw_http.exchange(self.port, method, target, **{"tls": self.client_tls, **kwargs})

    def send_signal(self, number: signal.Signals) -> None:
        """Send any signal."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Send TERM."""
        self.send_signal(signal.SIGTERM)

    def hang_up(self) -> None:
        """Send HUP."""
        self._process.send_signal(signal.SIGHUP)

    def wait(self, timeout_s: float = 40.0) -> int:
        """Wait for its end and for all its output; return the exit code.

        Raises:
            subprocess.TimeoutExpired
        """
        code = self._process.wait(timeout_s)
        with self._changed:
            self._changed.wait_for(lambda: self._open_pipes == 0, 5.0)
        return code

    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def logged(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The log lines so far of that event and with those fields."""
        wanted = {"event": event, **fields}
        return [line for line in list(self.logs) if all(line.get(key) == value for key, value in wanted.items())]

    def wait_for_log(self, event: str, *, timeout_s: float = 5.0, **fields: Any) -> dict[str, Any]:
        """Wait for a log line of that event and with those fields; return the first.

        Raises:
            TimeoutError: none came in time, or the process ended without it.
        """
        self.wait_until(lambda: bool(self.logged(event, **fields)), timeout_s=timeout_s)
        return self.logged(event, **fields)[0]

    def wait_until(self, is_so: Callable[[], bool], *, timeout_s: float = 5.0) -> None:
        """Wait for something that its output shows; it is asked after each line.

        Raises:
            TimeoutError: it was not so in time, or the process ended without it.
        """
        with self._changed:
            self._changed.wait_for(lambda: is_so() or self._open_pipes == 0, timeout_s)
            if not is_so():
                raise TimeoutError(f"not within {timeout_s} s:\n{self.output}")

    def _collect(self, pipe: IO[str], lines: list[str]) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    lines.append(line.rstrip("\n"))
                    if lines is self.stdout and line.startswith("{"):
                        with contextlib.suppress(ValueError):
                            self.logs.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._open_pipes -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(self._stop_timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait(5.0)
        with self._changed:
            self._changed.wait_for(lambda: self._open_pipes == 0, 5.0)


def run_command(
    *arguments: str, directory: Path, variables: Mapping[str, str] | None = None, stdin: str | None = None, timeout_s: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Run another command of the gateway's (`check-config`, `explain`, …) to its end, in the same clean environment."""
    return subprocess.run(
        [*command(), *arguments],
        env=environment(variables or {}, directory),
        cwd=directory,
        input=stdin or "",
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody by itself."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def command() -> list[str]:
    """The gateway's executable, as the head of an argument list."""
    binary = os.environ.get("GOMODEL_TRIO_BINARY")
    return [str(Path(binary).resolve())] if binary else [sys.executable, "-m", "gomodel_trio"]


def environment(variables: Mapping[str, str], directory: Path) -> dict[str, str]:
    """`variables` over what any process needs; nothing else of this process's environment."""
    needed = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(directory), "LANG": "C.UTF-8", "TMPDIR": str(directory)}
    return {**needed, **variables}


def wait_for(is_so: Callable[[], bool], *, timeout_s: float = 5.0, what: str = "") -> None:
    """Ask every 5 ms until it is so: for what shows only from outside (a gauge, a socket).

    Raises:
        TimeoutError
    """
    end = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s: {what or is_so}")
        time.sleep(0.005)
