"""Providers and secrets: YAML entries, variables over them, what is missing, what is wrong."""

from pathlib import Path

import pytest

from gomodel_trio.config.load import load_settings
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import EchoSettings, ModelSettings, Settings
from gomodel_trio.errors import ConfigurationError
from gomodel_trio.route.policy import Price
from gomodel_trio.wire.dialect import Dialect


def load(environ: dict[str, str] | None = None, cwd: Path = Path("/nonexistent")) -> Settings:
    return load_settings(environ or {}, config_file=None, env_file=None, cwd=cwd)


def faults(environ: dict[str, str] | None = None, cwd: Path = Path("/nonexistent")) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(environ, cwd)
    return str(caught.value).splitlines()


def test_providers_from_yaml_and_variables_are_one(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  my-vllm:
    type: VLLM
    base_url: http://gpu:8000/v1/
    models: [a, {id: b, enabled: false}, {id: c, pricing: {input_per_mtok: 1, output_per_mtok: 2.5}}]
    headers: {X-Team: blue}
  openai:
    api_key: ${KEY}
    api_keys: ["${KEY}", "${KEY_2}"]
    custom_upstream_headers: {OpenAI-Organization: org}
    enabled: ${ON:-true}
  openai_east: {type: openai, api_key: yaml-key, models: [x]}
"""
    )
    environ = {
        "KEY": "first",
        "KEY_2": "second",
        "OPENAI_EAST_API_KEY_2": "e2",
        "OPENAI_EAST_API_KEY": "e1",
        "OPENAI_EAST_MODELS": '["y", {"id": "z"}]',
        "GROQ_API_KEY": "g",
        "GROQ_MODELS": " a , b,, a",
        "ANTHROPIC_API_KEY": "an",
        "AZURE_API_KEY": "az",
        "AZURE_BASE_URL": "https://az.example/openai/v1",
        "AZURE_API_VERSION": "2025-01-01",
    }
    providers = load(environ, tmp_path).providers
    assert list(providers) == ["my-vllm", "openai", "openai_east", "anthropic", "azure", "groq"]
    vllm = providers["my-vllm"]
    assert (vllm.type, vllm.dialect, vllm.base_url, vllm.api_keys, vllm.is_available) == (
        "vllm",
        Dialect.OPENAI,
        "http://gpu:8000/v1",
        (),
        True,
    )
    assert vllm.models == (ModelSettings(id="a"), ModelSettings(id="b", enabled=False), ModelSettings(id="c", price=Price(1.0, 2.5)))
    assert vllm.headers == (("x-team", "blue"),)
    assert providers["openai"].api_keys == (Secret("first"), Secret("second"))
    assert providers["openai"].headers == (("openai-organization", "org"),)
    east = providers["openai_east"]
    assert (east.api_keys, [model.id for model in east.models]) == ((Secret("e1"), Secret("e2")), ["y", "z"])
    assert [model.id for model in providers["groq"].models] == ["a", "b"]
    assert (providers["anthropic"].dialect, providers["anthropic"].base_url) == (Dialect.ANTHROPIC, "https://api.anthropic.com/v1")
    assert (providers["azure"].api_version, providers["azure"].is_available) == ("2025-01-01", True)


def test_a_shared_yaml_starts_where_credentials_are_missing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  openai: {type: openai, api_key: "${OPENAI_API_KEY}", session_sticky_keys: false}
  azure: {type: azure, base_url: "${AZURE_BASE_URL}", api_key: given, api_version: 2024-10-21}
  bedrock: {type: bedrock, base_url: us-east-1}
  glm: {type: zai, api_key: k}
  spare: {type: openai, enabled: false}
  ollama:
"""
    )
    settings = load({}, tmp_path)
    assert {name: provider.is_available for name, provider in settings.providers.items()} == {
        "openai": False,
        "azure": False,
        "bedrock": False,
        "glm": False,
        "spare": False,
        "ollama": True,
    }
    assert settings.providers["azure"].api_version == "2024-10-21"
    assert settings.warnings == (
        "config.yaml: providers.openai.api_key (line 3): ${OPENAI_API_KEY} is not set and has no default: taken as not given",
        "config.yaml: providers.azure.base_url (line 4): ${AZURE_BASE_URL} is not set and has no default: taken as not given",
        "config.yaml: providers.openai.session_sticky_keys (line 3): is GoModel's and not in this version: ignored",
        "config.yaml: providers.openai (line 3): provider 'openai' has no API key: its targets are unavailable",
        "config.yaml: providers.azure (line 4): provider 'azure' has no base_url, and its type no usual one: its targets are unavailable",
        "config.yaml: providers.bedrock (line 5): providers of type bedrock are not in this version: its targets are unavailable",
        "config.yaml: providers.glm (line 6): providers of type zai are not in this version: its targets are unavailable",
    )


def test_wrong_providers_are_faults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  a/b: {type: openai}
  nameless: {api_key: k}
  odd: {type: opnai}
  openai: {api_key: 5, base_url: "https://u:hunter2@h/v1", headers: {Authorization: x, Host: h, "bad name": y, X-Ok: "a\\nb"}}
  groq: {api_key: "a\\tb", models: [1, {}, {id: x, nonsense: 1}, {id: p, pricing: {input_per_mtok: -1, output_per_mtok: 1}}]}
  echo: {echo: {delay: -1, shape: 1}}
  list: []
"""
    )
    found = faults({"XAI_API_KEY": "k", "XAI_BASE_URL": "x.ai", "ECHO_FAILURE_STATUS": "200"}, tmp_path)
    text = "\n".join(found)
    assert "hunter2" not in text
    for part in (
        "providers.a/b (line 3): 'a/b' cannot name a provider",
        "providers.nameless (line 4): has no 'type'",
        "providers.odd.type (line 5): unknown type 'opnai'; did you mean 'openai'?",
        "providers.openai.api_key (line 6): must be a string, not a number (put it in quotes)",
        "providers.openai.base_url (line 6): must not hold credentials",
        "headers.Authorization (line 6): 'Authorization' carries the key",
        "headers.Host (line 6): 'Host' is written by the gateway itself",
        "headers.bad name (line 6): 'bad name' is no header name",
        "headers.X-Ok (line 6): the value holds a character that no header may carry",
        "providers.groq (line 7): an API key holds a character that no header may carry, at position 2",
        "providers.groq.models[0] (line 7): must be the id of a model, not a number",
        "providers.groq.models[1] (line 7): has no 'id'",
        "providers.groq.models[2].nonsense (line 7): unknown key",
        "providers.groq.models[3].pricing.input_per_mtok (line 7): must be a finite number of at least 0",
        "providers.echo.echo.delay (line 8): must be at least 0s",
        "providers.echo.echo.shape (line 8): unknown key",
        "providers.list (line 9): must be a mapping, not a list",
        "ECHO_FAILURE_STATUS: must be from 400 to 599, not '200'",
        "XAI_BASE_URL: must begin with http:// or https://, not 'x.ai'",
    ):
        assert text.count(part) == 1, part
    assert len(found) == 19


def test_prices_must_be_complete_and_in_dollars(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  ollama:
    models:
      - {id: a, metadata: {pricing: {currency: EUR, input_per_mtok: 1, output_per_mtok: 1}}}
      - {id: b, metadata: {pricing: {input_per_mtok: 1}, context_window: 5}}
      - {id: c, metadata: {pricing: {currency: USD, input_per_mtok: 0, output_per_mtok: 0}}}
      - {id: d, metadata: }
      - a
"""
    )
    settings = load({}, tmp_path)
    assert [model.price for model in settings.providers["ollama"].models] == [None, None, Price(0.0, 0.0), None]
    assert len(settings.warnings) == 3


def test_the_gateways_own_address_is_no_provider() -> None:
    message = "is the gateway's own address: clients use that one, the provider needs the upstream's"
    environ = {"OPENAI_BASE_URL": "http://localhost:8080/v1"}
    assert faults({**environ, "OPENAI_API_KEY": "k"}) == [f"OPENAI_BASE_URL: {message}"]
    assert f"OPENAI_BASE_URL: {message}" in load(environ).warnings
    assert load({**environ, "OPENAI_API_KEY": "k", "PORT": "9000"}).providers["openai"].is_available


def test_a_base_url_without_its_version_warns() -> None:
    settings = load({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://api.anthropic.com/"})
    assert settings.warnings == (
        (
            "ANTHROPIC_BASE_URL: a base URL includes the version: https://api.anthropic.com has none; "
            "did you mean https://api.anthropic.com/v1?"
        ),
    )


def test_fields_of_a_provider_that_is_not_there_warn() -> None:
    assert load({"OPENAI_EAST_MODELS": "a", "ECHO_SLOW_DELAY": "1s", "OLLAMA_MODELS": "/usr/share", "ECHO_ENABLED": "no"}).warnings == (
        (
            "OPENAI_EAST_MODELS: has no effect: there is no provider 'openai-east'; "
            "OPENAI_EAST_API_KEY or OPENAI_EAST_BASE_URL would declare it"
        ),
        "ECHO_SLOW_DELAY: has no effect: there is no provider 'echo-slow'; ECHO_SLOW_ENABLED=true would declare it",
    )


def test_echo_providers_have_a_manner_of_their_own() -> None:
    environ = {
        "ECHO_ENABLED": "true",
        "ECHO_DELAY": "1s",
        "ECHO_BAD_ENABLED": "1",
        "ECHO_BAD_FAILURE_FRACTION": "0.5",
        "ECHO_BAD_FAILURE_STATUS": "429",
    }
    providers = load({**environ, "ECHO_BAD_CHUNK_DELAY": "20ms", "ECHO_BAD_MODELS": "m"}).providers
    assert providers["echo"].echo == EchoSettings(delay_s=1.0)
    assert providers["echo-bad"].echo == EchoSettings(chunk_delay_s=0.02, failure_fraction=0.5, failure_status=429)
    assert [model.id for model in providers["echo-bad"].models] == ["m"]
    assert load({"ECHO_ENABLED": "perhaps?"} | {"ECHO_ENABLED": "false"}).providers == {}


def test_secrets_come_from_files_and_references(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\ufefffrom-file\n", encoding="utf-8")
    environ = {
        "GOMODEL_MASTER_KEY_FILE": str(tmp_path / "key"),
        "OPENAI_API_KEY_FILE": "key",
        "OPENAI_API_KEY_2_FILE": "key",
        "GROQ_API_KEY": f"${{file:{tmp_path}/key}}",
        "XAI_API_KEY": "${env:SHARED}",
        "SHARED": "shared",
        "MISTRAL_API_KEY": "${LITERAL}",
    }
    settings = load(environ, tmp_path)
    assert settings.server.master_key == Secret("from-file")
    assert settings.providers["openai"].api_keys == (Secret("from-file"),)
    assert settings.providers["groq"].api_keys == (Secret("from-file"),)
    assert settings.providers["xai"].api_keys == (Secret("shared"),)
    assert settings.providers["mistral"].api_keys == (Secret("${LITERAL}"),)


def test_a_secret_and_its_file_exclude_each_other_in_one_layer_only(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=dotenv\nGROQ_API_KEY_FILE=key\n")
    settings = load({"OPENAI_API_KEY_FILE": "key", "GROQ_API_KEY": "environment"}, tmp_path)
    assert settings.providers["openai"].api_keys == (Secret("from-file"),)
    assert settings.providers["groq"].api_keys == (Secret("environment"),)
    assert faults({"XAI_API_KEY": "k", "XAI_API_KEY_FILE": "key"}, tmp_path) == [
        "XAI_API_KEY: is set, and so is XAI_API_KEY_FILE: keep one of them"
    ]


def test_secret_files_must_be_readable_and_hold_something(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    environ = {
        "OPENAI_API_KEY_FILE": "none",
        "GROQ_API_KEY_FILE": "empty",
        "XAI_API_KEY_FILE": "binary",
        "MISTRAL_API_KEY": "${env:NOT_THERE}",
    }
    assert faults(environ, tmp_path) == [
        "MISTRAL_API_KEY: '${env:NOT_THERE}': the variable is not set",
        "OPENAI_API_KEY_FILE: cannot read the file it names: No such file or directory",
        f"GROQ_API_KEY_FILE: '{tmp_path}/empty' is empty",
        f"XAI_API_KEY_FILE: '{tmp_path}/binary' is not UTF-8",
    ]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("providers: {openai: {api_keys: [hunter2, 'hunter2\\u00e9']}, groq: {api_key: {hunter2: 1}}}\n")
    environ = {"GOMODEL_MASTER_KEY": "hunter2\u00e9", "XAI_API_KEY": "'hunter2'", "PORT": "x"}
    found = faults(environ, tmp_path)
    assert len(found) == 4 - 1
    assert "hunter2" not in "\n".join(found)
    settings = load({"XAI_API_KEY": "'hunter2'", "GOMODEL_MASTER_KEY": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert settings.warnings == ("XAI_API_KEY: the quotes around it are part of the value (docker --env-file does not strip them)",)


def test_values_that_are_not_utf_8_are_faults_if_they_are_ours() -> None:
    assert faults({"OPENAI_API_KEY": "k\udcff", "OTHER": "\udcff", "PORT": "\udcff"}) == [
        "OPENAI_API_KEY: is not valid UTF-8",
        "PORT: is not valid UTF-8",
    ]


def test_http2_and_a_proxy_are_a_providers_own(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  openai: {type: openai, api_key: k, http2: true, proxy_url: "http://user:${PASSWORD}@proxy.example:3128"}
  groq: {api_key: k, http2: "${H2:-false}"}
  xai: {api_key: k, http2: true, proxy_url: "https://old.example"}
"""
    )
    (tmp_path / "proxy").write_text("https://u:p@proxy.example\n")
    environ = {"PASSWORD": "p%40ss", "XAI_HTTP2": "no", "XAI_PROXY_URL_FILE": "proxy", "OLLAMA_BASE_URL": "http://gpu:1/v1"}
    settings = load({**environ, "OLLAMA_HTTP2": "true"}, tmp_path)
    told = {name: (provider.http2, provider.proxy_url) for name, provider in settings.providers.items()}
    assert told == {
        "openai": (True, Secret("http://user:p%40ss@proxy.example:3128")),
        "groq": (False, None),
        "xai": (False, Secret("https://u:p@proxy.example")),
        "ollama": (False, None),
    }
    assert settings.warnings == ("OLLAMA_HTTP2: has no effect: HTTP/2 needs an https:// base URL",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("proxy.example:3128", "must begin with http:// or https://; other kinds of proxy are not supported"),
        ("socks5://u:hunter2@proxy", "must begin with http:// or https://; other kinds of proxy are not supported"),
        ("http://u:hunter2@", "names no host, or none that can be"),
        ("http://u:hunter2@proxy:0", "names no host, or none that can be"),
        ("http://u:hunter2@proxy:99999", "is no valid URL"),
        ("http://u:hunter2/x@proxy:1", "is no valid URL"),
        ("http://u:hunter2@[::1", "is no valid URL"),
        ("http://u:hunter2@proxy/path", "must end with host and port"),
        ("http://proxy?hunter2", "must end with host and port"),
        ("http://u:hunter2@pro xy", "holds a space"),
        ("http://u:hunter2\u00e9@proxy", "holds a space, a control character or one beyond ASCII"),
    ],
)
def test_a_proxy_url_that_is_none_is_a_fault_that_does_not_show_it(given: str, told: str) -> None:
    found = faults({"OPENAI_API_KEY": "k", "OPENAI_PROXY_URL": given})
    assert len(found) == 1
    assert found[0].startswith(f"OPENAI_PROXY_URL: {told}")
    assert "hunter2" not in found[0]


def test_http2_must_be_true_or_false(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("providers: {groq: {api_key: k, http2: 2}}\n")
    assert faults({"OPENAI_API_KEY": "k", "OPENAI_HTTP2": "perhaps"}, tmp_path) == [
        "config.yaml: providers.groq.http2 (line 1): must be true or false, not a number",
        "OPENAI_HTTP2: must be true or false, not 'perhaps'",
    ]
