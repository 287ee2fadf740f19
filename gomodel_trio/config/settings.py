"""The settings: what the configuration says, typed and validated, before it is compiled into a routing policy.

Layer: config. Filled by `config.load` from `config.catalogue`; every default stands in the catalogue, not here.
Source: behaviour.md §1–§10. Durations are seconds, sizes bytes; None means "off".
"""

from typing import Literal

import msgspec

from gomodel_trio.config.secret import Secret
from gomodel_trio.route.policy import AdaptiveRouting, Price, SmartRouting, VirtualModel
from gomodel_trio.route.session import SessionRules
from gomodel_trio.wire.dialect import Api, Dialect


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to listen. `host` empty: every interface. `base_path` empty: the root; else `/g`, without a trailing slash."""

    host: str
    port: int
    base_path: str
    master_key: Secret | None
    body_size_limit_bytes: int
    shutdown_drain_timeout_s: float


class ListenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The front doors: what they speak and what a client may take. `http2_port` None: no HTTP/2. TLS where both files are named."""

    front_door: Literal["h1", "hypercorn"]
    http2_port: int | None
    tls_cert_file: str | None
    tls_key_file: str | None
    head_bytes: int
    header_count: int
    handshake_s: float
    head_s: float
    body_idle_s: float
    body_total_s: float
    write_s: float
    keep_alive_s: float
    connections: int


class AttemptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Failover, retries and timeouts (§6). `failover_max_attempts` 0: every target. A timeout that is off is infinite, or None."""

    failover_enabled: bool
    failover_max_attempts: int
    retry_max_retries: int
    retry_initial_backoff_s: float
    retry_max_backoff_s: float
    connect_timeout_s: float
    header_timeout_s: float
    first_event_timeout_s: float | None
    stream_idle_timeout_s: float
    request_timeout_s: float


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a provider lists."""

    id: str
    price: Price | None = None
    enabled: bool = True


class EchoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The built-in provider's manner: delay before the answer, between chunks, and the share and status of failures."""

    delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    failure_fraction: float = 0.0
    failure_status: int = 500


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One provider. `api_keys` may be empty (then no credential is sent). `headers` are the provider's own, e.g. openai-organization.
    `forms`: what it can be asked in, the one to translate to first.

    `http2`: offered to it over TLS. `proxy_url` None: by whatever proxy the process's environment names, if any.
    """

    name: str
    type: str
    dialect: Dialect
    base_url: str
    forms: tuple[Api, ...] = ()
    api_keys: tuple[Secret, ...] = ()
    api_version: str | None = None
    models: tuple[ModelSettings, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    http2: bool = False
    proxy_url: Secret | None = None
    enabled: bool = True
    is_available: bool = True
    echo: EchoSettings | None = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`format` auto: text on a terminal, JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["auto", "json", "text"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. `warnings` are for the start's log, one line each, and name the variable or place; none holds a secret."""

    server: ServerSettings
    listen: ListenSettings
    session: SessionRules
    smart: SmartRouting
    adaptive: AdaptiveRouting
    attempts: AttemptSettings
    log: LogSettings
    providers: dict[str, ProviderSettings]
    virtual_models: dict[str, VirtualModel]
    transport: Literal["h1", "httpx"]
    metrics_enabled: bool
    circuit_breaker_enabled: bool
    keep_only_aliases_at_models_endpoint: bool
    warnings: tuple[str, ...] = ()
