"""Many requests at once, many of them given up at a random moment, many failing, with reloads in between: afterwards the books are even.

A short run belongs to every test run; the long one is marked.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from support.fake_upstream import default_reply
from support.gateway_process import wait_for
from support.raw_http import request_bytes
from support.replies import Reply, Request, anthropic_error, garbage, openai_error, reset_before_head, sse_reply
from support.stage import APIS, PATHS, SERIES, ApiName, Stage, open_stage, stage_configuration, words_of

pytestmark = pytest.mark.e2e

AT_ONCE = 40
MOST_SOCKETS = 2 * AT_ONCE
"""More than AT_ONCE, for connections are kept for each credential apart, and all eight are not at their busiest at once."""
SHAPES = {"a": 2, "ab": 2, "abc": 2}
STRATEGIES = ("failover", "round_robin", "adaptive")
MOST_GROWTH_BYTES = 40 << 20
CLOSE_WAIT = "08"


class Chaos:
    """A provider that fails a fifth of the time, in every way, and takes its time for the rest."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, request: Request) -> Reply | None:
        rng = self._rng
        is_anthropic = "/messages" in request.path
        if rng.random() < 0.2:
            error = anthropic_error if is_anthropic else openai_error
            failures: list[Callable[[], Reply]] = [
                lambda: error(500),
                lambda: error(503),
                lambda: error(429),
                lambda: error(400),
                lambda: error(401),
                reset_before_head,
                garbage,
                lambda: Reply(200, (("content-type", "application/json"),), (b'{"id":',), declared_length=99, ending="fin"),
                lambda: sse_reply([b": x\n\n"]),
                lambda: sse_reply([b"data: {\n\n"]).cut_after(1, "reset"),
                lambda: openai_error(503).held(rng.uniform(0, 0.05)),
            ]
            return rng.choice(failures)()
        reply = default_reply(request)
        match rng.randrange(4):
            case 0:
                return reply.held(rng.uniform(0, 0.08))
            case 1:
                return reply.slowed(rng.uniform(0, 0.02))
            case 2 if request.json.get("stream"):
                return reply.cut_after(rng.randrange(len(reply.pieces)))
            case _:
                return reply


def names_of(api: ApiName) -> list[str]:
    """Everything that a client may ask for."""
    prefix = "x" if api == "messages" else ""
    names = [f"{prefix}a/a-{number}" for number in range(2)] + [f"{prefix}b/unlisted", "no-such-model"]
    for shape, strategy in [(shape, strategy) for shape in ("ab", "abc") for strategy in STRATEGIES]:
        names += [f"{strategy}-{'-'.join(prefix + leg for leg in shape)}-{number}" for number in range(2)]
    return names


async def ask(stage: Stage, rng: random.Random, number: int, endings: Counter[str]) -> None:
    """One request, given up after a random time in four of ten cases."""
    api = rng.choice(APIS)
    body = {"model": rng.choice(names_of(api)), **words_of(api, f"hello {number}"), "stream": rng.random() < 0.5}
    data = request_bytes("POST", PATHS[api], headers={"X-Session-Id": f"s-{rng.randrange(50)}", "Connection": "close"}, body=body)
    patience_s = rng.uniform(0, 0.04) if rng.random() < 0.4 else 20.0
    stream = await trio.open_tcp_stream("127.0.0.1", stage.gateway.port)
    got = b""
    with trio.move_on_after(patience_s) as scope:
        try:
            await stream.send_all(data)
            while received := await stream.receive_some(65536):
                got += received
        except trio.BrokenResourceError:
            endings["broken"] += 1
    await trio.aclose_forcefully(stream)
    if scope.cancelled_caught:
        assert patience_s < 1.0, f"request {number} got no answer"
        endings["given up"] += 1
    else:
        endings[got[9:12].decode() or "nothing"] += 1


async def reload(stage: Stage, directory: Path, number: int) -> None:
    """Another configuration: a changed key every other time, and every third time without the pools of three."""
    config = stage_configuration(stage.upstream.url, SHAPES if number % 3 else {"a": 2, "ab": 2}, STRATEGIES)
    if number % 2:
        config["providers"]["b"]["api_key"] = "another-key"
    (directory / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    stage.gateway.hang_up()
    with trio.fail_after(10.0):
        while len(stage.gateway.logged("reloaded")) < number:  # noqa: ASYNC110  # the lines come on another thread
            await trio.sleep(0.01)


async def run(stage: Stage, directory: Path, rng: random.Random, count: int, *, reloads: int) -> Counter[str]:
    """That many requests, AT_ONCE at a time, with reloads spread among them."""
    endings: Counter[str] = Counter()
    places = trio.CapacityLimiter(AT_ONCE)
    before = len(stage.gateway.logged("reloaded"))

    async def one(number: int) -> None:
        async with places:
            await ask(stage, rng, number, endings)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            if reloads and number % (count // reloads) == 0:
                await reload(stage, directory, before + 1 + number // (count // reloads))
            nursery.start_soon(one, number)
            if number % 20 == 0:
                await trio.sleep(0.005)
    return endings


def resident_bytes(pid: int) -> int:
    """The memory that the process holds."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024


def half_closed(port: int) -> int:
    """How many sockets from or to the port wait for this machine's side to close them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    word = f":{port:04X}"
    return sum(fields[3] == CLOSE_WAIT and (fields[1].endswith(word) or fields[2].endswith(word)) for fields in lines)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
@pytest.mark.parametrize("count", [1000, pytest.param(30_000, marks=pytest.mark.soak)])
async def test_nothing_is_left_over_when_many_requests_are_given_up_fail_and_meet_reloads(tmp_path: Path, count: int) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    variables = {
        "RETRY_MAX_RETRIES": "1",
        "RETRY_INITIAL_BACKOFF": "20ms",
        "PRO_ROUTING_COOLDOWN_BASE": "50ms",
        "PRO_ROUTING_COOLDOWN_MAX": "200ms",
    }
    with open_stage(tmp_path, variables, pools=SHAPES, strategies=STRATEGIES) as stage:
        stage.upstream.rule = Chaos(rng)
        await run(stage, tmp_path, rng, 300, reloads=0)
        resident = resident_bytes(stage.gateway.pid)
        endings = await run(stage, tmp_path, rng, count, reloads=10)
        assert endings["given up"] > count // 10, (seed, endings)
        assert endings["200"] > count // 4, (seed, endings)
        stage.wait_for_quiet(timeout_s=10.0)
        gauges = [each for each in stage.series() if each[0] in (SERIES + "in_flight", "gomodel_requests_in_flight") and each[2] != 0]
        assert gauges == [], seed
        answered = stage.metric("gomodel_requests_total")
        assert answered <= len(stage.gateway.logged("request"))
        kept = f"{stage.upstream.open_connections} sockets at the upstream are no more than could be needed at once"
        wait_for(lambda: stage.upstream.open_connections <= MOST_SOCKETS, what=kept)
        wait_for(
            lambda: half_closed(stage.upstream.port) + half_closed(stage.gateway.port) == 0, timeout_s=10.0, what="no socket is half closed"
        )
        assert resident_bytes(stage.gateway.pid) - resident < MOST_GROWTH_BYTES, seed
        stage.upstream.rule = None
        pool = stage.pool("a")
        assert pool.ask().status == 200
        assert not stage.gateway.logged("internal_error"), seed
