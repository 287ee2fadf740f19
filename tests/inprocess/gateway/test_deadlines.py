"""How long a request may take, and how long it waits for what: the whole gateway in virtual time (behaviour.md §6)."""

import json

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.transport import TransportError, TransportFault
from support.inprocess import CHAT_BODY, CHAT_EVENTS, FOREVER, FakeResponder, Play, open_gateway, pool, refusing, streaming

ROLE, CONTENT, FINISH, DONE = CHAT_EVENTS
SILENT = Play(silence=FOREVER)
UNREACHABLE = Play(fault=TransportError(TransportFault.CONNECT, "refused"))


def at(seconds: float) -> float:
    return pytest.approx(seconds, abs=1e-6)  # type: ignore[return-value]


async def test_a_silent_only_target_is_waited_for_as_long_as_the_request_may_take(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s"}) as inside:
        inside.transport.tell("a", SILENT)
        answer = await inside.ask({"model": "a/m"})
        assert (answer.status, answer.head_at_s) == (504, at(60))
        assert answer.json()["error"]["message"] == "The upstream did not answer in time."


@pytest.mark.parametrize("stream", [False, True])
async def test_a_silent_target_gets_half_of_what_is_left_while_another_is_left(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s", **pool("a", "b", "c")}) as inside:
        for provider in "abc":
            inside.transport.tell(provider, SILENT)
        answer = await inside.ask({"stream": stream})
        assert [(sent.provider, sent.at_s) for sent in inside.transport.sent] == [("a", at(0)), ("b", at(30)), ("c", at(45))]
        assert (answer.status, answer.head_at_s) == (504, at(60))
        assert answer.header(b"x-gomodel-attempts") == "3"


async def test_the_next_target_serves_where_the_first_was_silent(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", SILENT)
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, answer.header(b"x-gomodel-target")) == (200, at(30), "b/m")


async def test_without_failover_a_target_gets_the_whole_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s", **pool("a", "b", failover=False)}) as inside:
        inside.transport.tell("a", SILENT)
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (504, at(60), "a")


async def test_switched_off_failover_counts_as_none(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s", "FAILOVER_ENABLED": "false", **pool("a", "b")}) as inside:
        inside.transport.tell("a", SILENT)
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (504, at(60), "a")


async def test_the_header_timeout_bounds_each_attempt(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_RESPONSE_HEADER_TIMEOUT": "5s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", SILENT)
        inside.transport.tell("b", SILENT)
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s) == (504, at(10))


async def test_the_transport_is_told_the_least_of_the_limits(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "8s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", UNREACHABLE)
        await inside.ask()
        limits = [(sent.request.connect_timeout_s, sent.request.header_timeout_s) for sent in inside.transport.sent]
        assert limits == [(at(4), at(4)), (at(8), at(8))]


async def test_a_whole_answer_that_stalls_in_its_body_ends_with_the_request(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s"}) as inside:
        inside.transport.tell("a", Play(pieces=(b'{"choices":', FOREVER)))
        answer = await inside.ask({"model": "a/m"})
        assert (answer.status, answer.head_at_s) == (504, at(60))


async def test_a_slow_whole_answer_is_no_failure(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", Play(pieces=(b" ", 50.0, CHAT_BODY), silence=5.0))
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (200, at(55), "a")


async def test_an_errors_body_is_not_waited_for_long(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", Play(status=503, pieces=(b"{", FOREVER)))
        answer = await inside.ask()
        assert (answer.status, inside.transport.calls) == (200, "ab")
        assert answer.head_at_s is not None
        assert answer.head_at_s <= 10


# ---- retries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("draw", "factor"), [(0.0, 0.9), (0.5, 1.0), (0.999999, 1.1)])
async def test_a_retry_waits_twice_as_long_each_time(autojump_clock: trio.testing.MockClock, draw: float, factor: float) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "3"}, draw=lambda: draw) as inside:
        inside.transport.tell("a", *[refusing(503)] * 4)
        answer = await inside.ask({"model": "a/m"})
        times = [sent.at_s for sent in inside.transport.sent]
        assert times == [pytest.approx(factor * wait, abs=1e-4) for wait in (0, 1, 3, 7)]
        assert (answer.status, answer.header(b"x-gomodel-attempts")) == (503, "4")


async def test_a_retry_that_succeeds_is_the_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "3"}) as inside:
        inside.transport.tell("a", UNREACHABLE, refusing(529))
        answer = await inside.ask({"model": "a/m"})
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (200, at(3), "aaa")


async def test_the_last_target_is_retried_where_none_is_left(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "1", **pool("a", "b")}) as inside:
        inside.transport.tell("a", refusing(503))
        inside.transport.tell("b", refusing(503))
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (200, at(1), "abb")


@pytest.mark.parametrize(("retry_after", "head_at_s", "calls"), [("7", 7, "aa"), ("0", 1, "aa"), ("30", 30, "aa"), ("31", 0, "a")])
async def test_retry_after_is_waited_for_up_to_30_seconds(
    autojump_clock: trio.testing.MockClock, retry_after: str, head_at_s: float, calls: str
) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "1"}) as inside:
        inside.transport.tell("a", refusing(503, retry_after=retry_after))
        answer = await inside.ask({"model": "a/m"})
        assert (answer.head_at_s, inside.transport.calls) == (at(head_at_s), calls)
        assert (answer.status, answer.header(b"retry-after")) == ((503, "31") if calls == "a" else (200, None))


@pytest.mark.parametrize(("retry_after", "calls"), [("4", "aa"), ("5", "a"), ("6", "a")])
async def test_no_wait_goes_past_the_deadline(autojump_clock: trio.testing.MockClock, retry_after: str, calls: str) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "5", "HTTP_TIMEOUT": "5s"}) as inside:
        inside.transport.tell("a", refusing(503, retry_after=retry_after))
        answer = await inside.ask({"model": "a/m"})
        assert inside.transport.calls == calls
        assert answer.head_at_s == at(4 if calls == "aa" else 0)
        assert (answer.status, answer.header(b"retry-after")) == ((200, None) if calls == "aa" else (503, retry_after))


async def test_retries_end_before_the_deadline_and_the_last_error_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "100", "HTTP_TIMEOUT": "100s"}) as inside:
        inside.transport.always("a", refusing(503))
        answer = await inside.ask({"model": "a/m"})
        # 1 + 2 + 4 + 8 + 16 + 30 + 30 = 91; the next wait of 30 s would end at 121
        assert (answer.status, answer.head_at_s, len(inside.transport.calls)) == (503, at(91), 8)


async def test_a_silent_target_is_not_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "3", "HTTP_RESPONSE_HEADER_TIMEOUT": "5s"}) as inside:
        inside.transport.tell("a", SILENT)
        answer = await inside.ask({"model": "a/m"})
        assert (answer.status, inside.transport.calls) == (504, "a")


# ---- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "silent",
    [
        streaming(silence=FOREVER),
        streaming(ROLE, FOREVER),
        streaming(5.0, ROLE, 5.0, b": ping\n\n", FOREVER),
        streaming(ROLE, FOREVER, silence=14.0),
    ],
    ids=["no head", "no content", "pings only", "a late head"],
)
async def test_the_first_event_timeout_runs_from_the_sending_and_fails_over(autojump_clock: trio.testing.MockClock, silent: Play) -> None:
    async with open_gateway({"HTTP_FIRST_EVENT_TIMEOUT": "15s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", silent)
        answer = await inside.ask({"stream": True})
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (200, at(15), "ab")
        assert answer.body == b"".join(CHAT_EVENTS)


async def test_the_first_event_timeout_of_the_last_target_is_told_as_504(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_FIRST_EVENT_TIMEOUT": "15s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", streaming(silence=FOREVER))
        inside.transport.tell("b", streaming(ROLE, FOREVER))
        answer = await inside.ask({"stream": True})
        assert (answer.status, answer.head_at_s, answer.ending) == (504, at(30), "ended")


async def test_the_first_event_timeout_is_for_streams_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_FIRST_EVENT_TIMEOUT": "15s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", Play(silence=100.0))
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s, inside.transport.calls) == (200, at(100), "a")


async def test_what_is_held_goes_out_five_seconds_after_the_head(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", streaming(ROLE, 100.0, CONTENT, FINISH, DONE, silence=2.0))
        answer = await inside.ask({"stream": True})
        assert (answer.head_at_s, answer.writes[0]) == (at(7), (at(7), ROLE))
        assert answer.writes[1] == (at(102), CONTENT)
        assert (answer.body, answer.ending) == (b"".join(CHAT_EVENTS), "ended")


async def test_content_that_comes_while_the_held_part_is_being_written_waits_its_turn(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        inside.transport.tell("a", streaming(ROLE, 6.0, CONTENT, FINISH, DONE))
        answer = await inside.ask({"model": "a/m", "stream": True}, responder=FakeResponder(write_s=2.0))
        assert answer.writes == [(at(7), ROLE), (at(9), CONTENT), (at(11), FINISH), (at(13), DONE)]


async def test_a_stream_that_is_none_but_says_an_error_fails_over(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", streaming(b'{"error":{"message":"overloaded",', b'"code":503}}'))
        answer = await inside.ask({"stream": True})
        assert (answer.status, answer.body, inside.transport.calls) == (200, b"".join(CHAT_EVENTS), "ab")


async def test_after_five_seconds_a_failure_is_told_in_the_stream_and_nobody_else_is_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        cut = TransportError(TransportFault.RESET, "reset")
        inside.transport.tell("a", streaming(ROLE, 6.0, cut))
        answer = await inside.ask({"stream": True})
        assert (answer.status, answer.ending, inside.transport.calls) == (200, "aborted", "a")
        assert json.loads(answer.body.split(b"data: ")[-1])["error"]["code"] == "stream_incomplete"
        (ended,) = inside.log.of("request")
        assert (ended["outcome"], ended["error"]) == ("fault", "stream_incomplete")


async def test_a_stream_may_last_longer_than_the_requests_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_TIMEOUT": "60s"}) as inside:
        inside.transport.tell("a", streaming(CONTENT, 50.0, CONTENT, 50.0, FINISH, DONE))
        answer = await inside.ask({"model": "a/m", "stream": True})
        assert (answer.ending, answer.ended_at_s) == ("ended", at(100))


async def test_a_stream_that_falls_silent_is_ended_after_the_idle_timeout(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_STREAM_IDLE_TIMEOUT": "20s", **pool("a", "b")}) as inside:
        inside.transport.tell("a", streaming(CONTENT, *[5.0, b": still here\n\n"] * 10))
        answer = await inside.ask({"stream": True})
        assert (answer.ending, answer.ended_at_s, inside.transport.calls) == ("aborted", at(20), "a")
        assert json.loads(answer.body.split(b"data: ")[-1])["error"]["code"] == "stream_incomplete"


# ---- slowdown -------------------------------------------------------------------------------------------------------


async def test_a_slowdown_adds_its_share_of_the_measured_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", slowdown=0.5)) as inside:
        inside.transport.tell("a", Play(pieces=(4.0, CHAT_BODY), silence=6.0))
        answer = await inside.ask()
        assert (answer.status, answer.head_at_s) == (200, at(15))


async def test_a_slowed_stream_is_retimed_event_by_event(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", slowdown=2.0)) as inside:
        inside.transport.tell("a", streaming(CONTENT, 1.0, CONTENT, 2.0, FINISH, DONE, silence=1.0))
        answer = await inside.ask({"stream": True})
        assert [moment for moment, _ in answer.writes] == [at(3), at(6), at(12), at(12)]
        assert (answer.ending, answer.body) == ("ended", CONTENT + CONTENT + FINISH + DONE)


async def test_a_slowed_stream_that_fails_before_content_fails_over_when_its_time_comes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b", slowdown=1.0)) as inside:
        inside.transport.tell("a", streaming(ROLE, 2.0, TransportError(TransportFault.RESET, "reset")))
        answer = await inside.ask({"stream": True})
        assert (answer.status, answer.header(b"x-gomodel-target"), inside.transport.calls) == (200, "b/m", "ab")
        assert inside.transport.sent[1].at_s == at(4)
