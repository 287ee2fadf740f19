"""Every client dialect to every form of target, by the official SDKs and a real process: what a person sees is the same (behaviour.md §7).

The cells are `spec/translation.json`, from which the README's matrix is made; a cell that cannot be says 400 and names the field.
"""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from support.conversation import TEXT
from support.fake_upstream import FakeUpstream, default_reply, open_on_thread
from support.gateway_process import GatewayProcess
from support.matrix import ASKERS, FEATURES, PIXEL, Said
from support.replies import Reply, Request, anthropic_error, openai_error

pytestmark = pytest.mark.e2e

KEY = "gateway-key"
TARGETS = {"chat": "plain/m", "responses": "answering/m", "messages": "anthropic/m"}
PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
MODES = ("unary", "stream")


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with open_on_thread() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(fake: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    base_url = f"{fake.url}/v1"
    configuration = {
        "providers": {
            "plain": {"type": "openai_compatible", "api_key": "k", "base_url": base_url, "apis": ["chat"], "models": ["m"]},
            "answering": {"type": "openai", "api_key": "k", "base_url": base_url, "apis": ["responses"], "models": ["m"]},
            "anthropic": {"api_key": "k", "base_url": base_url, "models": ["m"]},
        }
    }
    (directory / "config.yaml").write_text(json.dumps(configuration))
    variables = {"GOMODEL_MASTER_KEY": KEY, "RETRY_MAX_RETRIES": "0", "PRO_ROUTING_COOLDOWN_BASE": "1ms", "PRO_ROUTING_COOLDOWN_MAX": "1ms"}
    with GatewayProcess(variables, directory=directory) as process:
        yield process


@pytest.fixture(autouse=True)
def _untold(fake: FakeUpstream) -> None:
    fake.forget()
    fake.exchanges.clear()


@pytest.fixture(scope="module")
def clients(gateway: GatewayProcess) -> dict[str, Any]:
    of_openai = openai.OpenAI(api_key=KEY, base_url=f"{gateway.url}/v1", max_retries=0, timeout=20.0)
    return {
        "chat": of_openai,
        "responses": of_openai,
        "messages": anthropic.Anthropic(api_key=KEY, base_url=gateway.url, max_retries=0, timeout=20.0),
    }


def sent(fake: FakeUpstream) -> Request:
    """The one request that reached the upstream."""
    (exchange,) = fake.exchanges
    return exchange.request


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("client", ASKERS)
def test_a_client_sees_the_same_whatever_its_target_speaks(
    clients: dict[str, Any], fake: FakeUpstream, *, client: str, target: str, feature: str, mode: str
) -> None:
    said = ASKERS[client](clients[client], TARGETS[target], feature, is_stream=mode == "stream")
    request = sent(fake)
    assert request.path.endswith(PATHS[target])
    body = json.loads(request.body)
    assert body["model"] == "m"
    assert bool(body.get("stream")) is (mode == "stream")
    assert said == expected(feature)
    assert_asked(target, feature, body)


def expected(feature: str) -> Said:
    arguments = {"city": "text", "days": 1}
    match feature:
        case "tools":
            return Said("", [("get_weather", arguments)], "tools", (11, 7))
        case "parallel tools":
            return Said("", [("get_weather", arguments), ("get_time", arguments)], "tools", (11, 7))
        case "structured output":
            return Said('{"title": "text", "count": 1}', [], "end", (11, 7))
        case _:
            return Said(TEXT, [], "end", (11, 7))


def assert_asked(target: str, feature: str, body: dict[str, Any]) -> None:
    """What matters of the feature has reached the target, in its own form."""
    text = json.dumps(body)
    if feature == "image":
        assert PIXEL in text
    if feature == "long system":
        assert text.count("Answer in one sentence") == 500
    if feature == "reasoning":
        effort = {
            "chat": lambda: body["reasoning_effort"],
            "responses": lambda: body["reasoning"]["effort"],
            "messages": lambda: body.get("thinking") and "high",
        }[target]()
        assert effort == "high"
    if feature == "tool results":
        assert "Rain." in text
    if feature == "structured output":
        assert '"additionalProperties": false' in text


# ---- errors ---------------------------------------------------------------------------------------------------------


def error_of(target: str, status: int, message: str) -> Reply:
    if target == "messages":
        kind = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}[status]
        return anthropic_error(status, kind, message)
    return openai_error(status if status != 529 else 503, message, None, "invalid_request_error" if status == 400 else "server_error")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [400, 429, 529])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("client", ASKERS)
def test_a_targets_error_is_told_in_the_clients_own_shape(
    clients: dict[str, Any], fake: FakeUpstream, *, client: str, target: str, status: int, mode: str
) -> None:
    fake.always(error_of(target, status, "No such thing as this."))
    kind: Any = anthropic.APIStatusError if client == "messages" else openai.APIStatusError
    with pytest.raises(kind) as caught:
        ASKERS[client](clients[client], TARGETS[target], "text", is_stream=mode == "stream")
    assert caught.value.status_code == (503 if status == 529 and target != "messages" else status)
    assert "No such thing as this." in str(caught.value)
    body = caught.value.response.json()
    if client == "messages":
        assert body["type"] == "error"
        assert set(body["error"]) >= {"type", "message"}
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("client", ASKERS)
def test_a_stream_that_is_cut_is_no_complete_answer(clients: dict[str, Any], fake: FakeUpstream, client: str, target: str) -> None:
    def cut_in_the_middle(request: Request) -> Reply:
        reply = default_reply(request)
        return reply.cut_after(len(reply.pieces) // 2)

    fake.rule = cut_in_the_middle
    try:
        with pytest.raises((openai.APIError, anthropic.APIError, httpx.HTTPError)):
            ASKERS[client](clients[client], TARGETS[target], "text", is_stream=True)
    finally:
        fake.rule = None
