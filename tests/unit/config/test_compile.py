"""From settings to the routing policy, and the configuration in words."""

from pathlib import Path

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.describe import describe, idle_hint
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.provider_view import fingerprint
from gomodel_trio.config.settings import Settings
from gomodel_trio.route.policy import Leg, Price, Provider
from gomodel_trio.wire.dialect import Dialect


def load(environ: dict[str, str], cwd: Path = Path("/nonexistent")) -> Settings:
    return load_settings(environ, config_file=None, env_file=None, cwd=cwd)


def test_the_policy_has_qualified_legs_prices_and_disabled_targets(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
providers:
  local:
    type: ollama
    models: [a, {id: b, enabled: false}, {id: c, pricing: {input_per_mtok: 1, output_per_mtok: 2}}]
  anthropic: {api_keys: [k1, k2]}
virtual_models:
  - {source: v, targets: [{model: a, weight: 2}, {model: ollama/z}, {model: later}, {model: w}]}
  - {source: w, target: anthropic/m}
"""
    )
    policy = compile_policy(load({"CIRCUIT_BREAKER_ENABLED": "false"}, tmp_path))
    assert policy.virtual_models["v"].legs == (Leg("local/a", False, 2.0), Leg("local/z"), Leg("later"), Leg("w", True))
    assert policy.virtual_models["w"].legs == (Leg("anthropic/m"),)
    assert policy.prices == {"local/c": Price(1.0, 2.0)}
    assert policy.disabled_targets == {"local/b"}
    assert policy.is_health_enabled is False
    local, anthropic = policy.providers["local"], policy.providers["anthropic"]
    assert local == Provider("local", "ollama", Dialect.OPENAI, True, ("a", "c"), 1, local.fingerprint)
    assert (anthropic.dialect, anthropic.key_count) == (Dialect.ANTHROPIC, 2)


def test_models_that_a_provider_lists_itself_are_found(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "providers: {ollama: {models: [a, {id: b, enabled: false}]}}\nvirtual_models: [{source: v, target: later}]\n"
    )
    policy = compile_policy(load({}, tmp_path), {"ollama": ["later", "a", "b"], "gone": ["x"]})
    assert policy.providers["ollama"].models == ("a", "later")
    assert policy.virtual_models["v"].legs == (Leg("ollama/later"),)


def test_a_fingerprint_follows_keys_address_and_version_and_shows_none() -> None:
    def of(**environ: str) -> str:
        return fingerprint(load({f"AZURE_{name}": value for name, value in environ.items()}).providers["azure"])

    same = {"API_KEY": "hunter2", "BASE_URL": "https://a.example/v1", "API_VERSION": "1"}
    first = of(**same)
    others = [{"API_KEY": "other"}, {"API_KEY_2": "second"}, {"BASE_URL": "https://b.example/v1"}, {"API_VERSION": "2"}]
    others += [{"HTTP2": "true"}, {"PROXY_URL": "http://u:hunter2@proxy"}]
    assert of(**same) == first
    assert of(**same, MODELS="x") == of(**same, HTTP2="false") == first
    assert len({first, *(of(**{**same, **other}) for other in others)}) == 7
    assert len(first) == 16
    assert "hunter2" not in first


def test_the_configuration_is_described_without_secrets() -> None:
    environ = {
        "GOMODEL_MASTER_KEY": "hunter2",
        "OPENAI_API_KEY": "hunter2",
        "OPENAI_API_KEY_2": "hunter3",
        "ANTHROPIC_BASE_URL": "https://a.example/v1",
        "ECHO_ENABLED": "true",
        "OLLAMA_BASE_URL": "http://gpu/v1",
        "OLLAMA_MODELS": "one",
        "AZURE_BASE_URL": "https://az.example/v1",
        "AZURE_HTTP2": "true",
        "AZURE_PROXY_URL": "http://user:hunter2@proxy.example:3128/",
        "BASE_PATH": "/g",
        "PRO_SMART_ROUTING_ROUTES": '{"chat":{"easy":"v","hard":"openai/b"}}',
        "PRO_SMART_ROUTING_SESSION_TTL": "0",
        "HTTP_STREAM_IDLE_TIMEOUT": "0",
        "VIRTUAL_MODELS": '[{"source":"v","targets":[{"model":"openai/a","weight":2},{"model":"one"}],"session_affinity":false,'
        '"failover":false,"user_paths":["/team"],"enabled":false},{"source":"f","strategy":"failover","target":"openai/a"}]',
    }
    lines = describe(load(environ))
    assert lines == [
        "listen: every interface, port 8080, under /g; master key set",
        "provider openai: openai at https://api.openai.com/v1, 2 keys, no models listed, available",
        "provider anthropic: anthropic at https://a.example/v1, no key, no models listed, unavailable",
        "provider azure: azure at https://az.example/v1, HTTP/2, by proxy http://proxy.example:3128, no key, no models listed, unavailable",
        "provider ollama: ollama at http://gpu/v1, no key, 1 model listed, available",
        "provider echo: echo built in, no key, 2 models listed, available",
        "virtual model v: round_robin over openai/a ×2, ollama/one; no session affinity; no failover; for /team; disabled",
        "virtual model f: failover over openai/a",
        "alias chat: easy v, hard openai/b",
        "smart routing: on, hard from 4 points, no pins",
        "adaptive routing: on, balanced, no target below 0.05 of the heaviest",
        "cooldowns: 30s to 5m",
        "timeouts: connect 10s, headers 10m, first event off, stream idle off, request 10m",
    ]


def test_adaptive_routing_that_is_switched_off_is_described_as_what_it_does() -> None:
    assert "adaptive routing: off (acts as round_robin)" in describe(load({"PRO_ROUTING_ENABLED": "false"}))


def test_an_empty_configuration_is_described_too() -> None:
    lines = describe(load({"ECHO_ENABLED": "false"}))
    assert lines[:2] == ["listen: 127.0.0.1, port 8080; open, no master key", "providers: none"]


def test_the_idle_hint_is_given_only_while_smart_routing_could_work() -> None:
    assert "PRO_SMART_ROUTING_ROUTES" in (idle_hint(load({})) or "")
    assert idle_hint(load({"PRO_SMART_ROUTING_ENABLED": "false"})) is None
    assert idle_hint(load({"PRO_SMART_ROUTING_ROUTES": '{"a":{"easy":"x","hard":"y"}}'})) is None
