"""THE table: every variable of this version, its type, default, range, YAML path and meaning.

Layer: config. Loading, the YAML mapping, warnings about unknown variables and the documentation derive from it.
Source: behaviour.md §1–§10. Defaults are written as an operator would write them.
"""

from enum import StrEnum

import msgspec


class VariableKind(StrEnum):
    """How a value is written."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    DURATION = "duration"
    SIZE = "size"
    JSON = "json"
    STRING = "string"
    SECRET = "secret"
    CHOICE = "choice"


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable.

    `default` is text, None where there is none. `least` and `most` are inclusive, `above` is not. `zero_is_off`: 0 is allowed beside
    the range and switches off. `choices` maps every accepted spelling to its value. `yaml` is the path in the YAML file.
    """

    name: str
    kind: VariableKind
    section: str
    help: str
    default: str | None = None
    yaml: str | None = None
    least: float | None = None
    most: float | None = None
    above: float | None = None
    zero_is_off: bool = False
    choices: dict[str, str] = {}

    @property
    def range_text(self) -> str:
        """The range or the choices for the documentation and for messages; empty if anything goes."""
        if self.choices:
            return ", ".join(dict.fromkeys(self.choices.values()))
        bounds = []
        if self.least is not None:
            bounds.append(f"≥ {self.least:g}")
        if self.above is not None:
            bounds.append(f"> {self.above:g}")
        if self.most is not None:
            bounds.append(f"≤ {self.most:g}")
        text = " and ".join(bounds)
        return f"{text}, or 0 for off" if self.zero_is_off else text


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Variables whose name has a part of the operator's: providers and extra session headers."""

    pattern: str
    kind: VariableKind
    section: str
    help: str
    default: str | None = None
    yaml: str | None = None


_B, _I, _F, _D, _Z = VariableKind.BOOL, VariableKind.INT, VariableKind.FLOAT, VariableKind.DURATION, VariableKind.SIZE
_S, _J, _C, _X = VariableKind.STRING, VariableKind.JSON, VariableKind.CHOICE, VariableKind.SECRET
_SERVER, _LISTEN, _SESSION, _SMART, _ADAPTIVE = "Server", "Listening", "Sessions", "Smart tier routing", "Adaptive routing"
_MODELS, _ATTEMPTS, _OBSERVE, _PROVIDERS, _ECHO = "Virtual models", "Attempts and timeouts", "Logs and metrics", "Providers", "Echo"
_OBJECTIVES = {"latency": "latency", "cost": "cost", "balanced": "balanced"}
_LEVELS = {"debug": "debug", "dbg": "debug", "info": "info", "inf": "info", "warning": "warning", "warn": "warning"}
_LEVELS |= {"error": "error", "err": "error"}
_FORMATS = {"auto": "auto", "json": "json", "text": "text"}

# fmt: off
_SERVER_ROWS = (
    Variable(
        name="PORT", kind=_I, section=_SERVER, default="8080", least=0, most=65535, yaml="server.port",
        help="TCP port to listen on; 0 takes any free one.",
    ),
    Variable(
        name="HOST", kind=_S, section=_SERVER, yaml="server.host",
        help="Address to listen on (`*`: every interface). Without it: every interface with a master key, else 127.0.0.1.",
    ),
    Variable(
        name="BASE_PATH", kind=_S, section=_SERVER, default="/", yaml="server.base_path",
        help="Path under which the whole gateway is served, such as `/g`.",
    ),
    Variable(
        name="GOMODEL_MASTER_KEY", kind=_X, section=_SERVER, yaml="server.master_key",
        help="Key that clients must present as `Authorization: Bearer` or `x-api-key`; none: open to whoever reaches the port.",
    ),
    Variable(
        name="BODY_SIZE_LIMIT", kind=_Z, section=_SERVER, default="10M", least=1, yaml="server.body_size_limit",
        help="Largest request body; a larger one is answered with 413.",
    ),
    Variable(
        name="SHUTDOWN_DRAIN_TIMEOUT", kind=_D, section=_SERVER, default="30s", least=0, yaml="server.shutdown_drain_timeout",
        help="How long running requests may go on after TERM.",
    ),
)

_LISTEN_ROWS = (
    Variable(
        name="TLS_CERT_FILE", kind=_S, section=_LISTEN, yaml="server.tls_cert_file",
        help="Certificate chain, PEM; with it and TLS_KEY_FILE the gateway serves HTTPS. Read again on HUP.",
    ),
    Variable(
        name="TLS_KEY_FILE", kind=_S, section=_LISTEN, yaml="server.tls_key_file",
        help="The certificate's private key, PEM, without a password.",
    ),
    Variable(
        name="HTTP2_PORT", kind=_I, section=_LISTEN, default="0", least=0, most=65535, yaml="server.http2_port",
        help="TCP port for HTTP/2: over TLS with a certificate, else in cleartext by prior knowledge; 0: none.",
    ),
    Variable(
        name="FRONT_DOOR", kind=_C, section=_LISTEN, default="h1", choices={"h1": "h1", "hypercorn": "hypercorn"}, yaml="server.front_door",
        help="What serves HTTP/1.1: the gateway's own server, or hypercorn's protocol, slower and without TLS.",
    ),
    Variable(
        name="SERVER_HEADER_SIZE_LIMIT", kind=_Z, section=_LISTEN, default="64K", least=1024, yaml="server.header_size_limit",
        help="Largest head of a request, its line and all headers.",
    ),
    Variable(
        name="SERVER_HEADER_COUNT_LIMIT", kind=_I, section=_LISTEN, default="128", least=8, yaml="server.header_count_limit",
        help="Most headers of a request.",
    ),
    Variable(
        name="SERVER_HANDSHAKE_TIMEOUT", kind=_D, section=_LISTEN, default="10s", above=0, yaml="server.handshake_timeout",
        help="Longest TLS handshake.",
    ),
    Variable(
        name="SERVER_HEADER_TIMEOUT", kind=_D, section=_LISTEN, default="30s", above=0, yaml="server.header_timeout",
        help="Longest time from the first byte of a request's head to its last.",
    ),
    Variable(
        name="SERVER_BODY_IDLE_TIMEOUT", kind=_D, section=_LISTEN, default="30s", above=0, yaml="server.body_idle_timeout",
        help="Longest pause within a request's body.",
    ),
    Variable(
        name="SERVER_BODY_TIMEOUT", kind=_D, section=_LISTEN, default="600s", above=0, yaml="server.body_timeout",
        help="Longest time for a whole request body.",
    ),
    Variable(
        name="SERVER_WRITE_TIMEOUT", kind=_D, section=_LISTEN, default="300s", above=0, yaml="server.write_timeout",
        help="Longest wait for a client that does not read its answer.",
    ),
    Variable(
        name="SERVER_IDLE_TIMEOUT", kind=_D, section=_LISTEN, default="75s", above=0, yaml="server.idle_timeout",
        help="How long a connection may wait for its next request.",
    ),
    Variable(
        name="SERVER_MAX_CONNECTIONS", kind=_I, section=_LISTEN, default="10000", least=1, yaml="server.max_connections",
        help="Most client connections at once; further ones are answered with 503.",
    ),
)

_SESSION_ROWS = (
    Variable(
        name="SESSION_KEEPING_ENABLED", kind=_B, section=_SESSION, default="true", yaml="session.enabled",
        help="Find out which conversation a request belongs to, for pins and sticky targets.",
    ),
    Variable(
        name="SESSION_AUTO_DETECT", kind=_B, section=_SESSION, default="true", yaml="session.auto_detect",
        help="Recognise untagged conversations by their opening.",
    ),
    Variable(
        name="SESSION_BUILTIN_RULES", kind=_B, section=_SESSION, default="true", yaml="session.builtin_rules",
        help="Read the session headers and body fields that known clients send.",
    ),
)

_SMART_ROWS = (
    Variable(
        name="PRO_SMART_ROUTING_ENABLED", kind=_B, section=_SMART, default="true", yaml="smart_routing.enabled",
        help="Route aliases to their easy or hard model by what the request holds.",
    ),
    Variable(
        name="PRO_SMART_ROUTING_ROUTES", kind=_J, section=_SMART, yaml="smart_routing.routes",
        help='Aliases and their tiers: `{"normal":{"easy":"model-a","hard":"model-b"}}`. Empty: idle.',
    ),
    Variable(
        name="PRO_SMART_ROUTING_THRESHOLD", kind=_I, section=_SMART, default="4", least=0, yaml="smart_routing.threshold",
        help="A score of at least this goes to the hard tier.",
    ),
    Variable(
        name="PRO_SMART_ROUTING_SESSION_TTL", kind=_D, section=_SMART, default="30m", yaml="smart_routing.session_ttl",
        help="How long an idle conversation keeps its tier; 0 or less: no pins.",
    ),
    Variable(
        name="PRO_SMART_ROUTING_KEYWORDS", kind=_J, section=_SMART, yaml="smart_routing.keywords",
        help='Further effort keywords: `["tief nachdenken"]`; a leading minus removes one: `["-root cause"]`.',
    ),
)

_ADAPTIVE_ROWS = (
    Variable(
        name="PRO_ROUTING_ENABLED", kind=_B, section=_ADAPTIVE, default="true", yaml="adaptive_routing.enabled",
        help="Whether the strategy `adaptive` chooses by latency, load, price and warm cache; false: it acts as `round_robin`.",
    ),
    Variable(
        name="PRO_ROUTING_OBJECTIVE", kind=_C, section=_ADAPTIVE, default="balanced", choices=_OBJECTIVES,
        yaml="adaptive_routing.objective", help="What weighs besides latency: nothing, the price (`balanced`), or its square (`cost`).",
    ),
    Variable(
        name="PRO_ROUTING_MIN_WEIGHT_FRACTION", kind=_F, section=_ADAPTIVE, default="0.05", least=0, most=0.5,
        yaml="adaptive_routing.min_weight_fraction", help="No target weighs less than this share of the heaviest.",
    ),
    Variable(
        name="PRO_ROUTING_COOLDOWN_BASE", kind=_D, section=_ADAPTIVE, default="30s", above=0, yaml="adaptive_routing.cooldown_base",
        help="First cooldown; doubles with each consecutive one. For every strategy.",
    ),
    Variable(
        name="PRO_ROUTING_COOLDOWN_MAX", kind=_D, section=_ADAPTIVE, default="5m", above=0, yaml="adaptive_routing.cooldown_max",
        help="Longest cooldown, at least `PRO_ROUTING_COOLDOWN_BASE`; at once after 401, 403, 404 or an empty account.",
    ),
    Variable(
        name="PRO_ROUTING_WARM_CACHE_WEIGHT", kind=_F, section=_ADAPTIVE, default="8", least=1,
        yaml="adaptive_routing.warm_cache_weight", help="The target that holds a session's prompt cache weighs so many times more.",
    ),
    Variable(
        name="PRO_ROUTING_WARM_CACHE_TTL", kind=_D, section=_ADAPTIVE, default="10m", least=0, yaml="adaptive_routing.warm_cache_ttl",
        help="How long a provider's prompt cache is presumed warm.",
    ),
    Variable(
        name="PRO_ROUTING_LATENCY_DECAY", kind=_D, section=_ADAPTIVE, default="30s", above=0, yaml="adaptive_routing.latency_decay",
        help="Time constant of the latency estimate's fall towards faster samples; slower ones count at once.",
    ),
)

_MODEL_ROWS = (
    Variable(
        name="VIRTUAL_MODELS", kind=_J, section=_MODELS, yaml="virtual_models",
        help='Names over one or more models: `[{"source":"smart","targets":[{"model":"openai/gpt-5"}]}]`; '
        "replaces YAML entries of the same source.",
    ),
    Variable(
        name="KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT", kind=_B, section=_MODELS, default="false",
        yaml="models.keep_only_aliases_at_models_endpoint", help="List only virtual models and aliases at `/v1/models`.",
    ),
)

_ATTEMPT_ROWS = (
    Variable(
        name="FAILOVER_ENABLED", kind=_B, section=_ATTEMPTS, default="true", yaml="failover.enabled",
        help="Try the next target when one fails.",
    ),
    Variable(
        name="FAILOVER_MAX_ATTEMPTS", kind=_I, section=_ATTEMPTS, default="0", least=0, yaml="failover.max_attempts",
        help="Most targets tried after the first; 0: all.",
    ),
    Variable(
        name="RETRY_MAX_RETRIES", kind=_I, section=_ATTEMPTS, default="3", least=0, most=100, yaml="resilience.retry.max_retries",
        help="Further tries at the same target where no other is left.",
    ),
    Variable(
        name="RETRY_INITIAL_BACKOFF", kind=_D, section=_ATTEMPTS, default="1s", least=0, yaml="resilience.retry.initial_backoff",
        help="Wait before the first retry; doubles with each.",
    ),
    Variable(
        name="RETRY_MAX_BACKOFF", kind=_D, section=_ATTEMPTS, default="30s", least=0, yaml="resilience.retry.max_backoff",
        help="Longest wait before a retry.",
    ),
    Variable(
        name="HTTP_CONNECT_TIMEOUT", kind=_D, section=_ATTEMPTS, default="10s", above=0, yaml="http.connect_timeout",
        help="Longest time to open a connection to a provider.",
    ),
    Variable(
        name="HTTP_RESPONSE_HEADER_TIMEOUT", kind=_D, section=_ATTEMPTS, default="600s", above=0, zero_is_off=True,
        yaml="http.response_header_timeout", help="Longest wait for a provider's response headers.",
    ),
    Variable(
        name="HTTP_FIRST_EVENT_TIMEOUT", kind=_D, section=_ATTEMPTS, default="0", above=0, zero_is_off=True,
        yaml="http.first_event_timeout",
        help="Longest wait for a stream's first content before the next target is tried, such as `15s`.",
    ),
    Variable(
        name="HTTP_STREAM_IDLE_TIMEOUT", kind=_D, section=_ATTEMPTS, default="300s", above=0, zero_is_off=True,
        yaml="http.stream_idle_timeout", help="Longest silence inside a stream; comments do not count.",
    ),
    Variable(
        name="UPSTREAM_TRANSPORT", kind=_C, section=_ATTEMPTS, default="h1", choices={"h1": "h1", "httpx": "httpx"}, yaml="http.transport",
        help="What reaches the providers: the gateway's own client (httpx where one needs HTTP/2 or a proxy), or httpx for all.",
    ),
    Variable(
        name="HTTP_TIMEOUT", kind=_D, section=_ATTEMPTS, default="600s", above=0, yaml="http.timeout",
        help="Longest time for a request until the first byte goes to the client, all its attempts together.",
    ),
    Variable(
        name="CIRCUIT_BREAKER_ENABLED", kind=_B, section=_ATTEMPTS, default="true", yaml="resilience.circuit_breaker.enabled",
        help="Put failing targets last for every strategy; false: for `adaptive` only.",
    ),
)

_OBSERVE_ROWS = (
    Variable(
        name="METRICS_ENABLED", kind=_B, section=_OBSERVE, default="true", yaml="metrics.enabled",
        help="Serve Prometheus metrics at `/metrics`.",
    ),
    Variable(
        name="LOG_LEVEL", kind=_C, section=_OBSERVE, default="info", choices=_LEVELS, yaml="log.level",
        help="Least severity that is logged; `warn`, `err`, `dbg` and `inf` are understood.",
    ),
    Variable(
        name="LOG_FORMAT", kind=_C, section=_OBSERVE, default="auto", choices=_FORMATS, yaml="log.format",
        help="`auto`: text on a terminal, JSON elsewhere.",
    ),
)

_ECHO_ROWS = (
    Variable(
        name="DELAY", kind=_D, section=_ECHO, default="0s", least=0, yaml="delay",
        help="Time before the answer begins.",
    ),
    Variable(
        name="CHUNK_DELAY", kind=_D, section=_ECHO, default="0s", least=0, yaml="chunk_delay",
        help="Time between a stream's chunks.",
    ),
    Variable(
        name="FAILURE_FRACTION", kind=_F, section=_ECHO, default="0", least=0, most=1, yaml="failure_fraction",
        help="Share of the requests that fail.",
    ),
    Variable(
        name="FAILURE_STATUS", kind=_I, section=_ECHO, default="500", least=400, most=599, yaml="failure_status",
        help="Status of those that fail.",
    ),
)

ECHO_FIELDS = {row.name: row for row in _ECHO_ROWS}
"""The fields of the `echo` family, `ECHO[_SUFFIX]_<FIELD>`; their `yaml` is the key under `providers.<name>.echo`."""

VARIABLES = {
    row.name: row
    for rows in (_SERVER_ROWS, _LISTEN_ROWS, _SESSION_ROWS, _SMART_ROWS, _ADAPTIVE_ROWS, _MODEL_ROWS, _ATTEMPT_ROWS, _OBSERVE_ROWS)
    for row in rows
}
"""Every variable with a fixed name."""

FAMILIES = (
    Family(
        pattern="SESSION_HEADER_<N>", kind=_S, section=_SESSION, yaml="session.headers[].header",
        help="A further header to read the session from, N from 1. Credential headers are refused.",
    ),
    Family(
        pattern="SESSION_HEADER_<N>_TRANSFORM", kind=_S, section=_SESSION, yaml="session.headers[].transform",
        help="`session-uuid`: take the `session_<uuid>` inside the value.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_API_KEY", kind=_X, section=_PROVIDERS, yaml="providers.<name>.api_key",
        help="Declares a provider: `OPENAI_API_KEY` is `openai`, `OPENAI_EAST_API_KEY` is `openai-east`.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_API_KEY_<N>", kind=_X, section=_PROVIDERS, yaml="providers.<name>.api_keys",
        help="Further keys of the same provider, N from 2; a conversation stays on one.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_BASE_URL", kind=_S, section=_PROVIDERS, yaml="providers.<name>.base_url",
        help="Where the provider is, the version included (`…/v1`).",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_MODELS", kind=_S, section=_PROVIDERS, yaml="providers.<name>.models",
        help="Its models: separated by commas, or a JSON list.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_API_VERSION", kind=_S, section=_PROVIDERS, yaml="providers.<name>.api_version",
        help="Azure's `api-version`; `2024-10-21` without it, none for a base URL that ends in `/v1`.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_HTTP2", kind=_B, section=_PROVIDERS, default="false", yaml="providers.<name>.http2",
        help="Offer the provider HTTP/2 over TLS; it goes on with HTTP/1.1 where the provider does not speak it.",
    ),
    Family(
        pattern="<TYPE>[_SUFFIX]_PROXY_URL", kind=_X, section=_PROVIDERS, yaml="providers.<name>.proxy_url",
        help="Proxy to reach the provider by, `http://` or `https://`, with credentials or not: `http://user:password@proxy:3128`. "
        "Without it: as HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say.",
    ),
    Family(
        pattern="<SECRET>_FILE", kind=_S, section=_PROVIDERS,
        help="Path of a file that holds the secret, for every secret above and `GOMODEL_MASTER_KEY`: `OPENAI_API_KEY_FILE`.",
    ),
    Family(
        pattern="ECHO[_SUFFIX]_ENABLED", kind=_B, section=_ECHO, default="false", yaml="providers.<name>.type: echo",
        help="Declare the built-in provider that answers without any upstream, as `serve --demo` does.",
    ),
    *(
        Family(
            pattern=f"ECHO[_SUFFIX]_{field}", kind=row.kind, section=_ECHO, default=row.default,
            yaml=f"providers.<name>.echo.{row.yaml}", help=row.help,
        )
        for field, row in ECHO_FIELDS.items()
    ),
)
"""Every variable whose name the operator completes."""

# fmt: on
YAML_PATHS = {row.yaml: row for row in VARIABLES.values() if row.yaml}
"""The scalar and JSON-like settings by YAML path; providers and session headers are read by their own modules."""
