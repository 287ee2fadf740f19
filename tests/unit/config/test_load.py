"""Loading: layers, files, defaults, providers, demonstration."""

import json
import math
from pathlib import Path

import pytest

from gomodel_trio.config.load import load_settings, require_provider
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import EchoSettings, Settings
from gomodel_trio.errors import ConfigurationError
from gomodel_trio.route.policy import AdaptiveRouting, Alias, Leg, Objective, SmartRouting, Strategy
from gomodel_trio.route.session import ExtraHeader


def load(
    environ: dict[str, str] | None = None,
    cwd: Path = Path("/nonexistent"),
    *,
    config_file: Path | None = None,
    env_file: Path | None = None,
    demo: bool = False,
) -> Settings:
    return load_settings(environ or {}, config_file=config_file, env_file=env_file, cwd=cwd, demo=demo)


def faults(environ: dict[str, str] | None = None, cwd: Path = Path("/nonexistent"), **files: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ or {}, config_file=files.get("config_file"), env_file=files.get("env_file"), cwd=cwd)
    return str(caught.value).splitlines()


def test_everything_has_a_default() -> None:
    settings = load()
    assert (settings.server.host, settings.server.port, settings.server.base_path) == ("127.0.0.1", 8080, "")
    assert settings.server.master_key is None
    assert settings.server.body_size_limit_bytes == 10 << 20
    assert settings.server.shutdown_drain_timeout_s == 30.0
    assert (settings.session.keeping_enabled, settings.session.auto_detect, settings.session.builtin_rules) == (True, True, True)
    assert settings.smart == SmartRouting()
    assert settings.adaptive == AdaptiveRouting()
    attempts = settings.attempts
    assert (attempts.failover_enabled, attempts.failover_max_attempts, attempts.retry_max_retries) == (True, 0, 3)
    assert (attempts.retry_initial_backoff_s, attempts.retry_max_backoff_s) == (1.0, 30.0)
    assert (attempts.connect_timeout_s, attempts.header_timeout_s, attempts.first_event_timeout_s) == (10.0, 600.0, None)
    assert (attempts.stream_idle_timeout_s, attempts.request_timeout_s) == (300.0, 600.0)
    assert (settings.log.level, settings.log.format) == ("info", "auto")
    assert (settings.metrics_enabled, settings.circuit_breaker_enabled, settings.keep_only_aliases_at_models_endpoint) == (
        True,
        True,
        False,
    )
    assert (settings.providers, settings.virtual_models, settings.warnings) == ({}, {}, ())


def test_environment_beats_env_file_beats_dotenv_beats_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "server: {port: 1, base_path: /yaml}\nlog: {level: error}\nhttp: {timeout: 7}\nmetrics: {enabled: false}"
    )
    (tmp_path / ".env").write_text("PORT=2\nBASE_PATH=/dotenv\nLOG_LEVEL=debug\nMETRICS_ENABLED=\n")
    (tmp_path / "extra.env").write_text("PORT=3\nBASE_PATH=/file\n")
    settings = load({"PORT": "4", "BASE_PATH": "  "}, tmp_path, env_file=Path("extra.env"))
    assert settings.server.port == 4
    assert settings.server.base_path == "/file"
    assert settings.log.level == "debug"
    assert settings.attempts.request_timeout_s == 7.0
    assert settings.metrics_enabled is False


def test_the_env_file_may_be_the_dotenv_itself(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PORT=2\nNONSENSE\n")
    assert faults({}, tmp_path, env_file=tmp_path / ".env") == [f"{tmp_path}/.env line 2: is no NAME=value line"]


def test_config_config_yaml_comes_before_config_yaml(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("server: {port: 1}")
    (tmp_path / "config.yaml").write_text("server: {port: 2}")
    settings = load({}, tmp_path)
    assert settings.server.port == 1
    assert settings.warnings == ("config.yaml: is not read, because config/config.yaml is",)
    assert load({}, tmp_path, config_file=Path("config.yaml")).server.port == 2


def test_files_that_were_asked_for_must_exist(tmp_path: Path) -> None:
    assert faults({}, tmp_path, config_file=Path("no.yaml"), env_file=Path("no.env")) == [
        "no.env: cannot be read: No such file or directory",
        "no.yaml: cannot be read: No such file or directory",
    ]


def test_a_fault_names_its_place_in_each_layer(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\n  port: 70000\n")
    (tmp_path / ".env").write_text("METRICS_ENABLED=maybe\n")
    assert faults({"LOG_LEVEL": "loud"}, tmp_path) == [
        "config.yaml: server.port (line 2): must be from 0 to 65535, not '70000'",
        "LOG_LEVEL: must be one of debug, info, warning, error, not 'loud'",
        "METRICS_ENABLED (.env): must be true or false, not 'maybe'",
    ]


def test_without_a_master_key_it_listens_on_loopback_with_one_everywhere() -> None:
    assert load().server.host == "127.0.0.1"
    open_to_all = load({"GOMODEL_MASTER_KEY": " key\n"}).server
    assert open_to_all.host == ""
    assert open_to_all.master_key == Secret("key")
    assert load({"HOST": "0.0.0.0"}).server.host == "0.0.0.0"
    assert load({"HOST": "*"}).server.host == ""
    assert load({"HOST": "[::1]"}).server.host == "::1"
    assert faults({"HOST": "http://x"}) == ["HOST: must be an address or a host name, not 'http://x'"]


@pytest.mark.parametrize(("text", "path"), [("/", ""), ("g", "/g"), ("/g/", "/g"), ("/a/b", "/a/b")])
def test_the_base_path_has_one_form(text: str, path: str) -> None:
    assert load({"BASE_PATH": text}).server.base_path == path


@pytest.mark.parametrize("text", ["/a//b", "/../x", "/a?b", "/a b", "/ä"])
def test_a_base_path_must_be_plain(text: str) -> None:
    assert faults({"BASE_PATH": text}) == [f"BASE_PATH: must be a plain path such as /g, not {text!r}"]


def test_zero_switches_timeouts_off() -> None:
    attempts = load({"HTTP_RESPONSE_HEADER_TIMEOUT": "0", "HTTP_STREAM_IDLE_TIMEOUT": "0", "HTTP_FIRST_EVENT_TIMEOUT": "0"}).attempts
    assert (attempts.header_timeout_s, attempts.stream_idle_timeout_s, attempts.first_event_timeout_s) == (math.inf, math.inf, None)
    assert load({"HTTP_FIRST_EVENT_TIMEOUT": "15s"}).attempts.first_event_timeout_s == 15.0


def test_maxima_are_not_below_their_starts(tmp_path: Path) -> None:
    assert faults({"PRO_ROUTING_COOLDOWN_BASE": "10m"}) == [
        "PRO_ROUTING_COOLDOWN_BASE: PRO_ROUTING_COOLDOWN_MAX (5m) must be at least PRO_ROUTING_COOLDOWN_BASE (10m)"
    ]
    (tmp_path / "config.yaml").write_text("resilience:\n  retry: {max_backoff: 100ms}\n")
    assert faults({}, tmp_path) == [
        (
            "RETRY_MAX_BACKOFF (config.yaml: resilience.retry.max_backoff (line 2)): "
            "RETRY_MAX_BACKOFF (100ms) must be at least RETRY_INITIAL_BACKOFF (1s)"
        )
    ]


def test_adaptive_routing_is_read_from_variables() -> None:
    environ = {
        "PRO_ROUTING_ENABLED": "false",
        "PRO_ROUTING_OBJECTIVE": "latency",
        "PRO_ROUTING_MIN_WEIGHT_FRACTION": "0",
        "PRO_ROUTING_COOLDOWN_BASE": "2s",
        "PRO_ROUTING_COOLDOWN_MAX": "1m",
        "PRO_ROUTING_WARM_CACHE_WEIGHT": "1",
        "PRO_ROUTING_WARM_CACHE_TTL": "5m",
        "PRO_ROUTING_LATENCY_DECAY": "250ms",
        "HTTP_TIMEOUT": "90s",
    }
    assert load(environ).adaptive == AdaptiveRouting(
        enabled=False,
        objective=Objective.LATENCY,
        min_weight_fraction=0.0,
        cooldown_base_s=2.0,
        cooldown_max_s=60.0,
        warm_cache_weight=1.0,
        warm_cache_ttl_s=300.0,
        latency_decay_s=0.25,
        latency_cap_s=90.0,
    )


def test_routing_is_read_from_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
smart_routing:
  enabled: no
  threshold: 6
  session_ttl: 0
  keywords: [tricky, "-root cause", tricky]
  routes: {chat: {easy: openai/a, hard: openai/b}}
adaptive_routing: {objective: cost, min_weight_fraction: 0.1, cooldown_base: 1s, cooldown_max: 1m, warm_cache_weight: 2}
providers: {openai: {api_key: k}}
"""
    )
    settings = load({}, tmp_path)
    assert settings.smart == SmartRouting(
        enabled=False,
        aliases={"chat": Alias("chat", "openai/a", "openai/b")},
        threshold=6,
        session_ttl_s=0.0,
        keywords=("tricky", "-root cause"),
    )
    assert settings.adaptive == AdaptiveRouting(
        objective=Objective.COST, min_weight_fraction=0.1, cooldown_base_s=1.0, cooldown_max_s=60.0, warm_cache_weight=2.0
    )
    assert settings.warnings == ()


def test_yaml_may_hold_json_in_a_string(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("smart_routing:\n  keywords: '[\"tricky\"]'\n  routes: 'chat: a'\n")
    assert faults({}, tmp_path) == [
        "config.yaml: smart_routing.routes (line 3): is no valid JSON at line 1, column 1 (character 1), near «chat: a»: expecting value"
    ]


def test_keywords_are_a_list_of_phrases() -> None:
    assert load({"PRO_SMART_ROUTING_KEYWORDS": '["a b", "-c"]'}).smart.keywords == ("a b", "-c")
    assert faults({"PRO_SMART_ROUTING_KEYWORDS": '{"a":1}'}) == ["PRO_SMART_ROUTING_KEYWORDS: must be a list, not an object"]
    assert faults({"PRO_SMART_ROUTING_KEYWORDS": '["", 5, "- "]'}) == [
        "PRO_SMART_ROUTING_KEYWORDS[0]: must be a string, but it is empty",
        "PRO_SMART_ROUTING_KEYWORDS[1]: must be a string, not a number (put it in quotes)",
        "PRO_SMART_ROUTING_KEYWORDS: '-' removes nothing: write the phrase behind the minus",
    ]


@pytest.mark.parametrize("text", ["[" * 60_000, "9" * 5000])
def test_json_beyond_reason_is_a_fault(text: str) -> None:
    assert faults({"VIRTUAL_MODELS": text}) == ["VIRTUAL_MODELS: is no usable JSON: nested too deeply, or a number of too many digits"]


def test_a_variable_replaces_the_yaml_entry_of_the_same_source(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "virtual_models: [{source: a, target: openai/1}, {source: b, target: openai/1}]\nproviders: {openai: {api_key: k}}"
    )
    entries = [{"source": "c", "target": "openai/2"}, {"source": "a", "target": "openai/2", "strategy": "cost"}]
    models = load({"VIRTUAL_MODELS": json.dumps(entries)}, tmp_path).virtual_models
    assert list(models) == ["a", "b", "c"]
    assert (models["a"].legs, models["a"].strategy) == ((Leg("openai/2"),), Strategy.COST)


def test_tiers_that_lead_nowhere_warn() -> None:
    environ = {
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_BASE_URL": "https://a.example/v1",
        "VIRTUAL_MODELS": '[{"source":"v","target":"openai/x"},{"source":"w","targets":[{"model":"v"},{"model":"anthropic/y"}]},'
        '{"source":"off","target":"openai/x","enabled":false},{"source":"dead","target":"anthropic/y"}]',
        "PRO_SMART_ROUTING_ROUTES": '{"a":{"easy":"w","hard":"openai/z"},"b":{"easy":"off","hard":"dead"},"c":{"easy":"v","hard":"nobody"}}',  # noqa: E501
    }
    assert [line for line in load(environ).warnings if "ROUTES" in line] == [
        "PRO_SMART_ROUTING_ROUTES b.easy: 'off' resolves to no model that is available now",
        "PRO_SMART_ROUTING_ROUTES b.hard: 'dead' resolves to no model that is available now",
        "PRO_SMART_ROUTING_ROUTES c.hard: 'nobody' resolves to no model that is available now",
    ]


def test_a_pool_whose_floors_weigh_more_than_half_warns() -> None:
    targets = [{"model": f"openai/{number}"} for number in range(4)]
    model = {"source": "pool", "strategy": "adaptive", "targets": targets}
    environ = {"OPENAI_API_KEY": "k", "VIRTUAL_MODELS": json.dumps([model]), "PRO_ROUTING_MIN_WEIGHT_FRACTION": "0.17"}
    assert load(environ).warnings == (
        (
            "PRO_ROUTING_MIN_WEIGHT_FRACTION, virtual model 'pool': "
            "the floors of 4 targets add up to 0.51 of the heaviest one's weight, more than half"
        ),
    )
    assert load({**environ, "PRO_ROUTING_MIN_WEIGHT_FRACTION": "0.16"}).warnings == ()
    assert load({**environ, "PRO_ROUTING_ENABLED": "false"}).warnings == ()


def test_session_headers_come_from_variables_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "session:\n  auto_detect: false\n  headers:\n    - {header: X-Yaml, transform: session-uuid}\n    - X-Short\n"
        "    - {header: x-one}\n"
    )
    environ = {
        "SESSION_HEADER_10": "X-Ten",
        "SESSION_HEADER_2": "X-Two",
        "SESSION_HEADER_2_TRANSFORM": "session-uuid",
        "SESSION_HEADER_1": "X-One",
    }
    session = load(environ, tmp_path).session
    assert session.auto_detect is False
    assert session.extra_headers == (
        ExtraHeader("x-one"),
        ExtraHeader("x-two", "session-uuid"),
        ExtraHeader("x-ten"),
        ExtraHeader("x-yaml", "session-uuid"),
        ExtraHeader("x-short"),
    )


def test_wrong_session_headers_are_faults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "session:\n  headers: [{header: Cookie}, {transform: x}, 5, {header: X-A, extra: 1}, {header: ''}]\n"
    )
    found = faults(
        {
            "SESSION_HEADER_1": "Authorization",
            "SESSION_HEADER_2": "no header",
            "SESSION_HEADER_3": "X-C",
            "SESSION_HEADER_3_TRANSFORM": "uuid",
        },
        tmp_path,
    )
    assert len(found) == 8
    assert found[0].startswith("SESSION_HEADER_1: 'Authorization' carries a credential")
    assert found[1] == "SESSION_HEADER_2: 'no header' is no header name"
    assert found[2].startswith("SESSION_HEADER_3_TRANSFORM: must be session-uuid or empty, not 'uuid'")
    assert found[3].startswith("config.yaml: session.headers[0].header (line 2): 'Cookie' carries a credential")


def test_a_transform_without_its_header_warns() -> None:
    assert load({"SESSION_HEADER_4_TRANSFORM": "session-uuid"}).warnings == (
        "SESSION_HEADER_4_TRANSFORM: has no effect without SESSION_HEADER_4",
    )


def test_demo_adds_an_alias_over_the_built_in_provider() -> None:
    settings = load({"OPENAI_API_KEY": "k"}, demo=True)
    assert list(settings.providers) == ["openai", "echo"]
    echo = settings.providers["echo"]
    assert (echo.is_available, [model.id for model in echo.models], echo.echo) == (True, ["echo-small", "echo-large"], EchoSettings())
    assert settings.smart.aliases == {"normal": Alias("normal", "normal-easy", "normal-hard")}
    assert {source: model.legs for source, model in settings.virtual_models.items()} == {
        "normal-easy": (Leg("echo/echo-small"),),
        "normal-hard": (Leg("echo/echo-large"),),
    }
    assert settings.warnings == ()
    require_provider(load(demo=True))


def test_demo_leaves_the_operators_names_alone() -> None:
    environ = {
        "OPENAI_API_KEY": "k",
        "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"openai/a","hard":"openai/b"}}',
        "VIRTUAL_MODELS": '[{"source":"normal-easy","target":"openai/c"}]',
        "ECHO_DELAY": "2s",
    }
    settings = load(environ, demo=True)
    assert settings.smart.aliases["normal"].easy == "openai/a"
    assert settings.virtual_models["normal-easy"].legs == (Leg("openai/c"),)
    assert settings.providers["echo"].echo == EchoSettings(delay_s=2.0)


def test_without_a_provider_the_variables_are_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_provider(load({"OPENAI_BASE_URL": "https://o.example/v1"}))
    (fault,) = caught.value.faults
    assert fault.place == "providers"
    assert "OPENAI_API_KEY, ANTHROPIC_API_KEY" in fault.message
    require_provider(load({"OLLAMA_BASE_URL": "http://gpu:11434/v1"}))


def test_demo_keeps_out_of_the_way_of_aliases_and_models_of_its_names() -> None:
    environ = {
        "OPENAI_API_KEY": "k",
        "PRO_SMART_ROUTING_ROUTES": '{"normal-easy":{"easy":"openai/a","hard":"openai/b"}}',
        "VIRTUAL_MODELS": '[{"source":"normal","target":"openai/c"}]',
    }
    settings = load(environ, demo=True)
    assert list(settings.smart.aliases) == ["normal-easy"]
    assert list(settings.virtual_models) == ["normal", "normal-hard"]


def test_an_unreadable_dotenv_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_bytes(b"A=1\nB=\xff\n")
    assert faults({}, tmp_path, env_file=Path("x.env")) == ["x.env line 2: is not UTF-8"]
    assert faults({}, tmp_path, env_file=Path("other.env")) == ["other.env: cannot be read: No such file or directory"]


def test_an_env_file_that_is_not_there_does_not_hide_the_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PORT=x\n")
    assert faults({}, tmp_path, env_file=Path("no.env")) == [
        "no.env: cannot be read: No such file or directory",
        "PORT (.env): must be a whole number, not 'x'",
    ]


def test_wrong_values_are_shown_shortened() -> None:
    assert faults({"PORT": "x" * 1000}) == ["PORT: must be a whole number, not '" + "x" * 80 + "'…"]


def test_absurd_numbers_are_faults() -> None:
    model = '{"source":"a","targets":[{"model":"openai/x","weight":1' + "0" * 400 + "}]}"
    assert faults({"OPENAI_API_KEY": "k", "VIRTUAL_MODELS": f"[{model}]"}) == [
        "VIRTUAL_MODELS[0].targets[0].weight: must be a finite number of at least 0, not 'inf'"
    ]
