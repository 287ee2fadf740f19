"""Relaying an open answer, in virtual time (behaviour.md §6, streams)."""

import gzip
from collections.abc import Iterator, Sequence

import pytest
import trio
import trio.testing

from gomodel_trio.gateway import stream_out
from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.gateway.stream_out import Limits, Relay, RelayEnd
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.upstream.attempt import Failure, Opened, Question
from gomodel_trio.upstream.decoding import Decoder, Identity, Inflate
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"Par"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
COMMENT = b": PROCESSING\n\n"
ERROR = b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n'
RESET = TransportError(TransportFault.RESET, "reset")

Piece = bytes | float | TransportError


class FakeResponse:
    """Plays pieces: bytes are chunks, floats waits, an error is raised; then the proper end."""

    status = 200

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = list(pieces)
        self.headers: Headers = [(b"content-type", b"text/event-stream")]

    async def read(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, float):
                await trio.sleep(piece)
            elif isinstance(piece, TransportError):
                raise piece
            else:
                return piece
        return b""

    async def aclose(self) -> None:
        return None


class Client:
    """Notes what the client would see and when; `write_s`: how long each write takes."""

    def __init__(self, write_s: float = 0.0) -> None:
        self.start_s = trio.current_time()
        self.head_at_s: float | None = None
        self.writes: list[tuple[float, bytes]] = []
        self.end_state = "open"
        self._write_s = write_s
        self.has_started = False

    async def start(self, status: int, headers: Headers) -> None:
        assert status == 200
        assert headers == [(b"x", b"y")]
        self.has_started = True
        self.head_at_s = trio.current_time() - self.start_s

    async def write(self, chunk: bytes) -> None:
        await trio.sleep(self._write_s)
        self.writes.append((round(trio.current_time() - self.start_s, 6), chunk))

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        raise AssertionError("a relay never sends whole answers")

    def abort(self) -> None:
        self.end_state = "aborted"

    async def end(self) -> None:
        self.end_state = "ended"

    @property
    def body(self) -> bytes:
        return b"".join(chunk for _, chunk in self.writes)


async def relay(
    pieces: Sequence[Piece],
    *,
    api: Api = Api.CHAT,
    first_content_s: float = 600.0,
    idle_s: float = 300.0,
    commits_unseen: bool = True,
    write_s: float = 0.0,
    decoder: Decoder | None = None,
    is_event_stream: bool = True,
) -> tuple[Failure | RelayEnd, Client, list[float]]:
    client = Client(write_s)
    content_at: list[float] = []
    start_s = trio.current_time()
    relayed = Relay(
        Opened(FakeResponse(pieces), is_event_stream),
        client,
        (200, [(b"x", b"y")]),
        question=Question(api, "m", b"{}"),
        observer=observer_for(api) if is_event_stream else None,
        decoder=decoder if decoder is not None else Identity(),
        limits=Limits(first_content_at_s=start_s + first_content_s, idle_s=idle_s, commits_unseen=commits_unseen),
        record=RequestRecord("r", "POST", "/", 0.0),
        on_content=lambda: content_at.append(trio.current_time() - start_s),
        on_commit=lambda: None,
    )
    return await relayed.run(), client, content_at


async def test_nothing_is_sent_before_the_first_content_event(autojump_clock: trio.testing.MockClock) -> None:
    end, client, content_at = await relay([ROLE, 1.0, COMMENT, 2.0, CONTENT, 1.0, FINISH, DONE])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.head_at_s == pytest.approx(3.0)
    assert content_at == [pytest.approx(3.0)]
    assert client.body == ROLE + COMMENT + CONTENT + FINISH + DONE
    assert client.end_state == "ended"


async def test_an_error_before_content_is_a_failure_and_nothing_was_sent(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, COMMENT, ERROR])
    assert isinstance(end, Failure)
    assert (end.status, end.classification.outcome, end.classification.is_failover) == (503, Outcome.FAULT, True)
    assert not client.has_started


async def test_a_reset_before_content_is_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, RESET])
    assert isinstance(end, Failure)
    assert end.classification.cause is Cause.NETWORK
    assert not client.has_started


@pytest.mark.parametrize("pieces", [[], [ROLE], [COMMENT, ROLE]])
async def test_a_stream_that_ends_without_content_is_a_failure(autojump_clock: trio.testing.MockClock, pieces: list[Piece]) -> None:
    end, client, _ = await relay(pieces)
    assert isinstance(end, Failure)
    assert end.classification.is_failover
    assert not client.has_started


async def test_held_bytes_go_out_five_seconds_after_the_head_and_the_pending_read_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    end, client, content_at = await relay([ROLE, 20.0, CONTENT, FINISH])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.head_at_s == pytest.approx(5.0)
    assert client.writes[0] == (5.0, ROLE)
    assert client.writes[1] == (20.0, CONTENT)
    assert content_at == [pytest.approx(20.0)]


async def test_after_the_hold_an_error_is_told_in_the_stream(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, 7.0, RESET])
    assert end == RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "stream_incomplete")
    assert client.body.startswith(ROLE + b'data: {"error":')
    assert client.end_state == "aborted"


async def test_more_than_64_kib_without_content_go_out(autojump_clock: trio.testing.MockClock) -> None:
    big = b": " + b"x" * 1022 + b"\n\n"
    end, client, _ = await relay([big] * 70 + [CONTENT, FINISH])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.head_at_s == 0.0
    assert client.body == big * 70 + CONTENT + FINISH


async def test_with_a_first_event_timeout_it_is_held_until_then_and_fails(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, 20.0, CONTENT], first_content_s=15.0, commits_unseen=False)
    assert isinstance(end, Failure)
    assert (end.status, end.classification.cause) == (504, Cause.TIMEOUT)
    assert not client.has_started


async def test_the_requests_deadline_does_not_cut_a_committed_stream(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, 50.0, CONTENT, 50.0, FINISH], first_content_s=10.0)
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.head_at_s == pytest.approx(5.0)


async def test_silence_after_the_hold_is_a_stall(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([ROLE, 1000.0, CONTENT], idle_s=30.0)
    assert end == RelayEnd(Outcome.FAULT, Cause.STALLED, "stream_incomplete")
    assert client.writes[-1][0] == pytest.approx(35.0)


@pytest.mark.parametrize("cut", [RESET, TransportError(TransportFault.SHORT_BODY, "short"), None])
async def test_a_cut_after_content_is_told_and_not_ended_cleanly(
    autojump_clock: trio.testing.MockClock, cut: TransportError | None
) -> None:
    end, client, _ = await relay([CONTENT, *([cut] if cut else [])])
    assert end == RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "stream_incomplete")
    assert client.body.startswith(CONTENT + b'data: {"error":')
    assert b"stream_incomplete" in client.body
    assert client.end_state == "aborted"


async def test_a_missing_done_after_a_finish_reason_is_success(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, FINISH])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.end_state == "ended"


async def test_a_reset_after_the_end_was_seen_is_success(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, FINISH, DONE, RESET])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.body == CONTENT + FINISH + DONE


async def test_an_error_event_after_content_is_forwarded_once_and_counts_as_a_fault(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, ERROR])
    assert isinstance(end, RelayEnd)
    assert (end.outcome, end.cause) == (Outcome.FAULT, Cause.ERROR_EVENT)
    assert client.body == CONTENT + ERROR


async def test_a_silent_stream_stalls_after_the_idle_limit_though_comments_come(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, *[10.0, COMMENT] * 20, FINISH], idle_s=30.0)
    assert end == RelayEnd(Outcome.FAULT, Cause.STALLED, "stream_incomplete")
    assert client.writes[-1][0] == pytest.approx(30.0)
    assert client.body.count(COMMENT) in (2, 3)


async def test_an_upstream_that_stays_open_behind_the_end_is_ended_for_at_the_idle_limit(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, FINISH, DONE, 1000.0], idle_s=30.0)
    assert end == RelayEnd(Outcome.SUCCESS)
    assert (client.body, client.end_state) == (CONTENT + FINISH + DONE, "ended")
    assert trio.current_time() - client.start_s == pytest.approx(30.0)


async def test_events_keep_a_slow_stream_alive(autojump_clock: trio.testing.MockClock) -> None:
    end, _, _ = await relay([CONTENT, *[25.0, CONTENT] * 10, FINISH], idle_s=30.0)
    assert end == RelayEnd(Outcome.SUCCESS)


async def test_a_client_that_does_not_read_is_no_fault_of_the_target(autojump_clock: trio.testing.MockClock) -> None:
    end, client, _ = await relay([CONTENT, CONTENT, FINISH], idle_s=30.0, write_s=40.0)
    assert end == RelayEnd(Outcome.CLIENT, Cause.NONE, "client_too_slow")
    assert client.end_state == "aborted"


async def test_malformed_events_pass_untouched(autojump_clock: trio.testing.MockClock) -> None:
    broken = b'data: {"choices":[{"delta":\n\n'
    end, client, _ = await relay([CONTENT, broken, FINISH, DONE])
    assert end == RelayEnd(Outcome.SUCCESS)
    assert client.body == CONTENT + broken + FINISH + DONE


# ---- too much -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", CONTENT], ids=["before content", "behind content"])
@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_stream_that_inflates_absurdly_goes_on_unseen_and_lets_others_run(
    start: bytes, is_cut: bool, autojump_clock: trio.testing.MockClock
) -> None:
    bomb, turns = gzip.compress(start + b"\n" * 30_000_000), 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    pieces: list[Piece] = [bomb, b"more", *([RESET] if is_cut else [])]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        end, client, content_at = await relay(pieces, decoder=Inflate(is_gzip=True))
        nursery.cancel_scope.cancel()
    assert client.body == bomb + b"more"
    assert len(content_at) == 1
    assert turns >= 20
    if is_cut:
        assert end == RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "stream_incomplete")
    else:
        assert end == RelayEnd(Outcome.SUCCESS)
    assert client.end_state == ("aborted" if is_cut else "ended")


async def test_an_error_that_comes_to_light_while_it_is_being_committed_is_no_failure(autojump_clock: trio.testing.MockClock) -> None:
    chunk = gzip.compress(COMMENT + b"".join(b": %d\n\n" % number for number in range(40_000)) + ERROR)

    class Slow:
        is_given_up = False

        def pieces(self, coded: bytes) -> Iterator[bytes]:
            for piece in Inflate(is_gzip=True).pieces(coded):
                autojump_clock.jump(3.0)
                yield piece

    end, client, _ = await relay([chunk], decoder=Slow())
    assert isinstance(end, RelayEnd)
    assert (end.outcome, client.body, client.end_state) == (Outcome.FAULT, chunk, "ended")


async def test_an_answer_without_end_that_is_no_stream_is_given_up(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_out, "MAX_ANSWER_BYTES", 2500)
    end, client, _ = await relay([b"x" * 1000] * 10, is_event_stream=False)
    assert end == RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "answer_too_large")
    assert (len(client.body), client.end_state) == (3000, "aborted")
