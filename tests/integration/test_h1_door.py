"""What only the fast front door does: its limits, its bytes, TLS, and what it is spared on a crowded machine."""

import contextlib
import errno
import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from gomodel_trio.errors import ConfigurationError
from gomodel_trio.gateway.http import Request, Responder
from gomodel_trio.listen.h1 import serve_h1
from gomodel_trio.listen.tls import TlsFiles
from support import certificates
from support.doors import PATIENCE_S, open_h1, read_all, read_until

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


async def say(request: Request, responder: Responder) -> None:
    body = await request.read_body(1 << 20)
    await responder.send(200, [], request.path.encode() + b":" + body)


async def stream_two(request: Request, responder: Responder) -> None:
    await responder.start(200, [])
    await responder.write(b"one")
    await responder.write(b"two")
    await responder.end()


# ---- framing -----------------------------------------------------------------------------------------------------------------------


async def test_http_1_0_is_kept_alive_on_request_if_the_answer_has_a_length() -> None:
    async with open_h1(say) as here:
        answer = await here.ask(b"GET /1 HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")
    first, second = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert b"connection: keep-alive\r\n" in first
    assert b"connection: close\r\n" in second


async def test_http_1_0_that_asks_to_be_kept_alive_still_gets_a_stream_that_ends_with_the_connection() -> None:
    async with open_h1(stream_two) as here:
        answer = await here.ask(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    assert b"connection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nonetwo")


@pytest.mark.parametrize(("status", "length"), [(204, None), (304, None), (205, b"0")])
@pytest.mark.parametrize("whole", [True, False])
async def test_statuses_without_a_body_have_none_and_keep_the_connection(status: int, length: bytes | None, whole: bool) -> None:
    async def answer_bodyless(request: Request, responder: Responder) -> None:
        if request.path == "/last":
            await responder.send(200, [], b"last")
        elif whole:
            await responder.send(status, [], b"dropped")
        else:
            await responder.start(status, [])
            await responder.write(b"dropped")
            await responder.end()

    async with open_h1(answer_bodyless) as here:
        answer = await here.ask(GET + LAST)
    first, rest = answer.split(b"\r\n\r\n", 1)
    assert b"transfer-encoding" not in first
    assert (b"content-length: 0" in first) is (length is not None)
    assert rest.startswith(b"HTTP/1.1 200 OK")


async def test_a_declared_length_is_kept_and_the_connection_with_it() -> None:
    async def declare(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"content-length", b"6")])
        await responder.write(b"abc")
        await responder.write(b"def")
        await responder.end()

    async with open_h1(declare) as here:
        answer = await here.ask(GET + LAST)
    assert answer.count(b"\r\n\r\nabcdef") == 2
    assert b"chunked" not in answer
    assert here.errors == []


@pytest.mark.parametrize(("chunks", "errors"), [([b"abc"], []), ([b"abc", b"defg"], ["the answer is longer than it declared"])])
async def test_an_answer_that_is_not_as_long_as_it_declared_ends_the_connection(chunks: list[bytes], errors: list[str]) -> None:
    async def lie(request: Request, responder: Responder) -> None:
        await responder.start(200, [(b"content-length", b"6")])
        for chunk in chunks:
            await responder.write(chunk)
        await responder.end()

    async with open_h1(lie) as here:
        answer = await here.ask(GET + LAST)
    assert answer.endswith(b"\r\n\r\nabc")
    assert [str(error) for error in here.errors] == errors


async def test_an_unread_body_that_is_here_already_does_not_cost_the_connection() -> None:
    async def refuse(request: Request, responder: Responder) -> None:
        await responder.send(401, [], b"no")

    async with open_h1(refuse) as here:
        answer = await here.ask(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 44\r\n\r\n" + b"GET /smuggled HTTP/1.1\r\nhost: smuggled.x\r\n\r\n" + LAST
        )
    assert answer.count(b"HTTP/1.1 401") == 2


async def test_an_empty_line_between_requests_is_skipped() -> None:
    async with open_h1(say) as here:
        answer = await here.ask(b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na\r\n" + LAST)
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_a_request_in_single_bytes_is_read() -> None:
    async with open_h1(say) as here:
        stream = await here.connect()
        async with stream:
            for byte in b"POST /1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n":
                await stream.send_all(bytes([byte]))
            answer = await read_all(stream)
    assert answer.endswith(b"/1:ab")


async def test_a_pipeline_of_many_requests_leaves_others_their_turn() -> None:
    async with open_h1(say) as here:
        flood = await here.connect()
        async with flood, trio.open_nursery() as nursery:
            nursery.start_soon(flood.send_all, GET * 2000)
            nursery.start_soon(read_until, flood, b"HTTP/1.1 200 OK")
            with trio.fail_after(2):
                assert (await here.ask(LAST)).endswith(b"/last:")
            nursery.cancel_scope.cancel()
    assert here.errors == []


async def test_a_request_smuggled_behind_a_refused_one_is_not_served() -> None:
    served: list[str] = []

    async def note(request: Request, responder: Responder) -> None:
        served.append(request.path)
        await say(request, responder)

    attacks = [
        b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\ncontent-length: 44\r\n\r\n",
        b"POST /1 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nhost: x\r\nx: y\ncontent-length: 44\r\n\r\n",
    ]
    async with open_h1(note) as here:
        for attack in attacks:
            answer = await here.ask(attack + b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400"), attack
            assert answer.count(b"HTTP/1.1 ") == 1
    assert served == []


async def test_a_body_broken_midway_is_answered_with_400_and_nothing_behind_it_served() -> None:
    async with open_h1(say) as here:
        answer = await here.ask(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" + LAST)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert here.errors == []


@pytest.mark.parametrize(
    "begin", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\n", b"GET /\r\n", b"hello\r\n", b"GET / HTTP/1.1\r\nhost: x\n"]
)
async def test_what_can_be_no_request_is_refused_before_its_end(begin: bytes) -> None:
    async with open_h1(say) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(begin)
            with trio.fail_after(1):
                assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 400")


# ---- hang-ups ----------------------------------------------------------------------------------------------------------------------


async def test_a_hang_up_is_seen_within_50_ms() -> None:
    seen: list[float] = []
    ended = trio.Event()

    async def wait(request: Request, responder: Responder) -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append(time.monotonic())
            ended.set()

    async with open_h1(wait) as here:
        delays = []
        for _ in range(5):
            stream = await here.connect()
            await stream.send_all(GET)
            await trio.sleep(0.02)
            left = time.monotonic()
            await stream.aclose()
            with trio.fail_after(PATIENCE_S):
                await ended.wait()
            ended = trio.Event()
            delays.append(seen[-1] - left)
    assert sorted(delays)[2] < 0.05


async def test_pipelined_bytes_are_no_hang_up() -> None:
    async def slow(request: Request, responder: Responder) -> None:
        await trio.sleep(0.1)
        await responder.send(200, [], b"gone" if request.is_disconnected else b"here")

    async with open_h1(slow) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(GET)
            await trio.sleep(0.03)
            await stream.send_all(LAST)
            answer = await read_all(stream)
    assert answer.count(b"\r\n\r\nhere") == 2


async def test_a_half_closed_client_gets_an_answer_that_needs_no_waiting() -> None:
    async with open_h1(say) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(GET)
            await stream.send_eof()
            assert (await read_all(stream)).endswith(b"/:")
    assert here.errors == []


# ---- limits ------------------------------------------------------------------------------------------------------------------------


async def test_a_body_that_trickles_is_ended_by_the_limit_on_the_whole() -> None:
    async with open_h1(say, body_idle_s=5.0, body_total_s=0.3) as here:
        stream = await here.connect()
        async with stream, trio.open_nursery() as nursery:

            async def trickle() -> None:
                await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
                while True:
                    await stream.send_all(b"a")
                    await trio.sleep(0.02)

            nursery.start_soon(trickle)
            assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 408")
            nursery.cancel_scope.cancel()


async def test_a_client_that_waits_for_100_and_never_sends_is_ended() -> None:
    async with open_h1(say, body_idle_s=0.2) as here:
        answer = await here.ask(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408")


async def test_a_client_that_does_not_read_is_given_up() -> None:
    told: list[bool] = []
    ended = trio.Event()

    async def flood(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        try:
            while True:
                await responder.write(b"a" * 65536)
        except trio.Cancelled:
            told.append(request.is_disconnected)
            raise
        finally:
            ended.set()

    async with open_h1(flood, write_s=0.2) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(GET)
            with trio.fail_after(PATIENCE_S):
                await ended.wait()
    assert told == [True]
    assert here.errors == []


async def test_a_stalled_reader_and_a_handler_that_shields_do_not_keep_the_drain() -> None:
    async def stubborn(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        with trio.CancelScope(shield=True):
            while True:
                await responder.write(b"a" * 65536)

    async with open_h1(stubborn, drain_s=0.2) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(GET)
            await trio.sleep(0.2)
            started = time.monotonic()
            here.stop.set()
            with trio.fail_after(PATIENCE_S):
                await here.stopped.wait()
            assert 0.2 <= time.monotonic() - started < 0.9


async def test_one_connection_too_many_is_told_so() -> None:
    async with open_h1(say, connections=2) as here:
        kept = [await here.connect() for _ in range(2)]
        for stream in kept:
            await stream.send_all(GET)
            await read_until(stream, b"/:")
        assert (await here.ask(GET)).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        for stream in kept:
            await stream.send_all(GET)
            await read_until(stream, b"/:")
            await stream.aclose()
        await trio.sleep(0.05)
        assert (await here.ask(LAST)).startswith(b"HTTP/1.1 200")
    assert here.errors == []


@contextmanager
def few_files(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_running_out_of_files_is_told_once_and_survived() -> None:
    async with open_h1(say) as here:
        with socket.socket() as client:
            client.setblocking(False)
            with few_files(client.fileno() + 1):
                with pytest.raises(BlockingIOError):
                    client.connect(("127.0.0.1", here.port))
                await trio.sleep(0.3)
            assert [error.errno for error in here.errors if isinstance(error, OSError)] == [errno.EMFILE]
        assert (await here.ask(LAST)).startswith(b"HTTP/1.1 200")


async def test_a_failing_connection_does_not_touch_another() -> None:
    async def fail_or_wait(request: Request, responder: Responder) -> None:
        if request.path == "/fail":
            raise BaseExceptionGroup("both", [ValueError("bad")])
        await trio.sleep(0.1)
        await responder.send(200, [], b"fine")

    async with open_h1(fail_or_wait) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(LAST)
            assert (await here.ask(b"GET /fail HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).startswith(b"HTTP/1.1 500")
            assert (await read_all(stream)).endswith(b"fine")
    assert [str(error) for error in here.errors] == ["bad"]


async def test_a_failure_beside_a_hang_up_is_told_and_the_door_lives() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("bad")

    async def both(request: Request, responder: Responder) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            await trio.sleep_forever()

    async with open_h1(both) as here:
        stream = await here.connect()
        await stream.send_all(GET)
        await trio.sleep(0.05)
        await stream.aclose()
        await trio.sleep(0.1)
        again = await here.connect()
        await again.aclose()
    assert [str(error) for error in here.errors] == ["bad"]


async def test_a_handler_that_returns_without_an_answer_is_a_failure() -> None:
    async def forget(request: Request, responder: Responder) -> None:
        return

    async with open_h1(forget) as here:
        answer = await here.ask(LAST)
    assert answer.startswith(b"HTTP/1.1 500")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "internal_error"
    assert len(here.errors) == 1


async def test_a_forced_stop_in_the_middle_of_requests_closes_every_socket() -> None:
    running = trio.Event()

    async def wait(request: Request, responder: Responder) -> None:
        running.set()
        await trio.sleep_forever()

    async with open_h1(wait) as here:
        stream = await here.connect()
        await stream.send_all(GET)
        await running.wait()
    assert here.errors == []
    assert await read_all(stream) == b""
    await stream.aclose()


async def test_a_port_in_use_is_a_configuration_error() -> None:
    async with open_h1(say) as here:
        with pytest.raises(ConfigurationError, match="is in use"):
            await serve_h1(
                say, host="127.0.0.1", port=here.port, shutdown_trigger=trio.sleep_forever, drain_timeout_s=1, on_error=here.errors.append
            )


# ---- TLS ---------------------------------------------------------------------------------------------------------------------------


class Certificates(certificates.Certificates):
    """Certificates where the door reads them."""

    def files(self) -> TlsFiles:
        return TlsFiles(str(self.cert_file), str(self.key_file))


@pytest.fixture(name="certificates")
def _certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def connect_tls(port: int, certificates: Certificates, name: str = "localhost") -> trio.SSLStream[trio.SocketStream]:
    """A client that takes an end without close_notify for a broken connection."""
    return trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", port), certificates.client(), server_hostname=name)


async def read_all_tls(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    received = b""
    with trio.fail_after(PATIENCE_S):
        while chunk := await stream.receive_some(65536):
            received += chunk
    return received


async def test_tls_serves_small_and_large_requests_and_ends_properly(certificates: Certificates) -> None:
    async with open_h1(say, tls=certificates.files()) as here:
        stream = await connect_tls(here.port, certificates)
        async with stream:
            body = b"b" * 300_000
            await stream.send_all(b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body + LAST)
            answer = await read_all_tls(stream)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"/1:" + body + b"HTTP/1.1" in answer
    assert answer.endswith(b"/last:")
    assert here.errors == []


async def test_tls_holds_a_large_answer_back_while_the_client_does_not_read(certificates: Certificates) -> None:
    async def large(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        for _ in range(100):
            await responder.write(b"a" * 100_000)
        await responder.end()

    async with open_h1(large, tls=certificates.files()) as here:
        stream = await connect_tls(here.port, certificates)
        async with stream:
            await stream.send_all(LAST)
            await trio.sleep(0.2)
            answer = await read_all_tls(stream)
    assert answer.count(b"a" * 100_000) == 100
    assert answer.endswith(b"0\r\n\r\n")


async def test_an_abort_over_tls_is_seen_as_one_even_if_the_connection_ends_the_body(certificates: Certificates) -> None:
    async def cut(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"half")
        await trio.sleep(0.05)
        responder.abort()

    async with open_h1(cut, tls=certificates.files()) as here:
        stream = await connect_tls(here.port, certificates)
        await stream.send_all(b"GET / HTTP/1.0\r\nhost: x\r\n\r\n")
        with pytest.raises(trio.BrokenResourceError):
            await read_all_tls(stream)
        await trio.aclose_forcefully(stream)
        stream = await connect_tls(here.port, certificates)
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        # Python before 3.11.5 takes the missing goodbye of TLS for a proper end; the missing last chunk tells there.
        received = b""
        with contextlib.suppress(trio.BrokenResourceError):
            received = await read_all_tls(stream)
        assert not received.endswith(b"0\r\n\r\n")
        await trio.aclose_forcefully(stream)


async def test_a_hang_up_over_tls_cancels_the_handler(certificates: Certificates) -> None:
    told: list[bool] = []
    ended = trio.Event()

    async def wait(request: Request, responder: Responder) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            told.append(request.is_disconnected)
            raise
        finally:
            ended.set()

    async with open_h1(wait, tls=certificates.files()) as here:
        stream = await connect_tls(here.port, certificates)
        await stream.send_all(GET)
        await trio.sleep(0.05)
        await stream.aclose()
        with trio.fail_after(1):
            await ended.wait()
    assert told == [True]


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_handshake_that_does_not_come_is_ended(certificates: Certificates, data: bytes) -> None:
    async with open_h1(say, tls=certificates.files(), handshake_s=0.2) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(data)
            with pytest.raises(trio.BrokenResourceError):
                await read_all(stream)
    assert here.errors == []


async def test_cleartext_on_a_tls_port_harms_nobody(certificates: Certificates) -> None:
    async with open_h1(say, tls=certificates.files()) as here:
        stream = await here.connect()
        async with stream:
            await stream.send_all(GET)
            with contextlib.suppress(trio.BrokenResourceError):  # an alert and an end, or a reset
                assert b"HTTP/1.1 200" not in await read_all(stream)
        good = await connect_tls(here.port, certificates)
        async with good:
            await good.send_all(LAST)
            assert (await read_all_tls(good)).endswith(b"/last:")
    assert here.errors == []


async def test_a_reload_takes_the_new_certificate_and_keeps_open_connections(certificates: Certificates) -> None:
    files = certificates.files()
    async with open_h1(say, tls=files) as here:
        old = await connect_tls(here.port, certificates)
        await old.send_all(GET)
        await old.receive_some(65536)
        certificates.issue("renewed.test")
        files.reload()
        new = await connect_tls(here.port, certificates, "renewed.test")
        for stream in (new, old):
            async with stream:
                await stream.send_all(LAST)
                assert (await read_all_tls(stream)).endswith(b"/last:")


@pytest.mark.parametrize(
    ("breakage", "place"),
    [("no certificate", "TLS_CERT_FILE"), ("no key", "TLS_KEY_FILE"), ("garbage", "TLS_CERT_FILE"), ("other key", "TLS_KEY_FILE")],
)
async def test_a_bad_certificate_names_its_variable_and_a_reload_of_it_changes_nothing(
    certificates: Certificates, breakage: str, place: str
) -> None:
    files = certificates.files()
    match breakage:
        case "no certificate":
            certificates.cert_file.unlink()
        case "no key":
            certificates.key_file.unlink()
        case "garbage":
            certificates.cert_file.write_text("garbage")
        case _:
            certificates.key_file.write_bytes(certificates.authority.issue_cert("x.test").private_key_pem.bytes())
    with pytest.raises(ConfigurationError) as caught:
        files.reload()
    assert [fault.place for fault in caught.value.faults] == [place]
    async with open_h1(say, tls=files) as here:
        stream = await connect_tls(here.port, certificates)
        async with stream:
            await stream.send_all(LAST)
            assert (await read_all_tls(stream)).endswith(b"/last:")
