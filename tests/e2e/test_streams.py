"""Streams over real sockets: every byte as it came and when it came, and every way in which one can end."""

import gzip
import random
import time
import zlib
from collections.abc import Callable, Iterator

import openai
import pytest

from support.conversation import TEXT
from support.raw_http import Answer, Connection, ConnectionEnded, sse_data
from support.replies import Reply, sse_reply
from support.stage import APIS, SERIES, ApiName, HandConnection, HandUpstream, Pool, Stage, open_stage

pytestmark = pytest.mark.e2e

OPENING_EVENTS: dict[ApiName, int] = {"chat": 1, "responses": 4, "messages": 3}


@pytest.fixture(scope="module")
def hand() -> Iterator[HandUpstream]:
    upstream = HandUpstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, hand: HandUpstream) -> Iterator[Stage]:
    providers = {"hand": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{hand.port}/v1", "api_key": "k"}}
    with open_stage(tmp_path_factory.mktemp("streams"), pools={"a": 120, "ab": 40}, extra_providers=providers) as running:
        yield running


def pieces_of(pool: Pool) -> list[bytes]:
    return [piece for piece in pool.streamed().pieces if isinstance(piece, bytes)]


def stream_of(*pieces: bytes) -> Reply:
    return sse_reply(pieces)


def chat_event(text: str) -> bytes:
    return f'data: {{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()


FINISH = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}\n\n'


# ---- bytes pass as they came ----------------------------------------------------------------------------------------


UNTOUCHED: dict[str, list[bytes]] = {
    "comments before, between and behind": [
        b": OPENROUTER PROCESSING\n\n",
        chat_event("a"),
        b": keep-alive\n\n",
        FINISH,
        DONE,
        b": bye\n\n",
    ],
    "a comment inside an event": [b": x\ndata: " + chat_event("a")[6:-2] + b"\n: y\n\n", FINISH, DONE],
    "an empty comment": [b":\n\n:\n", chat_event("a"), FINISH, DONE],
    "a malformed event in the middle": [chat_event("a"), b'data: {"choices":[{"delta":\n\n', chat_event("b"), FINISH, DONE],
    "events that are no objects": [chat_event("a"), b'data: 5\n\ndata: null\n\ndata: []\n\ndata: "x"\n\n', FINISH, DONE],
    "data that are not UTF-8": [chat_event("a"), b"data: \xff\xfe\x80\n\n", FINISH, DONE],
    "unknown events and fields": [b"id: 7\nretry: 100\nevent: surprise\nother: x\ndata: {}\n\n", chat_event("a"), FINISH, DONE],
    "lines that end in CRLF": [event.replace(b"\n", b"\r\n") for event in (chat_event("a"), FINISH, DONE)],
    "lines that end in CR": [event.replace(b"\n", b"\r") for event in (chat_event("a"), FINISH, DONE)],
    "a byte order mark": [b"\xef\xbb\xbf", chat_event("a"), FINISH, DONE],
    "no space after the colon": [chat_event("a").replace(b"data: ", b"data:"), FINISH, DONE],
    "several data lines in an event": [b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"x"}}]}\n\n', FINISH, DONE],
    "blank lines without an event": [b"\n\n\n", chat_event("a"), b"\n", FINISH, DONE],
    "a null byte": [chat_event("a\\u0000"), b"data: \x00\n\n", FINISH, DONE],
    "no blank line at the end": [chat_event("a"), FINISH, b"data: [DONE]"],
    "no end event but a finish reason": [chat_event("a"), FINISH],
    "a usage event last, and no end event": [chat_event("a"), FINISH, USAGE],
    "an end event but no finish reason": [chat_event("a"), DONE],
    "something behind the end": [chat_event("a"), FINISH, DONE, b": trailing\n\n", b"data: {}\n\n"],
    "an end event and nothing else": [DONE],
    "nothing but a finish reason": [FINISH, DONE],
    "a large event": [chat_event("x" * 300_000), FINISH, DONE],
    "many small events": [*[chat_event(str(number)) for number in range(500)], FINISH, DONE],
}


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("name", UNTOUCHED)
def test_a_complete_stream_passes_byte_for_byte_and_counts_as_a_success(stage: Stage, name: str, framing: str) -> None:
    pool = stage.pool("a")
    pieces = UNTOUCHED[name]
    pool.tell(0, Reply(200, sse_reply([]).headers, tuple(pieces), framing=framing))
    answer = pool.ask(stream=True)
    assert (answer.status, answer.is_complete, answer.body) == (200, True, b"".join(pieces))
    line = pool.log_line()
    assert (line["outcome"], line["bytes"]) == ("ok", len(answer.body))
    assert pool.outcomes(0) == {"success": 1.0}


def test_what_cannot_be_read_is_counted_and_the_tokens_are_found_all_the_same(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, stream_of(chat_event("a"), b'data: {"choices":[{"delta":\n\n', b"data: oops\n\n", FINISH, USAGE, DONE))
    pool.ask(stream=True)
    line = pool.log_line()
    assert (line["parse_errors"], line["input_tokens"], line["output_tokens"]) == (2, 5, 6)


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_added_to_a_stream(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.error(500))
    answer = pool.ask(stream=True)
    assert answer.body == pool.streamed().body
    assert answer.get("content-type") == "text/event-stream; charset=utf-8"
    assert answer.get_all("cache-control") == ["no-cache, no-transform"]
    assert answer.get_all("x-accel-buffering") == ["no"]
    assert (answer.get("content-length"), answer.get("transfer-encoding")) == (None, "chunked")


TRICKY = (
    'data: {"choices":[{"index":0,"delta":{"content":"北京 — Zürich 👩‍🚀"}}]}\r\n\r\n: ping é\n\n'
    'event: x\rdata: {"choices":[{"index":0,"delta":{"content":"ж"},"finish_reason":"stop"}]}\r\r'
    "data: [DONE]\n\n"
).encode()


def test_any_splitting_of_a_stream_arrives_as_the_same_bytes(stage: Stage) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    splittings = [[at] for at in range(1, len(TRICKY), 3)]
    splittings += [sorted(rng.sample(range(1, len(TRICKY)), rng.randint(2, 40))) for _ in range(150)]
    splittings.append(list(range(1, len(TRICKY))))
    pool = stage.pool("a")
    for cuts in splittings:
        pieces = tuple(TRICKY[start:end] for start, end in zip([0, *cuts], [*cuts, len(TRICKY)], strict=True))
        pool.tell(0, stream_of(*pieces))
        answer = pool.ask(stream=True)
        assert (answer.is_complete, answer.body) == (True, TRICKY), (seed, cuts)
    assert pool.outcomes(0) == {"success": float(len(splittings))}


# ---- when it came ---------------------------------------------------------------------------------------------------


def ask_by_hand(stage: Stage, hand: HandUpstream) -> tuple[Connection, HandConnection]:
    """Send a streaming request to the hand-driven provider and take it there."""
    connection = Connection(stage.gateway.port)
    body = {"model": "hand/m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    connection.request("POST", "/v1/chat/completions", body=body, headers={"X-Request-ID": stage.next_request_id()})
    upstream = hand.accept()
    upstream.read_request()
    return connection, upstream


def test_each_chunk_is_forwarded_before_the_next_one_comes(stage: Stage, hand: HandUpstream) -> None:
    connection, upstream = ask_by_hand(stage, hand)
    with connection, upstream:
        upstream.start_stream("connection: close")
        upstream.send_chunk(chat_event("0"))
        assert connection.read_head().status == 200
        assert connection.read_chunk() == chat_event("0")
        began = time.monotonic()
        for number in range(1, 100):
            upstream.send_chunk(chat_event(str(number)))
            assert connection.read_chunk() == chat_event(str(number))
        # Nagle's algorithm against delayed acknowledgements would cost 40 ms a chunk.
        assert time.monotonic() - began < 2.0
        for part in (b"data: {", b'"choices":[', b"]}\n", b"\n"):
            upstream.send_chunk(part)
            assert connection.read_chunk() == part
        upstream.send_chunk(FINISH)
        assert connection.read_chunk() == FINISH
        upstream.send_chunk(b"")
        assert connection.read_chunk() == b""


def test_nothing_is_sent_before_the_first_content(stage: Stage, hand: HandUpstream) -> None:
    connection, upstream = ask_by_hand(stage, hand)
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    with connection, upstream:
        upstream.start_stream("connection: close")
        for piece in (b": PROCESSING\n\n", role, b": still\n\n"):
            upstream.send_chunk(piece)
        connection.set_timeout(0.2)
        with pytest.raises(TimeoutError):
            connection.read_head()
        connection.set_timeout(5.0)
        upstream.send_chunk(chat_event("a"))
        connection.read_head()
        got = b""
        while not got.endswith(chat_event("a")):
            got += connection.read_chunk()
        assert got == b": PROCESSING\n\n" + role + b": still\n\n" + chat_event("a")
        upstream.send_chunk(FINISH)
        upstream.send_chunk(b"")
        assert connection.read_chunk() == FINISH


def test_a_client_that_reads_slowly_holds_the_upstream_back(stage: Stage) -> None:
    pool = stage.pool("a")
    block = chat_event("x" * 65_000)
    pool.tell(0, stream_of(*[block] * 1500, FINISH, DONE))
    with pool.open(stream=True, timeout_s=30.0) as connection:
        connection.read_head()
        stage.upstream.wait_until(lambda _: bool(pool.exchanges()))
        sent = -1
        while pool.exchanges()[0].sent_bytes != sent:
            sent = pool.exchanges()[0].sent_bytes
            time.sleep(0.2)  # no event tells that nothing happens any more
        assert sent < 40_000_000
        size = 0
        while chunk := connection.read_chunk():
            size += len(chunk)
        assert size == 1500 * len(block) + len(FINISH) + len(DONE)


# ---- ends that are no ends ------------------------------------------------------------------------------------------


def assert_visibly_incomplete(answer: Answer, pool: Pool, sent: bytes, *, status_word: str) -> None:
    """The client got what came, then an error event of its dialect, and no proper end."""
    assert answer.status == 200
    assert not answer.is_complete
    assert answer.body.startswith(sent)
    told = answer.body.removeprefix(sent).strip()
    assert status_word.encode() in told
    match pool.api:
        case "chat":
            assert told.startswith(b'data: {"error":')
            assert b'"code":"stream_incomplete"' in told
        case "responses":
            assert told.startswith(b'event: error\ndata: {"type":"error"')
            assert b'"code":"stream_incomplete"' in told
        case "messages":
            assert told.startswith(b'event: error\ndata: {"type":"error","error":{')
    assert b"[DONE]" not in told
    assert b"message_stop" not in told


Cut = Callable[[tuple[bytes, ...]], Reply]
CUTS: dict[str, Cut] = {
    "an end without an end event": sse_reply,
    "a chunked body that is cut": lambda pieces: sse_reply((*pieces, b"x")).cut_after(len(pieces)),
    "a chunked body that is reset": lambda pieces: Reply(200, sse_reply([]).headers, (*pieces, 0.05), "chunked", ending="reset"),
    "a body shorter than its length": lambda pieces: Reply(200, sse_reply([]).headers, pieces, declared_length=1 << 20, ending="fin"),
    "a connection that closes": lambda pieces: Reply(200, sse_reply([]).headers, pieces, framing="close"),
    "bytes that are no chunk": lambda pieces: Reply(
        raw=b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        + b"zz not a size\r\n",
        ending="fin",
    ),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", CUTS)
def test_a_stream_that_is_cut_after_its_first_content_is_told_as_incomplete_and_counted_as_a_failure(
    stage: Stage, name: str, api: ApiName
) -> None:
    pool = stage.pool("a", "b", api=api)
    pieces = tuple(pieces_of(pool)[: OPENING_EVENTS[api] + 2])
    pool.tell(0, CUTS[name](pieces))
    answer = pool.ask(stream=True)
    assert_visibly_incomplete(answer, pool, b"".join(pieces), status_word="complete")
    assert pool.calls() == "a"
    line = pool.log_line()
    assert (line["outcome"], line["error"]) == ("fault", "stream_incomplete")
    assert pool.outcomes(0) == {"truncated": 1.0}


@pytest.mark.parametrize("api", APIS)
def test_a_cut_in_the_middle_of_an_event_is_told_in_a_way_that_clients_can_read(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", api=api)
    whole = pieces_of(pool)
    pieces = (*whole[: OPENING_EVENTS[api] + 1], whole[OPENING_EVENTS[api] + 1][:-20])
    pool.tell(0, sse_reply((*pieces, b"x")).cut_after(len(pieces)))
    answer = pool.ask(stream=True)
    assert not answer.is_complete
    assert sse_data(answer.body)[-1].startswith('{"')
    assert "incomplete" in sse_data(answer.body)[-1] or "complete" in sse_data(answer.body)[-1]


def test_the_official_client_raises_where_a_stream_was_cut(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, stream_of(*pieces_of(pool)[:3]))
    got: list[str] = []
    with openai.OpenAI(api_key="k", base_url=f"{stage.gateway.url}/v1", max_retries=0) as client:
        stream = client.chat.completions.create(model=pool.name, messages=[{"role": "user", "content": "hi"}], stream=True)
        with pytest.raises(openai.APIError, match="complete"):
            got.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert TEXT.startswith("".join(got))


def test_three_streams_cut_in_a_row_bench_their_target(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, *[stream_of(*pieces_of(pool)[:3])] * 3)
    for _ in range(4):
        pool.ask(stream=True)
    assert pool.calls() == "aaab"
    assert pool.is_cooling(0)


@pytest.mark.parametrize("how", ["cut", "reset"])
@pytest.mark.parametrize("api", APIS)
def test_a_connection_lost_after_the_end_event_was_a_complete_answer(stage: Stage, api: ApiName, how: str) -> None:
    pool = stage.pool("a", api=api)
    pieces = tuple(pieces_of(pool))
    lost = CUTS["a chunked body that is cut" if how == "cut" else "a chunked body that is reset"]
    pool.tell(0, lost(pieces))
    answer = pool.ask(stream=True)
    assert (answer.is_complete, answer.body) == (True, b"".join(pieces))
    assert pool.outcomes(0) == {"success": 1.0}
    assert pool.log_line()["outcome"] == "ok"


ERROR_EVENTS: dict[ApiName, bytes] = {
    "chat": b'data: {"error":{"message":"Overloaded","type":"server_error","code":503}}\n\n',
    "responses": b'event: response.failed\ndata: {"type":"response.failed","sequence_number":9,'
    b'"response":{"status":"failed","error":{"code":"server_error","message":"Overloaded"}}}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
}


@pytest.mark.parametrize("api", APIS)
def test_an_error_event_after_content_is_forwarded_once_and_counted_as_a_failure(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", "b", api=api)
    pieces = (*pieces_of(pool)[: OPENING_EVENTS[api] + 2], ERROR_EVENTS[api])
    pool.tell(0, sse_reply(pieces))
    answer = pool.ask(stream=True)
    assert answer.body == b"".join(pieces)
    assert pool.calls() == "a"
    assert pool.outcomes(0) == {"server_error": 1.0}
    assert pool.log_line()["outcome"] == "fault"


# ---- silence --------------------------------------------------------------------------------------------------------


IDLE_S = 0.4


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    variables = {"HTTP_STREAM_IDLE_TIMEOUT": f"{IDLE_S}s", "HTTP_FIRST_EVENT_TIMEOUT": "500ms"}
    with open_stage(tmp_path_factory.mktemp("impatient"), variables, pools={"a": 20, "ab": 20}) as running:
        yield running


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_stalls_is_told_after_the_idle_time(impatient: Stage, api: ApiName) -> None:
    pool = impatient.pool("a", "b", api=api)
    pieces = tuple(pieces_of(pool)[: OPENING_EVENTS[api] + 2])
    pool.tell(0, Reply(200, sse_reply([]).headers, pieces, "chunked", ending="stall"))
    began = time.monotonic()
    answer = pool.ask(stream=True)
    assert IDLE_S <= time.monotonic() - began < IDLE_S + 2.0
    assert_visibly_incomplete(answer, pool, b"".join(pieces), status_word="stalled")
    assert (pool.calls(), pool.outcomes(0)) == ("a", {"truncated": 1.0})
    impatient.upstream.wait_until(lambda _: pool.exchanges()[0].ending == "client_closed")


def test_comments_do_not_keep_a_stalled_stream_alive(impatient: Stage) -> None:
    pool = impatient.pool("a")
    pool.tell(0, Reply(200, sse_reply([]).headers, (chat_event("a"), *[0.1, b": keep-alive\n\n"] * 40), "chunked"))
    began = time.monotonic()
    answer = pool.ask(stream=True)
    assert IDLE_S <= time.monotonic() - began < IDLE_S + 2.0
    assert not answer.is_complete
    assert b"stalled" in answer.body


def test_a_slow_stream_that_goes_on_is_no_stalled_one(impatient: Stage) -> None:
    pool = impatient.pool("a")
    reply = pool.streamed().slowed(IDLE_S / 2)
    pool.tell(0, reply)
    answer = pool.ask(stream=True)
    assert (answer.is_complete, answer.body) == (True, reply.body)


SAYING_NOTHING: dict[str, Callable[[Pool], tuple[bytes | float, ...]]] = {
    "nothing": lambda pool: (),
    "comments": lambda pool: (b": PROCESSING\n\n", 0.1) * 50,
    "an opening": lambda pool: tuple(pieces_of(pool)[: OPENING_EVENTS[pool.api]]),
    "pings": lambda pool: (b'event: ping\ndata: {"type":"ping"}\n\n', 0.1) * 50,
}


@pytest.mark.parametrize(("name", "api"), [("nothing", "chat"), ("comments", "chat"), ("an opening", "responses"), ("pings", "messages")])
def test_a_stream_without_content_in_time_is_left_for_the_next_target(impatient: Stage, name: str, api: ApiName) -> None:
    pool = impatient.pool("a", "b", api=api)
    pool.tell(0, Reply(200, sse_reply([]).headers, SAYING_NOTHING[name](pool), "chunked", ending="stall"))
    began = time.monotonic()
    answer = pool.ask(stream=True)
    assert 0.5 <= time.monotonic() - began < 2.5
    assert (answer.is_complete, answer.body, pool.calls()) == (True, pool.streamed().body, "ab")
    assert pool.log_line()["failed"][0]["cause"] == "timeout"


def test_a_stream_whose_head_does_not_come_in_time_is_left_for_the_next_target(impatient: Stage) -> None:
    pool = impatient.pool("a", "b")
    pool.tell(0, pool.streamed().held())
    began = time.monotonic()
    answer = pool.ask(stream=True)
    assert 0.5 <= time.monotonic() - began < 2.5
    assert (answer.body, pool.calls()) == (pool.streamed().body, "ab")


# ---- compressed streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_a_compressed_stream_passes_as_it_is_and_is_read_all_the_same(stage: Stage, api: ApiName) -> None:
    pool = stage.pool("a", "b", api=api)
    reply = pool.streamed().gzipped()
    pool.tell(0, sse_reply([ERROR_EVENTS[api]]).gzipped()).tell(1, reply)
    answer = pool.ask(stream=True, headers={"Accept-Encoding": "gzip, br"})
    assert (answer.is_complete, answer.get("content-encoding"), pool.calls()) == (True, "gzip", "ab")
    assert gzip.decompress(answer.body) == reply.body
    assert pool.exchanges()[0].request.header("accept-encoding") == "gzip"
    if api != "chat":
        assert pool.log_line()["output_tokens"] == 7


def test_each_compressed_chunk_is_forwarded_at_once(stage: Stage, hand: HandUpstream) -> None:
    connection, upstream = ask_by_hand(stage, hand)
    packer = zlib.compressobj(wbits=31)
    with connection, upstream:
        upstream.start_stream("content-encoding: gzip", "connection: close")
        for number in range(5):
            chunk = packer.compress(chat_event(str(number))) + packer.flush(zlib.Z_SYNC_FLUSH)
            upstream.send_chunk(chunk)
            if number == 0:
                assert connection.read_head().get("content-encoding") == "gzip"
            assert connection.read_chunk() == chunk
        upstream.close()
        with pytest.raises(ConnectionEnded):
            connection.read_chunk()


def test_a_stream_in_a_coding_that_cannot_be_read_passes_as_it_is(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, stream_of(b"\x01\x02", b"\x03").with_headers(("content-encoding", "zstd")))
    answer = pool.ask(stream=True)
    assert (answer.is_complete, answer.get("content-encoding"), answer.body) == (True, "zstd", b"\x01\x02\x03")


# ---- ordinary answers to streaming requests, and the reverse -------------------------------------------------------------


def test_a_whole_answer_to_a_request_for_a_stream_passes_as_it_is(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, pool.whole())
    answer = pool.ask(stream=True)
    assert (answer.get("content-type"), answer.body) == ("application/json", pool.whole().body)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_whole_answer_too_large_to_hold_is_handed_on_as_it_comes(stage: Stage, framing: str) -> None:
    pool = stage.pool("a")
    body = (b'{"id":"x","data":"', *[b"0123456789abcdef" * 65_536] * 24, b'"}')
    pool.tell(0, Reply(200, (("content-type", "application/json"),), body, framing))
    answer = pool.ask(timeout_s=30.0)
    assert answer.is_complete
    assert answer.body == b"".join(body)
    pool.tell(0, Reply(200, (("content-type", "application/json"),), body, framing).cut_after(22))
    answer = pool.ask(timeout_s=30.0)
    assert not answer.is_complete
    assert b"".join(body).startswith(answer.body)
    assert pool.log_line()["outcome"] == "fault"


def test_a_stream_that_nobody_asked_for_passes_as_it_is(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, pool.streamed())
    answer = pool.ask()
    assert (answer.is_complete, answer.body) == (True, pool.streamed().body)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/octet-stream", "TEXT/EVENT-STREAM;charset=UTF-8"])
def test_a_stream_under_another_name_is_still_forwarded_as_it_comes(stage: Stage, hand: HandUpstream, content_type: str | None) -> None:
    connection, upstream = ask_by_hand(stage, hand)
    with connection, upstream:
        lines = ["HTTP/1.1 200 OK", "transfer-encoding: chunked", "connection: close"] + (
            [f"content-type: {content_type}"] if content_type else []
        )
        upstream.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        upstream.send_chunk(chat_event("a"))
        assert connection.read_head().status == 200
        assert connection.read_chunk() == chat_event("a")
        upstream.send_chunk(FINISH)
        assert connection.read_chunk() == FINISH
        upstream.send_chunk(b"")
        assert connection.read_chunk() == b""


def test_the_gauges_are_empty_when_all_streams_are_over(stage: Stage) -> None:
    stage.wait_for_quiet()
    assert stage.metric("gomodel_requests_in_flight") == 0
    assert stage.metric(SERIES + "in_flight") == 0
