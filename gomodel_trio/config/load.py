"""Load the configuration: environment over env files over the YAML file over defaults, every fault at once.

Layer: config. Source: behaviour.md §10. The process environment and the working directory are arguments; nothing is read behind the
caller's back but the files they name.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

from gomodel_trio.config.demo import add_demo
from gomodel_trio.config.findings import Findings, shown
from gomodel_trio.config.model_graph import can_serve, link
from gomodel_trio.config.provider_types import SUPPORTED_TYPES
from gomodel_trio.config.provider_view import provider_views
from gomodel_trio.config.providers import read_providers
from gomodel_trio.config.reader import Reader, read_document, read_variables
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.sessions import read_session_headers
from gomodel_trio.config.settings import (
    AttemptSettings,
    ListenSettings,
    LogSettings,
    ProviderSettings,
    ServerSettings,
    Settings,
)
from gomodel_trio.config.smart_routes import read_aliases, read_keywords
from gomodel_trio.config.unknown import check_yaml_keys, warn_of_variables
from gomodel_trio.config.virtual_models import read_virtual_models
from gomodel_trio.errors import ConfigFault, ConfigurationError
from gomodel_trio.route.policy import AdaptiveRouting, Alias, Objective, SmartRouting, Strategy, VirtualModel
from gomodel_trio.route.session import SessionRules
from gomodel_trio.units import format_duration

_LOOPBACK = "127.0.0.1"
_EXAMPLES = frozenset({"openai", "anthropic", "gemini", "openrouter", "groq", "xai", "deepseek", "mistral"})
"""Types whose key variable is worth naming to somebody who has none."""
_EVERY_INTERFACE = ("*", "::", "[::]")
_LARGEST_FLOOR_SUM = 0.5
"""Beyond it the floors, not latency and price, share out most of the traffic (behaviour.md §5)."""


def load_settings(
    environ: Mapping[str, str], *, config_file: Path | None, env_file: Path | None, cwd: Path, demo: bool = False
) -> Settings:
    """Read everything and check it.

    `config_file` and `env_file` are those of the command line and must exist; without `config_file` the first of
    `config/config.yaml` and `config.yaml` under `cwd` is taken, if there is one. `.env` under `cwd` is read too, below `env_file`.

    Raises:
        ConfigurationError: with every fault.
    """
    findings = Findings()
    variables = read_variables(environ, env_file, cwd, findings)
    document = read_document(config_file, cwd, findings)
    warn_of_variables(variables, findings)
    check_yaml_keys(document.root, findings)
    reader = Reader(variables, document, findings)
    settings = _build(reader, demo=demo)
    findings.raise_faults()
    return settings


def require_provider(settings: Settings) -> None:
    """Make sure that at least one provider can be asked.

    Raises:
        ConfigurationError: naming the variables that would declare one.
    """
    if any(provider.is_available for provider in settings.providers.values()):
        return
    keys = ", ".join(f"{name.upper()}_API_KEY" for name in SUPPORTED_TYPES if name in _EXAMPLES)
    message = (
        f"no provider is available: set one of {keys}, OLLAMA_BASE_URL, … or declare one under 'providers:'; serve --demo runs without"
    )
    raise ConfigurationError([ConfigFault("providers", message)])


def _build(reader: Reader, *, demo: bool) -> Settings:
    """Put the settings together."""
    server, listen = _server(reader), _listen(reader)
    ports = [server.port, *([listen.http2_port] if listen.http2_port is not None else [])]
    entries = reader.tree("providers", lenient=True)
    providers = read_providers(entries, reader.variables, reader.findings, host=server.host, ports=ports, demo=demo)
    aliases = read_aliases(reader.json("PRO_SMART_ROUTING_ROUTES"), reader.findings)
    models = _virtual_models(reader, providers, aliases, demo=demo)
    smart = SmartRouting(
        enabled=reader.flag("PRO_SMART_ROUTING_ENABLED"),
        aliases=aliases,
        threshold=reader.integer("PRO_SMART_ROUTING_THRESHOLD"),
        session_ttl_s=reader.number("PRO_SMART_ROUTING_SESSION_TTL"),
        keywords=read_keywords(reader.json("PRO_SMART_ROUTING_KEYWORDS"), reader.findings),
    )
    adaptive = _adaptive(reader)
    _warn_of_routing(reader, smart, adaptive, models, providers)
    session, attempts, log = _session(reader), _attempts(reader), _log(reader)
    return Settings(
        server=server,
        listen=listen,
        session=session,
        smart=smart,
        adaptive=adaptive,
        attempts=attempts,
        log=log,
        providers=providers,
        virtual_models=models,
        transport=cast(Literal["h1", "httpx"], reader.text("UPSTREAM_TRANSPORT")),
        metrics_enabled=reader.flag("METRICS_ENABLED"),
        circuit_breaker_enabled=reader.flag("CIRCUIT_BREAKER_ENABLED"),
        keep_only_aliases_at_models_endpoint=reader.flag("KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT"),
        warnings=reader.findings.warnings,
    )


def _server(reader: Reader) -> ServerSettings:
    key = reader.text("GOMODEL_MASTER_KEY")
    host = reader.text("HOST").strip("[]") if reader.text("HOST") not in _EVERY_INTERFACE else ""
    if any(character.isspace() or character in "/@" for character in host):
        reader.findings.fault(reader.place("HOST"), f"must be an address or a host name, not {shown(host)}")
    if not reader.text("HOST"):
        host = "" if key else _LOOPBACK
    wrong = next((index for index, character in enumerate(key) if not " " <= character <= "~"), None)
    if wrong is not None:
        message = f"holds a character that no client could send in a header, at position {wrong + 1}"
        reader.findings.fault(reader.place("GOMODEL_MASTER_KEY"), message)
    return ServerSettings(
        host=host,
        port=reader.integer("PORT"),
        base_path=_base_path(reader),
        master_key=Secret(key) if key else None,
        body_size_limit_bytes=reader.integer("BODY_SIZE_LIMIT"),
        shutdown_drain_timeout_s=reader.number("SHUTDOWN_DRAIN_TIMEOUT"),
    )


def _listen(reader: Reader) -> ListenSettings:
    files = {name: reader.text(name) or None for name in ("TLS_CERT_FILE", "TLS_KEY_FILE")}
    for name, other in (("TLS_CERT_FILE", "TLS_KEY_FILE"), ("TLS_KEY_FILE", "TLS_CERT_FILE")):
        if files[name] and not files[other]:
            reader.findings.fault(reader.place(other), f"must be set, too, where {name} is: TLS needs both files")
    front_door = cast(Literal["h1", "hypercorn"], reader.text("FRONT_DOOR"))
    if front_door == "hypercorn" and files["TLS_CERT_FILE"]:
        reader.findings.fault(reader.place("FRONT_DOOR"), "serves no TLS; take h1, or remove TLS_CERT_FILE and TLS_KEY_FILE")
    port = reader.integer("HTTP2_PORT")
    if port and port == reader.integer("PORT"):
        reader.findings.fault(reader.place("HTTP2_PORT"), f"must differ from PORT ({port})")
    return ListenSettings(
        front_door=front_door,
        http2_port=port or None,
        tls_cert_file=files["TLS_CERT_FILE"],
        tls_key_file=files["TLS_KEY_FILE"],
        head_bytes=reader.integer("SERVER_HEADER_SIZE_LIMIT"),
        header_count=reader.integer("SERVER_HEADER_COUNT_LIMIT"),
        handshake_s=reader.number("SERVER_HANDSHAKE_TIMEOUT"),
        head_s=reader.number("SERVER_HEADER_TIMEOUT"),
        body_idle_s=reader.number("SERVER_BODY_IDLE_TIMEOUT"),
        body_total_s=reader.number("SERVER_BODY_TIMEOUT"),
        write_s=reader.number("SERVER_WRITE_TIMEOUT"),
        keep_alive_s=reader.number("SERVER_IDLE_TIMEOUT"),
        connections=reader.integer("SERVER_MAX_CONNECTIONS"),
    )


def _base_path(reader: Reader) -> str:
    """The base path with one leading slash and no trailing one; empty for the root."""
    text = reader.text("BASE_PATH").strip("/")
    parts = text.split("/")
    if text and (any(part in ("", ".", "..") for part in parts) or any(ord(c) <= 0x20 or ord(c) > 0x7E or c in "?#%\\" for c in text)):
        reader.findings.fault(reader.place("BASE_PATH"), f"must be a plain path such as /g, not {shown(reader.text('BASE_PATH'))}")
        return ""
    return f"/{text}" if text else ""


def _session(reader: Reader) -> SessionRules:
    headers = read_session_headers(reader.variables, reader.tree("session.headers"), reader.findings)
    return SessionRules(
        keeping_enabled=reader.flag("SESSION_KEEPING_ENABLED"),
        auto_detect=reader.flag("SESSION_AUTO_DETECT"),
        builtin_rules=reader.flag("SESSION_BUILTIN_RULES"),
        extra_headers=headers,
    )


def _adaptive(reader: Reader) -> AdaptiveRouting:
    base_s, max_s = reader.number("PRO_ROUTING_COOLDOWN_BASE"), reader.number("PRO_ROUTING_COOLDOWN_MAX")
    _check_order(reader, "PRO_ROUTING_COOLDOWN_BASE", "PRO_ROUTING_COOLDOWN_MAX")
    return AdaptiveRouting(
        enabled=reader.flag("PRO_ROUTING_ENABLED"),
        objective=Objective(reader.text("PRO_ROUTING_OBJECTIVE")),
        min_weight_fraction=reader.number("PRO_ROUTING_MIN_WEIGHT_FRACTION"),
        cooldown_base_s=base_s,
        cooldown_max_s=max_s,
        warm_cache_weight=reader.number("PRO_ROUTING_WARM_CACHE_WEIGHT"),
        warm_cache_ttl_s=reader.number("PRO_ROUTING_WARM_CACHE_TTL"),
        latency_decay_s=reader.number("PRO_ROUTING_LATENCY_DECAY"),
        latency_cap_s=reader.number("HTTP_TIMEOUT"),
    )


def _attempts(reader: Reader) -> AttemptSettings:
    _check_order(reader, "RETRY_INITIAL_BACKOFF", "RETRY_MAX_BACKOFF")
    return AttemptSettings(
        failover_enabled=reader.flag("FAILOVER_ENABLED"),
        failover_max_attempts=reader.integer("FAILOVER_MAX_ATTEMPTS"),
        retry_max_retries=reader.integer("RETRY_MAX_RETRIES"),
        retry_initial_backoff_s=reader.number("RETRY_INITIAL_BACKOFF"),
        retry_max_backoff_s=reader.number("RETRY_MAX_BACKOFF"),
        connect_timeout_s=reader.number("HTTP_CONNECT_TIMEOUT"),
        header_timeout_s=reader.number("HTTP_RESPONSE_HEADER_TIMEOUT") or math.inf,
        first_event_timeout_s=reader.number("HTTP_FIRST_EVENT_TIMEOUT") or None,
        stream_idle_timeout_s=reader.number("HTTP_STREAM_IDLE_TIMEOUT") or math.inf,
        request_timeout_s=reader.number("HTTP_TIMEOUT"),
    )


def _check_order(reader: Reader, smaller: str, larger: str) -> None:
    """Make a maximum below its start a fault."""
    least_s, most_s = reader.number(smaller), reader.number(larger)
    if most_s < least_s:
        given = larger if reader.is_given(larger) else smaller
        message = f"{larger} ({format_duration(most_s)}) must be at least {smaller} ({format_duration(least_s)})"
        reader.findings.fault(reader.place(given), message)


def _log(reader: Reader) -> LogSettings:
    return LogSettings(
        level=cast(Literal["debug", "info", "warning", "error"], reader.text("LOG_LEVEL")),
        format=cast(Literal["auto", "json", "text"], reader.text("LOG_FORMAT")),
    )


def _virtual_models(
    reader: Reader, providers: dict[str, ProviderSettings], aliases: dict[str, Alias], *, demo: bool
) -> dict[str, VirtualModel]:
    """The virtual models of the YAML file and of `VIRTUAL_MODELS`, linked."""
    from_variable = reader.json("VIRTUAL_MODELS") if "VIRTUAL_MODELS" in reader.variables else None
    entries = read_virtual_models(reader.tree("virtual_models"), from_variable, providers, reader.findings)
    if demo:
        add_demo(aliases, entries)
    return link(entries, provider_views(providers), reader.findings)


def _warn_of_routing(
    reader: Reader,
    smart: SmartRouting,
    adaptive: AdaptiveRouting,
    models: dict[str, VirtualModel],
    providers: dict[str, ProviderSettings],
) -> None:
    """Warn of tier targets that lead nowhere and of pools whose floors weigh more than half."""
    views = provider_views(providers)
    for alias in smart.aliases.values():
        for tier, name in (("easy", alias.easy), ("hard", alias.hard)):
            if not can_serve(name, models, views):
                place = f"{reader.place('PRO_SMART_ROUTING_ROUTES')} {alias.name}.{tier}"
                reader.findings.warn(place, f"{shown(name)} resolves to no model that is available now")
    for model in models.values():
        floors = (len(model.legs) - 1) * adaptive.min_weight_fraction
        if adaptive.enabled and model.strategy is Strategy.ADAPTIVE and floors > _LARGEST_FLOOR_SUM:
            message = f"the floors of {len(model.legs)} targets add up to {floors:g} of the heaviest one's weight, more than half"
            reader.findings.warn(f"PRO_ROUTING_MIN_WEIGHT_FRACTION, virtual model {model.source!r}", message)
