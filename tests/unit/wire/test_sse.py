"""The event-stream parser: the vectors at every split point, its bounds, and what it says of progress."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.wire.sse import SseEvent, SseParser

CASES = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "sse.json").read_text())["parser"]


def parse(parser: SseParser, *chunks: bytes) -> list[SseEvent]:
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_stream_splits_into_the_same_events_at_every_point(case: dict[str, Any]) -> None:
    stream = case["stream"].encode()
    expected = [SseEvent(name.encode() if name is not None else None, data.encode()) for name, data in case["events"]]
    splits = [(stream[:at], stream[at:]) for at in range(len(stream) + 1)]
    for chunks in [*splits, tuple(stream[at : at + 1] for at in range(len(stream))), (b"", stream, b"")]:
        parser = SseParser(case.get("max_event_bytes", 1 << 20))
        assert parse(parser, *chunks) == expected
        assert parser.oversize_count == case.get("skipped", 0)


@pytest.mark.parametrize("chunk_bytes", [1, 1000, 1 << 20])
def test_of_an_event_above_the_bound_the_head_can_be_kept(chunk_bytes: int) -> None:
    stream = b"event: big\ndata: " + b"y" * 6000 + b"\ndata: z\n\n"
    parser = SseParser(5000, keeps_heads=True)

    events = parse(parser, *(stream[at : at + chunk_bytes] for at in range(0, len(stream), chunk_bytes)))

    assert [(event.event, event.is_cut) for event in events] == [(b"big", True)]
    assert set(events[0].data) == {ord("y")}
    assert 4000 < len(events[0].data) <= 4096
    assert parser.oversize_count == 1


def test_what_is_kept_of_an_endless_line_is_bounded() -> None:
    parser = SseParser(10_000)
    for _ in range(200):
        parser.feed(b"x" * 1000)
    assert len(parser._line) == 4096


def test_single_bytes_cost_no_more_than_their_number() -> None:
    def seconds(count: int) -> float:
        parser = SseParser()
        began_s = time.perf_counter()
        for _ in range(count):
            parser.feed(b"x")
        return time.perf_counter() - began_s

    seconds(100)
    assert seconds(4000) < 40 * max(seconds(400), 1e-5)


@pytest.mark.parametrize(
    ("chunks", "progress"),
    [
        ((b"data: a\n\n",), [True]),
        ((b": note\n\n",), [False]),
        ((b": no", b"te\n", b"\n", b"\n\n"), [False, False, False, False]),
        ((b"da", b"ta: a", b"\n", b"\n"), [True, True, True, True]),
        ((b"data: a\n", b": note\n", b"\n"), [True, False, True]),
        ((b"id: 1\n", b""), [True, False]),
    ],
)
def test_comments_and_blank_lines_are_no_progress(chunks: tuple[bytes, ...], progress: list[bool]) -> None:
    parser = SseParser()
    seen = []
    for chunk in chunks:
        parser.feed(chunk)
        seen.append(parser.has_progressed)
    assert seen == progress


@pytest.mark.parametrize(
    ("stream", "is_mid_event"),
    [(b"", False), (b"data: a\n\n", False), (b": x\n", False), (b"d", True), (b"data: a\n", True), (b"event: x\n", True), (b": x", True)],
)
def test_it_tells_whether_an_event_is_open(stream: bytes, is_mid_event: bool) -> None:
    parser = SseParser()
    parser.feed(stream)
    assert parser.is_mid_event is is_mid_event
