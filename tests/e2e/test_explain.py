"""`explain` says beforehand what the running gateway then does."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gateway_process import GatewayProcess, run_command
from support.raw_http import Answer

pytestmark = pytest.mark.e2e

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "embeddings": "/v1/embeddings",
}
VARIABLES = {
    "ECHO_ENABLED": "true",
    "OPENAI_API_KEY": "sk-never-shown",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "PRO_SMART_ROUTING_ROUTES": json.dumps(
        {
            "normal": {"easy": "pool", "hard": "echo/echo-large"},
            "claude": {"easy": "echo/echo-small", "hard": "echo/echo-large"},
            "broken": {"easy": "nowhere/x", "hard": "keyless"},
        }
    ),
    "ANTHROPIC_API_KEY": "sk-never-shown",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/v1",
    "RETRY_MAX_RETRIES": "0",
    "PRO_SMART_ROUTING_THRESHOLD": "3",
    "PRO_SMART_ROUTING_KEYWORDS": '["tricky","-root cause"]',
    "VIRTUAL_MODELS": json.dumps(
        [
            {"source": "pool", "strategy": "failover", "targets": [{"model": "echo/echo-small"}, {"model": "echo/echo-large"}]},
            {"source": "keyless", "target": "groq/x"},
            {"source": "mixed", "strategy": "failover", "targets": [{"model": "anthropic/opus"}, {"model": "echo/echo-small"}]},
            {"source": "private", "target": "echo/echo-small", "user_paths": ["/team"]},
        ]
    ),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(VARIABLES, directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


def says(words: str, model: str = "normal", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": words}], **more}


RANGE: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("chat", {}, says("hi")),
    ("chat", {"X-Session-Id": "s-1"}, says("a tricky one: what is the root cause?")),
    ("chat", {}, says("the root cause", stream=True)),
    ("chat", {"X-GoModel-Tier": "HARD"}, says("hi")),
    ("chat", {"X-GoModel-Smart-Routing": "Off", "X-GoModel-Tier": "hard"}, says("hi")),
    ("chat", {"X-GoModel-User-Path": "/team/a"}, says("hi", "private")),
    ("chat", {}, says("hi", "private")),
    ("chat", {}, says("hi", provider="echo")),
    ("chat", {}, says("hi", provider={"order": ["x"]})),
    ("responses", {}, {"model": "normal", "input": "hi", "reasoning": {"effort": "high"}, "prompt_cache_key": "key"}),
    ("messages", {}, says("```\ncode\n```", "claude", max_tokens=9, tools=[{"name": "f"}], metadata={"user_id": '{"session_id":"m-1"}'})),
    ("messages", {}, says("hi", "claude", max_tokens=9)),
    ("embeddings", {}, {"model": "mixed", "input": "hi"}),
    ("chat", {}, says("hi", "broken")),
    ("chat", {}, says("think hard", "broken")),
    ("chat", {}, says("hi", "no-such-model")),
    ("chat", {}, says("hi", "")),
    ("embeddings", {"X-GoModel-Tier": "hard"}, {"model": "normal", "input": "think hard"}),
    ("count_tokens", {"X-Claude-Code-Session-Id": "c-1"}, says("think hard")),
]


def explained(directory: Path, api: str, headers: dict[str, str], body: str) -> tuple[int, Any]:
    options = [option for name, value in headers.items() for option in ("--header", f"{name}: {value}")]
    run = run_command("explain", "--api", api, *options, directory=directory, variables=VARIABLES, stdin=body)
    assert run.stderr == ""
    assert "sk-never-shown" not in run.stdout
    return run.returncode, json.loads(run.stdout)


def seen(gateway: GatewayProcess, api: str, headers: dict[str, str], body: str) -> tuple[Answer, dict[str, Any]]:
    """The gateway's answer and log line."""
    request_id = str(uuid.uuid4())
    answer = gateway.exchange("POST", PATHS[api], headers={**headers, "X-Request-ID": request_id}, body=body.encode())
    return answer, gateway.wait_for_log("request", request_id=request_id)


@pytest.mark.parametrize(("api", "headers", "request_body"), RANGE)
def test_what_is_explained_is_what_the_gateway_does(
    gateway: GatewayProcess, tmp_path: Path, api: str, headers: dict[str, str], request_body: dict[str, Any]
) -> None:
    body = json.dumps(request_body)
    code, told = explained(tmp_path, api, headers, body)
    answer, line = seen(gateway, api, headers, body)
    if "error" in told:
        error = answer.json()["error"]
        assert (code, told["error"]) == (1, {"status": answer.status, "code": error["code"], "message": error["message"]})
        return
    resolution = told["resolution"]
    assert code == 0
    assert (resolution["status"] or 200) == answer.status
    assert told["session"] == line.get("session")
    assert resolution["target"] == line.get("target")
    tier = told["tier"]
    routed = tier is not None and tier["reason"] != "unscored"
    expected = [tier["tier"], tier["target"], str(told["score"]["score"]), tier["reason"]] if routed else [None] * 4
    names = ("x-gomodel-pro-tier", "x-gomodel-pro-tier-target", "x-gomodel-pro-tier-score", "x-gomodel-pro-tier-reason")
    assert [answer.get(name) for name in names] == expected


def test_every_contribution_is_shown_with_its_evidence_and_they_add_up(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": f"f{number}"}} for number in range(5)]
    request = says("tricky\n```py\nsecret_name = 1\n```", tools=tools, response_format={"type": "json_object"})
    _, told = explained(tmp_path, "chat", {}, json.dumps(request))
    score = told["score"]
    points = {one["signal"]: one["points"] for one in score["contributions"]}
    assert points == {"keywords": 4, "code": 3, "tools": 4, "structured": 2}
    assert (score["score"], score["threshold"], score["verdict"]) == (13, 3, "hard")
    assert "secret_name" not in json.dumps(told)


def test_in_a_pool_of_both_dialects_the_first_is_who_can_be_asked(tmp_path: Path) -> None:
    untranslated = explained(tmp_path, "embeddings", {}, json.dumps({"model": "mixed", "input": "hi"}))[1]["resolution"]
    assert (untranslated["target"], untranslated["then"]) == ("echo/echo-small", [])
    for api in ("chat", "messages"):
        translated = explained(tmp_path, api, {}, json.dumps(says("hi", "mixed", max_tokens=9)))[1]["resolution"]
        assert (translated["target"], translated["then"]) == ("anthropic/opus", ["echo/echo-small"])


def test_candidates_and_what_follows_a_failure_are_shown(tmp_path: Path) -> None:
    _, told = explained(tmp_path, "chat", {}, json.dumps(says("hi")))
    resolution = told["resolution"]
    assert (resolution["virtual_model"], resolution["strategy"]) == ("pool", "failover")
    names = [candidate["name"] for candidate in resolution["candidates"]]
    assert (names, resolution["target"]) == (["echo/echo-small", "echo/echo-large"], "echo/echo-small")
    assert resolution["then"] == ["echo/echo-large"]


@pytest.mark.parametrize("api", ["/v1/messages", "v1/messages?beta=true"])
def test_an_endpoint_may_be_named_by_its_path(tmp_path: Path, api: str) -> None:
    assert explained(tmp_path, api, {}, json.dumps(says("hi")))[1]["api"] == "anthropic.messages"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "empty"),
        ("[1]", "object"),
        ('{"model":', "not valid JSON"),
        ('{"x":' + "[" * 20_000 + "]" * 20_000 + "}", "nested"),
        ('{"x":' + "9" * 5000 + "}", "digits"),
        ("\ufeff{}", "byte order mark"),
        ('{"messages":[]}', "`model`"),
        ('{"model":5}', "`model`"),
    ],
)
def test_a_request_that_would_be_refused_is_explained_so_with_exit_code_one(tmp_path: Path, body: str, words: str) -> None:
    code, told = explained(tmp_path, "chat", {}, body)
    assert (code, list(told)) == (1, ["error"])
    assert told["error"]["status"] == 400
    assert words in told["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--api", "completions"], "'completions' is no endpoint; use one of chat, responses, messages, count_tokens, embeddings"),
        (["--header", "no colon"], "'no colon' is no header; write 'NAME: VALUE'"),
        (["--header", ": x"], "': x' is no header"),
        (["--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_a_call_that_is_wrong_is_told_so_with_exit_code_two(tmp_path: Path, arguments: list[str], words: str) -> None:
    run = run_command("explain", *arguments, directory=tmp_path, variables=VARIABLES, stdin=json.dumps(says("hi")))
    assert (run.returncode, run.stdout) == (2, "")
    assert words in run.stderr
    assert "Traceback" not in run.stderr
