"""The admin API of a real process, and `explain --url` (behaviour.md §1, §9, §10)."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gateway_process import GatewayProcess, free_port, run_command
from support.raw_http import Answer
from support.stage import SERIES, Stage, open_stage

pytestmark = pytest.mark.e2e

KEY = "gw-admin-key"
AUTH = {"Authorization": f"Bearer {KEY}"}
PROMPT = "the-words-of-the-prompt"
SLASHED = "org/model v1"
ADMIN_PATHS = [("GET", "/admin/routing"), ("POST", "/admin/explain"), ("POST", "/admin/routing/a/m/reset"), ("GET", "/admin/nothing")]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that has no key."""
    slashed = {"source": "slashed", "targets": [{"model": f"a/{SLASHED}"}]}
    routes = {"normal": {"easy": "adaptive-a-b-5", "hard": "adaptive-a-b-6"}}
    with open_stage(
        tmp_path_factory.mktemp("admin"),
        {"PRO_SMART_ROUTING_ROUTES": json.dumps(routes)},
        pools={"ab": 8},
        strategies=("adaptive",),
        configuration={"virtual_models": [slashed]},
    ) as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a key, under a base path."""
    variables = {"GOMODEL_MASTER_KEY": KEY, "BASE_PATH": "/g", "ECHO_ENABLED": "true", "ECHO_MODELS": "echo-small"}
    with GatewayProcess(variables, directory=tmp_path_factory.mktemp("locked")) as gateway:
        yield gateway


def routing(stage: Stage) -> dict[str, Any]:
    """The state, without what passes with time alone."""
    answer = stage.gateway.exchange("GET", "/admin/routing")
    assert (answer.status, answer.get("content-type")) == (200, "application/json")
    found: dict[str, Any] = answer.json()
    return found


def row(stage: Stage, target: str) -> dict[str, Any]:
    return next(found for found in routing(stage)["targets"] if found["target"] == target)


def timeless(value: Any) -> Any:
    """A document without instants and what is left of periods."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name not in ("now_s", "cooldown_left_s")}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def says(model: str, text: str = PROMPT, **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}], **more}).encode()


# ---- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), ADMIN_PATHS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": "sk-of-a-provider"}])
def test_where_there_is_a_key_it_is_needed(locked: GatewayProcess, method: str, path: str, headers: dict[str, str]) -> None:
    assert locked.exchange(method, "/g" + path, headers=headers).status == 401


def test_with_the_key_it_answers_under_the_base_path_whoever_sends_it(locked: GatewayProcess) -> None:
    for headers in (AUTH, {"x-api-key": KEY}, {**AUTH, "X-Forwarded-For": "192.0.2.1", "Origin": "https://console.example"}):
        shown = locked.exchange("GET", "/g/admin/routing", headers=headers)
        assert [row["target"] for row in shown.json()["targets"]] == ["echo/echo-small"]
    assert locked.exchange("POST", "/g/admin/routing/echo/echo-small/reset", headers=AUTH).json()["is_reset"]
    assert locked.exchange("GET", "/admin/routing", headers=AUTH).status == 404


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "https://site.example"}, "admin_origin"),
        ({"Origin": "null"}, "admin_origin"),
        ({"Host": "rebound.example"}, "admin_host"),
        ({"X-Forwarded-For": "192.0.2.1"}, "admin_is_local"),
    ],
)
@pytest.mark.parametrize(("method", "path"), ADMIN_PATHS)
def test_without_a_key_a_foreign_page_a_rebound_name_and_a_proxy_are_refused(
    stage: Stage, method: str, path: str, headers: dict[str, str], code: str
) -> None:
    answer = stage.gateway.exchange(method, path, headers=headers, body=says("a/m") if method == "POST" else b"")
    assert (answer.status, answer.json()["error"]["code"]) == (403, code)
    assert answer.json()["error"]["type"] == "permission_error"
    assert "GOMODEL_MASTER_KEY" in answer.text
    assert answer.get("access-control-allow-origin") is None


def test_without_a_key_a_page_of_the_gateways_own_is_answered(stage: Stage) -> None:
    origin = {"Origin": f"http://127.0.0.1:{stage.gateway.port}"}
    assert stage.gateway.exchange("GET", "/admin/routing", headers=origin).status == 200


def test_an_open_gateway_shows_other_machines_no_admin(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address = probe.getsockname()[0]
    with GatewayProcess({"ECHO_ENABLED": "true", "HOST": "0.0.0.0"}, directory=tmp_path) as gateway:
        run = run_command("explain", "--url", f"http://{address}:{gateway.port}", directory=tmp_path, stdin=says("echo/x").decode())
        assert (run.returncode, run.stdout) == (1, "")
        assert "answered 403: Without a master key /admin is for this machine only" in run.stderr


# ---- paths and methods ----------------------------------------------------------------------------------------------


def test_a_head_is_answered_without_a_body(stage: Stage) -> None:
    answer = stage.gateway.exchange("HEAD", "/admin/routing")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.get("content-length") or 0) > 100


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/admin/routing", "GET, HEAD"),
        ("GET", "/admin/explain", "POST"),
        ("DELETE", "/admin/routing/a/ab-0/reset", "POST"),
    ],
)
def test_another_method_is_a_405(stage: Stage, method: str, path: str, allow: str) -> None:
    answer = stage.gateway.exchange(method, path)
    assert (answer.status, answer.get("allow")) == (405, allow)


@pytest.mark.parametrize("path", ["/admin/routing/", "/admin/routing/a/ab-0", "/admin/other", "/admin/routing%2Fa%2Fab-0%2Freset"])
def test_elsewhere_there_is_nothing(stage: Stage, path: str) -> None:
    answer = stage.gateway.exchange("POST", path)
    assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown_url")


def test_an_unknown_target_is_a_404_that_names_it(stage: Stage) -> None:
    answer = stage.gateway.exchange("POST", "/admin/routing/a/no%20such/reset")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown_target")
    assert "'a/no such'" in answer.json()["error"]["message"]


@pytest.mark.parametrize("written", ["a/org/model%20v1", "a%2Forg%2Fmodel%20v1", "a/org%2fmodel%20v1"])
def test_a_target_with_slashes_is_found_however_they_are_written(stage: Stage, written: str) -> None:
    answer = stage.gateway.exchange("POST", f"/admin/routing/{written}/reset")
    assert (answer.status, answer.json()) == (200, {"target": f"a/{SLASHED}", "is_reset": True})


def test_admin_requests_are_counted_and_logged_like_any_and_never_by_what_they_name(stage: Stage) -> None:
    labels = {"provider": "other", "model": "other", "endpoint": "other", "status_code": "200"}
    before = stage.metric("gomodel_requests_total", **labels)
    headers = {"X-Request-ID": "admin-1"}
    assert stage.gateway.exchange("POST", "/admin/explain", headers=headers, body=says("adaptive-a-b-5")).status == 200
    line = stage.gateway.wait_for_log("request", request_id="admin-1")
    assert (line["path"], line["status"], line.get("model"), line.get("target")) == ("/admin/explain", 200, None, None)
    assert stage.metric("gomodel_requests_total", **labels) == before + 1
    assert PROMPT not in stage.gateway.output


# ---- the routing state ----------------------------------------------------------------------------------------------


def test_a_429_is_shown_as_a_cooldown_and_a_reset_ends_it(stage: Stage) -> None:
    pool = stage.pool("a", "b", strategy="adaptive")
    pool.always(0, pool.error(429)).always(1, pool.error(429))
    assert pool.ask().status == 429
    for index in (0, 1):
        shown = row(stage, pool.target(index))
        assert (shown["standing"], shown["cooldown_reason"], shown["streak"], shown["in_flight"]) == ("cooling", "rate", 1, 0)
        assert 25 < shown["cooldown_left_s"] <= 30
        assert shown["estimates"]["unary_s"] > 0
        assert [(one["virtual_model"], one["kind"], one["weight"]) for one in shown["weights"]] == [
            (pool.name, "stream", 0.0),
            (pool.name, "unary", 0.0),
        ]
        assert pool.is_cooling(index)
    assert stage.gateway.exchange("POST", f"/admin/routing/{pool.target(0)}/reset").status == 200
    shown = row(stage, pool.target(0))
    assert (shown["standing"], shown["cooldown_left_s"], shown["cooldown_reason"], shown["streak"]) == ("well", 0.0, None, 0)
    assert shown["estimates"] == {"stream_s": None, "unary_s": None}
    assert [one["share"] for one in shown["weights"]] == [1.0, 1.0]
    assert (pool.is_cooling(0), pool.is_cooling(1)) == (False, True)
    assert stage.metric(SERIES + "latency_estimate_seconds", target=pool.target(0)) == 0
    pool.always(0, None)
    assert pool.ask().get("x-gomodel-target") == pool.target(0)


def test_attempts_in_flight_and_pins_are_counted(stage: Stage) -> None:
    pool = stage.pool("a", "b", strategy="adaptive")
    before = routing(stage)["totals"]
    target = pool.ask(headers={"X-Session-Id": "counted"}).get("x-gomodel-target")
    assert target is not None
    assert row(stage, target)["pins"] == 1
    after = routing(stage)["totals"]
    assert after == {**before, "target_pins": before["target_pins"] + 1}


# ---- explain --------------------------------------------------------------------------------------------------------


def explained(stage: Stage, body: bytes, query: str = "", **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return stage.gateway.exchange("POST", "/admin/explain" + query, headers=sent, body=body)


def test_the_pin_and_the_estimates_of_the_moment_are_explained_and_nothing_changes(stage: Stage) -> None:
    pool = stage.pool("a", "b", strategy="adaptive")
    target = pool.ask(headers={"X-Session-Id": "pinned"}).get("x-gomodel-target")
    stage.wait_for_quiet()
    before, calls = timeless(routing(stage)), pool.calls()
    for _ in range(3):
        shown = explained(stage, says(pool.name), X_Session_Id="pinned").json()
    assert (timeless(routing(stage)), pool.calls()) == (before, calls)
    assert (shown["is_live"], shown["session"], shown["tier"]) == (True, "pinned", None)
    resolution = shown["resolution"]
    assert (resolution["target"], resolution["reason"], resolution["strategy"]) == (target, "pinned", "adaptive")
    assert (resolution["pin"]["name"], resolution["pin"]["is_honored"]) == (target, True)
    assert resolution["then"] == [name for name in (pool.target(0), pool.target(1)) if name != target]
    one = next(candidate for candidate in resolution["candidates"] if candidate["name"] == target)
    assert (one["is_pinned"], one["is_warm"], one["standing"], one["in_flight"]) == (True, True, "well", 0)
    assert one["estimates"]["unary_s"] == row(stage, str(target))["estimates"]["unary_s"] > 0
    assert sum(candidate["share"] for candidate in resolution["candidates"]) == pytest.approx(1, abs=1e-5)


def test_the_tier_pin_is_explained_and_neither_written_nor_used(stage: Stage) -> None:
    session = {"X-Session-Id": "tiered"}
    fresh = explained(stage, says("normal", "think hard"), X_Session_Id="tiered").json()["tier"]
    assert (fresh["tier"], fresh["reason"], fresh["pin"]) == ("hard", "score", None)
    assert explained(stage, says("normal"), X_Session_Id="tiered").json()["tier"]["tier"] == "easy"
    assert stage.gateway.exchange("POST", "/v1/chat/completions", headers=session, body=says("normal", "think hard")).status == 200
    held = explained(stage, says("normal"), X_Session_Id="tiered").json()
    assert (held["tier"]["tier"], held["tier"]["reason"], held["tier"]["pin"]) == ("hard", "session_pin", "hard")
    assert 1790 < held["tier"]["pin_left_s"] < 1800
    assert held["resolution"]["virtual_model"] == "adaptive-a-b-6"
    answer = stage.gateway.exchange("POST", "/v1/chat/completions", headers=session, body=says("normal"))
    assert answer.get("x-gomodel-pro-tier-reason") == "session_pin"


@pytest.mark.parametrize(("query", "api"), [("?api=messages", "anthropic.messages"), ("?api=/v1/responses", "openai.responses")])
def test_the_endpoint_is_named_in_the_query(stage: Stage, query: str, api: str) -> None:
    assert explained(stage, says("normal"), query).json()["api"] == api


def test_what_the_gateway_would_refuse_is_explained_so(stage: Stage) -> None:
    answer = explained(stage, b'{"model":')
    assert (answer.status, answer.json()["error"]["status"], answer.json()["error"]["code"]) == (200, 400, "invalid_json")
    assert explained(stage, says("x"), "?api=images").status == 400


def test_the_command_asks_a_running_gateway_and_prints_its_document(stage: Stage, tmp_path: Path) -> None:
    body = says("adaptive-a-b-7", stream=True).decode()
    run = run_command("explain", "--url", stage.gateway.url, "-H", "X-Session-Id: cli", directory=tmp_path, stdin=body)
    assert (run.returncode, run.stderr) == (0, "")
    printed = json.loads(run.stdout)
    direct = explained(stage, body.encode(), X_Session_Id="cli").json()
    for document in (printed, direct):  # by chance, and by time
        del document["now_s"], document["resolution"]["draws"], document["resolution"]["target"], document["resolution"]["then"]
    assert printed == direct
    assert printed["kind"] == "stream"
    assert PROMPT not in run.stdout
    alone = run_command("explain", "--demo", directory=tmp_path, stdin=says("normal").decode())
    assert shape(json.loads(alone.stdout)["resolution"]) == shape(json.loads(run.stdout)["resolution"])


def shape(document: Any) -> Any:
    """The names in a document, however deep; of lists the first entry."""
    if isinstance(document, dict):
        return {name: shape(value) if name in ("candidates", "estimates") else ... for name, value in document.items()}
    return shape(document[0]) if isinstance(document, list) and document else ...


@pytest.mark.parametrize(
    ("variables", "options", "files"),
    [
        ({"GOMODEL_MASTER_KEY": KEY}, [], {}),
        ({"OTHER": KEY}, ["--key-env", "OTHER"], {}),
        ({}, ["--env-file", "keys"], {"keys": f"GOMODEL_MASTER_KEY={KEY}\n"}),
        ({}, [], {".env": f"GOMODEL_MASTER_KEY={KEY}\n"}),
        ({"GOMODEL_MASTER_KEY_FILE": "key"}, [], {"key": KEY + "\n"}),
        (
            {"GOMODEL_MASTER_KEY": KEY},
            ["-H", "Authorization: Bearer sk-x", "-H", "x-api-key: sk-x", "-H", "Host: x", "-H", "Origin: http://x"],
            {},
        ),
    ],
)
def test_the_command_finds_the_key(
    locked: GatewayProcess, tmp_path: Path, variables: dict[str, str], options: list[str], files: dict[str, str]
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    url = locked.url + "/g/"
    run = run_command("explain", "--url", url, *options, directory=tmp_path, variables=variables, stdin=says("echo/echo-small").decode())
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["resolution"]["target"] == "echo/echo-small"
    assert KEY not in run.stdout


def test_the_command_tells_why_it_got_no_answer(locked: GatewayProcess, tmp_path: Path) -> None:
    def failing(url: str, variables: dict[str, str]) -> str:
        run = run_command("explain", "--url", url, directory=tmp_path, variables=variables, stdin=says("echo/x").decode())
        assert (run.returncode, run.stdout) == (1, "")
        assert "Traceback" not in run.stderr
        assert "wrong-key" not in run.stderr
        return run.stderr

    assert "answered 401: No API key was sent" in (said := failing(locked.url + "/g", {}))
    assert "GOMODEL_MASTER_KEY is not set" in said
    assert "answered 401: The API key is not this gateway's" in failing(locked.url + "/g", {"GOMODEL_MASTER_KEY": "wrong-key"})
    assert "HTTP does not allow" in failing(locked.url + "/g", {"GOMODEL_MASTER_KEY": "wrong-key\nx"})
    assert "answered 404" in failing(locked.url, {"GOMODEL_MASTER_KEY": KEY})
    assert "cannot be asked: [Errno 111] Connection refused" in failing(f"http://127.0.0.1:{free_port()}", {})


def test_a_refused_request_is_printed_with_exit_code_one(stage: Stage, tmp_path: Path) -> None:
    run = run_command("explain", "--url", stage.gateway.url, directory=tmp_path, stdin="{")
    assert (run.returncode, json.loads(run.stdout)["error"]["code"]) == (1, "invalid_json")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8080", "is no base URL"),
        ("ftp://127.0.0.1", "is no base URL"),
        ("http://", "is no base URL"),
        ("http://h:99999", "is no base URL"),
        ("http://h/x?y", "is no base URL"),
        ("http://u:secret-word@h", "holds credentials"),
    ],
)
def test_a_url_that_is_none_is_exit_code_two(tmp_path: Path, url: str, words: str) -> None:
    run = run_command("explain", "--url", url, directory=tmp_path, stdin="{}")
    assert (run.returncode, run.stdout) == (2, "")
    assert f"--url: {words}" in run.stderr
    assert "secret-word" not in run.stderr
