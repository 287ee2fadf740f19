"""How each kind of provider is asked: URL, credential, own headers (behaviour.md §7)."""

from typing import Any

import pytest

from gomodel_trio.config.provider_types import PROVIDER_TYPES
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.providers.adapter import Adapter, native_path_url, with_query
from gomodel_trio.upstream.providers.anthropic import Anthropic
from gomodel_trio.upstream.providers.azure import Azure
from gomodel_trio.upstream.providers.echo import Echo
from gomodel_trio.upstream.providers.openai import OpenAICompatible
from gomodel_trio.upstream.providers.table import adapter_for
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api

KEY = Secret("sk-ü")
PASSED: Headers = [(b"accept", b"*/*"), (b"user-agent", b"client")]


def settings(kind: str, base_url: str = "https://host.test/v1", **more: Any) -> ProviderSettings:
    row = PROVIDER_TYPES[kind]
    return ProviderSettings(name="p", type=kind, dialect=row.dialect, base_url=base_url, **({"forms": row.forms} | more))


def adapter(kind: str, base_url: str = "https://host.test/v1", **more: Any) -> Adapter:
    return adapter_for(settings(kind, base_url, **more))


@pytest.mark.parametrize(
    ("kind", "adapter_type", "asked_in"),
    [
        ("openai", OpenAICompatible, (Api.CHAT, Api.RESPONSES, Api.CHAT, None, Api.EMBEDDINGS)),
        ("mistral", OpenAICompatible, (Api.CHAT, Api.CHAT, Api.CHAT, None, Api.EMBEDDINGS)),
        ("anthropic", Anthropic, (Api.MESSAGES, Api.MESSAGES, Api.MESSAGES, Api.COUNT_TOKENS, None)),
        ("azure", Azure, (Api.CHAT, Api.RESPONSES, Api.CHAT, None, Api.EMBEDDINGS)),
        ("echo", Echo, (Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.COUNT_TOKENS, Api.EMBEDDINGS)),
    ],
)
def test_each_type_has_its_adapter_and_is_asked_in_a_form_it_has(
    kind: str, adapter_type: type[Adapter], asked_in: tuple[Api | None]
) -> None:
    made = adapter(kind)
    assert isinstance(made, adapter_type)
    clients = (Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.COUNT_TOKENS, Api.EMBEDDINGS)
    assert tuple(made.asks_in(api, "m") for api in clients) == asked_in
    assert made.settings.name == "p"


def test_a_provider_with_responses_alone_is_asked_in_it_by_everybody() -> None:
    made = adapter("openai", forms=(Api.RESPONSES,))
    assert {made.asks_in(api, "m") for api in (Api.CHAT, Api.RESPONSES, Api.MESSAGES)} == {Api.RESPONSES}


@pytest.mark.parametrize(
    ("kind", "api", "url"),
    [
        ("openai", Api.CHAT, "https://host.test/v1/chat/completions?beta=true"),
        ("openai", Api.RESPONSES, "https://host.test/v1/responses?beta=true"),
        ("openai", Api.EMBEDDINGS, "https://host.test/v1/embeddings?beta=true"),
        ("anthropic", Api.MESSAGES, "https://host.test/v1/messages?beta=true"),
        ("anthropic", Api.COUNT_TOKENS, "https://host.test/v1/messages/count_tokens?beta=true"),
        ("echo", Api.CHAT, "https://host.test/v1/chat/completions?beta=true"),
    ],
)
def test_a_url_is_the_base_url_and_the_apis_path(kind: str, api: Api, url: str) -> None:
    assert adapter(kind).url(api, "m", b"beta=true", is_stream=False) == url
    assert adapter(kind).url(api, "m", b"", is_stream=False) == url.removesuffix("?beta=true")


@pytest.mark.parametrize("kind", ["openai", "anthropic", "echo"])
def test_a_native_path_may_repeat_the_version(kind: str) -> None:
    assert adapter(kind).native_url("v1/files/f%2F1", b"a=b") == "https://host.test/v1/files/f%2F1?a=b"


def test_bearer_tokens_and_own_headers_take_the_place_of_the_clients() -> None:
    made = adapter("openai", headers=(("OpenAI-Organization", "org"), ("User-Agent", "ours ü")))
    assert made.headers(PASSED, KEY) == [
        (b"accept", b"*/*"),
        (b"openai-organization", b"org"),
        (b"user-agent", "ours ü".encode()),
        (b"authorization", "Bearer sk-ü".encode()),
    ]
    assert adapter("openai").headers(PASSED, None) == PASSED


def test_anthropic_gets_its_key_and_a_version_where_the_client_sends_none() -> None:
    assert adapter("anthropic").headers(PASSED, KEY) == [*PASSED, (b"x-api-key", "sk-ü".encode()), (b"anthropic-version", b"2023-06-01")]
    assert adapter("anthropic", api_version="2030-01-01").headers([], None) == [(b"anthropic-version", b"2030-01-01")]


def test_anthropics_version_and_beta_of_the_client_pass() -> None:
    sent = [(b"anthropic-version", b"2024-01-01"), (b"anthropic-beta", b"x")]
    assert adapter("anthropic").headers(sent, None) == sent


def test_an_operators_version_header_takes_the_place_of_the_clients() -> None:
    made = adapter("anthropic", headers=(("anthropic-version", "2031-01-01"),))
    for sent in ([], [(b"anthropic-version", b"2024-01-01")]):
        assert made.headers(sent, None) == [(b"anthropic-version", b"2031-01-01")]


def test_echo_takes_headers_as_they_came() -> None:
    assert adapter("echo").headers(PASSED, KEY) is PASSED


# ---- Azure ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base_url", ["https://r.openai.azure.com", "https://r.openai.azure.com/openai"])
@pytest.mark.parametrize(
    ("api", "path"),
    [
        (Api.CHAT, "/openai/deployments/gpt%2F4%20o/chat/completions"),
        (Api.EMBEDDINGS, "/openai/deployments/gpt%2F4%20o/embeddings"),
        (Api.RESPONSES, "/openai/responses"),
    ],
)
def test_a_resource_of_azure_has_a_url_for_each_deployment(base_url: str, api: Api, path: str) -> None:
    made = adapter("azure", base_url)
    assert made.url(api, "gpt/4 o", b"", is_stream=False) == f"https://r.openai.azure.com{path}?api-version=2024-10-21"
    assert made.url(api, "gpt/4 o", b"a=b", is_stream=False) == f"https://r.openai.azure.com{path}?a=b&api-version=2024-10-21"
    assert made.url(api, "gpt/4 o", b"api-version=mine", is_stream=False) == f"https://r.openai.azure.com{path}?api-version=mine"


def test_azures_version_is_the_operators() -> None:
    url = adapter("azure", "https://r.openai.azure.com", api_version="2025-04-01-preview").url(Api.CHAT, "m", b"", is_stream=False)
    assert url == "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-04-01-preview"


@pytest.mark.parametrize(("version", "query"), [(None, ""), ("preview", "?api-version=preview")])
def test_azures_v1_api_is_as_openais(version: str | None, query: str) -> None:
    made = adapter("azure", "https://r.openai.azure.com/openai/v1", api_version=version)
    assert made.url(Api.CHAT, "m", b"", is_stream=False) == f"https://r.openai.azure.com/openai/v1/chat/completions{query}"
    assert made.native_url("models", b"") == f"https://r.openai.azure.com/openai/v1/models{query}"


def test_azures_native_paths_have_a_version_too() -> None:
    made = adapter("azure", "https://r.openai.azure.com")
    assert made.native_url("openai/models", b"a=b") == "https://r.openai.azure.com/openai/models?a=b&api-version=2024-10-21"


def test_azures_key_has_a_header_of_its_own() -> None:
    assert adapter("azure").headers(PASSED, KEY) == [*PASSED, (b"api-key", "sk-ü".encode())]
    assert adapter("azure", headers=(("X-Own", "1"),)).headers([], None) == [(b"x-own", b"1")]


# ---- joining --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "query", "joined"),
    [
        ("http://h/p", b"", "http://h/p"),
        ("http://h/p", b"a=%20", "http://h/p?a=%20"),
        ("http://h/p?x=1", b"a", "http://h/p?x=1&a"),
        ("http://h/p", b"a#b\xff", "http://h/p?a%23bÿ"),
    ],
)
def test_a_query_is_appended_as_it_is_but_for_what_would_be_a_fragment(url: str, query: bytes, joined: str) -> None:
    assert with_query(url, query) == joined


@pytest.mark.parametrize(
    ("base_url", "path", "joined"),
    [
        ("http://h/v1", "v1/files", "http://h/v1/files"),
        ("http://h/v1", "files", "http://h/v1/files"),
        ("http://h/v1", "v1", "http://h/v1/v1"),
        ("http://h/v1", "v1beta/x", "http://h/v1/v1beta/x"),
        ("http://h/v1beta/openai", "v1/x", "http://h/v1beta/openai/v1/x"),
        ("http://h/v1", "", "http://h/v1/"),
        ("http://h/v1", "a#b", "http://h/v1/a%23b"),
    ],
)
def test_a_native_path_is_joined_and_a_version_named_by_both_stands_once(base_url: str, path: str, joined: str) -> None:
    assert native_path_url(base_url, path, b"") == joined
