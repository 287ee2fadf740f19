"""HTTP/2 on HTTP2_PORT, as an operator opens it: all that HTTP/1.1 gives, in cleartext and over TLS, and what is HTTP/2's own."""

import contextlib
import json
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from support.certificates import Certificates
from support.gateway_process import free_port, run_command, wait_for
from support.http2_client import Connection
from support.raw_http import Answer, exchange
from support.replies import Reply, openai_error, sse_reply
from support.stage import APIS, PATHS, ApiName, HandUpstream, Pool, Stage, open_stage, words_of

pytestmark = pytest.mark.e2e

KEY = "gateway-key"
AUTHORIZED = {"authorization": f"Bearer {KEY}"}
LIMIT_BYTES = 1 << 20
HARD_WORDS = "think hard"
ROUTES = {
    "normal": {"easy": "a/easy", "hard": "b/hard"},
    "claude": {"easy": "xa/easy", "hard": "xb/hard"},
    "refused": {"easy": "a/refused", "hard": "b/hard"},
}
CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
CUT_WORDS: dict[str, bytes] = {
    "chat": b'data: {"error":',
    "responses": b'event: error\ndata: {"type":"error"',
    "messages": b'event: error\ndata: {"type":"error","error":{',
}
HAND = {"model": "hand/m", "messages": [{"role": "user", "content": "hi"}]}
WITHIN_S = 1.0
INTERNAL_ERROR, REFUSED_STREAM = 2, 7
LEAVING: dict[str, Callable[[Connection, int], None]] = {
    "resets its stream": Connection.reset,
    "closes": lambda connection, _: connection.close(),
    "abandons": lambda connection, _: connection.abandon(),
}
SECURITY = ["cleartext", pytest.param("tls", marks=pytest.mark.front_door("h1", reason="hypercorn's front door has no TLS"))]


class Site:
    """A gateway with an HTTP/2 port, and the way to it."""

    def __init__(self, stage: Stage, certificates: Certificates | None) -> None:
        self.stage = stage
        self.certificates = certificates
        assert stage.gateway.http2_port is not None
        self.port = stage.gateway.http2_port

    @property
    def url(self) -> str:
        return f"{'http' if self.certificates is None else 'https'}://localhost:{self.port}"

    def trusted(self, *protocols: str) -> ssl.SSLContext | None:
        """What a client trusts; None in cleartext."""
        return None if self.certificates is None else self.certificates.client(*protocols)

    def connect(self, **options: Any) -> Connection:
        return Connection(self.port, tls=self.trusted("h2"), **options)

    def exchange(self, method: str, target: str, **options: Any) -> Answer:
        """One request on a connection of its own."""
        with self.connect() as connection:
            return connection.read_answer(connection.request(method, target, **options))

    def send(self, connection: Connection, pool: Pool, *, headers: dict[str, str] | None = None, **more: Any) -> int:
        """A request to a pool; the result is its stream."""
        pool.request_ids.append(self.stage.next_request_id())
        given = {**AUTHORIZED, "x-request-id": pool.request_ids[-1], **(headers or {})}
        return connection.request("POST", pool.path, headers=given, body=pool.body(**more))

    def ask(self, pool: Pool, **more: Any) -> Answer:
        """The same on a connection of its own, to its end."""
        with self.connect() as connection:
            return connection.read_answer(self.send(connection, pool, **more))


@contextlib.contextmanager
def open_site(directory: Path, security: str, hand: HandUpstream, **variables: str) -> Iterator[Site]:
    certificates = Certificates(directory) if security == "tls" else None
    given = {
        "HTTP2_PORT": str(free_port()),
        "GOMODEL_MASTER_KEY": KEY,
        "PRO_SMART_ROUTING_ROUTES": json.dumps(ROUTES),
        "BODY_SIZE_LIMIT": str(LIMIT_BYTES),
        **(certificates.variables if certificates is not None else {}),
        **variables,
    }
    providers = {"hand": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{hand.port}/v1", "api_key": "k"}}
    client_tls = certificates.client() if certificates is not None else None
    with open_stage(directory, given, pools={"a": 20, "ab": 50}, extra_providers=providers, client_tls=client_tls) as stage:
        yield Site(stage, certificates)


@pytest.fixture(scope="module")
def shared_hand() -> Iterator[HandUpstream]:
    upstream = HandUpstream()
    yield upstream
    upstream.close()


@pytest.fixture
def hand(shared_hand: HandUpstream) -> HandUpstream:
    return shared_hand


@pytest.fixture(scope="module", params=SECURITY)
def site(request: pytest.FixtureRequest, shared_hand: HandUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("site"), request.param, shared_hand) as running:
        yield running


# ---- what HTTP/1.1 gives, too ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_a_whole_answer_and_its_request_pass_byte_for_byte(site: Site, api: ApiName) -> None:
    pool = site.stage.pool("a", api=api)
    whole = pool.whole("Grüße 世界 \u2028 <&>")
    pool.tell(0, whole)
    sent = json.dumps(pool.body(text="Grüße \ud800", seed=2**63), indent=1).encode()
    with site.connect() as connection:
        answer = connection.read_answer(connection.request("POST", pool.path, headers=AUTHORIZED, body=sent))
    assert (answer.status, answer.body, answer.is_complete) == (200, whole.body, True)
    assert (answer.get("content-length"), answer.get("content-type")) == (str(len(whole.body)), "application/json")
    assert (answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")) == (pool.target(0), "1")
    assert pool.exchanges()[0].request.body == sent.replace(pool.name.encode(), pool.model.encode())


@pytest.mark.parametrize("api", APIS)
def test_a_stream_passes_byte_for_byte(site: Site, api: ApiName) -> None:
    pool = site.stage.pool("a", api=api)
    streamed = pool.streamed()
    pool.tell(0, streamed.slowed(0.002))
    answer = site.ask(pool, stream=True)
    assert (answer.status, answer.body, answer.is_complete) == (200, streamed.body, True)
    assert answer.get("content-type") == "text/event-stream; charset=utf-8"
    assert (answer.get("cache-control"), answer.get("x-accel-buffering")) == ("no-cache, no-transform", "no")
    assert pool.log_line()["outcome"] == "ok"


def test_each_chunk_is_forwarded_before_the_next_one_comes(site: Site, hand: HandUpstream) -> None:
    with site.connect() as connection:
        stream = connection.request("POST", PATHS["chat"], headers=AUTHORIZED, body={**HAND, "stream": True})
        with hand.accept() as upstream:
            upstream.read_request()
            upstream.start_stream()
            for number in range(20):
                chunk = CONTENT.replace(b'"x"', b'"%d"' % number)
                upstream.send_chunk(chunk)
                assert connection.read_chunk(stream) == chunk
            upstream.send_chunk(FINISH)
            upstream.send_chunk(b"")
            assert (connection.read_chunk(stream), connection.read_chunk(stream)) == (FINISH, b"")


@pytest.mark.parametrize(("api", "alias"), [("chat", "normal"), ("responses", "normal"), ("messages", "claude")])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("asked", [("hi", "easy", "0"), (HARD_WORDS, "hard", "4")])
def test_an_answer_tells_its_tier(site: Site, api: ApiName, alias: str, is_stream: bool, asked: tuple[str, str, str]) -> None:
    words, tier, score = asked
    body = {"model": alias, "stream": is_stream, **words_of(api, words)}
    answer = site.exchange("POST", PATHS[api], headers={**AUTHORIZED, "x-session-id": f"{api}{is_stream}{tier}"}, body=body)
    assert (answer.status, answer.is_complete) == (200, True)
    told = [answer.get(f"x-gomodel-pro-tier{name}") for name in ("", "-target", "-score", "-reason")]
    assert told == [tier, ROUTES[alias][tier], score, "score"]


def test_an_error_tells_its_tier_too(site: Site) -> None:
    site.stage.always("a", "refused", openai_error(422, "not so"))
    answer = site.exchange("POST", PATHS["chat"], headers=AUTHORIZED, body={"model": "refused", **words_of("chat", "hi")})
    assert (answer.status, answer.json()["error"]["message"]) == (422, "not so")
    assert (answer.get("x-gomodel-pro-tier"), answer.get("x-gomodel-pro-tier-target")) == ("easy", "a/refused")


def is_of_dialect(answer: Answer, api: ApiName) -> bool:
    """Whether an error has the shape that clients of the API read."""
    body = answer.json()
    names = {"type", "message"} if api == "messages" else {"type", "message", "param", "code"}
    return (body.get("type") == "error") == (api == "messages") and set(body["error"]) >= names


@pytest.mark.parametrize("api", APIS)
def test_errors_are_of_the_callers_dialect(site: Site, api: ApiName) -> None:
    path, good = PATHS[api], {"model": "no-such-model", **words_of(api, "hi")}
    without = site.exchange("POST", path, body=good)
    wrong = site.exchange("POST", path, headers={"x-api-key": "another"}, body=good)
    unknown = site.exchange("POST", path, headers={"x-api-key": KEY}, body=good)
    malformed = site.exchange("POST", path, headers=AUTHORIZED, body=b'{"model":')
    nowhere = site.exchange("POST", path + "/nowhere", headers=AUTHORIZED, body=good)
    method = site.exchange("DELETE", path, headers=AUTHORIZED)
    answers = [without, wrong, unknown, malformed, nowhere, method]
    assert [answer.status for answer in answers] == [401, 401, 404, 400, 404, 405]
    assert [is_of_dialect(answer, api) and answer.is_complete for answer in answers] == [True] * 6
    assert method.get("allow") == "POST"


def test_a_large_body_passes_through_the_windows_and_one_over_the_limit_is_refused_readably(site: Site) -> None:
    pool = site.stage.pool("a")
    with site.connect() as connection:
        sent = json.dumps(pool.body(text="ü€" * 60_000)).encode()
        assert connection.read_answer(connection.request("POST", pool.path, headers=AUTHORIZED, body=sent)).status == 200
        assert pool.exchanges()[0].request.body == sent.replace(pool.name.encode(), pool.model.encode())
        declared = connection.request("POST", pool.path, headers=AUTHORIZED, body=b" " * (LIMIT_BYTES + 1))
        head = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", pool.path), *AUTHORIZED.items()]
        undeclared = connection.open(head, ends=False)
        connection.send_body(undeclared, b" " * (LIMIT_BYTES + 1), ends=False)
        for stream in (declared, undeclared):
            answer = connection.read_answer(stream)
            assert (answer.status, answer.is_complete, is_of_dialect(answer, "chat")) == (413, True, True)
        assert connection.read_answer(site.send(connection, pool)).status == 200
    assert pool.calls() == "aa"


def test_other_methods_and_paths_are_there_too(site: Site) -> None:
    with site.connect() as connection:
        heads = [connection.request("HEAD", path) for path in ("/", "/api/hello")]
        health, ready = connection.request("GET", "/health"), connection.request("GET", "/health/ready?deep=1")
        models = connection.request("GET", "/v1/models", headers=AUTHORIZED)
        answers = [connection.read_answer(stream) for stream in (*heads, health, ready, models)]
    assert [(answer.status, answer.is_complete) for answer in answers] == [(200, True)] * 5
    assert [answer.body for answer in answers[:3]] == [b"", b"", b'{"status":"ok"}']
    assert {"normal", "claude"} <= {model["id"] for model in answers[4].json()["data"]}


@pytest.mark.parametrize("api", APIS)
def test_a_failing_target_is_left_for_the_next_before_the_client_sees_anything(site: Site, api: ApiName) -> None:
    failing, cut, broken = (site.stage.pool("a", "b", api=api) for _ in range(3))
    failing.tell(0, failing.error(503))
    cut.tell(0, cut.streamed().cut_after(1, "reset"))
    broken.always(0, broken.error(500)).always(1, broken.error(429, headers=[("retry-after", "7")]))
    with site.connect() as connection:
        streams = [site.send(connection, pool, stream=pool is cut) for pool in (failing, cut, broken)]
        answers = [connection.read_answer(stream) for stream in streams]
    assert [(answer.status, answer.get("x-gomodel-attempts")) for answer in answers] == [(200, "2"), (200, "2"), (429, "2")]
    assert [answer.get("x-gomodel-target") for answer in answers[:2]] == [failing.target(1), cut.target(1)]
    assert (answers[1].body, answers[1].is_complete) == (cut.streamed().body, True)
    assert (answers[2].get("retry-after"), is_of_dialect(answers[2], api)) == ("7", True)
    assert [pool.calls() for pool in (failing, cut, broken)] == ["ab"] * 3


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_is_cut_is_told_and_reset_and_its_connection_lives_on(site: Site, api: ApiName) -> None:
    pool = site.stage.pool("a", api=api)
    pool.tell(0, pool.streamed().cut_after(6))
    with site.connect() as connection:
        stream = site.send(connection, pool, stream=True)
        answer = connection.read_answer(stream)
        assert (answer.status, answer.is_complete, connection.streams[stream].reset_code) == (200, False, INTERNAL_ERROR)
        sent = b"".join(piece for piece in pool.streamed().pieces[:6] if isinstance(piece, bytes))
        assert answer.body.startswith(sent)
        told = answer.body.removeprefix(sent).strip()
        assert told.startswith(CUT_WORDS[api])
        assert (b'"code":"stream_incomplete"' in told) == (api != "messages")
        assert connection.read_answer(site.send(connection, pool)).is_complete
    line = pool.log_line(0)
    assert (line["outcome"], line["error"]) == ("fault", "stream_incomplete")


# ---- HTTP/2's own ---------------------------------------------------------------------------------------------------


def test_many_requests_run_at_once_on_one_connection_and_are_answered_as_they_come(site: Site, hand: HandUpstream) -> None:
    count = 60
    with site.connect() as connection, contextlib.ExitStack() as stack:
        streams = [connection.request("POST", PATHS["chat"], headers=AUTHORIZED, body={**HAND, "n": n}) for n in range(count)]
        asked = []
        for _ in range(count):
            upstream = stack.enter_context(hand.accept())
            asked.append((json.loads(upstream.read_request().partition(b"\r\n\r\n")[2])["n"], upstream))
        assert sorted(number for number, _ in asked) == list(range(count))
        for number, upstream in reversed(asked):
            body = b'{"n":%d}' % number
            upstream.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            assert connection.read_answer(streams[number]).json() == {"n": number}


def test_whole_answers_and_streams_mix_on_one_connection(site: Site) -> None:
    pools = [site.stage.pool("a", "b", api=api) for api in APIS]
    with site.connect() as connection:
        sent = [(pool, is_stream, site.send(connection, pool, stream=is_stream)) for pool in pools for is_stream in (False, True) * 15]
        for pool, is_stream, stream in sent:
            answer = connection.read_answer(stream)
            assert (answer.status, answer.is_complete) == (200, True)
            assert answer.body == (pool.streamed() if is_stream else pool.whole()).body


def let_go(site: Site, pool: Pool, index: int, left_at_s: float) -> None:
    """The upstream is let go in time, the books are closed, nothing else was tried and nobody is blamed."""
    site.stage.upstream.wait_until(lambda _: pool.exchanges()[-1].ending != "running")
    assert time.monotonic() - left_at_s < WITHIN_S
    assert pool.exchanges()[-1].ending == "client_closed"
    line = pool.log_line(index)
    assert (line["outcome"], line["status"]) == ("client_cancelled", 499)
    assert pool.calls() == "a"
    assert pool.outcomes(0) == {"cancelled": 1.0}


@pytest.mark.parametrize("how", LEAVING)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_client_that_leaves_before_the_answer_cancels_the_upstream(site: Site, api: ApiName, is_stream: bool, how: str) -> None:
    pool = site.stage.pool("a", "b", api=api)
    pool.tell(0, pool.whole().held(20.0))
    with site.connect() as connection:
        stream = site.send(connection, pool, stream=is_stream)
        site.stage.upstream.wait_until(lambda _: pool.calls() == "a")
        LEAVING[how](connection, stream)
        let_go(site, pool, -1, time.monotonic())
    site.stage.wait_for_quiet()


@pytest.mark.parametrize("how", LEAVING)
def test_a_client_that_leaves_a_stream_cancels_the_upstream(site: Site, how: str) -> None:
    pool = site.stage.pool("a", "b")
    pool.tell(0, Reply(200, sse_reply([]).headers, pool.streamed().pieces[:5], "chunked", ending="stall"))
    with site.connect() as connection:
        stream = site.send(connection, pool, stream=True)
        connection.read_head(stream)
        connection.read_chunk(stream)
        LEAVING[how](connection, stream)
        let_go(site, pool, -1, time.monotonic())
    site.stage.wait_for_quiet()


def test_a_client_that_closes_as_soon_as_it_has_its_answer_has_not_left(site: Site) -> None:
    pool = site.stage.pool("a")
    for count in range(40):
        pool.tell(0, sse_reply([*[CONTENT] * count, CONTENT + FINISH]).slowed(0.0005))
        assert site.ask(pool, stream=True).is_complete
        assert site.ask(pool).is_complete
    assert {pool.log_line(index)["outcome"] for index in range(80)} == {"ok"}
    assert pool.outcomes(0) == {"success": 80.0}


def test_one_stream_that_is_reset_disturbs_no_other(site: Site, hand: HandUpstream) -> None:
    given_up, other = site.stage.pool("a", "b"), site.stage.pool("a", "b")
    given_up.tell(0, given_up.whole().held(20.0))
    with site.connect() as connection:
        running = connection.request("POST", PATHS["chat"], headers=AUTHORIZED, body={**HAND, "stream": True})
        with hand.accept() as upstream:
            upstream.read_request()
            upstream.start_stream()
            upstream.send_chunk(CONTENT)
            assert connection.read_chunk(running) == CONTENT
            stream = site.send(connection, given_up)
            site.stage.upstream.wait_until(lambda _: given_up.calls() == "a")
            connection.reset(stream)
            let_go(site, given_up, -1, time.monotonic())
            assert connection.read_answer(site.send(connection, other)).status == 200
            upstream.send_chunk(FINISH)
            upstream.send_chunk(b"")
            assert (connection.read_chunk(running), connection.read_chunk(running)) == (FINISH, b"")


def test_a_client_that_stalls_one_stream_still_gets_the_others(site: Site) -> None:
    stalled, other = site.stage.pool("a"), site.stage.pool("a", "b")
    stalled.tell(0, Reply(200, sse_reply([]).headers, (CONTENT * 500,) * 2000, "chunked"))
    with site.connect(acknowledges=False) as connection:
        stream = site.send(connection, stalled, stream=True)
        connection.read_chunk(stream)
        with site.connect() as second:
            assert second.read_answer(site.send(second, other)).status == 200
        assert stalled.exchanges()[0].ending == "running"
        connection.reset(stream)
        site.stage.upstream.wait_until(lambda _: stalled.exchanges()[0].ending == "client_closed")


def test_http_1_1_is_refused_in_its_own_words(site: Site) -> None:
    answer = exchange(site.port, "GET", "/health", tls=site.trusted())
    assert (answer.status, answer.version, answer.is_complete) == (505, "HTTP/1.1", True)
    assert "HTTP/2" in answer.text


# ---- clients that others wrote --------------------------------------------------------------------------------------


async def test_httpx_speaks_to_it(site: Site) -> None:
    pool, streamed = site.stage.pool("a"), site.stage.pool("a")
    trusted = site.trusted()
    async with httpx.AsyncClient(http1=trusted is not None, http2=True, verify=trusted or True, headers=AUTHORIZED) as client:
        answer = await client.post(site.url + pool.path, json=pool.body())
        assert (answer.http_version, answer.status_code, answer.content) == ("HTTP/2", 200, pool.whole().body)
        async with client.stream("POST", site.url + streamed.path, json=streamed.body(stream=True)) as answer:
            assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
            assert b"".join([chunk async for chunk in answer.aiter_raw()]) == streamed.streamed().body


def test_the_official_clients_speak_to_it(site: Site) -> None:
    trusted = site.trusted()
    options: Any = {"http1": trusted is not None, "http2": True, "verify": trusted or True}
    messages: Any = [{"role": "user", "content": "hi"}]
    with (
        openai.OpenAI(base_url=f"{site.url}/v1", api_key=KEY, http_client=openai.DefaultHttpxClient(**options)) as of_openai,
        anthropic.Anthropic(base_url=site.url, api_key=KEY, http_client=anthropic.DefaultHttpxClient(**options)) as of_anthropic,
    ):
        raw = of_openai.chat.completions.with_raw_response.create(model="normal", messages=messages)
        assert (raw.http_response.http_version, raw.headers["x-gomodel-pro-tier"]) == ("HTTP/2", "easy")
        whole = raw.parse().choices[0].message.content
        chunks = of_openai.chat.completions.create(model="normal", messages=messages, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
        with pytest.raises(openai.NotFoundError):
            of_openai.chat.completions.create(model="no-such-model", messages=messages)
        with of_anthropic.messages.stream(model="claude", max_tokens=64, messages=messages) as stream:
            assert (stream.response.http_version, stream.get_final_text()) == ("HTTP/2", whole)
        with pytest.raises(anthropic.NotFoundError):
            of_anthropic.messages.create(model="no-such-model", max_tokens=64, messages=messages)


# ---- stopping and reloading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("security", SECURITY)
def test_draining_says_goaway_finishes_what_runs_and_takes_nothing_new(tmp_path: Path, hand: HandUpstream, security: str) -> None:
    with open_site(tmp_path, security, hand) as site, site.connect() as idle, site.connect() as connection:
        idle.read_answer(idle.request("GET", "/health"))
        running = connection.request("POST", PATHS["chat"], headers=AUTHORIZED, body={**HAND, "stream": True})
        with hand.accept() as upstream:
            upstream.read_request()
            upstream.start_stream()
            upstream.send_chunk(CONTENT)
            assert connection.read_chunk(running) == CONTENT
            site.stage.gateway.send_signal(signal.SIGTERM)
            idle.read_to_end()
            assert idle.goaway is not None
            while connection.goaway is None:
                assert connection.receive()
            assert (idle.goaway[0], connection.goaway[:2]) == (0, (0, running))
            wait_for(lambda: refuses_connections(site), what="the listener is closed")
            late = connection.request("GET", "/health")
            while connection.streams[late].reset_code is None:
                assert connection.receive()
            assert connection.streams[late].reset_code == REFUSED_STREAM
            upstream.send_chunk(FINISH)
            upstream.send_chunk(b"")
            assert (connection.read_chunk(running), connection.read_chunk(running)) == (FINISH, b"")
        connection.read_to_end()
        assert site.stage.gateway.wait(5.0) == 0
        assert site.stage.gateway.logged("request", path=PATHS["chat"], outcome="ok")


def refuses_connections(site: Site) -> bool:
    try:
        site.connect().close()
    except ConnectionError:
        return True
    return False


def test_what_outlasts_the_drain_is_told_in_its_dialect(tmp_path: Path, hand: HandUpstream) -> None:
    with open_site(tmp_path, "cleartext", hand, SHUTDOWN_DRAIN_TIMEOUT="300ms") as site, site.connect() as connection:
        streams, waiting = {}, {}
        for api in APIS:
            pool, silent = site.stage.pool("a", api=api), site.stage.pool("a", api=api)
            pool.tell(0, Reply(200, sse_reply([]).headers, pool.streamed().pieces[:6], "chunked", ending="stall"))
            silent.tell(0, silent.whole().held())
            streams[api] = site.send(connection, pool, stream=True)
            connection.read_head(streams[api])
            waiting[api] = site.send(connection, silent)
        site.stage.upstream.wait_until(lambda upstream: upstream.running == 6)
        began = time.monotonic()
        site.stage.gateway.terminate()
        for api in APIS:
            cut, refused = connection.read_answer(streams[api]), connection.read_answer(waiting[api])
            last = cut.body.strip().splitlines()[-1].removeprefix(b"data:")
            assert (cut.is_complete, json.loads(last)["error"]["message"]) == (False, "The gateway is shutting down.")
            assert (refused.status, refused.is_complete, is_of_dialect(refused, api)) == (503, True, True)
        assert 0.3 <= time.monotonic() - began < 3.0
        assert site.stage.gateway.wait(5.0) == 0


@pytest.mark.front_door("h1", reason="hypercorn's front door has no TLS")
def test_hup_reads_the_certificate_anew_and_a_bad_one_changes_nothing(tmp_path: Path, hand: HandUpstream) -> None:
    with open_site(tmp_path, "tls", hand) as site, site.connect() as old:
        certificates = site.certificates
        assert certificates is not None
        before = certificates.client("h2")
        certificates.issue()
        site.stage.gateway.client_tls = certificates.client()
        site.stage.gateway.hang_up()
        site.stage.gateway.wait_for_log("reloaded")
        with pytest.raises(ssl.SSLCertVerificationError):
            Connection(site.port, tls=before)
        assert site.exchange("GET", "/health").status == 200
        certificates.key_file.write_text("no key", encoding="utf-8")
        site.stage.gateway.hang_up()
        (fault,) = site.stage.gateway.wait_for_log("reload_failed")["faults"]
        assert "TLS_CERT_FILE" in fault
        assert site.exchange("GET", "/health").status == 200
        assert old.read_answer(old.request("GET", "/health")).status == 200


# ---- starting -------------------------------------------------------------------------------------------------------


def test_without_a_port_for_it_there_is_none(tmp_path: Path) -> None:
    with open_stage(tmp_path, pools={}) as stage:
        assert stage.gateway.http2_port is None


def test_a_port_that_is_taken_ends_with_two_and_is_named_by_its_variable(tmp_path: Path, site: Site) -> None:
    variables = {"ECHO_ENABLED": "true", "HOST": "127.0.0.1", "PORT": "0", "HTTP2_PORT": str(site.port)}
    run = run_command("serve", directory=tmp_path, variables=variables)
    assert run.returncode == 2
    assert f"HTTP2_PORT: port {site.port} is in use" in run.stderr
    assert "Traceback" not in run.stderr + run.stdout


@pytest.mark.parametrize(("port", "words"), [("8080", "must differ from PORT"), ("65536", "65535"), ("-1", "0"), ("h2", "number")])
def test_a_port_that_cannot_be_is_a_fault(tmp_path: Path, port: str, words: str) -> None:
    run = run_command("check-config", directory=tmp_path, variables={"ECHO_ENABLED": "true", "HTTP2_PORT": port})
    assert run.returncode == 2
    (line,) = [line for line in run.stderr.splitlines() if "HTTP2_PORT" in line]
    assert words in line
