"""The compiled policy: everything routing needs of the configuration, immutable and cross-checked.

Layer: route. Made by `config.compile`, replaced as a whole on reload. Source: behaviour.md §3, §4, §5.
"""

from enum import StrEnum

import msgspec

from gomodel_trio.route.names import TargetId
from gomodel_trio.wire.dialect import Dialect


class Strategy(StrEnum):
    """How a virtual model picks among its candidates."""

    ROUND_ROBIN = "round_robin"
    COST = "cost"
    FAILOVER = "failover"
    ADAPTIVE = "adaptive"


class Objective(StrEnum):
    """What adaptive routing favours."""

    LATENCY = "latency"
    COST = "cost"
    BALANCED = "balanced"


class Provider(msgspec.Struct, frozen=True):
    """A configured provider as routing sees it.

    `is_available` is false without credentials or when disabled. `other_dialects`: what it speaks besides `dialect`. `models` are those
    it lists, in order, without its name.
    `fingerprint` changes with key, base URL or region: a target whose provider's fingerprint changed starts with fresh state.
    """

    name: str
    type: str
    dialect: Dialect
    is_available: bool
    models: tuple[str, ...] = ()
    key_count: int = 1
    fingerprint: str = ""
    other_dialects: frozenset[Dialect] = frozenset()

    def speaks(self, dialect: Dialect | None) -> bool:
        """Whether requests in `dialect` can be sent to it; None: in any."""
        return dialect is None or dialect is self.dialect or dialect in self.other_dialects

    def can_serve(self, dialect: Dialect | None) -> bool:
        """Whether it is available to requests in `dialect`."""
        return self.is_available and self.speaks(dialect)


class Leg(msgspec.Struct, frozen=True):
    """One entry of a virtual model's targets.

    `name` is a qualified target (`is_virtual` false) or another virtual model's source (`is_virtual` true).
    `weight` 0 means unset: 1 in round_robin and adaptive.
    """

    name: str
    is_virtual: bool = False
    weight: float = 0.0


class VirtualModel(msgspec.Struct, frozen=True):
    """A name over one or more targets. `user_paths` empty: everybody; else path prefixes ("/team" allows "/team/app")."""

    source: str
    legs: tuple[Leg, ...]
    strategy: Strategy = Strategy.ROUND_ROBIN
    session_affinity: bool = True
    failover: bool = True
    user_paths: tuple[str, ...] = ()
    description: str = ""
    enabled: bool = True
    slowdown: float | None = None


class Alias(msgspec.Struct, frozen=True):
    """A name that smart tier routing splits: the model names of its two tiers."""

    name: str
    easy: str
    hard: str


class SmartRouting(msgspec.Struct, frozen=True):
    """Smart tier routing (§3). `session_ttl_s` ≤ 0: no pins. `keywords` are the operator's additions and removals ("-phrase")."""

    enabled: bool = True
    aliases: dict[str, Alias] = {}
    threshold: int = 4
    session_ttl_s: float = 1800.0
    keywords: tuple[str, ...] = ()


class AdaptiveRouting(msgspec.Struct, frozen=True):
    """Adaptive routing (§5). Its cooldown settings are the one notion of health for every strategy.

    `latency_cap_s`: no failure raises an estimate beyond it (HTTP_TIMEOUT).
    """

    enabled: bool = True
    objective: Objective = Objective.BALANCED
    min_weight_fraction: float = 0.05
    cooldown_base_s: float = 30.0
    cooldown_max_s: float = 300.0
    warm_cache_weight: float = 8.0
    warm_cache_ttl_s: float = 600.0
    latency_decay_s: float = 30.0
    latency_cap_s: float = 600.0


class Price(msgspec.Struct, frozen=True):
    """USD per million tokens."""

    input_usd_per_mtok: float
    output_usd_per_mtok: float

    @property
    def total_usd_per_mtok(self) -> float:
        """Input plus output price: what strategies compare."""
        return self.input_usd_per_mtok + self.output_usd_per_mtok


class Policy(msgspec.Struct, frozen=True):
    """The whole policy. `providers` and `virtual_models` keep declaration order; keys are provider names and sources."""

    providers: dict[str, Provider] = {}
    virtual_models: dict[str, VirtualModel] = {}
    smart: SmartRouting = SmartRouting()
    adaptive: AdaptiveRouting = AdaptiveRouting()
    is_health_enabled: bool = True
    disabled_targets: frozenset[TargetId] = frozenset()
    prices: dict[TargetId, Price] = {}
    affinity_ttl_s: float = 6 * 3600.0
    max_pins: int = 100_000
