"""Whatever the bytes and their split points: no exception, and the same verdict."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.faults import read_fault
from gomodel_trio.wire.observe import observer_for
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.sse import SseEvent, SseParser
from gomodel_trio.wire.unary import read_answer
from gomodel_trio.wire.usage import read_usage

NAMES = (  # noqa: SIM905
    "type error code message choices delta content finish_reason usage response item model status details metadata index text x_groq"
).split()
WORDS = (  # noqa: SIM905
    "error content_block_delta message_delta message_stop response.failed response.completed response.output_text.delta stop"
).split()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
events = st.builds(lambda name, value: f"event: {name}\ndata: {json.dumps(value)}\n\n".encode(), st.sampled_from(WORDS), json_values)
streams = st.lists(
    events | st.binary(max_size=30) | st.sampled_from([b"\r", b"\r\n", b"\n", b": x\n\n", b"data: [DONE]\n\n"]), max_size=8
).map(b"".join)


def verdict(observer: Observer) -> tuple[object, ...]:
    observer.close()
    return (
        observer.has_content, observer.has_ended, observer.error, observer.parse_errors, observer.usage, observer.model,
        observer.event_count, observer.sequence_number,
    )  # fmt: skip


@given(stream=streams, cuts=st.lists(st.integers(min_value=0, max_value=400), max_size=6), api=st.sampled_from(list(Api)))
@settings(max_examples=150, deadline=None)
def test_an_observer_never_raises_and_split_points_do_not_matter(stream: bytes, cuts: list[int], api: Api) -> None:
    whole, pieces = observer_for(api), observer_for(api)
    whole.feed(stream)
    at = 0
    for cut in [*sorted(cuts), len(stream)]:
        pieces.feed(stream[at:cut])
        at = max(at, cut)
    assert verdict(pieces) == verdict(whole)


@given(stream=st.text(alphabet="da:te v\r\n\ufeffx", max_size=60), cuts=st.lists(st.integers(min_value=0, max_value=70), max_size=5))
@settings(max_examples=150, deadline=None)
def test_the_parser_gives_the_same_events_whatever_the_split_points(stream: str, cuts: list[int]) -> None:
    def parse(chunks: list[bytes]) -> list[SseEvent]:
        parser = SseParser(20, keeps_heads=True)
        return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()

    raw = stream.encode()
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    assert parse([raw[start:end] for start, end in pairwise(bounds)]) == parse([raw])


@given(body=st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()), api=st.sampled_from(list(Api)))
@settings(max_examples=150, deadline=None)
def test_any_body_is_read(body: bytes, api: Api) -> None:
    read_fault(body)
    answer = read_answer(body, api)
    assert read_usage(answer.raw_usage) == answer.usage
