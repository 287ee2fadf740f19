"""A deployment: everything a request needs of one configuration, built once and replaced as a whole on reload; and the tools that stay.

Layer: gateway. Holds no routing state: that is the actor's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import ProviderSettings, Settings
from gomodel_trio.gateway.auth import MasterKey
from gomodel_trio.gateway.redaction import Redactor
from gomodel_trio.metrics.catalogue import KnownNames, Metrics
from gomodel_trio.route import attempts
from gomodel_trio.route.keywords import KeywordMatcher, compile_keywords
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.policy import Policy
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.actor import Actor
from gomodel_trio.upstream.echo import EchoTransport
from gomodel_trio.upstream.providers.adapter import Adapter
from gomodel_trio.upstream.providers.table import adapter_for
from gomodel_trio.upstream.transport import Transport


class Log(Protocol):
    """Where lines go; fields are named, never formatted into the text."""

    def debug(self, event: str, **fields: Any) -> None: ...
    def info(self, event: str, **fields: Any) -> None: ...
    def warning(self, event: str, **fields: Any) -> None: ...
    def error(self, event: str, **fields: Any) -> None: ...
    def line(self, event: str, fields: dict[str, Any]) -> None: ...


class Clock(Protocol):
    """Time as the gateway tells it."""

    def now_s(self) -> float:
        """Seconds since the start, monotonic."""
        ...

    def epoch_s(self) -> float:
        """Wall time, for HTTP dates."""
        ...


class TransportFor(Protocol):
    """Hands out the transport that reaches a provider."""

    def __call__(self, provider: ProviderSettings, *, preferred: Literal["h1", "httpx"] = "h1") -> Transport: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What outlives a reload. `draw` gives uniform numbers in [0, 1); `transport_for` gives what reaches a provider."""

    actor: Actor
    metrics: Metrics
    log: Log
    clock: Clock
    draw: Callable[[], float]
    transport_for: TransportFor


@dataclass(frozen=True, slots=True)
class Deployment:
    """One configuration, ready to serve."""

    settings: Settings
    policy: Policy
    matcher: KeywordMatcher
    sessions: SessionDetector
    master_key: MasterKey
    adapters: dict[str, Adapter]
    transports: dict[str, Transport]
    attempt_rules: attempts.Rules
    redactors: dict[str, Redactor]


def deploy(settings: Settings, tools: Tools) -> Deployment:
    """Compile `settings` for serving."""
    tried = settings.attempts
    master_key = settings.server.master_key
    return Deployment(
        settings=settings,
        policy=compile_policy(settings),
        matcher=compile_keywords(settings.smart.keywords),
        sessions=SessionDetector(settings.session),
        master_key=MasterKey(master_key.reveal() if master_key is not None else None),
        adapters={name: adapter_for(provider) for name, provider in settings.providers.items()},
        transports={
            name: (
                EchoTransport(provider.echo, tools.draw)
                if provider.echo is not None
                else tools.transport_for(provider, preferred=settings.transport)
            )
            for name, provider in settings.providers.items()
        },
        attempt_rules=attempts.Rules(
            is_failover_enabled=tried.failover_enabled,
            max_attempts=tried.failover_max_attempts,
            max_retries=tried.retry_max_retries,
            initial_backoff_s=tried.retry_initial_backoff_s,
            max_backoff_s=tried.retry_max_backoff_s,
        ),
        redactors={name: Redactor(master_key, provider) for name, provider in settings.providers.items()},
    )


def known_names(policy: Policy) -> KnownNames:
    """The names that may become metric labels."""
    listed = {TargetId(f"{provider.name}/{model}") for provider in policy.providers.values() for model in provider.models}
    legs = {TargetId(leg.name) for virtual in policy.virtual_models.values() for leg in virtual.legs if not leg.is_virtual}
    tiers = {TargetId(name) for alias in policy.smart.aliases.values() for name in (alias.easy, alias.hard) if "/" in name}
    return KnownNames(
        providers=frozenset(policy.providers),
        targets=frozenset(listed | legs | tiers),
        aliases=frozenset(policy.smart.aliases),
        sources=frozenset(policy.virtual_models),
        has_routing=policy.adaptive.enabled,
    )
