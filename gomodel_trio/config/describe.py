"""The configuration in lines that a person can check; no secret is among them.

Layer: config. Used by `check-config` and the start's log. Source: behaviour.md §3 (idle hint), §10.
"""

import math

from gomodel_trio.config.proxy_url import shown_proxy_url
from gomodel_trio.config.settings import ProviderSettings, Settings
from gomodel_trio.route.policy import Strategy, VirtualModel
from gomodel_trio.units import format_duration

_SWITCH = {True: "on", False: "off"}


def describe(settings: Settings) -> list[str]:
    """Describe listener, providers, virtual models, aliases and the timeouts, one fact a line."""
    server = settings.server
    address = f"{server.host or 'every interface'}, port {server.port}" + (f", under {server.base_path}" if server.base_path else "")
    lines = [f"listen: {address}; {'master key set' if server.master_key else 'open, no master key'}"]
    lines += [f"provider {_provider(provider)}" for provider in settings.providers.values()] or ["providers: none"]
    lines += [f"virtual model {_virtual_model(model)}" for model in settings.virtual_models.values()]
    smart = settings.smart
    lines += [f"alias {alias.name}: easy {alias.easy}, hard {alias.hard}" for alias in smart.aliases.values()]
    pins = f"pins for {format_duration(smart.session_ttl_s)}" if smart.session_ttl_s > 0 else "no pins"
    lines.append(f"smart routing: {_SWITCH[smart.enabled]}, hard from {smart.threshold} points, {pins}")
    adaptive = settings.adaptive
    floor = f"no target below {adaptive.min_weight_fraction:g} of the heaviest"
    lines.append(f"adaptive routing: {f'on, {adaptive.objective.value}, {floor}' if adaptive.enabled else 'off (acts as round_robin)'}")
    lines.append(f"cooldowns: {format_duration(adaptive.cooldown_base_s)} to {format_duration(adaptive.cooldown_max_s)}")
    attempts = settings.attempts
    lines.append(
        f"timeouts: connect {_timeout(attempts.connect_timeout_s)}, headers {_timeout(attempts.header_timeout_s)}, "
        f"first event {_timeout(attempts.first_event_timeout_s)}, stream idle {_timeout(attempts.stream_idle_timeout_s)}, "
        f"request {_timeout(attempts.request_timeout_s)}"
    )
    return lines


def idle_hint(settings: Settings) -> str | None:
    """The hint to log once at the start while smart routing has no alias; None if it has one or is off."""
    if settings.smart.aliases or not settings.smart.enabled:
        return None
    return 'smart routing is idle: set PRO_SMART_ROUTING_ROUTES, e.g. {"normal":{"easy":"model-a","hard":"model-b"}}'


def _provider(provider: ProviderSettings) -> str:
    state = "available" if provider.is_available else "unavailable" if provider.enabled else "disabled"
    keys = {0: "no key", 1: "1 key"}.get(len(provider.api_keys), f"{len(provider.api_keys)} keys")
    models = {0: "no models listed", 1: "1 model listed"}.get(len(provider.models), f"{len(provider.models)} models listed")
    where = "built in" if provider.echo is not None else f"at {provider.base_url or 'nowhere'}"
    way = ", HTTP/2" if provider.http2 else ""
    way += f", by proxy {shown_proxy_url(provider.proxy_url.reveal())}" if provider.proxy_url is not None else ""
    return f"{provider.name}: {provider.type} {where}{way}, {keys}, {models}, {state}"


def _virtual_model(model: VirtualModel) -> str:
    legs = ", ".join(leg.name + (f" ×{leg.weight:g}" if leg.weight else "") for leg in model.legs)
    extras = [] if model.strategy is Strategy.FAILOVER or model.session_affinity else ["no session affinity"]
    extras += [] if model.failover else ["no failover"]
    extras += [f"for {', '.join(model.user_paths)}"] if model.user_paths else []
    extras += [] if model.enabled else ["disabled"]
    return f"{model.source}: {model.strategy.value} over {legs}" + "".join(f"; {extra}" for extra in extras)


def _timeout(value_s: float | None) -> str:
    return "off" if value_s is None or math.isinf(value_s) else format_duration(value_s)
