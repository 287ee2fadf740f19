"""How requests end that do not end by themselves: the client leaves, the gateway stops, a configuration goes, a part of ours fails."""

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.gateway.deployment import deploy
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.state.commands import InFlightChanged, ReplacePolicy
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from gomodel_trio.wire.dialect import Api
from support.inprocess import (
    CHAT_EVENTS,
    FOREVER,
    RESET,
    FakeRequest,
    FakeResponder,
    FakeResponse,
    FakeTransport,
    Inside,
    Piece,
    Play,
    make_settings,
    open_gateway,
    pool,
    refusing,
    streaming,
)

ROLE, CONTENT, FINISH, DONE = CHAT_EVENTS
MESSAGE_EVENTS = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n',
)
RESPONSE_EVENTS = (
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n',
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"delta":"hi"}\n\n',
)


def request(body: dict[str, object] | None = None, api: Api = Api.CHAT) -> FakeRequest:
    return FakeRequest("POST", "/v1" + api.path, [], json.dumps({"model": "pool", "messages": [], **(body or {})}).encode())


async def leave_after(inside: Inside, seconds: float, sent: FakeRequest, answer: FakeResponder | None = None) -> FakeResponder:
    """Serve a request whose client hangs up, the way a front door tells of it."""
    answer = answer or FakeResponder()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await trio.sleep(seconds)
                sent.is_disconnected = True
                scope.cancel()

            nursery.start_soon(leave)
            await inside.handle(sent, answer)
            nursery.cancel_scope.cancel()
    return answer


# ---- the client leaves ----------------------------------------------------------------------------------------------

WAITING = {
    "before the head": (Play(silence=FOREVER), False, "cancelled"),
    "in a whole answer": (Play(pieces=(b"{", FOREVER)), False, "answered"),
    "in a held stream": (streaming(ROLE, FOREVER), True, "answered"),
    "in a committed stream": (streaming(CONTENT, FOREVER), True, "answered"),
    "in an error's body": (Play(status=500, pieces=(b"{", FOREVER)), False, "answered"),
}


@pytest.mark.parametrize(("play", "stream", "ending"), WAITING.values(), ids=WAITING)
async def test_a_hang_up_ends_the_attempt_and_asks_nobody_else(
    autojump_clock: trio.testing.MockClock, play: Play, stream: bool, ending: str
) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", play)
        answer = await leave_after(inside, 1.0, request({"stream": stream}))
        assert (inside.transport.calls, inside.transport.sent[0].ending) == ("a", ending)
        assert answer.ending == "open"
        assert (await inside.inspect()).open_leases == 0
        ended = await inside.attempts_ended()
        assert [(fact.target, fact.outcome, fact.elapsed_s) for fact in ended] == [("a/m", Outcome.CLIENT, pytest.approx(1.0))]
        assert [fact.count for fact in inside.facts if isinstance(fact, InFlightChanged)] == [1, 0]
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"]) == ("client_cancelled", 499)


async def test_a_hang_up_while_a_retry_is_waited_for_ends_the_request(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"RETRY_MAX_RETRIES": "3"}) as inside:
        inside.transport.tell("a", refusing(503, retry_after="20"))
        await leave_after(inside, 5.0, request({"model": "a/m"}))
        await trio.sleep(100)
        assert inside.transport.calls == "a"


async def test_a_hang_up_in_a_slowed_stream_ends_the_attempt(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", slowdown=5.0)) as inside:
        inside.transport.tell("a", streaming(CONTENT, 1.0, *[CONTENT] * 3000, FOREVER))
        answer = await leave_after(inside, 3.0, request({"stream": True}))
        assert answer.body == CONTENT
        assert (await inside.inspect()).open_leases == 0


USED = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
AT_THE_END = {
    "at the last event": ((CONTENT, FINISH, USED, DONE, FOREVER), 0.0),
    "in the held part": ((CONTENT + FINISH + USED + DONE, FOREVER), 0.0),
    "before an upstream that fails": ((CONTENT, FINISH, USED, DONE, 5.0, RESET), 0.0),
    "of a slowed stream": ((CONTENT, FINISH, USED, DONE, FOREVER), 0.5),
}


@pytest.mark.parametrize(("pieces", "slowdown"), AT_THE_END.values(), ids=AT_THE_END)
async def test_a_client_that_leaves_with_the_end_event_has_its_answer_though_the_upstream_stays_open(
    autojump_clock: trio.testing.MockClock, pieces: tuple[Piece, ...], slowdown: float
) -> None:
    async with open_gateway(pool("a", "b", **({"slowdown": slowdown} if slowdown else {}))) as inside:
        inside.transport.tell("a", streaming(*pieces))
        answer = await leave_after(inside, 1.0, request({"stream": True}))
        assert answer.body == CONTENT + FINISH + USED + DONE
        (ended,) = await inside.attempts_ended()
        assert (ended.target, ended.outcome) == ("a/m", Outcome.SUCCESS)
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"], line["input_tokens"], line["output_tokens"]) == ("ok", 200, 3, 2)


async def test_a_client_that_leaves_while_the_end_event_goes_out_has_left(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", streaming(CONTENT, FINISH + DONE, FOREVER))
        await leave_after(inside, 3.0, request({"stream": True}), FakeResponder(write_s=2.0))
        assert [fact.outcome for fact in await inside.attempts_ended()] == [Outcome.CLIENT]
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"]) == ("client_cancelled", 499)


@pytest.mark.parametrize(("seconds", "outcome", "cause"), [(29.0, Outcome.CLIENT, Cause.NONE), (31.0, Outcome.FAULT, Cause.SILENT)])
async def test_a_target_that_was_silent_for_long_is_to_blame_for_the_hang_up(
    autojump_clock: trio.testing.MockClock, seconds: float, outcome: Outcome, cause: Cause
) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", Play(silence=FOREVER))
        await leave_after(inside, seconds, request())
        (ended,) = await inside.attempts_ended()
        assert (ended.outcome, ended.cause) == (outcome, cause)


async def test_a_target_that_has_begun_is_not_to_blame(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", streaming(CONTENT, FOREVER))
        await leave_after(inside, 100.0, request({"stream": True}))
        (ended,) = await inside.attempts_ended()
        assert ended.outcome is Outcome.CLIENT


async def test_a_front_door_that_cannot_write_a_slowed_stream_ends_the_request_quietly(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", slowdown=1.0)) as inside:
        answer = FakeResponder()
        answer.is_gone = True
        await inside.handle(request({"stream": True}), answer)
        assert inside.log.of("request")[0]["outcome"] == "client_cancelled"
        assert inside.log.of("internal_error") == []


async def test_a_front_door_that_cannot_write_what_was_held_ends_the_request_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", streaming(ROLE, FOREVER, silence=2.0))
        answer = FakeResponder()
        answer.is_gone = True
        start_s = trio.current_time()
        await inside.handle(request({"stream": True}), answer)
        assert trio.current_time() - start_s == pytest.approx(7.0)
        assert inside.log.of("request")[0]["outcome"] == "client_cancelled"
        assert inside.log.of("internal_error") == []
        (ended,) = await inside.attempts_ended()
        assert ended.outcome is Outcome.CLIENT


@pytest.mark.parametrize("stream", [False, True])
async def test_a_front_door_that_cannot_write_any_more_ends_the_request_quietly(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        answer = FakeResponder()
        answer.is_gone = True
        await inside.handle(request({"stream": stream}), answer)
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"], inside.transport.calls) == ("client_cancelled", 499, "a")
        (ended,) = await inside.attempts_ended()
        # What was delivered whole to the front door is the target's success, whoever reads it.
        assert ended.outcome is (Outcome.CLIENT if stream else Outcome.SUCCESS)


async def test_a_client_that_left_within_its_body_is_no_error(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        sent = request()
        sent.is_gone = True
        answer = await inside.handle(sent)
        assert (answer.has_started, inside.transport.calls) == (False, "")
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"]) == ("client_cancelled", 499)


async def test_a_client_that_does_not_read_for_the_idle_time_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway({"HTTP_STREAM_IDLE_TIMEOUT": "30s", **pool("a", "b")}) as inside:
        answer = await inside.ask({"stream": True}, responder=FakeResponder(write_s=40.0))
        assert answer.ending == "aborted"
        (ended,) = await inside.attempts_ended()
        assert ended.outcome is Outcome.CLIENT


# ---- the gateway stops ----------------------------------------------------------------------------------------------


async def stopped(inside: Inside, sent: FakeRequest, answer: FakeResponder | None = None, after_s: float = 1.0) -> FakeResponder:
    answer = answer or FakeResponder()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inside.handle, sent, answer)
        await trio.sleep(after_s)
        nursery.cancel_scope.cancel()  # as a front door does when the drain is over
    return answer


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.EMBEDDINGS, Api.COUNT_TOKENS])
async def test_at_the_end_of_the_drain_a_whole_answer_becomes_a_503(autojump_clock: trio.testing.MockClock, api: Api) -> None:
    provider = "x" if api in (Api.MESSAGES, Api.COUNT_TOKENS) else "a"
    async with open_gateway() as inside:
        inside.transport.tell(provider, Play(silence=FOREVER))
        answer = await stopped(inside, request({"model": f"{provider}/m"}, api))
        assert (answer.status, answer.header(b"retry-after"), answer.ending) == (503, "1", "ended")
        error = answer.json()["error"]
        assert error["message"] == "The gateway is shutting down."
        assert (error["details"]["error_code"] if provider == "x" else error["code"]) == "shutting_down"
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"]) == ("stopped", 503)


def chat_error(events: list[bytes]) -> bool:
    return bool(json.loads(events[-1].removeprefix(b"data: "))["error"]["code"] == "shutting_down")


def response_error(events: list[bytes]) -> bool:
    error = json.loads(events[-1].partition(b"data: ")[2])
    return (error["type"], error["code"], error["sequence_number"]) == ("error", "shutting_down", 2)


def message_error(events: list[bytes]) -> bool:
    error = json.loads(events[-1].partition(b"data: ")[2])
    return bool(events[-1].startswith(b"event: error\n") and error["error"]["details"]["error_code"] == "shutting_down")


@pytest.mark.parametrize(
    ("api", "events", "is_error"),
    [
        (Api.CHAT, (CONTENT,), chat_error),
        (Api.RESPONSES, RESPONSE_EVENTS, response_error),
        (Api.MESSAGES, MESSAGE_EVENTS, message_error),
    ],
)
@pytest.mark.parametrize("is_mid_event", [False, True])
async def test_at_the_end_of_the_drain_a_stream_is_told_and_not_ended_cleanly(
    autojump_clock: trio.testing.MockClock,
    api: Api,
    events: tuple[bytes, ...],
    is_error: Callable[[list[bytes]], bool],
    is_mid_event: bool,
) -> None:
    provider = "x" if api is Api.MESSAGES else "a"
    half = (b'event: half\ndata: {"broken":',) if is_mid_event else ()
    async with open_gateway() as inside:
        inside.transport.tell(provider, streaming(*events, *half, FOREVER))
        answer = await stopped(inside, request({"model": f"{provider}/m", "stream": True}, api))
        assert (answer.status, answer.ending) == (200, "aborted")
        assert answer.body.startswith(b"".join((*events, *half)))
        parts = answer.body.removeprefix(b"".join(events)).split(b"\n\n")
        assert parts.pop() == b""
        if api is Api.MESSAGES and is_mid_event:
            # The half event is taken over: its name is overwritten, and its data becomes a line of the error's.
            assert parts[-1].startswith(half[0] + b"\nevent: error\n")
            parts = [parts[-1].removeprefix(half[0] + b"\n")]
        assert is_error(parts)
        (line,) = inside.log.of("request")
        assert line["outcome"] == "stopped"


async def test_a_stream_whose_end_was_seen_is_ended_cleanly(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        inside.transport.tell("a", streaming(CONTENT, FINISH, DONE, FOREVER))
        answer = await stopped(inside, request({"model": "a/m", "stream": True}))
        assert (answer.body, answer.ending) == (CONTENT + FINISH + DONE, "ended")
        assert inside.log.of("request")[0]["outcome"] == "ok"


async def test_into_a_coded_stream_no_event_is_put(autojump_clock: trio.testing.MockClock) -> None:
    packer = zlib.compressobj(wbits=31)
    coded = packer.compress(CONTENT) + packer.flush(zlib.Z_SYNC_FLUSH)
    async with open_gateway() as inside:
        inside.transport.tell("a", streaming(coded, FOREVER, headers=[(b"content-encoding", b"gzip")]))
        answer = await stopped(inside, request({"model": "a/m", "stream": True}))
        assert (answer.body, answer.ending) == (coded, "aborted")


async def test_a_held_stream_becomes_a_503(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        inside.transport.tell("a", streaming(ROLE, FOREVER))
        answer = await stopped(inside, request({"model": "a/m", "stream": True}))
        assert (answer.status, answer.ending) == (503, "ended")


async def test_a_whole_answer_under_way_is_cut(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        answer = await stopped(inside, request({"model": "a/m"}), FakeResponder(write_s=FOREVER))
        assert (answer.status, answer.ending, answer.body) == (200, "aborted", b"")


async def test_last_words_to_a_client_that_does_not_read_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        inside.transport.tell("a", Play(silence=FOREVER))
        answer = await stopped(inside, request({"model": "a/m"}), FakeResponder(write_s=FOREVER))
        assert answer.ended_at_s == pytest.approx(2.0)
        assert answer.ending == "aborted"


async def test_readiness_ends_with_the_drain(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway() as inside:
        assert (await inside.handle(FakeRequest("GET", "/health/ready"))).status == 200
        inside.gateway.is_draining = True
        answer = await inside.handle(FakeRequest("GET", "/health/ready"))
        assert (answer.status, answer.json()) == (503, {"status": "not_ready", "reason": "draining"})
        assert (await inside.handle(FakeRequest("GET", "/health"))).json() == {"status": "ok"}


# ---- the configuration goes -----------------------------------------------------------------------------------------


async def test_a_request_under_way_keeps_the_configuration_it_began_with(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", Play(silence=10.0, status=503, pieces=(b"{}",)))
        answer = FakeResponder()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inside.handle, request(), answer)
            await trio.sleep(5)
            fresh = deploy(make_settings(pool("b", "c")), inside.gateway.tools)
            inside.actor.tell(ReplacePolicy(fresh.policy))
            inside.gateway.deployment = fresh
        assert (answer.status, inside.transport.calls) == (200, "ab")


async def test_a_target_whose_provider_is_not_there_at_all_is_unavailable(autojump_clock: trio.testing.MockClock) -> None:
    async with open_gateway(pool("a", "b")) as inside:
        sections = {"providers": {"new": {"type": "openai_compatible", "base_url": "http://new.test/v1"}}}
        fresh = deploy(make_settings(pool("new"), sections), inside.gateway.tools)
        inside.actor.tell(ReplacePolicy(fresh.policy))  # and not the deployment
        answer = await inside.ask()
        assert (answer.status, inside.transport.calls) == (503, "")
        assert (answer.json()["error"]["code"], answer.header(b"retry-after")) == ("service_unavailable", "1")


@pytest.mark.parametrize("model", ["pool", "tiered"])
@pytest.mark.parametrize("steps", range(12))
async def test_a_reload_at_any_moment_of_the_decision_leaves_it_whole(
    autojump_clock: trio.testing.MockClock, model: str, steps: int
) -> None:
    """The pool's provider is renamed: the request is served by the old one or the new one, as either configuration says."""

    def sections(provider: str) -> dict[str, Any]:
        entry = {"type": "openai_compatible", "base_url": f"http://{provider}.test/v1"}
        routes = {"tiered": {"easy": f"{provider}/m", "hard": f"{provider}/m"}}
        return {"providers": {provider: entry}, "smart_routing": {"routes": routes}}

    async with open_gateway(pool("old"), sections("old")) as inside:
        answer = FakeResponder()
        fresh = deploy(make_settings(pool("new"), sections("new")), inside.gateway.tools)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inside.handle, request({"model": model}), answer)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            inside.actor.tell(ReplacePolicy(fresh.policy))
            inside.gateway.deployment = fresh
        assert answer.status == 200
        assert inside.transport.calls in ("old", "new")


# ---- a part of ours fails -------------------------------------------------------------------------------------------


class BrokenTransport(FakeTransport):
    """Raises what no transport may."""

    async def send(self, request: UpstreamRequest) -> FakeResponse:
        raise RuntimeError("secret details of http://internal.test")


@pytest.mark.parametrize("api", [Api.CHAT, Api.MESSAGES])
async def test_a_fault_of_ours_is_a_500_that_tells_nothing_and_a_log_line_that_tells_all(
    autojump_clock: trio.testing.MockClock, api: Api
) -> None:
    async with open_gateway() as inside:
        provider = "x" if api is Api.MESSAGES else "a"
        inside.deployment.transports[provider] = BrokenTransport()
        answer = await inside.handle(request({"model": f"{provider}/m"}, api))
        assert (answer.status, answer.ending) == (500, "ended")
        assert "internal.test" not in answer.body.decode()
        assert answer.json()["error"]["message"] == "The gateway failed; the operator's log has the details."
        (failed,) = inside.log.of("internal_error")
        assert "secret details" in failed["error"]
        (line,) = inside.log.of("request")
        assert (line["outcome"], line["status"]) == ("internal_error", 500)
        (ended,) = await inside.attempts_ended()
        assert ended.outcome is Outcome.CLIENT  # neither a success nor a fault of the target's


async def test_a_fault_of_ours_within_an_answer_cuts_it(autojump_clock: trio.testing.MockClock) -> None:
    class BrokenResponder(FakeResponder):
        async def write(self, chunk: bytes) -> None:
            raise RuntimeError("broken")

    async with open_gateway() as inside:
        answer = await inside.handle(request({"model": "a/m", "stream": True}), BrokenResponder())
        assert (answer.status, answer.ending) == (200, "aborted")
        assert len(inside.log.of("internal_error")) == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_what_the_gateway_has_run_out_of_neither_cools_a_target_nor_goes_on_to_the_next(
    is_stream: bool, autojump_clock: trio.testing.MockClock
) -> None:
    exhausted = Play(fault=TransportError(TransportFault.LOCAL, "The gateway has no files left."))
    async with open_gateway({**pool("a", "b"), "RETRY_MAX_RETRIES": "3"}) as inside:
        for _ in range(4):
            inside.transport.tell("a", exhausted)
            answer = await inside.ask({"model": "pool", "stream": is_stream})
            assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"1")
        assert inside.transport.calls == "aaaa"
        assert {ended.outcome for ended in await inside.attempts_ended()} == {Outcome.CLIENT}
        assert (await inside.ask({"model": "pool"})).status == 200
        assert inside.transport.calls == "aaaaa"


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/chat/completions"), ("POST", "/p/a/files"), ("HEAD", "/p/a/files")])
@pytest.mark.parametrize(("status", "told"), [(404, 404), (599, 599), (600, 502), (999, 502)])
async def test_a_status_that_no_client_knows_is_told_as_502(
    method: str, path: str, status: int, told: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_gateway() as inside:
        inside.transport.tell("a", refusing(status, message="their words"))
        answer = await inside.handle(FakeRequest(method, path, body=b'{"model":"a/m","messages":[]}'))
        assert answer.status == told
