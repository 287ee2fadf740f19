"""Clients that leave: the upstream is let go within a second, nothing is tried any more, and nobody is blamed."""

import time
from collections.abc import Callable, Iterator

import pytest

from support.gateway_process import wait_for
from support.raw_http import Connection, request_bytes
from support.replies import Reply, sse_reply
from support.stage import APIS, SERIES, ApiName, HandUpstream, Pool, Stage, open_stage

pytestmark = pytest.mark.e2e

WITHIN_S = 1.0
CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
Leave = Callable[[Connection], None]
SLOWED = {"virtual_models": [{"source": "slowed", "targets": [{"model": "a/slowed"}], "slowdown": 0.5}]}
LEAVING: dict[str, Leave] = {"closes": Connection.close, "resets": Connection.reset}


@pytest.fixture(scope="module")
def hand() -> Iterator[HandUpstream]:
    upstream = HandUpstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, hand: HandUpstream) -> Iterator[Stage]:
    """A gateway that would fail over and retry."""
    variables = {"RETRY_MAX_RETRIES": "3", "RETRY_INITIAL_BACKOFF": "30s", "RETRY_MAX_BACKOFF": "30s"}
    providers = {"hand": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{hand.port}/v1", "api_key": "k"}}
    with open_stage(
        tmp_path_factory.mktemp("hang-up"), variables, pools={"a": 12, "ab": 30}, extra_providers=providers, configuration=SLOWED
    ) as running:
        yield running


def assert_let_go(pool: Pool, left_at_s: float, *, ending: str = "client_closed") -> None:
    """The upstream's connection is closed in time, the books are closed, and the request is told as the client's."""
    pool.stage.upstream.wait_until(lambda _: pool.exchanges()[-1].ending != "running")
    assert time.monotonic() - left_at_s < WITHIN_S
    assert pool.exchanges()[-1].ending == ending
    line = pool.log_line()
    assert (line["outcome"], line["status"]) == ("client_cancelled", 499)
    pool.stage.wait_for_quiet()


def wait_for_bytes(pool: Pool, least: int) -> None:
    """Wait until the upstream has sent more than so much of its answer."""
    wait_for(lambda: bool(pool.exchanges()) and pool.exchanges()[0].sent_bytes > least, what="an answer has begun")


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_client_that_leaves_before_the_upstream_answers(stage: Stage, api: ApiName, stream: bool, leave: str) -> None:
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.whole().held(20.0))
    connection = pool.open(stream=stream)
    stage.upstream.wait_until(lambda _: pool.calls() == "a")
    LEAVING[leave](connection)
    assert_let_go(pool, time.monotonic())
    assert pool.calls() == "a"
    assert pool.outcomes(0) == {"cancelled": 1.0}
    assert not pool.is_cooling(0)


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("api", APIS)
def test_a_client_that_leaves_in_the_middle_of_a_stream(stage: Stage, api: ApiName, leave: str) -> None:
    pool = stage.pool("a", "b", api=api)
    pieces = pool.streamed().pieces[:5]
    pool.tell(0, Reply(200, sse_reply([]).headers, pieces, "chunked", ending="stall"))
    connection = pool.open(stream=True)
    connection.read_head()
    got = b""
    while len(got) < len(b"".join(piece for piece in pieces if isinstance(piece, bytes))):
        got += connection.read_chunk()
    LEAVING[leave](connection)
    assert_let_go(pool, time.monotonic())
    line = pool.log_line()
    assert line["bytes"] == len(got)
    assert 1 <= line["chunks"] <= 5  # what had come together is relayed together
    assert pool.outcomes(0) == {"cancelled": 1.0}
    assert pool.calls() == "a"


def test_a_client_that_leaves_while_the_upstream_sends_as_fast_as_it_can(stage: Stage) -> None:
    pool = stage.pool("a")
    block = pool.streamed().pieces[1]
    assert isinstance(block, bytes)
    pool.tell(0, Reply(200, sse_reply([]).headers, (block * 200,) * 3000, "chunked"))
    connection = pool.open(stream=True)
    connection.read_head()
    connection.read_chunk()
    connection.close()
    assert_let_go(pool, time.monotonic())


def test_a_client_that_leaves_while_a_stream_says_nothing_yet(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, Reply(200, sse_reply([]).headers, (b": PROCESSING\n\n",), "chunked", ending="stall"))
    connection = pool.open(stream=True)
    wait_for_bytes(pool, 100)
    connection.close()
    assert_let_go(pool, time.monotonic())
    assert pool.outcomes(0) == {"cancelled": 1.0}
    assert pool.calls() == "a"


@pytest.mark.parametrize("leave", LEAVING)
def test_a_client_that_leaves_an_answer_that_is_slowed_down(stage: Stage, leave: str) -> None:
    stage.tell("a", "slowed", [Reply(200, sse_reply([]).headers, (CONTENT, 0.01) * 5000, "chunked")])
    connection = Connection(stage.gateway.port)
    body = {"model": "slowed", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    connection.request("POST", "/v1/chat/completions", body=body, headers={"X-Request-ID": f"slowed-{leave}"})
    connection.read_head()
    connection.read_chunk()
    LEAVING[leave](connection)
    line = stage.gateway.wait_for_log("request", request_id=f"slowed-{leave}", timeout_s=WITHIN_S)
    assert (line["outcome"], line["status"]) == ("client_cancelled", 499)
    stage.wait_for_quiet()


def test_a_client_that_leaves_while_a_whole_answer_is_still_coming(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, Reply(200, (("content-type", "application/json"),), (b'{"id":',), declared_length=999, ending="stall"))
    connection = pool.open()
    wait_for_bytes(pool, 50)
    connection.close()
    assert_let_go(pool, time.monotonic())
    assert pool.calls() == "a"


def test_a_client_that_leaves_while_an_error_is_being_read(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, Reply(503, (), (b"{",), declared_length=999, ending="stall"))
    connection = pool.open()
    wait_for_bytes(pool, 30)
    connection.close()
    assert_let_go(pool, time.monotonic())
    assert pool.calls() == "a"


def test_a_client_that_leaves_at_the_second_target(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, pool.error(500)).tell(1, pool.whole().held(20.0))
    connection = pool.open(stream=True)
    stage.upstream.wait_until(lambda _: pool.calls() == "ab")
    connection.close()
    assert_let_go(pool, time.monotonic())
    assert (pool.outcomes(0), pool.outcomes(1)) == ({"server_error": 1.0}, {"cancelled": 1.0})


def test_a_client_that_leaves_during_the_wait_for_a_retry(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.always(0, pool.error(503))
    connection = pool.open()
    stage.upstream.wait_until(lambda _: bool(pool.exchanges()) and pool.exchanges()[0].ending == "answered")
    wait_for(lambda: stage.metric(SERIES + "in_flight") == 0 and bool(pool.outcomes(0)), what="the attempt is over")
    assert stage.metric("gomodel_requests_in_flight") == 1
    connection.close()
    assert_let_go(pool, time.monotonic(), ending="answered")
    assert pool.calls() == "a"
    assert pool.outcomes(0) == {"server_error": 1.0}


@pytest.mark.parametrize("leave", LEAVING)
def test_a_client_that_leaves_while_it_uploads(stage: Stage, leave: str) -> None:
    pool = stage.pool("a")
    head = request_bytes("POST", pool.path, headers=[("Content-Length", "100000"), ("X-Request-ID", f"upload-{leave}")])
    connection = Connection(stage.gateway.port)
    connection.send(head + b'{"model":"')
    wait_for(lambda: stage.metric("gomodel_requests_in_flight") == 1, what="the request has begun")
    LEAVING[leave](connection)
    line = stage.gateway.wait_for_log("request", request_id=f"upload-{leave}", timeout_s=WITHIN_S)
    assert (line["outcome"], line["status"]) == ("client_cancelled", 499)
    assert pool.calls() == ""
    stage.wait_for_quiet()


def test_a_client_that_leaves_while_its_request_goes_up_to_the_provider(stage: Stage, hand: HandUpstream) -> None:
    connection = Connection(stage.gateway.port)
    text = "x" * 9_000_000
    connection.request(
        "POST",
        "/v1/chat/completions",
        headers={"X-Request-ID": "going-up"},
        body={"model": "hand/m", "messages": [{"role": "user", "content": text}]},
    )
    with hand.accept() as upstream:
        wait_for(lambda: stage.metric(SERIES + "in_flight") == 1, what="the attempt has begun")
        connection.close()
        upstream.wait_for_close()
    assert stage.gateway.wait_for_log("request", request_id="going-up")["outcome"] == "client_cancelled"
    stage.wait_for_quiet()


def test_a_client_that_leaves_native_passthrough(stage: Stage) -> None:
    path = "/a/v1/native"
    stage.upstream.answer(Reply(200, (), (b"x",), "chunked", ending="stall"), path=path)
    connection = Connection(stage.gateway.port)
    connection.request("POST", "/p/a/native", body={}, headers={"X-Request-ID": "native"})
    assert connection.read_head().status == 200
    connection.close()
    (exchange,) = [each for each in stage.upstream.exchanges if each.request.path == path]
    stage.upstream.wait_until(lambda _: exchange.ending == "client_closed", timeout_s=WITHIN_S)
    assert stage.gateway.wait_for_log("request", request_id="native")["outcome"] == "client_cancelled"
    stage.wait_for_quiet()


def test_a_client_that_leaves_a_pipelined_request_behind(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, pool.whole().held(20.0))
    connection = pool.open()
    stage.upstream.wait_until(lambda _: pool.calls() == "a")
    connection.send(request_bytes("POST", pool.path, body=pool.body()))
    connection.close()
    assert_let_go(pool, time.monotonic())
    assert pool.calls() == "a"


def test_clients_that_leave_say_nothing_about_a_target(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, *[pool.whole().held(20.0)] * 5)
    for number in range(1, 6):
        connection = pool.open(stream=number % 2 == 0)
        stage.upstream.wait_until(lambda _, number=number: len(pool.exchanges()) == number)
        connection.close()
        assert_let_go(pool, time.monotonic())
    assert pool.ask().get("x-gomodel-target") == pool.target(0)
    assert not pool.is_cooling(0)
    assert pool.outcomes(0) == {"cancelled": 5.0, "success": 1.0}


def test_a_hundred_that_leave_at_any_moment_cost_neither_places_nor_sockets(stage: Stage) -> None:
    """During the wait for a head, at an error, in a stream: afterwards the next request is served at once."""
    pool = stage.pool("a")
    kinds = [
        pool.whole().held(20.0),
        Reply(429, (), (b"{",), declared_length=99, ending="stall"),
        Reply(200, sse_reply([]).headers, pool.streamed().pieces[:3], "chunked", ending="stall"),
        Reply(200, sse_reply([]).headers, (b": x\n\n",), "chunked", ending="stall"),
    ]
    for _ in range(25):
        connections = []
        for kind in kinds:
            pool.tell(0, kind)
            connections.append(pool.open(stream=True))
        for connection in connections:
            connection.reset()
    stage.wait_for_quiet()
    wait_for(lambda: stage.upstream.open_connections <= 2, what="the connections are closed")
    pool.forget(0)
    began = time.monotonic()
    assert pool.ask().status == 200
    assert time.monotonic() - began < WITHIN_S


def test_a_client_that_leaves_with_the_end_event_has_its_answer_though_the_upstream_stays_open(stage: Stage, hand: HandUpstream) -> None:
    with Connection(stage.gateway.port) as connection:
        body = {"model": "hand/m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        connection.request("POST", "/v1/chat/completions", body=body, headers={"X-Request-ID": "at-the-end"})
        with hand.accept() as upstream:
            upstream.read_request()
            upstream.start_stream()
            upstream.send_chunk(CONTENT + DONE)
            connection.read_head()
            assert connection.read_chunk() == CONTENT + DONE
            connection.close()
            upstream.wait_for_close(timeout_s=WITHIN_S)
    line = stage.gateway.wait_for_log("request", request_id="at-the-end")
    assert (line["outcome"], line["status"]) == ("ok", 200)


def test_a_client_that_closes_as_soon_as_it_has_its_answer_has_not_left(stage: Stage) -> None:
    pool = stage.pool("a")
    for count in range(40):
        pool.tell(0, sse_reply([*[CONTENT] * count, CONTENT + DONE]).slowed(0.0005))
        assert pool.ask(stream=True).is_complete
        assert pool.ask().is_complete
    assert {pool.log_line(index)["outcome"] for index in range(80)} == {"ok"}
    assert pool.outcomes(0) == {"success": 80.0}
