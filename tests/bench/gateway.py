"""Compare the gateway with nginx (and, with --vs, with another gateway) in one run: the work of `scripts/bench_gateway`.

Everything is on loopback: the gateway under test on the first core, the fake provider and the load on the second. Targets take turns in
every setting, so that what else the machine does meets all of them; figures are medians over the rounds.
"""

import argparse
import contextlib
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORES = sorted(os.sched_getaffinity(0))
GATEWAY_CORE, LOAD_CORE = CORES[0], CORES[-1]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
START_S = 120.0
"""Longest start: some gateways need half a minute where other jobs run too."""
_LUA = """wrk.method = "POST"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer bench"
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{{"rps":%.1f,"p50_ms":%.3f,"p99_ms":%.3f,"requests":%d,"errors":%d}}\\n',
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, summary.requests,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""
_NGINX = """daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {dir}/nginx.pid; error_log {dir}/nginx.log error;
events {{ worker_connections 8192; }}
http {{ access_log off; client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d;
  scgi_temp_path {dir}/e; client_max_body_size 20m; client_body_buffer_size 1m; keepalive_requests 100000000;
  upstream up {{ server 127.0.0.1:{upstream}; keepalive 2048; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }} }} }}
"""


@dataclass
class Target:
    """Something that is measured."""

    name: str
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """Where its chat endpoint is."""
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def cpu_s(self) -> float:
        """CPU seconds that it and its children have used."""
        return sum(_cpu_s(pid) for pid in _family(self.process.pid))

    def rss_mb(self) -> float:
        """Resident memory of it and its children, MiB."""
        return sum(_rss_mb(pid) for pid in _family(self.process.pid))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def pinned(core: int, *command: str) -> list[str]:
    """The command, kept on one core."""
    return ["taskset", "-c", str(core), *command]


@contextlib.contextmanager
def running(command: list[str], port: int, **kwargs: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that listens on `port` while the block runs."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **kwargs)
    try:
        deadline_s = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"{command[3] if len(command) > 3 else command[0]} did not start")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


@contextlib.contextmanager
def targets(options: argparse.Namespace, folder: Path) -> Iterator[list[Target]]:
    """The provider and everything to be measured, running."""
    with contextlib.ExitStack() as stack:
        upstream = start_upstream(stack)
        found = [
            Target("direct", upstream, stack.enter_context(contextlib.nullcontext(subprocess.Popen(["true"])))),
            _start_nginx(stack, folder, upstream),
            start_gateway(stack, folder, f"http://127.0.0.1:{upstream}"),
        ]
        for number, command in enumerate(options.vs):
            other = start_other(stack, command, upstream)
            other.name += "" if number == 0 else f"-{number + 1}"
            found.append(other)
        yield found


def start_upstream(stack: contextlib.ExitStack, *options: str) -> int:
    """The fake provider on the second core; its port."""
    port = free_port()
    stack.enter_context(running(pinned(LOAD_CORE, sys.executable, str(HERE / "upstream.py"), str(port), *options), port))
    return port


def start_other(stack: contextlib.ExitStack, command: str, upstream: int) -> Target:
    """Another gateway by its command, `{port}` and so on filled in, on the first core."""
    port = free_port()
    filled = command.format(port=port, upstream=f"http://127.0.0.1:{upstream}", upstream_port=upstream)
    process = stack.enter_context(running(pinned(GATEWAY_CORE, *shlex.split(filled)), port))
    return Target(Path(shlex.split(command)[0]).name, port, process)


def _start_nginx(stack: contextlib.ExitStack, folder: Path, upstream: int) -> Target:
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(dir=folder, port=port, upstream=upstream))
    return Target("nginx", port, stack.enter_context(running(pinned(GATEWAY_CORE, "nginx", "-c", str(config)), port)))


def start_gateway(stack: contextlib.ExitStack, folder: Path, upstream: str, **more: str) -> Target:
    """The gateway under test before the provider at `upstream` (a URL without path), on the first core, with `more` variables."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
    variables = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "GOMODEL_MASTER_KEY": "bench",
        "OPENAI_API_KEY": "bench",
        "OPENAI_BASE_URL": f"{upstream}/v1",
        "OPENAI_WEST_API_KEY": "bench",
        "OPENAI_WEST_BASE_URL": f"{upstream}/v1",
        "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"small","hard":"large"}}',
        "VIRTUAL_MODELS": json.dumps(
            [
                {"source": source, "strategy": "adaptive", "targets": [{"model": f"openai/{source}"}, {"model": f"openai-west/{source}"}]}
                for source in ("small", "large")
            ]
        ),
    }
    command = pinned(GATEWAY_CORE, *shlex.split(os.environ.get("GOMODEL_TRIO_BINARY", f"{sys.executable} -m gomodel_trio")), "serve")
    process = stack.enter_context(running(command, port, env=kept | variables | more, cwd=folder))
    return Target("gomodel_trio", port, process)


# ---- measuring ------------------------------------------------------------------------------------------------------


def measure(target: Target, row: "Row", folder: Path, seconds: float) -> dict[str, float]:
    """One round of one setting."""
    cpu_s = target.cpu_s() if target.name != "direct" else 0.0
    if row.is_stream:
        command = [sys.executable, str(HERE / "stream_load.py"), target.url, str(row.body_file(folder)), str(row.concurrency), str(seconds)]
    else:
        script = folder / f"{row.body}.lua"
        script.write_text(_LUA.format(body=row.body_file(folder)))
        command = ["wrk", "-t1", f"-c{row.concurrency}", f"-d{seconds:g}s", "-s", str(script), target.url]
    done = subprocess.run(pinned(LOAD_CORE, *command), capture_output=True, text=True, check=True, timeout=seconds + 60)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    if target.name != "direct":
        units = found["chunks_per_s"] * seconds if row.is_stream else found["requests"]
        found["cpu_ms"] = (target.cpu_s() - cpu_s) * 1000 / max(1, units)
        found["rss_mb"] = target.rss_mb()
    return found


@dataclass(frozen=True)
class Row:
    """One setting."""

    title: str
    body: str
    concurrency: int

    @property
    def is_stream(self) -> bool:
        """Whether its answers are streams."""
        return self.body == "stream"

    def body_file(self, folder: Path) -> Path:
        """The file that holds its request body."""
        return folder / f"{self.body}.json"


ROWS = [
    Row("unary c=1", "chat", 1),
    Row("unary c=16", "chat", 16),
    Row("unary c=64", "chat", 64),
    Row("unary c=256", "chat", 256),
    Row("100 KB c=16", "big", 16),
    Row("100 streams", "stream", 100),
    Row("1000 streams", "stream", 1000),
]


def write_bodies(folder: Path) -> None:
    """The requests: 1.5 KB, 100 KB, and 1.5 KB streamed, for the alias `normal`."""
    words = "Please tell me something short about the weather in the mountains. "
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": words * 19}]
    chat: dict[str, Any] = {"model": "normal", "messages": messages, "temperature": 0.7, "max_tokens": 200}
    turns = [{"role": role, "content": words * 15} for _ in range(49) for role in ("user", "assistant")]
    (folder / "chat.json").write_text(json.dumps(chat))
    (folder / "stream.json").write_text(json.dumps({**chat, "stream": True}))
    (folder / "big.json").write_text(json.dumps({**chat, "messages": [*messages, *turns, messages[1]]}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_gateway", description="Compare the gateway with nginx and others in one run.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round (default 4)")
    parser.add_argument("--rounds", type=int, default=3, help="of each setting (default 3)")
    parser.add_argument("--only", default="", help="settings whose title contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rounds to FILE")
    parser.add_argument(
        "--vs",
        action="append",
        default=[],
        metavar="COMMAND",
        help="another gateway; {port}, {upstream} (a URL) and {upstream_port} are filled in",
    )
    options = parser.parse_args()
    rows = [row for row in ROWS if options.only in row.title]
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as name, targets(options, Path(name)) as found:
        write_bodies(Path(name))
        for target in found[1:]:
            warm_up(target, Path(name))
        for row in rows:
            for _ in range(options.rounds):
                for target in found:
                    results.setdefault(row.title, {}).setdefault(target.name, []).append(measure(target, row, Path(name), options.seconds))
            _show(row, results[row.title])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def warm_up(target: Target, folder: Path) -> None:
    """One request, which has to succeed."""
    request = urllib.request.Request(
        target.url, (folder / "chat.json").read_bytes(), {"content-type": "application/json", "authorization": "Bearer bench"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
        assert b"chat.completion" in answer.read()


def _show(row: Row, by_target: dict[str, list[dict[str, float]]]) -> None:
    rate = "chunks_per_s" if row.is_stream else "rps"
    low, high = ("first_p50_ms", "first_p99_ms") if row.is_stream else ("p50_ms", "p99_ms")
    nginx = _median(by_target["nginx"], rate) or 1.0
    sys.stdout.write(
        f"\n{row.title}: {'chunks' if row.is_stream else 'requests'}/s, × nginx, p50 and p99 ms, CPU ms each, RSS MB, errors\n"
    )
    for name, rounds in by_target.items():
        value = _median(rounds, rate) or 0.0
        cells = [f"{value:>10,.0f}", f"{value / nginx:>6.2f}", *(f"{_median(rounds, key) or 0:>9.2f}" for key in (low, high))]
        cells += [
            f"{_median(rounds, 'cpu_ms') or 0:>8.3f}",
            f"{_median(rounds, 'rss_mb') or 0:>7.0f}",
            f"{sum(r['errors'] for r in rounds):>5.0f}",
        ]
        extra = f"  chunk delay p50 {_median(rounds, 'delay_p50_ms')} p99 {_median(rounds, 'delay_p99_ms')} ms" if row.is_stream else ""
        sys.stdout.write(f"  {name:<16}{' '.join(cells)}{extra}\n")
    sys.stdout.flush()


def _median(rounds: list[dict[str, float]], key: str) -> float | None:
    values = [found[key] for found in rounds if found.get(key) is not None]
    return statistics.median(values) if values else None


# ---- /proc ----------------------------------------------------------------------------------------------------------


def _family(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += _family(int(child))
    return found


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
    return 0.0


def _rss_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
