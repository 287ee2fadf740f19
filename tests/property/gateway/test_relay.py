"""Whatever an upstream streams and however it is split, the relay hands on exactly its bytes, and never raises (behaviour.md §6)."""

import json
import zlib

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.gateway.stream_out import Limits, Relay, RelayEnd
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.upstream.attempt import Failure, Opened, Question
from gomodel_trio.upstream.decoding import decoder_for
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for
from support.anthropic_replies import messages
from support.inprocess import RESET, FakeResponder, FakeResponse, Piece, Play
from support.openai_replies import chat, responses

WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
ASKED = ({"messages": [{"role": "user", "content": "hi"}]}, {"messages": [{"role": "user", "content": "weather"}], "tools": [WEATHER]})
REPLIES = {Api.CHAT: chat, Api.RESPONSES: responses, Api.MESSAGES: messages}
VALID = {
    api: [[piece for piece in reply({"model": "m", "stream": True, **asked}).pieces if isinstance(piece, bytes)] for asked in ASKED]
    for api, reply in REPLIES.items()
}
ODD = [
    b": comment\n\n",
    b"\n",
    b"\r\n\r\n",
    b"\r",
    b"data\n\n",
    b"data:\n\n",
    b"data: {\n\n",
    b"data: [1,2\ndata: ,3]\n\n",
    b"data: null\n\ndata: 7\n\ndata: []\n\n",
    b"event: unknown\nid: 7\nretry: 10\ndata: {}\n\n",
    b'data: {"choices":null}\n\n',
    b'data: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
    b'data: {"error":{"message":"overloaded","code":503}}\n\n',
    b'event: error\ndata: {"type":"error","sequence_number":"x","code":null}\n\n',
    b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"server_error"}}}\n\n',
    b"\xff\xfe\x00 not text\n\n",
    b"\xef\xbb\xbfdata: [DONE]\n\n",
    b'{"error":{"message":"no stream at all"}}',
    b"data: " + b"[" * 3000 + b"\n\n",
]


@st.composite
def streams(draw: st.DrawFn, api: Api) -> bytes:
    """A whole stream, one with odd events in it, one with other line ends, a broken off one, or mere bytes."""
    events = list(draw(st.sampled_from(VALID[api])))
    for odd in draw(st.lists(st.one_of(st.sampled_from(ODD), st.binary(max_size=40)), max_size=4)):
        events.insert(draw(st.integers(0, len(events))), odd)
    data = b"".join(events)
    if draw(st.booleans()):
        data = data.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r"])))
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces; sometimes each for itself."""
    if len(data) < 300 and draw(st.booleans()):
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=12)))
    return [piece for start, end in zip([0, *places], [*places, len(data)], strict=True) if (piece := data[start:end])]


def relayed(api: Api, pieces: list[Piece], coding: str | None = None) -> tuple[Failure | RelayEnd, FakeResponder]:
    async def main() -> tuple[Failure | RelayEnd, FakeResponder]:
        client = FakeResponder()
        headers = [(b"content-encoding", coding.encode())] if coding else []
        relay = Relay(
            Opened(FakeResponse(Play(pieces=tuple(pieces))), is_event_stream=True),
            client,
            (200, headers),
            question=Question(api, "m", b"{}"),
            observer=observer_for(api),
            decoder=decoder_for(coding),
            limits=Limits(first_content_at_s=trio.current_time() + 600, idle_s=300, commits_unseen=True),
            record=RequestRecord("r", "POST", "/", 0.0),
            on_content=lambda: None,
            on_commit=lambda: None,
        )
        return await relay.run(), client

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), strict_exception_groups=True)


def check(api: Api, data: bytes, end: Failure | RelayEnd, client: FakeResponder, *, is_coded: bool = False) -> None:
    if isinstance(end, Failure):
        assert not client.has_started
        return
    assert client.body[: len(data)] == data
    told = client.body[len(data) :]
    if end.outcome is Outcome.SUCCESS:
        assert (client.ending, told) == ("ended", b"")
    elif end.code == "stream_incomplete" and not is_coded:
        assert client.ending == "aborted"
        line = next(line for line in told.split(b"\n") if line.startswith(b"data: "))
        assert "stream_incomplete" in json.dumps(json.loads(line.removeprefix(b"data: ")))
    else:
        assert told == b""


@pytest.mark.parametrize("api", REPLIES)
@settings(max_examples=150)
@given(drawn=st.data(), is_cut=st.booleans(), gap=st.sampled_from([None, 0.5, 6.0]))
def test_the_bytes_of_any_stream_pass_untouched_however_split(api: Api, drawn: st.DataObject, is_cut: bool, gap: float | None) -> None:
    data = drawn.draw(streams(api))
    pieces: list[Piece] = []
    for piece in drawn.draw(splits(data)):
        pieces += [piece] if gap is None else [gap, piece]
    end, client = relayed(api, [*pieces, RESET] if is_cut else pieces)
    check(api, data, end, client)


@pytest.mark.parametrize("api", REPLIES)
@settings(max_examples=50)
@given(drawn=st.data(), data=st.binary(max_size=400), is_cut=st.booleans())
def test_any_bytes_at_all_pass_untouched(api: Api, drawn: st.DataObject, data: bytes, is_cut: bool) -> None:
    pieces: list[Piece] = list(drawn.draw(splits(data)))
    end, client = relayed(api, [*pieces, RESET] if is_cut else pieces)
    check(api, data, end, client)


@pytest.mark.parametrize("api", REPLIES)
@settings(max_examples=50)
@given(drawn=st.data(), coding=st.sampled_from(["gzip", "deflate", "br"]), is_damaged=st.booleans(), is_cut=st.booleans())
def test_a_coded_stream_passes_untouched(api: Api, drawn: st.DataObject, coding: str, is_damaged: bool, is_cut: bool) -> None:
    packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    data = packer.compress(drawn.draw(streams(api))) + packer.flush()
    if is_damaged:
        at = drawn.draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
    pieces: list[Piece] = list(drawn.draw(splits(data)))
    end, client = relayed(api, [*pieces, RESET] if is_cut else pieces, coding)
    check(api, data, end, client, is_coded=True)


@pytest.mark.parametrize("api", REPLIES)
@pytest.mark.parametrize("number", range(len(ASKED)))
def test_a_whole_stream_is_a_success_at_every_single_split(api: Api, number: int) -> None:
    data = b"".join(VALID[api][number])
    for at in range(1, len(data), 7):
        end, client = relayed(api, [data[:at], data[at:]])
        assert (end, client.body, client.ending) == (RelayEnd(Outcome.SUCCESS), data, "ended")
