"""Long and hostile prompts: scored in linear time, and nobody else waits for it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.stage import Stage, open_stage

pytestmark = pytest.mark.e2e

MILLION = 1_000_000
WITHIN_S = 4.0
"""For ten megabytes there and back on a busy machine; anything quadratic takes minutes."""
OTHERS_WAIT_S = 1.0

TEXTS: dict[str, Callable[[], str]] = {
    "one letter": lambda: "a" * 8 * MILLION,
    "blanks": lambda: " " * 8 * MILLION,
    "line breaks": lambda: "\n" * 4 * MILLION,
    "fences": lambda: "```" * MILLION,
    "fences on lines of their own": lambda: "```\n" * MILLION,
    "backticks of growing length": lambda: " ".join("`" * size for size in range(1, 3500)),
    "the beginnings of a trace": lambda: "Traceback " * 500_000,
    "traces": lambda: "Traceback (most recent call last):\n" * 200_000,
    "the beginning of a phrase": lambda: "think " * MILLION,
    "a phrase that never ends": lambda: "step by " * MILLION,
    "open reminders": lambda: "<system-reminder>" * 400_000,
    "reminders inside each other": lambda: "<system-reminder>" * 200_000 + "</system-reminder>" * 200_000,
    "quotes": lambda: "> " * 4 * MILLION,
    "stack frames": lambda: "    at com.example.Thing.method(Thing.java:12)\n" * 150_000,
    "combining marks": lambda: "e" + "\u0301" * 2 * MILLION,
    "letters that fold to many": lambda: "ﷺ" * 500_000,
    "han": lambda: "死锁" * MILLION,
    "hyphens": lambda: "step-" * MILLION,
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    routes = json.dumps({"normal": {"easy": "a/easy", "hard": "a/hard"}})
    with open_stage(tmp_path_factory.mktemp("long"), {"PRO_SMART_ROUTING_ROUTES": routes, "BODY_SIZE_LIMIT": "64M"}, pools={}) as running:
        yield running


def longest_wait_s(stage: Stage, is_over: threading.Event) -> float:
    """The longest that a health check took while something else ran."""
    longest = 0.0
    while not is_over.is_set():
        began = time.monotonic()
        assert stage.gateway.exchange("GET", "/health").status == 200
        longest = max(longest, time.monotonic() - began)
        is_over.wait(0.02)
    return longest


def timed(stage: Stage, body: dict[str, object]) -> tuple[float, float, str | None]:
    """Ask for the alias: the seconds it took, the longest that others waited, and the tier."""
    is_over = threading.Event()
    data = json.dumps({"model": "normal", **body}, ensure_ascii=False).encode()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(longest_wait_s, stage, is_over)
        began = time.monotonic()
        answer = stage.gateway.exchange("POST", "/v1/chat/completions", body=data, timeout_s=60.0)
        took = time.monotonic() - began
        is_over.set()
        assert answer.status == 200
        return took, waiting.result(), answer.get("x-gomodel-pro-tier")


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_is_scored_in_linear_time_beside_the_others(stage: Stage, name: str) -> None:
    took_s, others_s, _ = timed(stage, {"messages": [{"role": "user", "content": TEXTS[name]()}]})
    assert took_s < WITHIN_S
    assert others_s < OTHERS_WAIT_S


def test_a_long_history_is_scored_in_linear_time_and_its_last_words_count(stage: Stage) -> None:
    history = [{"role": "user" if number % 2 == 0 else "assistant", "content": f"{number} " + "word " * 600} for number in range(3000)]
    took_s, others_s, tier = timed(stage, {"messages": [*history, {"role": "user", "content": "thanks"}]})
    assert (took_s < WITHIN_S, others_s < OTHERS_WAIT_S, tier) == (True, True, "hard")


def test_the_words_at_the_end_of_a_long_message_are_found(stage: Stage) -> None:
    body = {"messages": [{"role": "user", "content": "a " * 900 + "think hard"}]}
    assert timed(stage, body)[2] == "hard"
    body = {"messages": [{"role": "user", "content": "a" * 8 * MILLION + " think hard"}], "reasoning_effort": "none"}
    assert timed(stage, body)[2] == "hard"


def test_many_small_members_are_scored_in_linear_time(stage: Stage) -> None:
    parts = [{"type": "text", "text": "x"}] * 100_000
    took_s, others_s, _ = timed(
        stage, {"messages": [{"role": "user", "content": parts}], "tools": [{}] * 50_000, "metadata": {str(n): n for n in range(50_000)}}
    )
    assert (took_s < WITHIN_S, others_s < OTHERS_WAIT_S) == (True, True)
