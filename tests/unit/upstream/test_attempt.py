"""One try at one target, and how what comes is judged (behaviour.md §5, §6)."""

import gzip
import json
import random

import pytest
import trio
import trio.testing

from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.upstream.attempt import (
    ERROR_BODY_S,
    MAX_ERROR_BYTES,
    MAX_WHOLE_BYTES,
    Failure,
    Opened,
    Question,
    Whole,
    empty_answer,
    failure_of_event,
    failure_of_timeout,
    failure_of_transport,
    header_of,
    try_once,
)
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.fault_status import StreamFault
from gomodel_trio.wire.faults import Fault
from support.inprocess import CHAT_BODY, FOREVER, RESET, FakeResponse, FakeTransport, Play, refusing

QUESTION = Question(Api.CHAT, "m", b"{}")
STREAMED = Question(Api.CHAT, "m", b"{}", is_stream=True)
JSON = (b"content-type", b"application/json")


async def attempt(play: Play, question: Question = QUESTION) -> tuple[Failure | Whole | Opened, FakeResponse | None, int]:
    """What came, the response it came from, and how often a head was told of."""
    heads = 0

    def on_head() -> None:
        nonlocal heads
        heads += 1

    transport = FakeTransport()
    transport.tell("a", play)
    request = UpstreamRequest("POST", "http://a.test/v1/x", [], b"{}", 10.0, 60.0)
    got = await try_once(transport, request, question, now_epoch_s=0.0, on_head=on_head)
    return got, transport.sent[0].response, heads


def test_the_first_value_of_a_header() -> None:
    assert header_of([(b"a", b"1"), (b"a", b"2")], b"a") == "1"
    assert header_of([], b"a") is None


# ---- below HTTP -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "status", "cause", "is_retryable"),
    [
        (TransportFault.CONNECT, 502, Cause.NETWORK, True),
        (TransportFault.CONNECT_TIMEOUT, 504, Cause.TIMEOUT, True),
        (TransportFault.TLS, 502, Cause.NETWORK, True),
        (TransportFault.HEADER_TIMEOUT, 504, Cause.TIMEOUT, False),
        (TransportFault.IDLE_TIMEOUT, 504, Cause.TIMEOUT, False),
        (TransportFault.RESET, 502, Cause.NETWORK, True),
        (TransportFault.SHORT_BODY, 502, Cause.TRUNCATED, True),
        (TransportFault.PROTOCOL, 502, Cause.NETWORK, True),
        (TransportFault.LOOP, 502, Cause.NETWORK, False),
    ],
)
def test_a_failure_below_http_is_the_targets_fault(fault: TransportFault, status: int, cause: Cause, is_retryable: bool) -> None:
    failure = failure_of_transport(TransportError(fault, "connecting to http://internal.test failed"))
    judged = failure.classification
    assert (failure.status, judged.outcome, judged.cause, judged.is_failover, judged.is_retryable) == (
        status,
        Outcome.FAULT,
        cause,
        True,
        is_retryable,
    )
    assert (failure.has_answer, "internal" in failure.detail) == (False, False)


def test_what_the_gateway_has_run_out_of_is_not_the_targets_fault() -> None:
    failure = failure_of_transport(TransportError(TransportFault.LOCAL, "The gateway has no files."))
    judged = failure.classification
    assert (failure.status, failure.detail, judged.outcome, judged.cause) == (503, "The gateway has no files.", Outcome.CLIENT, Cause.NONE)
    assert (judged.is_failover, judged.is_retryable, judged.retry_after_s) == (False, False, 1.0)


@pytest.mark.parametrize(("status", "told"), [(302, 502), (399, 502), (400, 400), (599, 599), (600, 502), (999, 502)])
async def test_a_status_that_is_neither_answer_nor_error_is_told_as_502(status: int, told: int) -> None:
    got, _, _ = await attempt(Play(status=status, pieces=(b"{}",)))
    assert isinstance(got, Failure)
    assert (got.status, got.classification.is_failover) == (told, told == 502 or status >= 500)


@pytest.mark.parametrize("size", [2_000_000, 30_000_000])
async def test_a_whole_answer_that_inflates_absurdly_is_handed_on_unread(size: int) -> None:
    body = gzip.compress(b"[" * size)
    got, _, _ = await attempt(Play(headers=(JSON, (b"content-encoding", b"gzip")), pieces=(body,)))
    assert isinstance(got, Whole)
    assert (got.body, got.usage) == (body, None)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_a_long_answer_is_read_all_the_same(coding: str) -> None:
    text = random.Random(1).randbytes(1_000_000).hex().encode()
    plain = CHAT_BODY[:-1] + b',"x":"' + text + b'"}'
    body = gzip.compress(plain) if coding == "gzip" else plain
    got, _, _ = await attempt(Play(headers=(JSON, (b"content-encoding", coding.encode())), pieces=(body,)))
    assert isinstance(got, Whole)
    assert got.usage is not None
    assert got.usage.input_tokens == 3


def test_a_timeout_of_ours_is_told_as_the_targets() -> None:
    assert (failure_of_timeout().status, failure_of_timeout().classification.cause) == (504, Cause.TIMEOUT)


def test_an_empty_answer_fails_over() -> None:
    failure = empty_answer()
    assert (failure.status, failure.classification.is_failover, failure.classification.is_retryable) == (502, True, False)


@pytest.mark.parametrize(("message", "detail"), [("theirs", "theirs"), (None, "The upstream reported an error.")])
def test_an_error_event_is_judged_by_the_status_it_stands_for(message: str | None, detail: str) -> None:
    failure = failure_of_event(StreamFault(Fault(message=message), 529), QUESTION)
    assert (failure.status, failure.classification.outcome, failure.detail) == (529, Outcome.FAULT, detail)


async def test_a_transport_error_before_the_head_is_a_failure() -> None:
    got, response, heads = await attempt(Play(fault=RESET))
    assert isinstance(got, Failure)
    assert (got.status, response, heads) == (502, None, 0)


# ---- answers --------------------------------------------------------------------------------------------------------


async def test_a_whole_answer_is_read_to_its_end_and_closed() -> None:
    got, response, heads = await attempt(Play(status=201, pieces=(CHAT_BODY[:10], CHAT_BODY[10:])))
    assert isinstance(got, Whole)
    assert (got.status, got.headers, got.body, heads) == (201, [JSON], CHAT_BODY, 1)
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.output_tokens) == (3, 2)
    assert response is not None
    assert response.closed_at_s is not None


async def test_a_coded_answer_stays_coded_and_is_read_beside() -> None:
    got, *_ = await attempt(Play(headers=(JSON, (b"content-encoding", b"gzip")), pieces=(gzip.compress(CHAT_BODY),)))
    assert isinstance(got, Whole)
    assert gzip.decompress(got.body) == CHAT_BODY
    assert got.usage is not None


async def test_an_answer_in_an_unknown_coding_is_taken_on_trust() -> None:
    got, *_ = await attempt(Play(headers=(JSON, (b"content-encoding", b"br")), pieces=(b"\x0b\x02\x80",)))
    assert isinstance(got, Whole)
    assert (got.body, got.usage) == (b"\x0b\x02\x80", None)


async def test_a_cut_answer_is_a_failure_and_closed() -> None:
    got, response, _ = await attempt(Play(pieces=(b"{", TransportError(TransportFault.SHORT_BODY, "cut"))))
    assert isinstance(got, Failure)
    assert (got.status, got.classification.cause) == (502, Cause.TRUNCATED)
    assert response is not None
    assert response.closed_at_s is not None


async def test_an_empty_body_is_a_failure() -> None:
    got, *_ = await attempt(Play(pieces=()))
    assert isinstance(got, Failure)
    assert got.detail == "The upstream's answer was empty."


async def test_a_success_that_holds_an_error_is_judged_by_what_it_says() -> None:
    got, *_ = await attempt(Play(pieces=(b'{"error":{"message":"slow down","code":429}}',)))
    assert isinstance(got, Failure)
    assert (got.status, got.classification.outcome, got.classification.is_failover) == (429, Outcome.RATE, True)


async def test_a_very_long_answer_is_handed_on_open() -> None:
    piece = b" " * (1 << 20)
    got, response, heads = await attempt(Play(pieces=(piece,) * 18))
    assert isinstance(got, Opened)
    assert (got.is_event_stream, len(got.held), heads) == (False, (MAX_WHOLE_BYTES >> 20) + 1, 1)
    assert response is not None
    assert response.closed_at_s is None


@pytest.mark.parametrize("kind", [b"text/event-stream", b"Text/Event-Stream; charset=utf-8"])
async def test_an_event_stream_is_handed_on_open_and_unread(kind: bytes) -> None:
    got, response, heads = await attempt(Play(headers=((b"content-type", kind),), pieces=(b"data: 1\n\n",)))
    assert isinstance(got, Opened)
    assert (got.is_event_stream, got.held, heads) == (True, [], 0)
    assert response is not None
    assert response.closed_at_s is None


@pytest.mark.parametrize(
    ("kind", "is_stream"),
    [
        (b"text/plain", True),
        (b"application/octet-stream", True),
        (b"", True),
        (b"application/json", False),
        (b"application/problem+json", False),
        (b"text/html", False),
    ],
)
async def test_an_unnamed_answer_to_a_streamed_request_is_a_stream(kind: bytes, is_stream: bool) -> None:
    play = Play(headers=((b"content-type", kind),) if kind else (), pieces=(CHAT_BODY,))
    got, *_ = await attempt(play, STREAMED)
    assert isinstance(got, Opened) == is_stream
    got, *_ = await attempt(play)
    assert isinstance(got, Whole)


# ---- refusals -------------------------------------------------------------------------------------------------------


async def test_a_refusal_holds_the_upstreams_body_and_headers() -> None:
    got, response, heads = await attempt(refusing(429, retry_after="7", code="rate_limit_exceeded"))
    assert isinstance(got, Failure)
    assert (got.status, got.classification.outcome, got.classification.retry_after_s, heads) == (429, Outcome.RATE, 7.0, 0)
    assert (got.has_answer, header_of(got.headers, b"retry-after")) == (True, "7")
    assert json.loads(got.body or b"")["error"]["code"] == "rate_limit_exceeded"
    assert response is not None
    assert response.closed_at_s is not None


@pytest.mark.parametrize("status", [301, 304, 399, 199])
async def test_what_is_neither_answer_nor_error_is_a_502(status: int) -> None:
    got, *_ = await attempt(Play(status=status, pieces=()))
    assert isinstance(got, Failure)
    assert got.status == 502


async def test_an_errors_body_is_decoded_and_bounded() -> None:
    big = b'{"error":{"message":"' + b"x" * (3 << 20) + b'"}}'
    got, *_ = await attempt(Play(status=500, headers=(JSON, (b"content-encoding", b"gzip")), pieces=(gzip.compress(big),)))
    assert isinstance(got, Failure)
    assert len(got.body or b"") == MAX_ERROR_BYTES
    got, *_ = await attempt(Play(status=500, pieces=(b"x" * (1 << 19),) * 5))
    assert isinstance(got, Failure)
    assert len(got.body or b"") == MAX_ERROR_BYTES


async def test_an_errors_body_that_is_cut_or_in_an_unknown_coding_is_what_came_of_it() -> None:
    got, *_ = await attempt(Play(status=500, pieces=(b'{"error":', RESET)))
    assert isinstance(got, Failure)
    assert (got.status, got.body) == (500, b'{"error":')
    got, *_ = await attempt(Play(status=500, headers=((b"content-encoding", b"br"),), pieces=(b"x",)))
    assert isinstance(got, Failure)
    assert got.body == b""


async def test_an_errors_body_is_waited_for_briefly(autojump_clock: trio.testing.MockClock) -> None:
    start_s = trio.current_time()
    got, *_ = await attempt(Play(status=503, pieces=(b"{", FOREVER)))
    assert isinstance(got, Failure)
    assert (got.status, got.body, trio.current_time() - start_s) == (503, b"{", pytest.approx(ERROR_BODY_S))


async def test_cancelled_in_the_body_it_lets_go_of_the_response(autojump_clock: trio.testing.MockClock) -> None:
    transport = FakeTransport()
    transport.tell("a", Play(pieces=(b"{", FOREVER)))
    request = UpstreamRequest("POST", "http://a.test/v1/x", [], b"{}", 10.0, 60.0)
    with trio.move_on_after(5.0):
        await try_once(transport, request, QUESTION, now_epoch_s=0.0, on_head=lambda: None)
    response = transport.sent[0].response
    assert response is not None
    assert response.closed_at_s is not None
