"""What Prometheus sees: a bounded number of series, counters that only rise, and the target that answered."""

import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.gateway_process import GatewayProcess
from support.raw_http import Connection
from support.stage import APIS, SERIES, ApiName, Stage, open_stage, parse_metrics

pytestmark = pytest.mark.e2e

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
ODD = 'od"d\\al\nias'
"""An alias with every character that the text format escapes."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("metrics")
    odd = {"source": ODD, "targets": [{"model": "a/odd"}]}
    with open_stage(directory, pools={"a": 10, "ab": 20}, configuration={"virtual_models": [odd]}) as running:
        yield running


def keys(stage: Stage) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {(name, frozenset(labels.items())) for name, labels, _ in stage.series()}


def test_whatever_clients_invent_adds_no_series(stage: Stage) -> None:
    pool = stage.pool("a")

    def invent(number: int) -> None:
        """Requests with a new model, session, user path, path, header and query each."""
        headers = {"X-Session-Id": f"s-{number}", "X-GoModel-User-Path": f"/team-{number}", "User-Agent": f"agent/{number}"}
        if number % 20 == 0:  # refused before their bodies are read, which costs a connection each
            stage.gateway.exchange("POST", f"/v1/invented/{number}", headers=headers, body={})
            stage.gateway.exchange("POST", f"/p/invented-{number}/x", headers=headers, body={})
        with Connection(stage.gateway.port) as connection:
            for method, path, body in [
                ("POST", "/v1/chat/completions", {"model": f"invented-{number}", **CHAT}),
                ("POST", "/v1/chat/completions", {"model": f"a/invented-{number}", **CHAT}),
                ("POST", f"/v1/chat/completions?q={number}", {"model": pool.name, "user": f"u{number}", **CHAT}),
                ("GET", f"/p/a/native/{number}", None),
                ("GET", f"/v1/models/invented-{number}", None),
                ("POST", "/v1/embeddings", {"model": f"nobody/{number}", "input": "x"}),
            ]:
                connection.request(method, path, headers=headers, body=body)
                connection.read_answer()

    invent(0)
    before = keys(stage)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(invent, range(1, 401)))
    assert keys(stage) == before
    assert stage.metric("gomodel_requests_total", model="other", endpoint="/chat/completions") >= 800
    assert not any("invented" in value or "team" in value for _, labels, _ in stage.series() for value in labels.values())


def test_what_no_configuration_names_is_other(stage: Stage) -> None:
    before = stage.metric("gomodel_requests_total", provider="a", model="other", status_code="200")
    stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "a/unheard-of", **CHAT})
    assert stage.metric("gomodel_requests_total", provider="a", model="other", status_code="200") == before + 1


def test_odd_names_are_escaped_as_the_format_wants_it(stage: Stage) -> None:
    assert stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": ODD, **CHAT}).status == 200
    text = stage.gateway.exchange("GET", "/metrics").text
    assert all(
        line.startswith("#") or line.rpartition(" ")[2].replace(".", "").replace("e+", "").isdigit() for line in text.splitlines() if line
    )


def test_aliases_with_odd_names_are_escaped(tmp_path: Path) -> None:
    routes = json.dumps({ODD: {"easy": "echo/echo-small", "hard": "echo/echo-large"}})
    with GatewayProcess({"ECHO_ENABLED": "true", "PRO_SMART_ROUTING_ROUTES": routes}, directory=tmp_path) as gateway:
        assert gateway.exchange("POST", "/v1/chat/completions", body={"model": ODD, **CHAT}).status == 200
        text = gateway.exchange("GET", "/metrics").text
        assert 'alias="od\\"d\\\\al\\nias"' in text
        counted = {
            labels["alias"]: value
            for name, labels, value in parse_metrics(text)
            if name == "gomodel_pro_smartroute_requests_total" and value
        }
        assert counted == {ODD: 1.0}


def test_counters_only_rise_under_load(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, *[pool.error(500), pool.whole()] * 150)
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            stage.gateway.exchange("POST", pool.path, body=pool.body())

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(load) for _ in range(4)]
        scrapes = [stage.series() for _ in range(25)]
        is_over.set()
        for each in running:
            each.result()
    totals = [
        {
            (name, frozenset(labels.items())): value
            for name, labels, value in scrape
            if name.endswith(("_total", "_count", "_sum", "_bucket"))
        }
        for scrape in scrapes
    ]
    for earlier, later in itertools.pairwise(totals):
        assert all(later.get(key, -1.0) >= value for key, value in earlier.items())
    assert stage.metric("gomodel_requests_total", model=pool.model) > 25


def test_the_multiprocess_variable_of_another_application_is_ignored(tmp_path: Path) -> None:
    variables = {
        "ECHO_ENABLED": "true",
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "missing"),
        "prometheus_multiproc_dir": str(tmp_path / "gone"),
    }
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        seen = []
        for _ in range(5):
            gateway.exchange("POST", "/v1/chat/completions", body={"model": "echo/echo-small", **CHAT})
            text = gateway.exchange("GET", "/metrics").text
            seen.append(sum(value for name, _, value in parse_metrics(text) if name == "gomodel_requests_total"))
        assert seen == [1, 2, 3, 4, 5]
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_request_of_two_attempts_counts_once_for_the_target_that_answered(stage: Stage, api: ApiName, stream: bool) -> None:
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.error(429))
    pool.ask(stream=stream)
    pool.log_line()
    counted = [
        (labels, value) for name, labels, value in stage.series() if name == "gomodel_requests_total" and labels["model"] == pool.model
    ]
    assert counted == [
        (
            {
                "provider": pool.legs[1],
                "model": pool.model,
                "endpoint": {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}[api],
                "status_code": "200",
                "status_type": "success",
                "stream": str(stream).lower(),
            },
            1.0,
        )
    ]
    assert (pool.outcomes(0), pool.outcomes(1)) == ({"rate_limited": 1.0}, {"success": 1.0})
    assert stage.metric(SERIES + "cooldowns_total", target=pool.target(0), reason="rate") == 1
    assert stage.metric(SERIES + "cooldowns_total", target=pool.target(1)) == 0


def test_a_request_that_failed_everywhere_counts_for_the_last_target(stage: Stage) -> None:
    pool = stage.pool("a", "b")
    pool.tell(0, pool.error(500)).tell(1, pool.error(503))
    pool.ask()
    pool.log_line()
    assert stage.metric("gomodel_requests_total", provider="b", model=pool.model, status_code="503", status_type="error") == 1
    assert stage.metric("gomodel_requests_total", model=pool.model) == 1


def test_running_attempts_show_in_the_gauges_and_leave_them(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.tell(0, *[pool.whole().held(20.0)] * 3)
    with pool.open(), pool.open(), pool.open(stream=True):
        stage.upstream.wait_until(lambda _: len(pool.exchanges()) == 3)
        assert stage.metric(SERIES + "in_flight", target=pool.target(0)) == 3
        assert stage.metric("gomodel_requests_in_flight") == 3
    stage.wait_for_quiet()
    assert stage.metric(SERIES + "in_flight", target=pool.target(0)) == 0


def test_metrics_can_be_switched_off(tmp_path: Path) -> None:
    with GatewayProcess({"ECHO_ENABLED": "true", "METRICS_ENABLED": "false"}, directory=tmp_path) as gateway:
        assert gateway.exchange("GET", "/metrics").status == 404
