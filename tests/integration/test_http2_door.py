"""The HTTP/2 front door on real sockets: exchanges, limits, floods, hang-ups, draining, TLS, hostile input."""

import contextlib
import functools
import gc
import json
import math
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import trio
import trio.testing
from h2.exceptions import StreamClosedError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from gomodel_trio.errors import BodyTooLarge, ClientGone, ConfigurationError
from gomodel_trio.gateway.http import Handler, Request, Responder
from gomodel_trio.listen.h2_limits import Http2Limits
from gomodel_trio.listen.http2_door import Http2TlsFiles, serve_http2
from support import certificates, http2_client, raw_http
from support.http2_client import Connection

T = TypeVar("T")
PATIENCE_S = 10.0
PROMPT_S = 0.2
"""It takes a few milliseconds; the rest is for a machine that is busy."""
UNKNOWN_LENGTH = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/")]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PROTOCOL_ERROR, INTERNAL_ERROR, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, CALM = 0x1, 0x2, 0x6, 0x7, 0x8, 0xB


class Door:
    """A running front door and what became of it."""

    def __init__(self) -> None:
        self.port = 0
        self.errors: list[BaseException] = []
        self.stop = trio.Event()
        self.stopped = trio.Event()

    def exchange(self, method: str, target: str, **options: Any) -> Awaitable[raw_http.Answer]:
        return in_thread(functools.partial(http2_client.exchange, self.port, method, target, **options))

    async def raw(self, *frames: Frame | bytes, settings: bool = True) -> "Raw":
        """A client that sends exactly these frames behind its preface."""
        raw = Raw(await trio.open_tcp_stream("127.0.0.1", self.port))
        await raw.send(PREFACE, *([SettingsFrame(0)] if settings else []), *frames)
        return raw


class Raw:
    """A client of frames."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def send(self, *frames: Frame | bytes) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await self.stream.send_all(b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames))

    async def read_all(self) -> list[Frame]:
        """Read until the server closes, and close."""
        data = b""
        async with self.stream:
            with trio.fail_after(PATIENCE_S), contextlib.suppress(trio.BrokenResourceError):
                while chunk := await self.stream.receive_some(65536):
                    data += chunk
        return parse(data)

    async def goaway(self) -> tuple[int, bytes]:
        """Read to the end; error code and message of the GOAWAY that came."""
        found = [frame for frame in await self.read_all() if isinstance(frame, GoAwayFrame)]
        assert found, "no GOAWAY"
        return found[0].error_code, bytes(found[0].additional_data)


def parse(data: bytes) -> list[Frame]:
    frames = []
    while len(data) >= 9:
        frame, size = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        frames.append(frame)
        data = data[9 + size :]
    return frames


async def in_thread(function: Callable[[], T]) -> T:
    with trio.fail_after(PATIENCE_S):
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (what is waited for is in another thread, or in the door)
            await trio.sleep(0.001)


@contextlib.asynccontextmanager
async def door(
    handler: Handler, *, drain_s: float = 5.0, limits: Http2Limits | None = None, tls: Http2TlsFiles | None = None
) -> AsyncIterator[Door]:
    here = Door()

    async def run(task_status: trio.TaskStatus[int]) -> None:
        await serve_http2(
            handler,
            host="127.0.0.1",
            port=0,
            shutdown_trigger=here.stop.wait,
            drain_timeout_s=drain_s,
            on_error=here.errors.append,
            limits=limits,
            tls=tls,
            task_status=task_status,
        )
        here.stopped.set()

    async with trio.open_nursery() as nursery:
        here.port = await nursery.start(run)
        yield here
        nursery.cancel_scope.cancel()


async def describe(request: Request, responder: Responder) -> None:
    """Answer with what arrived."""
    body = await request.read_body(1000)
    seen = [request.method, request.path, request.query.decode(), body.decode(), request.peer]
    await responder.send(200, [(b"Content-Type", b"application/json")], json.dumps(seen).encode())


class Sleeper:
    """Answers never; notes when it began and how it was ended."""

    def __init__(self, *, starts: bool = False) -> None:
        self.begun = trio.Event()
        self.ended = trio.Event()
        self.running = 0
        self.was_disconnected: bool | None = None
        self._starts = starts

    async def __call__(self, request: Request, responder: Responder) -> None:
        if request.path == "/quick":
            await responder.send(200, [], b"quick")
            return
        self.running += 1
        try:
            await request.read_body(1000)
            if self._starts:
                await responder.start(200, [(b"content-type", b"text/event-stream")])
                await responder.write(b"data: 1\n\n")
            self.begun.set()
            await trio.sleep_forever()
        finally:
            self.running -= 1
            self.was_disconnected = request.is_disconnected
            self.ended.set()


# ---- exchanges ---------------------------------------------------------------------------------------------------------


async def test_a_request_is_answered_with_length_and_date_and_without_a_server_header() -> None:
    async with door(describe) as here:
        answer = await here.exchange("POST", "/v1/models%2Fa?b=1&c", body=b"abc")
    assert (answer.status, answer.is_complete) == (200, True)
    assert answer.json() == ["POST", "/v1/models/a", "b=1&c", "abc", "127.0.0.1"]
    assert [name for name, _ in answer.headers] == ["content-type", "date", "content-length"]
    assert here.errors == []


async def test_headers_reach_the_handler_with_the_authority_as_host_and_cookies_in_one() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def note(request: Request, responder: Responder) -> None:
        seen.extend(request.headers)
        await responder.send(204, [(b"content-length", b"7"), (b"connection", b"close"), (b"X-Odd", b" a\r\nb: c ")], b"")

    async with door(note) as here:
        answer = await here.exchange("GET", "/", headers=[("x-a", "1"), ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")])
        assert seen == [
            (b"host", b"127.0.0.1:%d" % here.port),
            (b"x-a", b"1"),
            (b"te", b"trailers"),
            (b"cookie", b"a=1; b=2"),
        ]
    assert answer.status == 204
    assert [field for field in answer.headers if field[0] != "date"] == [("x-odd", "a  b: c")]


async def test_many_requests_run_at_once_on_one_connection_and_each_gets_its_own_answer() -> None:
    everybody = trio.Event()
    waiting: list[str] = []

    async def meet(request: Request, responder: Responder) -> None:
        waiting.append(request.path)
        if len(waiting) == 20:
            everybody.set()
        await everybody.wait()
        await responder.send(200, [], request.path.encode())

    def ask(port: int) -> list[bytes]:
        with Connection(port) as connection:
            streams = [connection.request("GET", f"/{number}") for number in range(20)]
            return [connection.read_answer(stream).body for stream in streams]

    async with door(meet) as here:
        assert await in_thread(lambda: ask(here.port)) == [b"/%d" % number for number in range(20)]


async def test_a_stream_is_sent_chunk_by_chunk_as_it_is_written() -> None:
    going_on = trio.Event()

    async def stream(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"content-type", b"text/event-stream")])
        await responder.write(b"data: 1\n\n")
        await going_on.wait()
        await responder.write(b"data: 2\n\n")
        await responder.end()

    async with door(stream) as here:
        connection = Connection(here.port)
        stream_id = connection.request("GET", "/")
        assert await in_thread(lambda: connection.read_chunk(stream_id)) == b"data: 1\n\n"
        going_on.set()
        assert await in_thread(lambda: connection.read_chunk(stream_id)) == b"data: 2\n\n"
        assert await in_thread(lambda: connection.read_chunk(stream_id)) == b""
        connection.close()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_that_has_no_body_ends_with_its_head(method: str, status: int) -> None:
    async def answer_whole(request: Request, responder: Responder) -> None:
        await responder.send(status, [], b"body")

    async def answer_streamed(request: Request, responder: Responder) -> None:
        await responder.start(status, [(b"content-length", b"4")])
        await responder.write(b"body")
        await responder.end()

    for handler in (answer_whole, answer_streamed):
        async with door(handler) as here:
            answer = await here.exchange(method, "/")
        assert (answer.status, answer.body, answer.is_complete) == (status, b"", True)
        assert answer.get("content-length") == ("4" if status == 200 else None)
        assert here.errors == []


async def test_a_large_body_both_ways_passes_through_small_windows_unharmed() -> None:
    content = random.Random(7).randbytes(3_000_000)

    async def echo(request: Request, responder: Responder) -> None:
        await responder.send(200, [], await request.read_body(1 << 24))

    async with door(echo, limits=Http2Limits(stream_window_bytes=65535, connection_window_bytes=65535)) as here:
        answer = await here.exchange("POST", "/", body=content)
    assert answer.body == content
    assert answer.is_complete


async def test_a_client_that_expects_to_be_asked_for_its_body_is_asked_when_it_is_wanted() -> None:
    def ask(port: int) -> tuple[list[int], bytes]:
        with Connection(port) as connection:
            fields = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/"), ("expect", "100-continue")]
            stream = connection.open(fields, ends=False)
            while not connection.streams[stream].interim:
                assert connection.receive()
            connection.send_body(stream, b"late", ends=True)
            return connection.streams[stream].interim, connection.read_answer(stream).body

    async with door(describe) as here:
        interim, body = await in_thread(lambda: ask(here.port))
    assert interim == [100]
    assert json.loads(body)[3] == "late"


async def test_trailers_end_a_body_and_are_dropped() -> None:
    def ask(port: int) -> raw_http.Answer:
        with Connection(port) as connection:
            stream = connection.open(UNKNOWN_LENGTH, ends=False)
            connection.send_body(stream, b"abc", ends=False)
            connection.h2.send_headers(stream, [("x-sum", "1")], end_stream=True)
            connection.flush()
            return connection.read_answer(stream)

    async with door(describe) as here:
        assert (await in_thread(lambda: ask(here.port))).json()[3] == "abc"


async def test_httpx_speaks_to_it() -> None:
    async with door(describe) as here, httpx.AsyncClient(http1=False, http2=True) as client:
        answers = [await client.post(f"http://127.0.0.1:{here.port}/a?b", content=b"x" * size) for size in (0, 1000, 5)]
    assert [answer.http_version for answer in answers] == ["HTTP/2"] * 3
    assert [len(answer.json()[3]) for answer in answers] == [0, 1000, 5]


async def test_httpx_can_read_an_answer_that_comes_before_its_body_is_sent() -> None:
    async with door(too_large) as here, httpx.AsyncClient(http1=False, http2=True) as client:
        answers = [await client.post(f"http://127.0.0.1:{here.port}/", content=bytes(size)) for size in (5_000_000, 10)]
    assert [answer.status_code for answer in answers] == [413, 200]


# ---- limits of bodies ---------------------------------------------------------------------------------------------------


async def too_large(request: Request, responder: Responder) -> None:
    """Answer 413 where `read_body` says so."""
    try:
        await request.read_body(1000)
    except BodyTooLarge as error:
        await responder.send(413, [], error.message.encode())
    else:
        await responder.send(200, [], b"")


@pytest.mark.parametrize("fields", [UNKNOWN_LENGTH, [*UNKNOWN_LENGTH, ("content-length", "3000000")]])
async def test_a_body_over_the_limit_is_refused_readably_and_the_connection_lives_on(fields: list[tuple[str, str]]) -> None:
    def ask(port: int) -> tuple[raw_http.Answer, raw_http.Answer]:
        with Connection(port) as connection:
            stream = connection.open(fields, ends=False)
            connection.send_body(stream, b"x" * 1001, ends=False)
            answer = connection.read_answer(stream)
            for _ in range(30):  # a client that does not know when to stop
                connection.streams[stream].is_ended = False
                connection.send_body(stream, bytes(100_000), ends=False)
            return answer, connection.read_answer(connection.request("POST", "/", body=b"ok"))

    async with door(too_large) as here:
        answer, after = await in_thread(lambda: ask(here.port))
    assert (answer.status, answer.is_complete, after.status) == (413, True, 200)
    assert here.errors == []


@pytest.mark.parametrize("limits", [{"unread_s": 0.2}, {"unread_bytes": 50_000}])
async def test_a_body_that_nobody_wants_is_ended_within_bounds(limits: dict[str, Any]) -> None:
    def ask(port: int) -> tuple[int, int]:
        with Connection(port) as connection:
            stream = connection.open(UNKNOWN_LENGTH, ends=False)
            connection.send_body(stream, b"x" * 1001, ends=False)
            answer = connection.read_answer(stream)
            with contextlib.suppress(StreamClosedError):
                while True:
                    connection.h2.send_data(stream, bytes(min(1000, connection.h2.local_flow_control_window(stream))))
                    connection.flush()
                    connection.set_timeout(0.01)
                    with contextlib.suppress(TimeoutError):
                        connection.receive()
            connection.set_timeout(PATIENCE_S)
            return answer.status, connection.read_answer(connection.request("POST", "/", body=b"ok")).status

    async with door(too_large, limits=Http2Limits(**limits)) as here:
        assert await in_thread(lambda: ask(here.port)) == (413, 200)


async def test_a_body_that_nobody_reads_is_held_back_by_its_window_and_takes_nothing_from_others() -> None:
    sleeping = trio.Event()

    async def handle(request: Request, responder: Responder) -> None:
        if request.path == "/asleep":
            sleeping.set()
            await trio.sleep_forever()
        await responder.send(200, [], b"%d" % len(await request.read_body(1 << 20)))

    def ask(port: int) -> tuple[int, raw_http.Answer]:
        with Connection(port) as connection:
            fields = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/asleep")]
            held = connection.open(fields, ends=False)
            connection.receive()  # the server's SETTINGS, before anything is measured
            sent = 0
            while (room := min(connection.h2.local_flow_control_window(held), 16384)) > 0:
                connection.h2.send_data(held, bytes(room))
                connection.flush()
                sent += room
            return sent, connection.read_answer(connection.request("POST", "/", body=bytes(300_000)))

    async with door(handle, limits=Http2Limits(stream_window_bytes=100_000, connection_window_bytes=400_000)) as here:
        sent, answer = await in_thread(lambda: ask(here.port))
    assert sent <= 100_000
    assert answer.body == b"300000"


@pytest.mark.parametrize(("limits", "pause_s"), [({"body_idle_s": 0.2}, 5.0), ({"body_total_s": 0.4}, 0.05)])
async def test_a_body_that_does_not_arrive_in_time_is_answered_with_408(limits: dict[str, float], pause_s: float) -> None:
    def ask(port: int) -> raw_http.Answer:
        with Connection(port) as connection:
            stream = connection.open(UNKNOWN_LENGTH, ends=False)
            connection.set_timeout(pause_s)
            for _ in range(40):
                connection.send_body(stream, b"x", ends=False)
                with contextlib.suppress(TimeoutError):
                    while not connection.streams[stream].is_ended and connection.receive():
                        pass
                    return connection.read_answer(stream)
        raise AssertionError("not refused")

    async with door(describe, limits=Http2Limits(**limits)) as here:
        answer = await in_thread(lambda: ask(here.port))
    assert (answer.status, answer.json()["error"]["message"]) == (408, "The request did not arrive in time.")
    assert here.errors == []


# ---- what is no request --------------------------------------------------------------------------------------------------

GOOD = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/quick")]


@pytest.mark.parametrize(
    "fields",
    [
        GOOD[1:],
        [GOOD[0], *GOOD[2:]],
        GOOD[:3],
        [*GOOD[:3], (":path", "")],
        [*GOOD, (":path", "/")],
        [*GOOD, (":status", "404")],
        [(":status", "200"), *GOOD],
        [*GOOD, (":odd", "1")],
        [("x-early", "1"), *GOOD],
        [*GOOD, ("X-Upper", "1")],
        [*GOOD, ("a b", "1")],
        [*GOOD, ("", "1")],
        [*GOOD, ("x", "a\rb")],
        [*GOOD, ("x", "a\x00b")],
        [*GOOD, ("x", " a")],
        [*GOOD, ("\x00content-length", "0")],
        [*GOOD, ("connection", "close")],
        [*GOOD, ("transfer-encoding", "chunked")],
        [*GOOD, ("upgrade", "websocket")],
        [*GOOD, ("te", "gzip")],
        [*GOOD, ("host", "y")],
        [*GOOD, ("content-length", "1")],
        [*GOOD, ("content-length", "0"), ("content-length", "0")],
        [*GOOD, ("content-length", "-1")],
        [(":method", "CONNECT"), (":scheme", "https"), (":authority", "x"), (":path", "/quick"), (":protocol", "websocket")],
        [(":method", "CONNECT")],
    ],
)
async def test_a_malformed_request_ends_its_stream_and_no_other(fields: list[tuple[str, str]]) -> None:
    sleeper = Sleeper()

    def ask(port: int) -> tuple[int | None, bytes]:
        with Connection(port) as connection:
            connection.h2.config.normalize_outbound_headers = False
            connection.request("GET", "/running")
            bad = connection.open(fields)
            while connection.streams[bad].reset_code is None:
                assert connection.receive()
            assert connection.goaway is None
            return connection.streams[bad].reset_code, connection.read_answer(connection.open(GOOD)).body

    async with door(sleeper) as here:
        assert await in_thread(lambda: ask(here.port)) == (PROTOCOL_ERROR, b"quick")
    assert here.errors == []


async def test_a_request_that_claims_to_be_an_interim_answer_ends_its_stream_and_no_other() -> None:
    block = b"\x82\x86\x84\x01\x01x" + b"\x08\x03100"
    async with door(Sleeper()) as here:
        raw = await here.raw(HeadersFrame(1, data=block, flags=["END_HEADERS", "END_STREAM"]), request_head(3), GoAwayFrame(0))
        frames = await raw.read_all()
    assert [frame.error_code for frame in frames if isinstance(frame, RstStreamFrame) and frame.stream_id == 1] == [PROTOCOL_ERROR]
    assert [frame.data for frame in frames if isinstance(frame, DataFrame) and frame.stream_id == 3] == [b"quick"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([(":method", "CONNECT"), (":authority", "x:443")], 405),
        ([*GOOD[:3], (":path", "no-slash")], 400),
        ([*GOOD[:3], (":path", "/a#b")], 400),
        ([*GOOD[:3], (":path", "*")], 400),
        ([(":method", "get"), *GOOD[1:]], 400),
        ([GOOD[0], GOOD[1], GOOD[3]], 400),
        ([GOOD[0], GOOD[1], (":authority", "user@x"), GOOD[3]], 400),
        ([*GOOD, *(("x", "1") for _ in range(200))], 431),
        ([*GOOD, ("x", "1" * 66_000)], 431),
    ],
)
async def test_what_is_not_served_is_answered_in_the_handlers_place(fields: list[tuple[str, str]], status: int) -> None:
    def ask(port: int) -> tuple[raw_http.Answer, bytes]:
        with Connection(port) as connection:
            return connection.read_answer(connection.open(fields)), connection.read_answer(connection.open(GOOD)).body

    async with door(Sleeper()) as here:
        answer, after = await in_thread(lambda: ask(here.port))
    assert (answer.status, answer.json()["type"], after) == (status, "error", b"quick")


@pytest.mark.parametrize(("sent", "is_reset"), [(2, True), (4, True), (3, False)])
async def test_a_body_of_another_length_than_declared_ends_its_stream_and_no_other(sent: int, is_reset: bool) -> None:
    def ask(port: int) -> tuple[bool, bytes]:
        with Connection(port) as connection:
            fields = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/slow"), ("content-length", "3")]
            stream = connection.open(fields, ends=False)
            connection.send_body(stream, b"x" * sent, ends=True)
            after = connection.read_answer(connection.open(GOOD)).body
            with contextlib.suppress(TimeoutError):
                connection.set_timeout(0.2)
                while connection.streams[stream].reset_code is None:
                    assert connection.receive()
            return connection.streams[stream].reset_code == PROTOCOL_ERROR, after

    async with door(Sleeper()) as here:
        assert await in_thread(lambda: ask(here.port)) == (is_reset, b"quick")
    assert here.errors == []


WEBSOCKET = (
    b"GET /chat HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nx"
)
"""A wish for a WebSocket with one byte behind it: hypercorn's HTTP/1.1 ends its process over it."""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk\r\n\r\n",
        WEBSOCKET,
        b"PRI * HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r" + b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 70_000,
    ],
)
async def test_what_is_no_http2_is_refused_before_it_is_parsed_and_others_live_on(data: bytes) -> None:
    async with door(Sleeper()) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        async with stream:
            await stream.send_all(data)
            received = b""
            with trio.fail_after(PATIENCE_S), contextlib.suppress(trio.BrokenResourceError):
                while chunk := await stream.receive_some(65536):
                    received += chunk
        assert received.startswith(b"HTTP/1.1 505 ")
        assert (await here.exchange("GET", "/quick")).body == b"quick"
    assert here.errors == []


# ---- floods --------------------------------------------------------------------------------------------------------------


def request_head(stream_id: int, *flags: str) -> HeadersFrame:
    """GET /quick, from the static table and literals that are not indexed."""
    block = b"\x82\x86\x04\x06/quick\x01\x01x"
    return HeadersFrame(stream_id, data=block, flags=flags or ("END_HEADERS", "END_STREAM"))


async def expect_calm(here: Door, *frames: Frame | bytes, settings: bool = True) -> bytes:
    """Send these; expect the connection to be ended with ENHANCE_YOUR_CALM, and only it."""
    raw = await here.raw(*frames, settings=settings)
    code, message = await raw.goaway()
    assert code == CALM, (code, message)
    assert (await here.exchange("GET", "/quick")).body == b"quick"
    assert here.errors == []
    return message


async def test_rapid_resets_end_the_connection_and_every_handler() -> None:
    sleeper = Sleeper()
    frames: list[Frame] = []
    for number in range(400):
        block = b"\x82\x86\x04\x05/slow\x01\x01x"
        frames += [
            HeadersFrame(2 * number + 1, data=block, flags=["END_HEADERS", "END_STREAM"]),
            RstStreamFrame(2 * number + 1, error_code=CANCEL),
        ]
    async with door(sleeper) as here:
        assert await expect_calm(here, *frames) == b"too many streams were reset"
        await until(lambda: not sleeper.running)


async def test_resets_that_the_client_provokes_count_like_its_own() -> None:
    frames: list[Frame] = []
    for number in range(400):
        frames += [request_head(2 * number + 1, "END_HEADERS"), WindowUpdateFrame(2 * number + 1, window_increment=2**31 - 1)]
    async with door(Sleeper()) as here:
        await expect_calm(here, *frames)


@pytest.mark.parametrize(
    "frames",
    [
        [PingFrame(0, opaque_data=b"x" * 8)] * 2000,
        [SettingsFrame(0, settings={4: 65535})] * 200,
        [SettingsFrame(0, flags=["ACK"])] * 200,
        [PriorityFrame(1, depends_on=1)] * 2000,
        [WindowUpdateFrame(0, window_increment=1)] * 2000,
        [request_head(1, "END_HEADERS"), *[DataFrame(1, data=b"")] * 2000],
        [request_head(1, "END_HEADERS"), *[DataFrame(1, data=b"x")] * 2000],
        [b"\x00\x00\x00\xee\x00\x00\x00\x00\x00"] * 2000,
        [GoAwayFrame(0)] * 2000,
        [HeadersFrame(1, data=b"\x82"), *[ContinuationFrame(1, data=b"")] * 2000],
        [HeadersFrame(1, data=b"\x82"), *[ContinuationFrame(1, data=b"\x40\x01a\x7f\x80\x01" + b"x" * 15_000)] * 10],
    ],
    ids=[
        "ping",
        "settings",
        "settings-ack",
        "priority",
        "window",
        "empty-data",
        "tiny-data",
        "unknown",
        "goaway",
        "empty-continuation",
        "large-head",
    ],
)
async def test_a_flood_of_frames_ends_its_connection_and_no_other(frames: list[Frame | bytes]) -> None:
    async with door(Sleeper()) as here:
        raw = await here.raw(*frames)
        code, _ = await raw.goaway()
        assert code in (CALM, PROTOCOL_ERROR)
        assert (await here.exchange("GET", "/quick")).body == b"quick"
    assert here.errors == []


async def test_a_header_bomb_ends_its_connection_and_no_other() -> None:
    # One entry of 4 000 bytes in the dynamic table, then 200 references to it: 800 kB of headers in 4 kB.
    bomb = b"\x82\x86\x84\x41\x01x" + b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 200
    async with door(Sleeper()) as here:
        await expect_calm(here, HeadersFrame(1, data=bomb, flags=["END_HEADERS", "END_STREAM"]))


async def test_window_updates_that_answer_data_are_no_flood() -> None:
    async def stream(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        for _ in range(3000):
            await responder.write(b"x" * 20)
        await responder.end()

    def ask(port: int) -> tuple[int, bool]:
        with Connection(port, acknowledges=False) as connection:
            stream_id = connection.request("GET", "/")
            for _ in range(3000):
                assert connection.read_chunk(stream_id) == b"x" * 20
                connection.send(WindowUpdateFrame(0, window_increment=20).serialize())
                connection.send(WindowUpdateFrame(stream_id, window_increment=20).serialize())
            return connection.streams[stream_id].status, connection.read_chunk(stream_id) == b"" and connection.goaway is None

    async with door(stream) as here:
        assert await in_thread(lambda: ask(here.port)) == (200, True)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([b"\x00\x40\x01\x00\x00\x00\x00\x00\x01"], FRAME_SIZE_ERROR),
        ([request_head(2)], PROTOCOL_ERROR),
        ([HeadersFrame(1, data=b"\x82"), PingFrame(0)], PROTOCOL_ERROR),
        ([ContinuationFrame(1, data=b"\x82")], PROTOCOL_ERROR),
        ([DataFrame(1, data=b"x" * 20)], PROTOCOL_ERROR),
        ([HeadersFrame(1, data=b"\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"])], PROTOCOL_ERROR),
        ([b"\x00\x00\x05\x06\x00\x00\x00\x00\x00xxxxx"], FRAME_SIZE_ERROR),
        ([b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"], PROTOCOL_ERROR),
        ([WindowUpdateFrame(0, window_increment=2**31 - 1)], 0x3),
        ([SettingsFrame(0, settings={5: 1})], PROTOCOL_ERROR),
        ([b"\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x82"], PROTOCOL_ERROR),
    ],
)
async def test_a_broken_rule_of_the_connection_ends_it_with_a_word_and_no_other(frames: list[Frame | bytes], code: int) -> None:
    async with door(Sleeper()) as here:
        raw = await here.raw(*frames)
        got, _ = await raw.goaway()
        assert got in (code, PROTOCOL_ERROR)
        assert (await here.exchange("GET", "/quick")).body == b"quick"
    assert here.errors == []


async def test_the_first_frame_has_to_be_settings() -> None:
    async with door(Sleeper()) as here:
        raw = await here.raw(request_head(1), settings=False)
        assert (await raw.goaway())[0] == PROTOCOL_ERROR


async def test_noise_behind_the_preface_never_reaches_beyond_its_connection() -> None:
    chance = random.Random(20261130)
    async with door(Sleeper()) as here:
        for _ in range(60):
            noise = []
            for _ in range(chance.randrange(1, 12)):
                length = chance.choice([0, 1, 4, 5, 6, 8, 9, 40])
                head = length.to_bytes(3, "big") + bytes([chance.randrange(12), chance.choice([0, 1, 4, 5, 8, 32, 255])])
                noise.append(head + chance.choice([0, 1, 1, 3, 2**31]).to_bytes(4, "big") + chance.randbytes(length))
            raw = await here.raw(*noise)
            await raw.stream.send_eof()
            await raw.read_all()
        assert (await here.exchange("GET", "/quick")).body == b"quick"
    assert here.errors == []


async def test_streams_beyond_the_bound_are_refused_one_by_one() -> None:
    sleeper = Sleeper()

    def ask(port: int) -> list[int | None]:
        with Connection(port) as connection:
            # All at once, before the server's SETTINGS are known.
            streams = [connection.request("GET", "/slow") for _ in range(8)]
            connection.set_timeout(0.5)
            with contextlib.suppress(TimeoutError):
                while connection.receive():
                    pass
            assert connection.h2.remote_settings.max_concurrent_streams == 5
            return [connection.streams[stream].reset_code for stream in streams]

    async with door(sleeper, limits=Http2Limits(streams=5)) as here:
        assert await in_thread(lambda: ask(here.port)) == [None] * 5 + [REFUSED_STREAM] * 3


async def test_a_client_that_provokes_answers_and_reads_none_is_cut_off() -> None:
    async with door(Sleeper(), limits=Http2Limits(control_per_s=math.inf)) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        await stream.send_all(PREFACE + SettingsFrame(0).serialize())
        pings = PingFrame(0, opaque_data=b"x" * 8).serialize() * 4000
        with trio.fail_after(30), contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(pings)
        await stream.aclose()
    assert here.errors == []


# ---- time ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "limits"),
    [
        (b"", {"handshake_s": 0.2}),
        (PREFACE[:10], {"handshake_s": 0.2}),
        (PREFACE, {"handshake_s": 0.2}),
        (PREFACE + SettingsFrame(0).serialize() + b"\x00\x00", {"head_s": 0.2}),
        (PREFACE + SettingsFrame(0).serialize() + request_head(1).serialize()[:-3], {"head_s": 0.2}),
        (PREFACE + SettingsFrame(0).serialize() + request_head(1, "END_STREAM").serialize(), {"head_s": 0.2}),
        (PREFACE + SettingsFrame(0).serialize(), {"keep_alive_s": 0.2}),
        (PREFACE + SettingsFrame(0).serialize() + request_head(1).serialize(), {"keep_alive_s": 0.2}),
    ],
)
async def test_a_client_that_is_slow_or_idle_is_parted_from(sent: bytes, limits: dict[str, float]) -> None:
    async with door(Sleeper(), limits=Http2Limits(**limits)) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        begun_s = time.monotonic()
        await stream.send_all(sent)
        await Raw(stream).read_all()
        assert 0.15 < time.monotonic() - begun_s < 1.5
    assert here.errors == []


async def test_a_header_block_that_drips_is_bounded_from_its_first_byte() -> None:
    async with door(Sleeper(), limits=Http2Limits(head_s=0.3)) as here:
        raw = await here.raw(request_head(1, "END_STREAM"))
        begun_s = time.monotonic()
        for _ in range(20):
            await raw.send(ContinuationFrame(1, data=b"\x00\x01a\x01b"))
            await trio.sleep(0.05)
        assert (await raw.goaway())[0] == CALM
        assert time.monotonic() - begun_s < 1.5


async def test_a_running_request_is_no_idle_connection() -> None:
    sleeper = Sleeper(starts=True)
    async with door(sleeper, limits=Http2Limits(keep_alive_s=0.1, head_s=0.1, handshake_s=0.1)) as here:
        connection = Connection(here.port)
        connection.request("GET", "/slow")
        await sleeper.begun.wait()
        await trio.sleep(0.5)
        assert sleeper.running == 1
        connection.close()


# ---- stalled readers -----------------------------------------------------------------------------------------------------


class Flood:
    """Writes without end on /flood; tells how far it came."""

    def __init__(self) -> None:
        self.written = 0
        self.ended = trio.Event()
        self.was_disconnected = False

    async def __call__(self, request: Request, responder: Responder) -> None:
        if request.path != "/flood":
            await responder.send(200, [], b"quick")
            return
        try:
            await responder.start(200, [])
            while True:
                await responder.write(b"x" * 10_000)
                self.written += 10_000
        finally:
            self.was_disconnected = request.is_disconnected
            self.ended.set()


async def test_a_stream_whose_reader_stalls_is_held_by_its_window_blocks_no_other_and_ends_after_the_write_limit() -> None:
    flood = Flood()

    def ask(port: int) -> tuple[bytes, int | None]:
        with Connection(port, acknowledges=False) as connection:
            stalled = connection.request("GET", "/flood")
            while sum(len(chunk) for _, chunk in connection.streams[stalled].chunks) < 65535:
                connection.receive()
            connection.h2.increment_flow_control_window(100_000)
            connection.flush()
            quick = connection.read_answer(connection.request("GET", "/quick")).body
            while connection.streams[stalled].reset_code is None:
                assert connection.receive()
            return quick, connection.streams[stalled].reset_code

    async with door(flood, limits=Http2Limits(write_s=0.5)) as here:
        assert await in_thread(lambda: ask(here.port)) == (b"quick", CANCEL)
        assert flood.ended.is_set()
        assert flood.was_disconnected
        assert flood.written == 60_000
    assert here.errors == []


async def test_a_connection_whose_client_does_not_read_holds_little_and_ends_after_the_write_limit() -> None:
    flood = Flood()
    async with door(flood, limits=Http2Limits(write_s=0.5)) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        head = HeadersFrame(1, data=b"\x82\x86\x04\x06/flood\x01\x01x", flags=["END_HEADERS", "END_STREAM"])
        settings = SettingsFrame(0, settings={4: 2**31 - 1})
        await Raw(stream).send(PREFACE, settings, WindowUpdateFrame(0, window_increment=2**30), head)
        with trio.fail_after(PATIENCE_S):
            await flood.ended.wait()
        assert flood.was_disconnected
        assert flood.written < 10_000_000  # what the kernel's buffers took
        await stream.aclose()
    assert here.errors == []


async def test_many_answers_share_a_connection_window_that_opens_bit_by_bit() -> None:
    async def large(request: Request, responder: Responder) -> None:
        await responder.send(200, [], request.path.encode() * 20_000)

    def ask(port: int) -> list[bytes]:
        with Connection(port) as connection:
            connection.h2.update_settings({1: 65536, 4: 2_000_000})  # the server keeps its own table small all the same
            streams = [connection.request("GET", f"/{number:02}") for number in range(40)]
            return [connection.read_answer(stream).body for stream in streams]

    async with door(large) as here:
        bodies = await in_thread(lambda: ask(here.port))
    assert bodies == [f"/{number:02}".encode() * 20_000 for number in range(40)]


# ---- hang-ups and aborted answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("starts", [True, False])
async def test_a_reset_of_the_clients_cancels_that_handler_at_once_and_no_other(starts: bool) -> None:
    first, second = Sleeper(starts=starts), Sleeper(starts=starts)

    async def both(request: Request, responder: Responder) -> None:
        await (first if request.path == "/1" else second)(request, responder)

    async with door(both) as here:
        connection = Connection(here.port)
        one, _ = connection.request("GET", "/1"), connection.request("GET", "/2")
        await first.begun.wait()
        await second.begun.wait()
        begun_s = time.monotonic()
        connection.reset(one)
        await first.ended.wait()
        assert time.monotonic() - begun_s < PROMPT_S
        assert first.was_disconnected
        assert second.running == 1
        connection.close()
        await second.ended.wait()
        assert second.was_disconnected
    assert here.errors == []


@pytest.mark.parametrize("leave", [Connection.close, Connection.abandon, Connection.half_close])
async def test_a_client_that_leaves_ends_all_of_its_handlers_at_once(leave: Callable[[Connection], None]) -> None:
    sleeper = Sleeper(starts=True)
    async with door(sleeper) as here:
        connection = Connection(here.port)
        for _ in range(10):
            connection.request("POST", "/slow", body=b"x")
        await until(lambda: sleeper.running == 10)
        begun_s = time.monotonic()
        leave(connection)
        await until(lambda: not sleeper.running)
        assert time.monotonic() - begun_s < PROMPT_S
        assert sleeper.was_disconnected
        connection.close()
    assert here.errors == []


async def test_a_client_that_closes_when_it_has_the_whole_answer_cancels_nothing() -> None:
    ended = trio.Event()

    async def answer(request: Request, responder: Responder) -> None:
        await responder.send(200, [], b"whole")
        await gone.wait()
        await trio.sleep(0.01)
        assert not request.is_disconnected
        ended.set()

    gone = trio.Event()
    async with door(answer) as here:
        connection = await in_thread(lambda: Connection(here.port))
        got = await in_thread(lambda: connection.read_answer(connection.request("GET", "/")))
        connection.close()
        gone.set()
        with trio.fail_after(PATIENCE_S):
            await ended.wait()
    assert (got.body, got.is_complete, here.errors) == (b"whole", True, [])


async def test_the_end_of_an_answer_is_one_step_that_no_cancellation_divides() -> None:
    async def answer(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        for _ in range(int(request.path[1:])):
            await responder.write(b"x")
        with trio.CancelScope() as scope:
            scope.cancel()
            await responder.end()

    async with door(answer) as here:
        for chunks in range(17):  # one write in sixteen lets others run
            answered = await here.exchange("GET", f"/{chunks}")
            assert (answered.body, answered.is_complete) == (b"x" * chunks, True)
    assert here.errors == []


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_gone() -> None:
    ended = trio.Event()
    seen: list[bool] = []

    async def read(request: Request, responder: Responder) -> None:
        try:
            await request.read_body(1000)
        finally:
            seen.append(request.is_disconnected)
            ended.set()

    async with door(read) as here:
        connection = Connection(here.port)
        stream = connection.open(UNKNOWN_LENGTH, ends=False)
        connection.send_body(stream, b"abc", ends=False)
        connection.close()
        with trio.fail_after(PATIENCE_S):
            await ended.wait()
    assert seen == [True]
    assert here.errors == []


async def test_writing_to_a_client_that_is_gone_says_so_even_to_a_handler_that_is_shielded() -> None:
    outcome: list[str] = []
    over = trio.Event()

    async def shielded(request: Request, responder: Responder) -> None:
        with trio.CancelScope(shield=True):
            await responder.start(200, [])
            await until(lambda: request.is_disconnected)
            try:
                await responder.write(b"x")
            except ClientGone:
                outcome.append("gone")
        over.set()

    async with door(shielded) as here:
        connection = Connection(here.port)
        stream = connection.request("GET", "/")
        await in_thread(lambda: connection.read_head(stream))
        connection.reset(stream)
        with trio.fail_after(PATIENCE_S):
            await over.wait()
        connection.close()
    assert outcome == ["gone"]
    assert here.errors == []


async def test_an_aborted_answer_is_reset_and_the_connection_lives_on() -> None:
    async def abort(request: Request, responder: Responder) -> None:
        if request.path == "/quick":
            await responder.send(200, [], b"quick")
            return
        await responder.start(200, [])
        await responder.write(b"half")
        responder.abort()
        await responder.write(b"nothing")
        await responder.end()

    def ask(port: int) -> tuple[raw_http.Answer, int | None, bytes]:
        with Connection(port) as connection:
            stream = connection.request("GET", "/")
            answer = connection.read_answer(stream)
            return answer, connection.streams[stream].reset_code, connection.read_answer(connection.request("GET", "/quick")).body

    async with door(abort) as here:
        answer, code, after = await in_thread(lambda: ask(here.port))
    assert (answer.body, answer.is_complete, code, after) == (b"half", False, INTERNAL_ERROR, b"quick")
    assert here.errors == []


@pytest.mark.parametrize(("declared", "is_complete"), [(b"3", False), (b"4", True), (b"5", False)])
async def test_an_answer_of_another_length_than_declared_is_no_complete_one(declared: bytes, is_complete: bool) -> None:
    async def answer_four(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"content-length", declared)])
        await responder.write(b"four")
        await responder.end()

    def ask(port: int) -> bool:
        with Connection(port) as connection:
            return connection.read_answer(connection.request("GET", "/")).is_complete

    async with door(answer_four) as here:
        assert await in_thread(lambda: ask(here.port)) is is_complete


async def test_a_failing_handler_is_told_of_and_answered_and_takes_nobody_along() -> None:
    async def fail(request: Request, responder: Responder) -> None:
        if request.path == "/quick":
            await responder.send(200, [], b"quick")
        elif request.path == "/late":
            await responder.start(200, [])
            raise ValueError("late")
        elif request.path == "/group":
            raise ExceptionGroup("", [ClientGone(), ValueError("group")])
        elif request.path == "/silent":
            return
        elif request.path == "/status":
            await responder.send(99, [], b"")
        else:
            raise ValueError("early")

    def ask(port: int) -> list[tuple[int, bool]]:
        with Connection(port) as connection:
            answers = []
            for path in ("/early", "/late", "/group", "/silent", "/status", "/quick"):
                answer = connection.read_answer(connection.request("GET", path))
                answers.append((answer.status, answer.is_complete))
            return answers

    async with door(fail) as here:
        answers = await in_thread(lambda: ask(here.port))
    assert answers == [(500, True), (200, False), (500, True), (500, True), (500, True), (200, True)]
    assert [str(error) for error in here.errors] == [
        "early",
        "late",
        "group",
        "the handler returned before it had answered",
        "99 is no status of a final answer",
    ]


async def test_what_fails_beside_a_cancellation_is_told_of() -> None:
    begun, ended = trio.Event(), trio.Event()

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    async def handle(request: Request, responder: Responder) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_at_the_end)
                nursery.start_soon(trio.sleep_forever)
                begun.set()
        finally:
            ended.set()

    async with door(handle) as here:
        connection = Connection(here.port)
        connection.request("GET", "/")
        await begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        connection.close()
        with trio.fail_after(PATIENCE_S):
            await ended.wait()
        await until(lambda: here.errors)
    assert [str(error) for error in here.errors] == ["cleanup"]


# ---- connections ---------------------------------------------------------------------------------------------------------


async def test_connections_beyond_the_bound_are_closed_at_once() -> None:
    async with door(Sleeper(), limits=Http2Limits(connections=1)) as here:
        connection = Connection(here.port)
        assert (await in_thread(lambda: connection.read_answer(connection.request("GET", "/quick")))).body == b"quick"
        assert await (await here.raw()).read_all() == []
        connection.close()
        with trio.fail_after(PATIENCE_S):
            while True:
                with contextlib.suppress(raw_http.ConnectionEnded):
                    assert (await here.exchange("GET", "/quick")).body == b"quick"
                    break


async def test_a_client_that_says_goaway_still_gets_its_answers_and_is_closed_then() -> None:
    going_on = trio.Event()

    async def wait(request: Request, responder: Responder) -> None:
        await going_on.wait()
        await responder.send(200, [], b"late")

    async with door(wait) as here:
        connection = Connection(here.port)
        stream = connection.request("GET", "/")
        connection.send(GoAwayFrame(0).serialize())
        await trio.sleep(0.05)
        going_on.set()
        assert (await in_thread(lambda: connection.read_answer(stream))).body == b"late"
        await in_thread(connection.read_to_end)
        connection.close()


async def test_nothing_is_left_of_ended_requests() -> None:
    async def answer(request: Request, responder: Responder) -> None:
        await responder.send(200, [], await request.read_body(100))

    async with door(answer) as here:
        connection = Connection(here.port)

        def ask(count: int) -> None:
            for _ in range(count):
                connection.read_answer(connection.request("POST", "/", body=b"x"))

        gc.collect()
        gc.disable()
        try:
            await in_thread(lambda: ask(20))
            names = [type(thing).__name__ for thing in gc.get_objects()]
        finally:
            gc.enable()
        assert names.count("Http2Request") <= 1
        connection.close()


# ---- draining ------------------------------------------------------------------------------------------------------------


async def test_draining_says_goaway_at_once_lets_what_runs_end_and_refuses_what_comes() -> None:
    going_on = trio.Event()
    begun = trio.Event()

    async def wait(request: Request, responder: Responder) -> None:
        begun.set()
        await going_on.wait()
        await responder.send(200, [], b"late")

    def drained(connection: Connection, stream: int) -> tuple[int | None, raw_http.Answer]:
        while connection.goaway is None:
            connection.receive()
        refused = connection.request("GET", "/")
        while connection.streams[refused].reset_code is None:
            connection.receive()
        trio.from_thread.run_sync(going_on.set)
        answer = connection.read_answer(stream)
        connection.read_to_end()
        return connection.streams[refused].reset_code, answer

    async with door(wait) as here:
        idle = Connection(here.port)
        await in_thread(idle.receive)
        connection = Connection(here.port)
        stream = connection.request("GET", "/")
        await begun.wait()
        here.stop.set()
        refused, answer = await in_thread(lambda: drained(connection, stream))
        assert connection.goaway == (0, 1, b"")
        assert (refused, answer.body, answer.is_complete) == (REFUSED_STREAM, b"late", True)
        await in_thread(idle.read_to_end)
        assert idle.goaway == (0, 0, b"")
        with trio.fail_after(1):
            await here.stopped.wait()
        with pytest.raises(OSError, match="onnect"):
            Connection(here.port)
        idle.close()
        connection.close()
    assert here.errors == []


async def test_what_outstays_the_drain_is_cancelled_and_may_shield_its_last_words() -> None:
    begun = trio.Event()

    async def last_words(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                await responder.write(b"data: stopped\n\n")
                if request.path == "/ends":
                    await responder.end()

    async with door(last_words, drain_s=0.2) as here:
        connection = Connection(here.port)
        ended, cut = connection.request("GET", "/ends"), connection.request("GET", "/cut")
        await in_thread(lambda: (connection.read_head(ended), connection.read_head(cut)))
        begun_s = time.monotonic()
        here.stop.set()
        answers = [await in_thread(functools.partial(connection.read_answer, stream)) for stream in (ended, cut)]
        assert [(answer.body, answer.is_complete) for answer in answers] == [(b"data: stopped\n\n", True), (b"data: stopped\n\n", False)]
        await here.stopped.wait()
        assert 0.2 <= time.monotonic() - begun_s < 0.4
        connection.close()
    assert here.errors == []


async def test_the_drain_ends_in_time_with_stalled_readers_and_handlers_that_shield_writes() -> None:
    stalled = [0]

    async def stubborn(request: Request, responder: Responder) -> None:
        with contextlib.suppress(ClientGone), trio.CancelScope(shield=True):
            await responder.start(200, [])
            stalled[0] += 1
            while True:
                await responder.write(b"x" * 60_000)

    async with door(stubborn, drain_s=0.3) as here:
        connections = [Connection(here.port, acknowledges=False) for _ in range(5)]
        for connection in connections:
            connection.request("GET", "/")
        deaf = await here.raw(SettingsFrame(0, settings={4: 2**31 - 1}), WindowUpdateFrame(0, window_increment=2**30), request_head(1))
        silent = await trio.open_tcp_stream("127.0.0.1", here.port)
        await until(lambda: stalled[0] == 6)
        begun_s = time.monotonic()
        here.stop.set()
        with trio.fail_after(PATIENCE_S):
            await here.stopped.wait()
        assert 0.3 <= time.monotonic() - begun_s < 0.5
        for connection in connections:
            connection.close()
        await deaf.stream.aclose()
        await silent.aclose()
    assert here.errors == []


# ---- TLS -----------------------------------------------------------------------------------------------------------------


class Certificates(certificates.Certificates):
    """Certificates where the door reads them."""

    def files(self) -> Http2TlsFiles:
        return Http2TlsFiles(str(self.cert_file), str(self.key_file))


@pytest.fixture(name="certificates")
def _certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_carries_large_bodies_both_ways(certificates: Certificates, version: ssl.TLSVersion) -> None:
    content = random.Random(8).randbytes(1_000_000)

    async def echo(request: Request, responder: Responder) -> None:
        await responder.send(200, [], await request.read_body(1 << 24))

    context = certificates.client("h2", "http/1.1")
    context.minimum_version = context.maximum_version = version
    async with door(echo, tls=certificates.files()) as here:
        answer = await here.exchange("POST", "/", body=content, tls=context)
    assert (answer.body == content, answer.is_complete) == (True, True)
    assert here.errors == []


async def test_httpx_speaks_to_it_over_tls(certificates: Certificates) -> None:
    context = certificates.client()
    async with door(describe, tls=certificates.files()) as here, httpx.AsyncClient(http2=True, verify=context) as client:
        answer = await client.post(f"https://localhost:{here.port}/a", content=b"abc")
    assert (answer.http_version, answer.json()[3]) == ("HTTP/2", "abc")


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
async def test_a_tls_client_that_does_not_offer_h2_is_refused(certificates: Certificates, protocols: tuple[str, ...]) -> None:
    context = certificates.client(*protocols)
    async with door(Sleeper(), tls=certificates.files()) as here:
        raw = await trio.open_tcp_stream("127.0.0.1", here.port)
        stream = trio.SSLStream(raw, context, server_hostname="localhost", https_compatible=True)
        await stream.send_all(PREFACE + SettingsFrame(0).serialize() + request_head(1).serialize())
        received = b""
        with trio.fail_after(PATIENCE_S), contextlib.suppress(trio.BrokenResourceError):
            while chunk := await stream.receive_some(65536):
                received += chunk
        await raw.aclose()
    assert received.startswith(b"HTTP/1.1 505 ")
    assert here.errors == []


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", PREFACE, b"\x16\x03\x01\xff\xff"])
async def test_a_handshake_that_fails_or_takes_too_long_ends_its_connection_and_no_other(certificates: Certificates, data: bytes) -> None:
    async with door(Sleeper(), tls=certificates.files(), limits=Http2Limits(handshake_s=0.3)) as here:
        stream = await trio.open_tcp_stream("127.0.0.1", here.port)
        await stream.send_all(data)
        with trio.fail_after(2), contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some(65536):
                pass
        await stream.aclose()
        answer = await here.exchange("GET", "/quick", tls=certificates.client("h2"))
        assert answer.body == b"quick"
    assert here.errors == []


async def test_a_hang_up_over_tls_cancels_the_handlers_at_once(certificates: Certificates) -> None:
    sleeper = Sleeper(starts=True)
    async with door(sleeper, tls=certificates.files()) as here:
        connection = await in_thread(lambda: Connection(here.port, tls=certificates.client("h2")))
        connection.request("GET", "/slow")
        await sleeper.begun.wait()
        begun_s = time.monotonic()
        connection.close()
        await sleeper.ended.wait()
        assert time.monotonic() - begun_s < PROMPT_S
    assert here.errors == []


async def test_certificates_are_read_anew_for_new_connections(certificates: Certificates) -> None:
    files = certificates.files()
    before = certificates.client("h2")
    async with door(Sleeper(), tls=files) as here:
        certificates.issue()
        assert (await here.exchange("GET", "/quick", tls=before)).body == b"quick"
        files.reload()
        with pytest.raises(ssl.SSLCertVerificationError):
            await here.exchange("GET", "/quick", tls=before)
        assert (await here.exchange("GET", "/quick", tls=certificates.client("h2"))).body == b"quick"
        certificates.key_file.write_text("no key")
        with pytest.raises(ConfigurationError):
            files.reload()
        assert (await here.exchange("GET", "/quick", tls=certificates.client("h2"))).body == b"quick"
