"""TERM, INT and HUP: what runs is finished or visibly ended, nothing new is taken, and a reload disturbs nobody."""

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateway_process import GatewayProcess, wait_for
from support.raw_http import Connection, ConnectionEnded, request_bytes
from support.replies import Reply, sse_reply
from support.stage import APIS, ApiName, HandConnection, HandUpstream, Stage, open_stage, stage_configuration

pytestmark = pytest.mark.e2e

CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def hand() -> Iterator[HandUpstream]:
    upstream = HandUpstream()
    yield upstream
    upstream.close()


@contextlib.contextmanager
def staged(directory: Path, hand: HandUpstream | None = None, **variables: str) -> Iterator[Stage]:
    providers = (
        {} if hand is None else {"hand": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{hand.port}/v1", "api_key": "k"}}
    )
    with open_stage(directory, variables, pools={"a": 5, "ab": 5}, strategies=("round_robin",), extra_providers=providers) as stage:
        yield stage


@contextlib.contextmanager
def running_stream(stage: Stage, hand: HandUpstream) -> Iterator[tuple[Connection, HandConnection]]:
    """A stream of which the client has read the first event."""
    with Connection(stage.gateway.port) as connection:
        connection.request("POST", "/v1/chat/completions", body={"model": "hand/m", "stream": True, **CHAT})
        with hand.accept() as upstream:
            upstream.read_request()
            upstream.start_stream("connection: close")
            upstream.send_chunk(CONTENT)
            connection.read_head()
            assert connection.read_chunk() == CONTENT
            yield connection, upstream


def finish(connection: Connection, upstream: HandConnection) -> None:
    """End the stream properly and see its end at the client."""
    upstream.send_chunk(FINISH)
    upstream.send_chunk(b"")
    assert connection.read_chunk() == FINISH
    assert connection.read_chunk() == b""


def read_all(connection: Connection) -> tuple[bytes, bool]:
    """The rest of a chunked body, and whether it ended properly."""
    got = b""
    try:
        while chunk := connection.read_chunk():
            got += chunk
    except ConnectionEnded:
        return got, False
    return got, True


def refuses_connections(stage: Stage) -> bool:
    try:
        Connection(stage.gateway.port).close()
    except ConnectionError:
        return True
    return False


# ---- draining -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_stream_is_finished_while_nothing_new_is_taken(tmp_path: Path, hand: HandUpstream, number: signal.Signals) -> None:
    with (
        staged(tmp_path, hand) as stage,
        running_stream(stage, hand) as (connection, upstream),
        Connection(stage.gateway.port) as idle,
        Connection(stage.gateway.port) as used,
        Connection(stage.gateway.port) as asking,
    ):
        used.request("GET", "/health/ready")
        assert used.read_answer().json() == {"status": "ready"}
        asking.send(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n")
        stage.gateway.send_signal(number)
        stage.gateway.wait_for_log("draining")
        wait_for(lambda: refuses_connections(stage), what="the listener is closed")
        assert idle.is_closed_by_peer()
        assert used.is_closed_by_peer()
        with contextlib.suppress(ConnectionError, ConnectionEnded):
            asking.send(b"\r\n")
            assert asking.read_answer().status == 503
        upstream.send_chunk(CONTENT)
        assert connection.read_chunk() == CONTENT
        assert stage.gateway.is_running()
        finish(connection, upstream)
        assert stage.gateway.wait(5.0) == 0
        assert stage.gateway.logged("stopped")
        assert stage.gateway.logged("request", path="/v1/chat/completions", outcome="ok")


def test_a_whole_answer_is_finished_and_its_connection_closed(tmp_path: Path, hand: HandUpstream) -> None:
    with staged(tmp_path, hand) as stage, Connection(stage.gateway.port) as connection, Connection(stage.gateway.port) as idle:
        connection.request("POST", "/v1/chat/completions", body={"model": "hand/m", **CHAT})
        with hand.accept() as upstream:
            upstream.read_request()
            stage.gateway.terminate()
            assert idle.is_closed_by_peer()
            upstream.send(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{"id":"x"}')
            answer = connection.read_answer()
        assert (answer.status, answer.body, answer.get("connection")) == (200, b'{"id":"x"}', "close")
        assert connection.is_closed_by_peer()
        assert stage.gateway.wait(5.0) == 0


def test_a_gateway_without_work_stops_at_once(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.pool("a").ask()
        began = time.monotonic()
        stage.gateway.terminate()
        assert stage.gateway.wait(5.0) == 0
        assert time.monotonic() - began < 2.0


def test_failover_goes_on_while_the_gateway_drains(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        pool = stage.pool("a", "b", strategy="round_robin")
        pool.tell(0, pool.error(503).held(0.5))
        with pool.open(stream=True) as connection:
            stage.upstream.wait_until(lambda _: pool.calls() == "a")
            stage.gateway.terminate()
            answer = connection.read_answer()
        assert (answer.status, answer.is_complete, pool.calls()) == (200, True, "ab")
        assert stage.gateway.wait(5.0) == 0


# ---- the end of the drain -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_streams_that_outlast_the_drain_end_with_an_error_event_and_visibly_incomplete(tmp_path: Path, api: ApiName) -> None:
    with staged(tmp_path, SHUTDOWN_DRAIN_TIMEOUT="300ms") as stage:
        pool = stage.pool("a", api=api)
        pieces = pool.streamed().pieces[:6]
        pool.tell(0, Reply(200, sse_reply([]).headers, pieces, "chunked", ending="stall"))
        with pool.open(stream=True) as connection:
            connection.read_head()
            connection.read_chunk()
            began = time.monotonic()
            stage.gateway.terminate()
            got, is_complete = read_all(connection)
        assert not is_complete
        assert 0.3 <= time.monotonic() - began < 3.0
        last = got.decode().strip().splitlines()[-1]
        assert "shutting down" in last
        assert json.loads(last.removeprefix("data:"))["error"]["message"] == "The gateway is shutting down."
        assert (b"event: error" in got) == (api != "chat")
        assert stage.gateway.wait(5.0) == 0
        assert pool.log_line()["outcome"] == "stopped"
        stage.upstream.wait_until(lambda _: pool.exchanges()[0].ending == "client_closed")


@pytest.mark.parametrize("api", APIS)
def test_requests_without_an_answer_at_the_end_of_the_drain_get_a_503(tmp_path: Path, api: ApiName) -> None:
    with staged(tmp_path, SHUTDOWN_DRAIN_TIMEOUT="300ms") as stage:
        pool = stage.pool("a", "b", api=api, strategy="round_robin")
        pool.always(0, pool.whole().held())
        with pool.open() as connection, pool.open(stream=True) as streaming:
            stage.upstream.wait_until(lambda _: len(pool.exchanges()) == 2)
            stage.gateway.terminate()
            for answer in (connection.read_answer(), streaming.read_answer()):
                assert (answer.status, answer.get("retry-after")) == (503, "1")
                assert answer.json()["error"]["message"] == "The gateway is shutting down."
        assert stage.gateway.wait(5.0) == 0
        assert "b" not in pool.calls()


def test_a_request_that_waits_for_a_retry_ends_with_the_drain(tmp_path: Path) -> None:
    with staged(tmp_path, SHUTDOWN_DRAIN_TIMEOUT="300ms", RETRY_MAX_RETRIES="3", RETRY_INITIAL_BACKOFF="20s") as stage:
        pool = stage.pool("a")
        pool.always(0, pool.error(503))
        with pool.open() as connection:
            stage.upstream.wait_until(lambda _: bool(pool.exchanges()) and pool.exchanges()[0].ending == "answered")
            stage.gateway.terminate()
            assert connection.read_answer().status == 503
        assert stage.gateway.wait(5.0) == 0
        assert pool.calls() == "a"


def test_a_client_that_does_not_read_does_not_keep_the_gateway_alive(tmp_path: Path) -> None:
    with staged(tmp_path, SHUTDOWN_DRAIN_TIMEOUT="300ms") as stage:
        pool = stage.pool("a")
        pool.tell(0, Reply(200, sse_reply([]).headers, (CONTENT * 1000,) * 2000, "chunked"))
        with pool.open(stream=True) as connection:
            connection.read_head()
            stage.gateway.terminate()
            assert stage.gateway.wait(8.0) == 0


def test_a_client_that_is_still_uploading_does_not_keep_the_gateway_alive(tmp_path: Path) -> None:
    with staged(tmp_path, SHUTDOWN_DRAIN_TIMEOUT="300ms") as stage, Connection(stage.gateway.port) as connection:
        connection.send(request_bytes("POST", "/v1/chat/completions", headers=[("Content-Length", "1000")]) + b"{")
        wait_for(lambda: stage.metric("gomodel_requests_in_flight") == 1, what="the request has begun")
        stage.gateway.terminate()
        assert stage.gateway.wait(8.0) == 0


# ---- insisting ------------------------------------------------------------------------------------------------------


def test_a_second_signal_more_than_a_second_later_stops_at_once(tmp_path: Path, hand: HandUpstream) -> None:
    with staged(tmp_path, hand) as stage, running_stream(stage, hand) as (connection, upstream):
        stage.gateway.terminate()
        stage.gateway.wait_for_log("draining")
        time.sleep(1.1)  # the rule is about the time between the two
        assert stage.gateway.is_running()
        began = time.monotonic()
        stage.gateway.terminate()
        assert stage.gateway.wait(5.0) == 0
        assert time.monotonic() - began < 2.0
        assert not read_all(connection)[1]
        upstream.wait_for_close()


def test_two_signals_within_a_second_are_one_wish(tmp_path: Path, hand: HandUpstream) -> None:
    with staged(tmp_path, hand) as stage, running_stream(stage, hand) as (connection, upstream):
        for _ in range(3):
            stage.gateway.terminate()
        stage.gateway.wait_for_log("draining")
        upstream.send_chunk(CONTENT)
        assert connection.read_chunk() == CONTENT
        finish(connection, upstream)
        assert stage.gateway.wait(5.0) == 0
        assert len(stage.gateway.logged("draining")) == 1


# ---- reloading ------------------------------------------------------------------------------------------------------


def rewrite(stage: Stage, directory: Path, **changes: object) -> None:
    """Write the configuration anew, with these sections changed."""
    config = stage_configuration(stage.upstream.url, {"a": 5, "ab": 5}, ("round_robin",))
    for section, content in changes.items():
        config[section] = config[section] + content if isinstance(content, list) else {**config.get(section, {}), **content}
    (directory / "config.yaml").write_text(json.dumps(config), encoding="utf-8")


def reload(stage: Stage, times: int = 1) -> None:
    stage.gateway.hang_up()
    stage.gateway.wait_until(lambda: len(stage.gateway.logged("reloaded")) == times)


def test_a_reload_brings_what_is_new_and_keeps_what_is_known(tmp_path: Path, hand: HandUpstream) -> None:
    session = {"X-Session-Id": "s"}
    with staged(tmp_path, hand, PRO_SMART_ROUTING_ROUTES="") as stage, running_stream(stage, hand) as (connection, upstream):
        benched, pinned = stage.pool("a", "b", strategy="round_robin"), stage.pool("a", "b", strategy="round_robin")
        benched.tell(0, benched.error(429))
        benched.ask()
        pinned.ask(headers={"X-Session-Id": "first"})
        pinned.ask(headers=session)
        rewrite(stage, tmp_path, virtual_models=[{"source": "brand-new", "targets": [{"model": "b/brand-new"}]}])
        assert stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "brand-new", **CHAT}).status == 404
        reload(stage)
        answer = stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "brand-new", **CHAT})
        assert (answer.status, answer.get("x-gomodel-target")) == (200, "b/brand-new")
        assert benched.is_cooling(0)
        benched.ask(headers={"X-Session-Id": "other"})
        assert benched.calls() == "abb"
        pinned.ask(headers=session)
        assert pinned.calls() == "abb"
        upstream.send_chunk(CONTENT)
        assert connection.read_chunk() == CONTENT
        finish(connection, upstream)
        stage.wait_for_quiet()


BAD = {
    "no YAML": "providers: [",
    "a fault": json.dumps({"providers": {"a": {"type": "nonsense"}}}),
    "no provider": "{}",
    "a cycle": json.dumps({"virtual_models": [{"source": "x", "targets": [{"model": "y"}]}, {"source": "y", "targets": [{"model": "x"}]}]}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_configuration_changes_nothing_and_says_so(tmp_path: Path, name: str) -> None:
    with staged(tmp_path) as stage:
        pool = stage.pool("a")
        pool.ask()
        before = (tmp_path / "config.yaml").read_text(encoding="utf-8")
        (tmp_path / "config.yaml").write_text(BAD[name], encoding="utf-8")
        stage.gateway.hang_up()
        assert stage.gateway.wait_for_log("reload_failed")["faults"]
        assert pool.ask().status == 200
        (tmp_path / "config.yaml").write_text(before, encoding="utf-8")
        reload(stage)
        assert pool.ask().status == 200


def test_a_target_whose_provider_changed_starts_fresh(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        pool = stage.pool("a", "b", strategy="round_robin")
        pool.tell(0, pool.error(401))
        pool.ask()
        assert pool.is_cooling(0)
        rewrite(
            stage, tmp_path, providers={"a": {"type": "openai_compatible", "base_url": f"{stage.upstream.url}/a/v1", "api_key": "new-key"}}
        )
        reload(stage)
        assert not pool.is_cooling(0)
        for number in range(2):
            pool.ask(headers={"X-Session-Id": str(number)})
        (fresh,) = [each.request for each in pool.exchanges() if each.request.header("authorization") == "Bearer new-key"]
        assert fresh.json["model"] == pool.model


def test_a_provider_taken_away_while_a_stream_runs_does_not_end_the_stream(tmp_path: Path, hand: HandUpstream) -> None:
    with staged(tmp_path, hand) as stage, running_stream(stage, hand) as (connection, upstream):
        rewrite(stage, tmp_path)
        reload(stage)
        finish(connection, upstream)
        assert stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "hand/m", **CHAT}).status == 404
        stage.wait_for_quiet()


def test_what_a_reload_cannot_change_is_named(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        rewrite(stage, tmp_path, server={"shutdown_drain_timeout": "1s"})
        stage.gateway.hang_up()
        assert stage.gateway.wait_for_log("reloaded")["needs_restart"] == ["shutdown_drain_timeout_s"]


def test_the_level_of_the_log_changes_with_a_reload(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        rewrite(stage, tmp_path, log={"level": "debug", "format": "text"})
        stage.gateway.hang_up()
        stage.gateway.wait_until(lambda: any(line.endswith("INFO    reloaded") for line in stage.gateway.stdout))
        stage.gateway.exchange("GET", "/health")
        stage.gateway.wait_until(lambda: any("DEBUG   request" in line and "path=/health" in line for line in stage.gateway.stdout))


@pytest.mark.front_door("h1", reason="turns on TLS, which the other door does not serve")
def test_everything_else_that_a_reload_cannot_change_is_named(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        changes = {
            "port": 1,
            "http2_port": 2,
            "header_size_limit": "2K",
            "header_count_limit": 99,
            "handshake_timeout": "1s",
            "header_timeout": "2s",
            "body_idle_timeout": "3s",
            "body_timeout": "4s",
            "write_timeout": "5s",
            "idle_timeout": "6s",
            "max_connections": 7,
            "shutdown_drain_timeout": "8s",
            "tls_cert_file": "c.pem",
            "tls_key_file": "k.pem",
        }
        rewrite(stage, tmp_path, server=changes)
        reload(stage)
        named = stage.gateway.wait_for_log("reloaded")["needs_restart"]
        assert named == [
            *("shutdown_drain_timeout_s", "http2_port", "tls_cert_file", "tls_key_file", "head_bytes", "header_count", "handshake_s"),
            *("head_s", "body_idle_s", "body_total_s", "write_s", "keep_alive_s", "connections"),
        ]  # PORT comes from the environment of the process, which goes before the file


def test_a_reload_that_would_leave_the_gateway_open_to_all_is_refused(tmp_path: Path) -> None:
    providers = {"echo": {"type": "echo"}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"providers": providers, "server": {"master_key": "master-key"}}), encoding="utf-8")
    with GatewayProcess({"HOST": ""}, directory=tmp_path) as gateway:
        assert gateway.wait_for_log("listening")["host"] == "all interfaces"
        config.write_text(json.dumps({"providers": providers}), encoding="utf-8")
        gateway.hang_up()
        (fault,) = gateway.wait_for_log("reload_failed")["faults"]
        assert fault.startswith("GOMODEL_MASTER_KEY: is gone, and the gateway listens on all interfaces")
        assert gateway.exchange("GET", "/v1/models").status == 401
        config.write_text(json.dumps({"providers": providers, "server": {"host": "127.0.0.1"}}), encoding="utf-8")
        gateway.hang_up()
        gateway.wait_until(lambda: len(gateway.logged("reload_failed")) == 2)
        assert gateway.exchange("GET", "/v1/models").status == 401
        config.write_text(json.dumps({"providers": providers, "server": {"host": "*"}}), encoding="utf-8")
        gateway.hang_up()
        gateway.wait_for_log("reloaded")
        assert gateway.exchange("GET", "/v1/models").status == 200


def test_a_request_is_decided_by_the_configuration_of_that_moment(tmp_path: Path) -> None:
    """A provider is renamed while bodies that name it by an alias, by a virtual model and by itself come up."""
    with staged(tmp_path, PRO_SMART_ROUTING_ROUTES="") as stage:

        def configure(provider: str) -> None:
            rewrite(
                stage,
                tmp_path,
                providers={provider: {"type": "openai_compatible", "base_url": f"{stage.upstream.url}/a/v1", "api_key": "k"}},
                virtual_models=[{"source": "renamed", "targets": [{"model": f"{provider}/m"}]}],
                smart_routing={"routes": {"tiered": {"easy": f"{provider}/m", "hard": f"{provider}/m"}}},
            )

        configure("before")
        reload(stage)
        with contextlib.ExitStack() as stack:
            uploads = []
            for model in ("renamed", "tiered", "before/m"):
                connection = stack.enter_context(Connection(stage.gateway.port))
                whole = request_bytes("POST", "/v1/chat/completions", body={"model": model, **CHAT})
                connection.send(whole[:-5])
                uploads.append((connection, whole[-5:]))
            wait_for(lambda: stage.metric("gomodel_requests_in_flight") == 3, what="the requests have begun")
            configure("after")
            reload(stage, 2)
            for connection, rest in uploads:
                connection.send(rest)
            answers = [connection.read_answer() for connection, _ in uploads]
        assert [answer.status for answer in answers] == [200, 200, 404]
        assert [answer.get("x-gomodel-target") for answer in answers[:2]] == ["after/m", "after/m"]
        assert stage.metric("gomodel_pro_smartroute_requests_total", alias="tiered") == 1


def test_many_reloads_in_a_row_disturb_nobody(tmp_path: Path, hand: HandUpstream) -> None:
    with staged(tmp_path, hand) as stage, running_stream(stage, hand) as (connection, upstream):
        pool = stage.pool("a")
        for times in range(1, 11):
            reload(stage, times)
            assert pool.ask().status == 200
            upstream.send_chunk(CONTENT)
            assert connection.read_chunk() == CONTENT
        finish(connection, upstream)
        stage.wait_for_quiet()
        stage.gateway.terminate()
        assert stage.gateway.wait(5.0) == 0
