"""Measure what has a limit rather than a rate, each figure beside its goal: the work of `scripts/bench_limits`.

Everything is on loopback, as in `gateway.py`: the gateway on the first core, the fake provider and this process on the second. Each part
starts a gateway of its own. Connections to the provider are counted in the kernel's table, so that nothing depends on what either side
believes it has open.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import trustme
from gateway import GATEWAY_CORE, HERE, LOAD_CORE, Row, Target, measure, start_gateway, start_other, start_upstream, warm_up, write_bodies
from stream_load import percentile_ms

PACE_S = 0.05
"""Between the requests of the latency part: 20 a second, at which every process has gone to sleep before the next comes."""
STREAMS = 1000
HANG_UPS = 40
DRAIN_S = 1.0
CLOSED_WITHIN_S = 5.0
"""How long connections to the provider are watched after their clients have gone."""
_ENDLESS = ("--chunks", "1000000000")
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Figure:
    """One line of the table; `is_met` is None where it was not measured."""

    name: str
    goal: str
    measured: str
    is_met: bool | None
    note: str = ""


@dataclass(frozen=True)
class Bench:
    """What the parts share."""

    folder: Path
    seconds: float
    rounds: int
    requests: int
    litellm: str

    @contextlib.contextmanager
    def gateway(self, *upstream_options: str, **variables: str) -> Iterator[tuple[Target, int]]:
        """The gateway, and the port of its provider, while the block runs."""
        with contextlib.ExitStack() as stack:
            upstream = start_upstream(stack, *upstream_options)
            yield start_gateway(stack, self.folder, f"http://127.0.0.1:{upstream}", **variables), upstream

    def request(self, body: str) -> bytes:
        """A whole request with that body."""
        content = (self.folder / f"{body}.json").read_bytes()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer bench\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


# ---- the parts ------------------------------------------------------------------------------------------------------


def latency(bench: Bench) -> Iterator[Figure]:
    """What the gateway adds to a request when there is little to do, against the provider asked directly in turn."""
    request = bench.request("chat")
    with bench.gateway() as (gateway, upstream):
        connections = {"direct": connected(upstream), "gateway": connected(gateway.port)}
        took_s: dict[str, list[float]] = {name: [] for name in connections}
        for connection in connections.values():
            for _ in range(20):
                exchange(connection, request)
        due_s = time.monotonic()
        for number in range(int(bench.seconds * bench.rounds / PACE_S)):
            due_s += PACE_S
            # Half a pace apart, so that neither finds awake what the other has woken.
            for turn, name in enumerate(sorted(connections, reverse=number % 2 == 0)):
                time.sleep(max(0.0, due_s + turn * PACE_S / 2 - time.monotonic()))
                began_s = time.monotonic()
                exchange(connections[name], request)
                took_s[name].append(time.monotonic() - began_s)
    for share, goal_ms in ((0.5, 0.8), (0.99, 2.0)):
        direct, through = (percentile_ms(took_s[name], share) or 0.0 for name in ("direct", "gateway"))
        note = f"{through:.2f} - {direct:.2f} direct, {len(took_s['gateway'])} requests"
        yield at_most(f"added at 20 req/s, p{share * 100:.0f}", through - direct, goal_ms, "ms", note)


def litellm(bench: Bench) -> Iterator[Figure]:
    """How many times LiteLLM's throughput, in turns."""
    rows = [Row(f"unary c={concurrency}", "chat", concurrency) for concurrency in (16, 64)]
    if not bench.litellm:
        yield from (Figure(f"against LiteLLM, {row.title}", ">= 60 x", "-", None, "needs --litellm COMMAND") for row in rows)
        return
    with contextlib.ExitStack() as stack:
        upstream = start_upstream(stack)
        gateway = start_gateway(stack, bench.folder, f"http://127.0.0.1:{upstream}")
        pair = [gateway, start_other(stack, bench.litellm, upstream)]
        for row in rows:
            ours, theirs = in_turns(bench, pair, partial(measure, row=row, folder=bench.folder, seconds=bench.seconds))
            note = f"{ours['rps']:.0f} against {theirs['rps']:.0f} req/s; CPU a request {theirs['cpu_ms'] / ours['cpu_ms']:.0f} x"
            yield at_least(f"against LiteLLM, {row.title}", ours["rps"] / theirs["rps"], 60, "x", note)


def memory(bench: Bench) -> Iterator[Figure]:
    """Resident memory: idle, for an open stream, and what is left of many requests."""
    with bench.gateway(*_ENDLESS, "--gap", "1") as (gateway, _):
        time.sleep(2)
        idle_mb = gateway.rss_mb()
        with open_streams(bench, gateway.port, 10):  # what the first requests load is not the streams'
            time.sleep(1)
        before_mb = gateway.rss_mb()
        with open_streams(bench, gateway.port, STREAMS):
            time.sleep(3)
            open_kb = (gateway.rss_mb() - before_mb) * 1024 / STREAMS
    yield at_most("memory, idle", idle_mb, 40, "MB", f"{before_mb:.1f} after its first streams")
    yield at_most("memory, an open stream", open_kb, 16, "KB", f"{STREAMS} open")
    with bench.gateway() as (gateway, _):
        warm = load(bench, gateway, bench.requests // 5)
        before_mb = gateway.rss_mb()
        after = load(bench, gateway, bench.requests)
        after_mb = gateway.rss_mb()
    note = f"{before_mb:.1f} after {warm} requests, {after_mb:.1f} after {after} more"
    # Half a megabyte is ten bytes a request, less than any object: pages that were touched late.
    yield at_most(f"memory, growth over {bench.requests}", max(0.0, after_mb - before_mb), 0.5, "MB", note)


def hang_ups(bench: Bench) -> Iterator[Figure]:
    """How long the provider's connection outlives the client's, one at a time and a thousand at once."""
    with bench.gateway(*_ENDLESS) as (gateway, upstream):
        took_s: list[float] = []
        for _ in range(HANG_UPS):
            resting = upstream_connections(upstream)
            with open_streams(bench, gateway.port, 1):
                assert upstream_connections(upstream) > resting
            took_s.append(until_closed_s(upstream, resting)[0])
        note = f"p50 {percentile_ms(took_s, 0.5)}, {HANG_UPS} streams"
        yield at_most("client gone, upstream closed, longest", max(took_s) * 1000, 50, "ms", note)
        resting = upstream_connections(upstream)
        with open_streams(bench, gateway.port, STREAMS):
            opened = upstream_connections(upstream) - resting
        seconds, left = until_closed_s(upstream, resting)
        yield at_most(f"{STREAMS} clients gone, upstream connections left", left, 0, "", f"of {opened}, after {seconds:.2f} s")


def stop(bench: Bench) -> Iterator[Figure]:
    """How long the process outlives SIGTERM with a client that does not read what it asked for."""
    variables = {"SHUTDOWN_DRAIN_TIMEOUT": f"{DRAIN_S:g}s"}
    with (
        bench.gateway(*_ENDLESS, "--gap", "0.001", "--padding", "65536", **variables) as (gateway, upstream),
        contextlib.closing(connected(gateway.port, receive_buffer_bytes=4096)) as stalled,
    ):
        stalled.sendall(bench.request("stream"))
        stalled.recv(1024)
        time.sleep(2)  # every buffer on the way fills
        is_stalled = unread_bytes(upstream) > 0
        began_s = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        try:
            ending = f"exit code {gateway.process.wait(DRAIN_S + 10)}"
        except subprocess.TimeoutExpired:
            ending = "still running"
        took_s = time.monotonic() - began_s
    assert is_stalled, "the gateway went on reading from the provider"
    yield at_most("stop with a stalled reader", took_s, DRAIN_S + 0.2, "s", f"drain time {DRAIN_S:g} s, {ending}")


def tls(bench: Bench) -> Iterator[Figure]:
    """What is left of the throughput when the provider is spoken to in TLS."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    trusted, chain, key = (str(bench.folder / name) for name in ("authority.pem", "chain.pem", "key.pem"))
    authority.cert_pem.write_to_path(trusted)
    for position, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(chain, append=position > 0)
    issued.private_key_pem.write_to_path(key)
    with contextlib.ExitStack() as stack:
        plain = start_gateway(stack, bench.folder, f"http://127.0.0.1:{start_upstream(stack)}")
        secured_upstream = f"https://127.0.0.1:{start_upstream(stack, '--tls', chain, key)}"
        secured = start_gateway(stack, bench.folder, secured_upstream, SSL_CERT_FILE=trusted)
        pair = [plain, secured]
        for row in (Row("unary c=16", "chat", 16), Row("100 KB c=16", "big", 16)):
            yield _tls_figure(
                row.title, "rps", *in_turns(bench, pair, partial(measure, row=row, folder=bench.folder, seconds=bench.seconds))
            )
        for streams in (100, STREAMS):
            yield _tls_figure(f"{streams} streams", "chunks_per_s", *in_turns(bench, pair, partial(steady, bench=bench, streams=streams)))


def _tls_figure(title: str, rate: str, plain: dict[str, float], secured: dict[str, float]) -> Figure:
    cpu = plain["cpu_ms"] / secured["cpu_ms"]
    note = f"{secured[rate]:.0f} against {plain[rate]:.0f} {rate}; by CPU {cpu:.2f} x"
    return at_least(f"TLS upstream against plain, {title}", secured[rate] / plain[rate], 0.85, "x", note)


PARTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "latency": latency,
    "litellm": litellm,
    "memory": memory,
    "hang-ups": hang_ups,
    "stop": stop,
    "tls": tls,
}


# ---- measuring ------------------------------------------------------------------------------------------------------


def at_most(name: str, value: float, goal: float, unit: str, note: str) -> Figure:
    """A figure that should stay low."""
    return Figure(name, f"<= {goal:g} {unit}".rstrip(), f"{value:.2f} {unit}".rstrip(), value <= goal, note)


def at_least(name: str, value: float, goal: float, unit: str, note: str) -> Figure:
    """A figure that should be high."""
    return Figure(name, f">= {goal:g} {unit}", f"{value:.2f} {unit}", value >= goal, note)


def in_turns(bench: Bench, pair: list[Target], once: Callable[[Target], dict[str, float]]) -> list[dict[str, float]]:
    """Medians over the rounds for each of them."""
    rounds: list[list[dict[str, float]]] = [[] for _ in pair]
    for target in pair:
        warm_up(target, bench.folder)
    for _ in range(bench.rounds):
        for target, found in zip(pair, rounds, strict=True):
            found.append(once(target))
    return [
        {key: statistics.median(found[key] for found in each) for key in ("rps", "chunks_per_s", "cpu_ms") if key in each[0]}
        for each in rounds
    ]


def steady(target: Target, bench: Bench, streams: int) -> dict[str, float]:
    """One round of streams once all are open: a thousand handshakes take seconds, and happen once."""
    command = [sys.executable, str(HERE / "stream_load.py"), target.url, str(bench.folder / "stream.json"), str(streams)]
    warm_up_s = 0.5 + streams * 0.004
    with subprocess.Popen([*command, str(bench.seconds), str(warm_up_s)], stdout=subprocess.PIPE) as process:
        time.sleep(warm_up_s)
        cpu_s = target.cpu_s()
        told, _ = process.communicate(timeout=bench.seconds + 60)
    found: dict[str, float] = json.loads(told)
    # Both began and ended a moment apart, by as long as the load takes to start.
    found["cpu_ms"] = (target.cpu_s() - cpu_s) * 1000 / max(1.0, found["chunks_per_s"] * bench.seconds)
    return found


def load(bench: Bench, target: Target, requests: int) -> int:
    """At least so many requests, sixteen at a time; how many there were."""
    done = 0
    while done < requests:
        found = measure(target, Row("", "chat", 16), bench.folder, 1)
        assert found["errors"] == 0
        done += int(found["requests"])
    return done


def connected(port: int, receive_buffer_bytes: int = 0) -> socket.socket:
    """A connection to it."""
    connection = socket.socket()
    if receive_buffer_bytes:  # it has to be known before the handshake
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection: socket.socket, request: bytes) -> None:
    """One request and its whole answer, which has a length."""
    connection.sendall(request)
    answer = b""
    while True:
        received = connection.recv(65536)
        assert received, "the connection was closed"
        answer += received
        head, is_whole, body = answer.partition(b"\r\n\r\n")
        if is_whole:
            assert head.startswith(b"HTTP/1.1 200")
            length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            if len(body) >= length:
                return


@contextlib.contextmanager
def open_streams(bench: Bench, port: int, count: int) -> Iterator[None]:
    """So many streams, each with its first event; at the end their clients are gone, every other one by a reset."""
    request = bench.request("stream")
    connections = []
    try:
        for _ in range(count):
            connections.append(connected(port))
            connections[-1].sendall(request)
        for connection in connections:
            received = b""
            while b"data: " not in received:
                more = connection.recv(65536)
                assert more, "the stream was closed"
                received += more
        yield
    finally:
        for number, connection in enumerate(connections):
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def upstream_connections(port: int) -> int:
    """How many connections to that port are established, seen from the side that opened them."""
    return len(_received_bytes(port))


def unread_bytes(port: int) -> int:
    """What those connections have received and their owner has not read."""
    return sum(_received_bytes(port))


def _received_bytes(port: int) -> list[int]:
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, queues, *_ = line.split()
        if state == _ESTABLISHED and remote.endswith(f":{port:04X}"):
            found.append(int(queues.rpartition(":")[2], 16))
    return found


def until_closed_s(port: int, resting: int) -> tuple[float, int]:
    """Seconds until no more than the resting ones are left, and how many more there still are when patience ends."""
    began_s = time.monotonic()
    while True:
        left = upstream_connections(port) - resting
        took_s = time.monotonic() - began_s
        if left <= 0 or took_s > CLOSED_WITHIN_S:
            return took_s, max(0, left)
        time.sleep(0.0005)


# ---- telling --------------------------------------------------------------------------------------------------------


def show(figure: Figure) -> None:
    """One line of the table."""
    verdict = {True: "ok", False: "MISS", None: "-"}[figure.is_met]
    sys.stdout.write(f"{figure.name:<50}{figure.goal:>12}{figure.measured:>12}  {verdict:<6}{figure.note}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench_limits",
        description="Measure latency at rest, LiteLLM's rate, memory, hang-ups, stopping and TLS to the provider, each beside its goal.",
        epilog="Anything else that runs on the machine shows: p99 and rates are to be believed on a quiet one only.",
    )
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this part; may be given more than once (default: all)")
    parser.add_argument("--litellm", default="", metavar="COMMAND", help="what starts LiteLLM, with bench_gateway's {port} and {upstream}")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="of each rate; latency takes them in one piece (default 5)")
    parser.add_argument("--requests", type=int, default=50_000, help="over which memory must not grow (default 50000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table to FILE")
    options = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    figures: list[Figure] = []
    sys.stdout.write(f"gateway on core {GATEWAY_CORE}, provider and load on core {LOAD_CORE}, load average {os.getloadavg()[0]:.1f}\n")
    show(Figure("figure", "goal", "measured", None))
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), options.seconds, options.rounds, options.requests, options.litellm)
        write_bodies(bench.folder)
        for part in options.only or PARTS:
            for figure in PARTS[part](bench):
                figures.append(figure)
                show(figure)
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))


if __name__ == "__main__":
    main()
