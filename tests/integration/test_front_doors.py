"""What every front door does, on real sockets: framing, limits, hang-ups, draining, hostile input."""

import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.http import Handler, Request, Responder
from support.doors import PATIENCE_S, OpenDoor, open_h1, open_hypercorn, read_all, read_until


@pytest.fixture(params=[open_h1, open_hypercorn], ids=["h1", "hypercorn"])
def door(request: pytest.FixtureRequest) -> OpenDoor:
    """Each door in turn."""
    opened: OpenDoor = request.param
    return opened


async def describe(request: Request, responder: Responder) -> None:
    """Answer with what arrived."""
    body = await request.read_body(1000)
    seen = [request.method, request.path, request.query.decode(), body.decode(), request.peer]
    await responder.send(200, [(b"content-type", b"application/json")], json.dumps(seen).encode())


def body_of(answer: bytes) -> list[str]:
    return list(json.loads(answer.partition(b"\r\n\r\n")[2]))


CLOSE = b"host: x\r\nconnection: close\r\n"


async def test_a_get_is_answered_with_length_and_without_a_server_header(door: OpenDoor) -> None:
    async with door(describe) as here:
        answer = await here.ask(b"GET /v1/models%2Fa?b=1&c HTTP/1.1\r\n" + CLOSE + b"\r\n")
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 200")
    assert b"\r\nserver:" not in head
    assert head.count(b"content-length: ") == 1
    assert b"\r\ndate: " in head
    assert body_of(answer) == ["GET", "/v1/models/a", "b=1&c", "", "127.0.0.1"]
    assert here.errors == []


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://example.test/v1/models?x=1", "/v1/models", "x=1"),
        (b"HTTPS://example.test:443", "/", ""),
        (b"/a%20b/%E2%82%AC/%ff", "/a b/€/\ufffd", ""),
        (b"/?q=%20", "/", "q=%20"),
        (b"/http://x", "/http://x", ""),
    ],
)
async def test_targets_are_read_in_origin_and_absolute_form(door: OpenDoor, target: bytes, path: str, query: str) -> None:
    async with door(describe) as here:
        answer = await here.ask(b"GET " + target + b" HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert body_of(answer)[1:3] == [path, query]


async def test_a_chunked_body_is_read_whole(door: OpenDoor) -> None:
    async with door(describe) as here:
        answer = await here.ask(
            b"POST / HTTP/1.1\r\n" + CLOSE + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: v\r\n\r\n"
        )
    assert body_of(answer)[3] == "abcde"


async def test_pipelined_requests_are_answered_in_order_on_one_connection(door: OpenDoor) -> None:
    async with door(describe) as here:
        requests = b"".join(b"POST /%d HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n%d" % (number, number) for number in range(5))
        answer = await here.ask(requests + b"GET /last HTTP/1.1\r\n" + CLOSE + b"\r\n")
    paths = [json.loads(part.partition(b"\r\n\r\n")[2])[1] for part in answer.split(b"HTTP/1.1 200")[1:]]
    assert paths == ["/0", "/1", "/2", "/3", "/4", "/last"]


async def test_http_1_0_gets_a_body_that_ends_with_the_connection(door: OpenDoor) -> None:
    async def stream_out(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"one")
        await responder.write(b"two")
        await responder.end()

    async with door(stream_out) as here:
        answer = await here.ask(b"GET / HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert body == b"onetwo"


async def test_an_aborted_http_1_0_answer_ends_with_a_reset(door: OpenDoor) -> None:
    async def cut(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"one")
        await trio.sleep(0.05)
        responder.abort()

    async with door(cut) as here:
        stream = await here.connect()
        await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")
        await read_until(stream, b"one")
        with pytest.raises(trio.BrokenResourceError):
            await read_all(stream)
        await stream.aclose()


async def test_head_has_the_length_and_no_body(door: OpenDoor) -> None:
    async with door(describe) as here:
        stream = await here.connect()
        await stream.send_all(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\nGET /next HTTP/1.1\r\n" + CLOSE + b"\r\n")
        answer = await read_all(stream)
        await stream.aclose()
    first, _, rest = answer.partition(b"\r\n\r\n")
    assert b"content-length: 3" in first.lower()
    assert rest.startswith(b"HTTP/1.1 200")


async def test_expect_100_continue_is_answered_when_the_body_is_read(door: OpenDoor) -> None:
    async with door(describe) as here:
        stream = await here.connect()
        await stream.send_all(b"POST / HTTP/1.1\r\n" + CLOSE + b"content-length: 3\r\nexpect: 100-continue\r\n\r\n")
        assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await stream.send_all(b"abc")
        answer = await read_all(stream)
        await stream.aclose()
    assert body_of(answer)[3] == "abc"


async def test_expect_100_continue_is_not_answered_by_a_handler_that_wants_no_body(door: OpenDoor) -> None:
    async def refuse(request: Request, responder: Responder) -> None:
        await responder.send(401, [], b"no")

    async with door(refuse) as here:
        answer = await here.ask(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"100 " not in answer
    assert b"connection: close" in answer.lower()


async def limited(request: Request, responder: Responder) -> None:
    try:
        body = await request.read_body(1000)
    except BodyTooLarge as error:
        await responder.send(error.status, [], b"too large")
        return
    await responder.send(200, [], b"%d" % len(body))


async def test_the_limit_itself_is_allowed(door: OpenDoor) -> None:
    async with door(limited) as here:
        answer = await here.ask(b"POST / HTTP/1.1\r\n" + CLOSE + b"content-length: 1000\r\n\r\n" + b"a" * 1000)
    assert answer.endswith(b"\r\n\r\n1000")


@pytest.mark.parametrize("framing", ["declared", "chunked"])
async def test_a_client_that_sends_too_much_can_read_the_413(door: OpenDoor, framing: str) -> None:
    size = 4 << 20
    async with door(limited) as here:
        stream = await here.connect()
        async with stream:
            if framing == "declared":
                await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
                await stream.send_all(b"a" * size)
            else:
                await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
                for _ in range(64):
                    await stream.send_all(b"10000\r\n" + b"a" * 65536 + b"\r\n")
            answer = await read_all(stream)
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.endswith(b"too large")


async def test_an_abort_leaves_out_the_terminating_chunk(door: OpenDoor) -> None:
    async def cut(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"half")
        responder.abort()
        await responder.write(b"never")
        await responder.end()

    async with door(cut) as here:
        answer = await here.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n4\r\nhalf\r\n")
    assert here.errors == []


async def test_a_proper_end_has_the_terminating_chunk_and_keeps_the_connection(door: OpenDoor) -> None:
    async def stream_out(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"transfer-encoding", b"gzip"), (b"connection", b"close"), (b"x-a", b"1\r\n2")])
        await responder.write(b"all")
        await responder.end()

    async with door(stream_out) as here:
        stream = await here.connect()
        for _ in range(2):
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = await read_until(stream, b"0\r\n\r\n")
            assert answer.endswith(b"\r\n\r\n3\r\nall\r\n0\r\n\r\n")
            assert b"x-a: 1  2\r\n" in answer
        await stream.aclose()


async def test_a_failing_handler_is_told_once_and_answered_with_500(door: OpenDoor) -> None:
    async def fail(request: Request, responder: Responder) -> None:
        raise ZeroDivisionError

    async with door(fail) as here:
        answer = await here.ask(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "internal_error"
    assert [type(error) for error in here.errors] == [ZeroDivisionError]


# ---- hang-ups ----------------------------------------------------------------------------------------------------------------------


class Watched:
    """A handler whose cancellation is recorded."""

    def __init__(self, inner: Callable[[Request, Responder], Awaitable[None]]) -> None:
        self.inner = inner
        self.running = 0
        self.told: list[bool] = []
        self.hundred = trio.Event()
        self.ended = trio.Event()

    async def __call__(self, request: Request, responder: Responder) -> None:
        self.running += 1
        if self.running == 100:
            self.hundred.set()
        try:
            await self.inner(request, responder)
        except trio.Cancelled:
            self.told.append(request.is_disconnected)
            raise
        finally:
            self.running -= 1
            if self.running == 0:
                self.ended.set()


async def wait_silently(request: Request, responder: Responder) -> None:
    await request.read_body(1000)
    await trio.sleep_forever()


async def stream_forever(request: Request, responder: Responder) -> None:
    await request.read_body(1000)
    await responder.start(200, [])
    while True:
        await responder.write(b"tick")
        await trio.sleep(0.02)


async def stream_one_and_wait(request: Request, responder: Responder) -> None:
    await responder.start(200, [])
    await responder.write(b"tick")
    await trio.sleep_forever()


async def write_without_end(request: Request, responder: Responder) -> None:
    await responder.start(200, [])
    while True:
        await responder.write(b"a" * 65536)


@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
@pytest.mark.parametrize("inner", [wait_silently, stream_forever, stream_one_and_wait, write_without_end])
async def test_a_hang_up_cancels_the_handler(door: OpenDoor, inner: Handler, way: str) -> None:
    watched = Watched(inner)
    async with door(watched) as here:
        stream = await here.connect()
        await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc")
        if inner is not wait_silently:
            await read_until(stream, b"\r\n\r\n")
        await trio.sleep(0.05)
        started = time.monotonic()
        if way == "half-close":
            await stream.send_eof()
        else:
            if way == "reset":
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
        with trio.fail_after(PATIENCE_S):
            await watched.ended.wait()
        assert time.monotonic() - started < 1.0
        await stream.aclose()
    assert watched.told == [True]
    assert here.errors == []


async def test_a_hang_up_is_seen_while_a_pipelined_request_waits(door: OpenDoor) -> None:
    watched = Watched(wait_silently)
    async with door(watched) as here:
        stream = await here.connect()
        await stream.send_all(b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(0.05)
        await stream.aclose()
        with trio.fail_after(1.0):
            await watched.ended.wait()
    assert watched.told == [True]


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_gone(door: OpenDoor) -> None:
    seen: list[object] = []
    done = trio.Event()

    async def read(request: Request, responder: Responder) -> None:
        try:
            await request.read_body(1000)
        except ClientGone:
            seen.append(request.is_disconnected)
            raise
        finally:
            done.set()

    async with door(read) as here:
        stream = await here.connect()
        await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\nabc")
        await trio.sleep(0.05)
        await stream.aclose()
        with trio.fail_after(PATIENCE_S):
            await done.wait()
    assert seen == [True]
    assert here.errors == []


async def test_a_hundred_hang_ups_at_once_leave_nothing_running(door: OpenDoor) -> None:
    watched = Watched(wait_silently)
    async with door(watched) as here:
        streams = [await here.connect() for _ in range(100)]
        for stream in streams:
            await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc")
        with trio.fail_after(PATIENCE_S):
            await watched.hundred.wait()
        started = time.monotonic()
        for stream in streams:
            await trio.aclose_forcefully(stream)
        with trio.fail_after(PATIENCE_S):
            await watched.ended.wait()
        assert time.monotonic() - started < 2.0
    assert watched.told == [True] * 100
    assert here.errors == []


async def test_a_handler_may_go_on_after_its_answer(door: OpenDoor) -> None:
    finished: list[bool] = []
    done = trio.Event()

    async def tidy_up(request: Request, responder: Responder) -> None:
        await responder.send(200, [], b"ok")
        await trio.sleep(0.05)
        finished.append(request.is_disconnected)
        done.set()

    async with door(tidy_up) as here:
        assert (await here.ask(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")).endswith(b"ok")
        with trio.fail_after(PATIENCE_S):
            await done.wait()
    assert finished == [False]


# ---- hostile input -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"hello there\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nbad header: 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: \x00\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"CONNECT example.test:443 HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", 431),
    ],
)
async def test_a_bad_request_is_refused_and_the_server_lives(door: OpenDoor, data: bytes, status: int) -> None:
    async with door(describe) as here:
        answer = await here.ask(data)
        assert answer.startswith(b"HTTP/1.1 %d" % status), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
        assert (await here.ask(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")).startswith(b"HTTP/1.1 200")
    assert here.errors == []


@pytest.mark.parametrize("behind", [b"", b"\x81", b"\x81\x85\x00\x00\x00\x00hello", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"])
async def test_a_websocket_upgrade_with_bytes_behind_it_does_not_harm_the_server(door: OpenDoor, behind: bytes) -> None:
    upgrade = (
        b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    async with door(describe) as here:
        stream = await here.connect()
        await stream.send_all(upgrade + behind)
        assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await trio.sleep(0.02)
        await stream.aclose()
        assert (await here.ask(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")).startswith(b"HTTP/1.1 200")
    assert here.errors == []


async def test_an_h2c_upgrade_is_an_ordinary_request(door: OpenDoor) -> None:
    async with door(describe) as here:
        answer = await here.ask(b"GET / HTTP/1.1\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n" + CLOSE + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert here.errors == []


async def test_slow_heads_and_bodies_are_answered_with_408_and_idle_connections_closed(door: OpenDoor) -> None:
    async with door(describe, head_s=0.1, body_idle_s=0.1, keep_alive_s=0.1) as here:
        assert (await here.ask(b"GET / HT")).startswith(b"HTTP/1.1 408")
        assert (await here.ask(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")).startswith(b"HTTP/1.1 408")
        assert await here.ask(b"") == b""
        idle = await here.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert idle.startswith(b"HTTP/1.1 200")
        assert idle.count(b"HTTP/1.1") == 1
    assert here.errors == []


async def test_an_answer_longer_than_every_limit_on_requests_is_not_cut(door: OpenDoor) -> None:
    async def slow(request: Request, responder: Responder) -> None:
        await request.read_body(100)
        await trio.sleep(0.2)
        await responder.start(200, [])
        await trio.sleep(0.2)
        await responder.write(b"done")
        await responder.end()

    async with door(slow, head_s=0.1, body_idle_s=0.1, body_total_s=0.1, keep_alive_s=0.1) as here:
        answer = await here.ask(b"POST / HTTP/1.1\r\n" + CLOSE + b"content-length: 1\r\n\r\na")
    assert answer.endswith(b"4\r\ndone\r\n0\r\n\r\n")


# ---- draining ----------------------------------------------------------------------------------------------------------------------


async def test_a_drain_closes_listener_and_idle_connections_and_lets_a_stream_finish(door: OpenDoor) -> None:
    go_on = trio.Event()

    async def stream_out(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"first")
        await go_on.wait()
        await responder.write(b"last")
        await responder.end()

    async with door(stream_out) as here:
        idle = await here.connect()
        busy = await here.connect()
        await busy.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await read_until(busy, b"first")
        here.stop.set()
        assert await read_all(idle) == b""
        with pytest.raises(OSError, match=str(here.port)):
            await here.connect()
        assert not here.stopped.is_set()
        go_on.set()
        assert (await read_all(busy)).endswith(b"4\r\nlast\r\n0\r\n\r\n")
        with trio.fail_after(PATIENCE_S):
            await here.stopped.wait()
        await idle.aclose()
        await busy.aclose()


async def test_an_answer_given_while_draining_says_that_the_connection_closes(door: OpenDoor) -> None:
    go_on = trio.Event()

    async def late(request: Request, responder: Responder) -> None:
        await go_on.wait()
        await responder.send(200, [], b"late")

    async with door(late) as here:
        stream = await here.connect()
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(0.05)
        here.stop.set()
        await trio.sleep(0.05)
        go_on.set()
        answer = await read_all(stream)
        await stream.aclose()
    assert b"connection: close" in answer.lower()
    assert answer.endswith(b"late")


async def test_a_stalled_reader_does_not_keep_the_drain(door: OpenDoor) -> None:
    watched = Watched(write_without_end)
    async with door(watched, drain_s=0.2) as here:
        stream = await here.connect()
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await trio.sleep(0.2)
        started = time.monotonic()
        here.stop.set()
        with trio.fail_after(PATIENCE_S):
            await here.stopped.wait()
        assert 0.15 < time.monotonic() - started < 1.5
        await stream.aclose()
    assert watched.told == [False]


async def test_at_the_end_of_the_drain_a_handler_may_shield_a_last_write(door: OpenDoor) -> None:
    async def explain(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.2):
                await responder.write(b"shutting down")
                responder.abort()

    async with door(explain, drain_s=0.1) as here:
        stream = await here.connect()
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await read_until(stream, b"\r\n\r\n")
        here.stop.set()
        assert await read_all(stream) == b"d\r\nshutting down\r\n"
        await stream.aclose()
    assert here.errors == []
