"""Time what a decision costs: the work of `scripts/bench_decide`. Medians of many runs, in microseconds."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Kind, SessionId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import Leg, Policy, Provider, SmartRouting, Strategy, VirtualModel
from gomodel_trio.route.score import score_request
from gomodel_trio.route.session import SessionDetector, SessionRules
from gomodel_trio.state.commands import Decide, Decision, Finish, FirstByte, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.splice import rewrite
from gomodel_trio.wire.view import decode_envelope

SIZES = (1_500, 17_000, 100_000, 1_000_000, 10_000_000)
WORDS = "Please tell me something short about the weather in the mountains, and why it changes. "


def body_of(size: int) -> bytes:
    """A chat request of about `size` bytes: a system prompt and turns of a conversation."""
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    turn = min(size // 3, 4_000)
    while sum(len(message["content"]) for message in messages) < size - 200:
        messages.append({"role": "user" if len(messages) % 2 else "assistant", "content": (WORDS * (turn // len(WORDS) + 1))[:turn]})
    messages.append({"role": "user", "content": "And tomorrow?"})
    return json.dumps({"model": "normal", "messages": messages}).encode()


def median_us(work: Callable[[], object], budget_s: float) -> float:
    """The median time of one call."""
    times: list[int] = []
    ends_s = time.perf_counter() + budget_s
    while time.perf_counter() < ends_s or len(times) < 3:
        began = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_decide", description="Time scoring and deciding.")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each figure (default 0.5)")
    budget_s = parser.parse_args().seconds
    matcher, smart, sessions = compile_keywords(()), SmartRouting(), SessionDetector(SessionRules())
    out = sys.stdout.write
    out(f"{'body':>12} {'envelope+score µs':>18} {'session µs':>11} {'splice µs':>10}\n")
    for size in SIZES:
        body = body_of(size)
        score = median_us(lambda body=body: score_request(decode_envelope(body), Api.CHAT, smart, matcher), budget_s)  # type: ignore[misc]
        session = median_us(partial(sessions.detect, [], body, Api.CHAT, ""), budget_s)
        splice = median_us(partial(rewrite, body, model="gpt-5.1"), budget_s)
        out(f"{len(body):>12,} {score:>18,.1f} {session:>11,.1f} {splice:>10,.1f}\n")
    out("\ndecide + first byte + finish in the state, by candidates, µs\n")
    for count in (1, 2, 8, 32):
        out(f"{count:>12} {median_us(decide_once(count), budget_s):>18,.1f}\n")


def decide_once(count: int) -> Callable[[], None]:
    """One whole lease on a state with a virtual model of `count` targets."""
    names = [f"p{number}" for number in range(count)]
    providers = {name: Provider(name, "openai", Dialect.OPENAI, is_available=True) for name in names}
    virtual = VirtualModel("v", tuple(Leg(f"{name}/m") for name in names), Strategy.ADAPTIVE)
    state = RoutingState(Policy(providers=providers, virtual_models={"v": virtual}))
    seq = 0

    def run() -> None:
        nonlocal seq
        at_s, decide = seq / 1000, Decide("v", SessionId(f"s{seq % 1000}"), "", Kind.UNARY)
        decision, _ = step(state, Stamped(seq, at_s, (0.3, 0.7), decide))
        assert isinstance(decision, Decision)
        step(state, Stamped(seq + 1, at_s, (0.3, 0.7), FirstByte(decision.lease)))
        step(state, Stamped(seq + 2, at_s, (0.3, 0.7), Finish(decision.lease, Outcome.SUCCESS)))
        seq += 3

    return run


if __name__ == "__main__":
    main()
