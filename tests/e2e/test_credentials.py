"""Credentials stay where they belong: the client's with the gateway, the gateway's with the provider, and none of them in any output."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_upstream import FakeUpstream
from support.gateway_process import GatewayProcess
from support.raw_http import Answer
from support.replies import Reply, Request, json_reply, openai_error
from support.stage import Stage, open_stage

pytestmark = pytest.mark.e2e

MASTER_KEY = "gw-MASTER-canary"
CANARY = "canary"
"""Stands in every credential of the client's, which must not get anywhere."""
PRIVATE = "private"
"""Stands in what is between the client and the gateway: it may be logged."""

CREDENTIAL_HEADERS = [
    "Authorization",
    "x-api-key",
    "X-API-KEY",
    "api-key",
    "apikey",
    "x-apikey",
    "x-goog-api-key",
    "x-goog-iam-authorization-token",
    "Cookie",
    "Cookie2",
    "Proxy-Authorization",
    "x-auth-token",
    "x-access-token",
    "x-amz-security-token",
    "x-csrf-token",
    "x-session-token",
    "x-id-token",
    "x-functions-key",
    "ocp-apim-subscription-key",
    "x-client-secret",
    "x-litellm-api-key",
    "x-litellm-key",
    "helicone-auth",
    "x-portkey-api-key",
    "cf-aig-authorization",
    "x-vercel-oidc-token",
    "x-user-credentials",
    "x-password",
    "x-amz-signature",
    "x-jwt",
]
OWN_HEADERS = ["X-GoModel-Tier", "X-GoModel-Smart-Routing", "X-GoModel-User-Path", "X-GoModel-Anything"]
OTHER_PRIVATE_HEADERS = [
    "OpenAI-Organization",
    "OpenAI-Project",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "Forwarded",
    "Via",
    "X-Real-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
    "Proxy-Connection",
    "Keep-Alive",
    "Referer",
    "Origin",
]
CREDENTIAL_QUERIES = [
    "key",
    "KEY",
    "%6b%65%79",
    "api_key",
    "api-key",
    "apikey",
    "apiKey",
    "x-api-key",
    "x-goog-api-key",
    "token",
    "access_token",
    "auth_token",
    "auth",
    "authorization",
    "secret",
    "client_secret",
    "password",
    "sig",
    "signature",
    "X-Amz-Signature",
    "X-Amz-Security-Token",
    "X-Amz-Credential",
    "cookie",
]
ENDPOINTS = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/responses", {"input": "hi"}),
    ("/v1/embeddings", {"input": "hi"}),
    ("/v1/messages", {"max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway with a master key, a provider without a key, and a log of all it can tell."""
    providers = {
        "keyless": {"type": "openai_compatible", "base_url": "http://{upstream}/keyless/v1"},
        "lacking": {"type": "openai", "base_url": "http://{upstream}/lacking/v1"},
        "dead": {"type": "openai_compatible", "base_url": "http://127.0.0.1:1/secret-path/v1", "api_key": "key-of-dead"},
        "headed": {
            "type": "openai_compatible",
            "base_url": "http://{upstream}/headed/v1",
            "api_key": "key-of-headed",
            "headers": {"OpenAI-Organization": "org-of-ours"},
        },
    }
    variables = {"GOMODEL_MASTER_KEY": MASTER_KEY, "LOG_LEVEL": "debug"}
    with open_stage(tmp_path_factory.mktemp("credentials"), variables, pools={"a": 48}, extra_providers=providers) as running:
        yield running
        assert_nothing_leaked(running)


def assert_nothing_leaked(stage: Stage) -> None:
    """Nothing of the client's went upstream, and no key or address is in any output."""
    output = "\n".join([*stage.gateway.stdout, *stage.gateway.stderr]) + stage.gateway.exchange("GET", "/metrics").text
    for secret in (CANARY, MASTER_KEY, "key-of-"):
        assert secret not in output
    for request in stage.upstream.requests:
        assert CANARY not in seen_upstream(request)
        assert PRIVATE not in seen_upstream(request)


def seen_upstream(request: Request) -> str:
    """The head of a request at the upstream."""
    return "\n".join([request.target, *(f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in request.headers)])


def credentials_of(request: Request) -> dict[str, str]:
    """What the provider would take for a credential."""
    found = {name: request.header(name) for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")}
    return {name: value for name, value in found.items() if value is not None}


def ask(stage: Stage, path: str, model: str, body: dict[str, object], *, query: str = "", key: str = MASTER_KEY) -> Answer:
    """A request that carries canaries wherever a client may put a credential."""
    headers = [(name, CANARY) for name in CREDENTIAL_HEADERS] + [(name, PRIVATE) for name in [*OWN_HEADERS, *OTHER_PRIVATE_HEADERS]]
    headers += [("Connection", "x-hop-secretive"), ("x-hop-secretive", CANARY), ("TE", CANARY)]
    headers += [
        ("Authorization", f"Bearer {key}"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "some-beta"),
        ("x-stainless-lang", "js"),
    ]
    return stage.gateway.exchange("POST", path + query, headers=headers, body={"model": model, **body})


@pytest.mark.parametrize(("path", "body"), ENDPOINTS, ids=[path for path, _ in ENDPOINTS])
def test_a_provider_gets_the_gateway_s_key_and_none_of_the_client_s(stage: Stage, path: str, body: dict[str, object]) -> None:
    pool = stage.pool("a", api="messages" if "messages" in path else "chat")
    assert ask(stage, path, pool.name, body).status == 200
    request = pool.exchanges()[-1].request
    expected = {"x-api-key": "key-of-xa"} if "messages" in path else {"authorization": "Bearer key-of-a"}
    assert credentials_of(request) == expected
    assert request.header("x-stainless-lang") == "js"
    assert request.header("anthropic-beta") == "some-beta"
    assert request.header("host") == f"127.0.0.1:{stage.upstream.port}"


@pytest.mark.parametrize("name", [*CREDENTIAL_HEADERS, *OWN_HEADERS, *OTHER_PRIVATE_HEADERS])
def test_no_credential_of_the_client_s_goes_upstream_by_itself(stage: Stage, name: str) -> None:
    headers = [(name, CANARY if name in CREDENTIAL_HEADERS else PRIVATE), ("x-api-key", MASTER_KEY)]
    answer = stage.gateway.exchange(
        "POST", "/v1/chat/completions", headers=headers, body={"model": "keyless/m", "messages": [{"role": "user", "content": "hi"}]}
    )
    assert answer.status == 200
    seen = seen_upstream(stage.upstream.requests[-1])
    assert CANARY not in seen
    assert PRIVATE not in seen


@pytest.mark.parametrize("name", CREDENTIAL_QUERIES)
def test_no_credential_in_the_query_goes_upstream_while_the_rest_of_it_does(stage: Stage, name: str) -> None:
    query = f"?beta=true&{name}={CANARY}&after=a%20b"
    for path in ("/v1/chat/completions", "/p/a/v1/chat/completions"):
        answer = ask(stage, path, "a/m", {"messages": [{"role": "user", "content": "hi"}]}, query=query)
        assert answer.status == 200
        assert stage.upstream.requests[-1].target == "/a/v1/chat/completions?beta=true&after=a%20b"


def test_a_target_without_a_key_gets_no_key_at_all(stage: Stage) -> None:
    assert ask(stage, "/v1/chat/completions", "keyless/m", {"messages": [{"role": "user", "content": "hi"}]}).status == 200
    assert credentials_of(stage.upstream.requests[-1]) == {}
    assert ask(stage, "/p/keyless/chat/completions", "m", {"messages": [{"role": "user", "content": "hi"}]}).status == 200
    assert credentials_of(stage.upstream.requests[-1]) == {}


def test_a_provider_that_lacks_its_key_is_named_at_the_start_and_never_asked(stage: Stage) -> None:
    warnings = [line["message"] for line in stage.gateway.logged("configuration")]
    assert any("lacking" in warning for warning in warnings)
    asked = len(stage.upstream.requests)
    answer = ask(stage, "/v1/chat/completions", "lacking/m", {"messages": [{"role": "user", "content": "hi"}]})
    assert (answer.status, answer.json()["error"]["code"]) == (503, "no_target_available")
    assert (answer.get("x-should-retry"), answer.get("retry-after")) == ("false", "30")
    native = ask(stage, "/p/lacking/chat/completions", "m", {})
    assert (native.status, native.json()["error"]["code"]) == (503, "provider_unavailable")
    assert "providers.lacking.api_key" in native.json()["error"]["message"]
    assert (native.get("x-should-retry"), native.get("retry-after")) == ("false", None)
    assert len(stage.upstream.requests) == asked


def test_the_organisation_comes_from_the_configuration_alone(stage: Stage) -> None:
    assert ask(stage, "/v1/chat/completions", "headed/m", {"messages": [{"role": "user", "content": "hi"}]}).status == 200
    request = stage.upstream.requests[-1]
    assert [value for name, value in request.headers if name.lower() == b"openai-organization"] == [b"org-of-ours"]


def test_native_passthrough_carries_the_gateway_s_key(stage: Stage) -> None:
    assert ask(stage, "/p/a/v1/chat/completions", "m", {"messages": [{"role": "user", "content": "hi"}]}).status == 200
    assert credentials_of(stage.upstream.requests[-1]) == {"authorization": "Bearer key-of-a"}
    assert ask(stage, "/p/xa/v1/messages", "m", {"max_tokens": 1, "messages": []}).status == 200
    assert credentials_of(stage.upstream.requests[-1]) == {"x-api-key": "key-of-xa"}
    assert CANARY not in seen_upstream(stage.upstream.requests[-1])


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_the_provider_s_own_does_not_reach_the_client(stage: Stage, stream: bool) -> None:
    pool = stage.pool("a")
    private = [
        ("set-cookie", "__cf_bm=abc; path=/"),
        ("set-cookie", "other=1"),
        ("openai-organization", "org-of-ours"),
        ("openai-project", "proj-of-ours"),
        ("x-gomodel-target", "forged"),
        ("x-gomodel-pro-tier", "forged"),
        ("location", "http://internal.example/"),
        ("server", "internal"),
        ("connection", "x-internal"),
        ("x-internal", "1"),
    ]
    reply = pool.streamed() if stream else pool.whole()
    pool.tell(0, reply.with_headers(*private, ("x-ratelimit-remaining-tokens", "5")))
    answer = pool.ask(stream=stream, headers={"x-api-key": MASTER_KEY})
    names = {name.lower() for name, _ in answer.headers}
    assert not names & {"set-cookie", "openai-organization", "openai-project", "location", "server", "x-internal", "x-gomodel-pro-tier"}
    assert answer.get_all("x-gomodel-target") == [pool.target(0)]
    assert answer.get("x-ratelimit-remaining-tokens") == "5"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/models", "/p/a/x", "/nowhere"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer canary-wrong"},
        {"Authorization": "Basic canary"},
        {"x-api-key": "canary-wrong"},
        {"x-api-key": f"{MASTER_KEY}x"},
        {"Authorization": f"Bearer {MASTER_KEY[:-1]}"},
        {"api-key": MASTER_KEY},
        {"Cookie": f"key={MASTER_KEY}"},
    ],
)
def test_whoever_has_not_the_key_gets_a_401_that_repeats_nothing(stage: Stage, path: str, headers: dict[str, str]) -> None:
    answer = stage.gateway.exchange(
        "GET" if path == "/v1/models" else "POST", path, headers=headers, body=None if path == "/v1/models" else {}
    )
    assert answer.status == 401
    assert CANARY not in answer.text
    assert MASTER_KEY not in answer.text


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize("form", ["text", "page", "json", "other json"])
def test_an_upstream_s_error_tells_neither_its_traceback_nor_the_key_nor_its_address(
    stage: Stage, is_native: bool, status: int, form: str
) -> None:
    pool = stage.pool("a")
    leak = f"key-of-a at http://127.0.0.1:{stage.upstream.port}/a/v1 for {MASTER_KEY}"
    bodies = {
        "text": f"Traceback (most recent call last):\n  File x\n{leak}".encode(),
        "page": f"<html><title>{leak}</title></html>".encode(),
        "json": openai_error(status, leak).body,
        "other json": json.dumps({"detail": leak}).encode(),
    }
    headers = (("content-type", "text/html" if form == "page" else "text/plain"), ("x-upstream-key", "key-of-a"), ("x-kept", "yes"))
    pool.always(0, Reply(status=status, headers=headers, pieces=(bodies[form],)))
    if is_native:
        answer = stage.gateway.exchange(
            "POST",
            "/p/a/chat/completions",
            headers={"x-api-key": MASTER_KEY},
            body=pool.body() | {"model": pool.target(0).partition("/")[2]},
        )
    else:
        answer = pool.ask(headers={"x-api-key": MASTER_KEY})
    shown = answer.text + str(answer.headers)
    assert not [each for each in ("key-of-a", "Traceback", str(stage.upstream.port), CANARY, "x-upstream-key") if each in shown]
    assert (answer.status, answer.get("x-kept")) == (status, "yes")
    if form in ("text", "page"):
        assert answer.json()["error"]["message"] == f"The upstream answered {status}."
    else:
        assert "[REDACTED]" in answer.text
    pool.forget(0)


def test_the_address_of_a_provider_is_shown_to_no_client(stage: Stage) -> None:
    pool = stage.pool("a")
    pool.always(0, openai_error(500, "boom"))
    answers = [
        ask(stage, "/v1/chat/completions", "dead/m", {"messages": [{"role": "user", "content": "hi"}]}),
        ask(stage, "/p/dead/anything", "m", {}),
        pool.ask(headers={"x-api-key": MASTER_KEY}),
        stage.gateway.exchange("GET", "/v1/models", headers={"x-api-key": MASTER_KEY}),
        stage.gateway.exchange("GET", "/health/ready"),
        stage.gateway.exchange("GET", "/metrics"),
        stage.gateway.exchange("GET", "/"),
    ]
    assert [answer.status for answer in answers] == [502, 502, 500, 200, 200, 200, 200]
    for answer in answers:
        shown = answer.text + str(answer.headers)
        for secret in ("secret-path", "127.0.0.1", "localhost", str(stage.upstream.port), "key-of-", CANARY, "Traceback", "httpcore"):
            assert secret not in shown


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/p/openai/chat/completions"])
def test_a_success_whose_headers_echo_the_credential_does_not_tell_it(upstream: FakeUpstream, tmp_path: Path, path: str) -> None:
    echoes = [("x-debug-key", "Bearer sk-operators-own-key"), ("x-debug-url", f"{upstream.url}/v1"), ("x-kept", "yes")]
    variables = {"OPENAI_API_KEY": "sk-operators-own-key", "OPENAI_BASE_URL": f"{upstream.url}/v1"}
    body = {"model": "openai/m", "messages": [{"role": "user", "content": "hi"}]}
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        upstream.answer(json_reply({"id": "1", "object": "chat.completion", "choices": []}).with_headers(*echoes))
        answer = gateway.exchange("POST", path, body=json.dumps(body).encode(), headers=[("content-type", "application/json")])
        assert (answer.status, answer.get("x-kept")) == (200, "yes")
        assert (answer.get("x-debug-key"), answer.get("x-debug-url")) == (None, None)
