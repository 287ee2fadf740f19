"""The table of metrics: every family declared once, with its labels, help and buckets.

Layer: metrics. Source: behaviour.md §3, §5, §9. `catalogue` counts by it, `document` tells operators of it.
"""

from typing import Final, Literal

import msgspec

OTHER: Final = "other"
"""The label of everything the configuration does not name."""


class Family(msgspec.Struct, frozen=True):
    """One metric. `is_routing`: it exists only while PRO_ROUTING_ENABLED. `buckets` are upper bounds, without +Inf."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    is_routing: bool = False


REQUESTS: Final = Family(
    "gomodel_requests_total",
    "counter",
    ("provider", "model", "endpoint", "status_code", "status_type", "stream"),
    "Requests answered, by the target that answered; one for each request, however many attempts it took.",
)
REQUEST_DURATION: Final = Family(
    "gomodel_request_duration_seconds",
    "histogram",
    ("provider", "model", "endpoint", "stream"),
    "Seconds from the request's arrival to its complete answer; for streams to the first byte of the answer.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60),  # GoModel's, so that dashboards keep working
)
REQUESTS_IN_FLIGHT: Final = Family("gomodel_requests_in_flight", "gauge", (), "Requests being served now.")
TIER_REQUESTS: Final = Family(
    "gomodel_pro_smartroute_requests_total",
    "counter",
    ("alias", "tier", "reason"),
    "Requests for an alias, by the tier they were sent to and why.",
)
TIER_ESCALATIONS: Final = Family(
    "gomodel_pro_smartroute_escalations_total",
    "counter",
    ("alias",),
    "Sessions whose pin went from easy to hard.",
)
TIER_SCORE: Final = Family(
    "gomodel_pro_smartroute_score",
    "histogram",
    ("alias",),
    "Scores of the requests for an alias; requests with a forced tier are left out.",
    buckets=(0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 22),
)
TIER_PINS: Final = Family("gomodel_pro_smartroute_pins", "gauge", (), "Sessions held to a tier now.")
OUTCOMES: Final = Family(
    "gomodel_pro_routing_outcomes_total",
    "counter",
    ("target", "outcome"),
    "Attempts at a target, by how they ended.",
    is_routing=True,
)
COOLDOWNS: Final = Family(
    "gomodel_pro_routing_cooldowns_total",
    "counter",
    ("target", "reason"),
    "Cooldowns that began, by what triggered them.",
    is_routing=True,
)
SESSION_AFFINITY: Final = Family(
    "gomodel_pro_routing_session_affinity_total",
    "counter",
    ("outcome",),
    "Requests of pinned sessions: kept on their target (honored), or moved off a cooling one (released).",
    is_routing=True,
)
SELECTIONS: Final = Family(
    "gomodel_pro_routing_selections_total",
    "counter",
    ("source", "target", "reason"),
    "Choices of adaptive virtual models among two or more candidates.",
    is_routing=True,
)
DECLINES: Final = Family(
    "gomodel_pro_routing_declines_total",
    "counter",
    ("source", "reason"),
    "Choices that an adaptive virtual model's selector could not make; round_robin made them.",
    is_routing=True,
)
LATENCY_ESTIMATE: Final = Family(
    "gomodel_pro_routing_latency_estimate_seconds",
    "gauge",
    ("target", "kind"),
    "A target's stored latency estimate: to the first content of streams, to the complete answer otherwise.",
    is_routing=True,
)
TARGET_IN_FLIGHT: Final = Family(
    "gomodel_pro_routing_in_flight", "gauge", ("target",), "Attempts running at a target now.", is_routing=True
)
COOLING: Final = Family("gomodel_pro_routing_cooling", "gauge", ("target",), "1 while a target is cooling, else 0.", is_routing=True)

CATALOGUE: Final = (
    REQUESTS,
    REQUEST_DURATION,
    REQUESTS_IN_FLIGHT,
    TIER_REQUESTS,
    TIER_ESCALATIONS,
    TIER_SCORE,
    TIER_PINS,
    OUTCOMES,
    COOLDOWNS,
    SESSION_AFFINITY,
    SELECTIONS,
    DECLINES,
    LATENCY_ESTIMATE,
    TARGET_IN_FLIGHT,
    COOLING,
)

LABEL_VALUES: Final[dict[str, str]] = {
    "provider": "a configured provider, or `other`",
    "model": "a model that the configuration names, or `other`",
    "endpoint": "the path under `/v1` (`/chat/completions`, `/responses`, `/messages`, …), `/p` for native requests, or `other`",
    "status_code": "the HTTP status, or `network_error` where no upstream answered",
    "status_type": "`success` (below 400) or `error`",
    "stream": "`true` or `false`",
    "alias": "a key of `PRO_SMART_ROUTING_ROUTES`",
    "tier": "`easy` or `hard`",
    "reason": (
        "why: of a tier `forced`, `explicit_reasoning`, `session_pin`, `score`; of a cooldown `rate`, `auth`, `not_found`, `account`, "
        "`fault`; of a selection `p2c`, `pinned`, `probe`, `all_cooling`; of a decline `fault`"
    ),
    "source": "a virtual model of the configuration, or `other`",
    "kind": "`stream` or `unary`",
    "target": "a target that the configuration names, as `provider/model`; a provider's other models share `provider/other`",
    "outcome": (
        "how an attempt ended: `success`, `rate_limited`, `auth`, `not_found`, `account`, `server_error`, `network`, `truncated`, "
        "`request`, `cancelled`; of a pinned session: `honored`, `released`"
    ),
}

ENDPOINTS: Final = frozenset({"/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/embeddings", "/models", "/p"})
