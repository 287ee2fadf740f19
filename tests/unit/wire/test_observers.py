"""The observers of the three streaming APIs: the vectors, by events and at odd split points, and their bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.fault_status import StreamFault
from gomodel_trio.wire.faults import Fault
from gomodel_trio.wire.observe import observer_for
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.openai_chat import ChatObserver
from gomodel_trio.wire.sse import SseEvent
from gomodel_trio.wire.usage import Usage

CASES = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "sse.json").read_text())["observers"]


def check(observer: Observer, expect: dict[str, Any]) -> None:
    error = observer.error
    assert ({"status": error.status, "after_content": error.after_content} if error else None) == expect["error"]
    assert observer.has_content == (expect["content_at"] is not None)
    assert observer.has_ended == expect["ended"]
    assert observer.parse_errors == expect["parse_errors"]
    assert observer.usage == (Usage(**expect["usage"]) if expect["usage"] else None)
    assert observer.model == expect["model"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['api']}: {case['name']}")
def test_a_stream_says_what_the_vectors_say_event_by_event(case: dict[str, Any]) -> None:
    observer = observer_for(Api(case["api"]))
    content_at = None
    for index, event in enumerate([*case["events"], None]):
        if event is None:
            observer.close()
        else:
            observer.feed(event.encode())
        if observer.has_content and content_at is None:
            content_at = index
    assert content_at == case["expect"]["content_at"]
    check(observer, case["expect"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['api']}: {case['name']}")
@pytest.mark.parametrize(("chunk_bytes", "line_end"), [(1, "\n"), (13, "\r\n"), (100_000, "\r")])
def test_it_says_the_same_at_other_split_points_and_line_ends(case: dict[str, Any], chunk_bytes: int, line_end: str) -> None:
    observer = observer_for(Api(case["api"]))
    stream = "".join(case["events"]).replace("\n", line_end).encode()
    for at in range(0, len(stream), chunk_bytes):
        observer.feed(stream[at : at + chunk_bytes])
    observer.close()
    check(observer, case["expect"])


@pytest.mark.parametrize(
    ("api", "head", "has_content", "has_ended", "status"),
    [
        (Api.CHAT, b'data: {"choices":[', True, False, None),
        (Api.RESPONSES, b'event: response.created\ndata: {"x":"', False, False, None),
        (Api.RESPONSES, b'data: {"type" : "response.in_progress","x":"', False, False, None),
        (Api.RESPONSES, b'data: {"type":"response.completed","x":"', True, True, None),
        (Api.RESPONSES, b'data: {"type":"response.image_generation_call.partial_image","x":"', True, False, None),
        (Api.RESPONSES, b'data: {"type":"response.failed","x":"', False, False, 502),
        (Api.MESSAGES, b'event: message_start\ndata: {"x":"', False, False, None),
        (Api.MESSAGES, b'data: {"type":"content_block_start","x":"', True, False, None),
    ],
)
def test_of_a_huge_event_the_head_says_what_it_is(api: Api, head: bytes, has_content: bool, has_ended: bool, status: int | None) -> None:
    observer = observer_for(api)
    observer.feed(head + b"a" * (1 << 20))
    observer.feed(b'"}\n\n')

    assert (observer.has_content, observer.has_ended, observer.parse_errors) == (has_content, has_ended, 1)
    assert (observer.error.status if observer.error else None) == status


def test_a_huge_event_behind_an_error_commits_nothing() -> None:
    observer = ChatObserver(max_event_bytes=10)
    observer.feed(b"event: error\ndata: x\n\ndata: " + b"a" * 99 + b"\n\n")
    assert (observer.has_content, observer.error) == (False, StreamFault(Fault(message="x"), 502))


@pytest.mark.parametrize("size", [60_000, 70_000])
def test_of_a_body_that_is_no_stream_sixty_four_kib_are_kept(size: int) -> None:
    observer = ChatObserver()
    observer.feed(b'{"choices":[],"x":"')
    for _ in range(0, size, 1000):
        assert observer.feed(b"a" * 1000)
    observer.feed(b'"}')
    observer.close()
    assert observer.has_ended == (size < 65_536)


def test_it_counts_events_and_tells_comments_from_progress() -> None:
    observer = observer_for(Api.MESSAGES)
    assert not observer.feed(b": note\n\n")
    assert observer.feed(b"event: ping\ndata: {}\n\nda")
    assert (observer.event_count, observer.is_mid_event) == (1, True)


def test_after_the_end_it_still_tells_whether_an_event_was_cut() -> None:
    cut, whole = observer_for(Api.CHAT), observer_for(Api.CHAT)
    cut.feed(b'data: {"choi')
    whole.feed(b"data: {}\n\n")
    cut.close()
    whole.close()
    assert (cut.is_mid_event, cut.parse_errors, whole.is_mid_event) == (True, 1, False)


def test_the_last_sequence_number_is_kept_for_an_error_of_ours() -> None:
    observer = observer_for(Api.RESPONSES)
    assert observer.sequence_number == -1
    observer.feed(b'data: {"type":"response.created","sequence_number":4}\n\ndata: {"type":"x"}\n\n')
    assert observer.sequence_number == 4


@pytest.mark.parametrize(("api", "watched"), [(Api.COUNT_TOKENS, Api.MESSAGES), (Api.EMBEDDINGS, Api.CHAT), (Api.RESPONSES, Api.RESPONSES)])
def test_every_api_has_an_observer(api: Api, watched: Api) -> None:
    assert observer_for(api).api is watched


def test_the_base_leaves_meaning_to_its_dialects() -> None:
    with pytest.raises(NotImplementedError):
        Observer()._observe(SseEvent(None, b""))
    with pytest.raises(NotImplementedError):
        Observer()._observe_head(SseEvent(None, b"", is_cut=True))
