"""From settings to the routing policy: legs qualified, disabled targets and prices by target.

Layer: config. Source: behaviour.md §4, §5, §8; the cross-checks were made when the settings were loaded.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gomodel_trio.config.provider_view import provider_views
from gomodel_trio.config.settings import Settings
from gomodel_trio.route.names import target_id
from gomodel_trio.route.policy import Leg, Policy, Provider, VirtualModel
from gomodel_trio.route.resolve import resolve_concrete


def compile_policy(settings: Settings, listed: Mapping[str, Sequence[str]] | None = None) -> Policy:
    """Compile the policy that the actor holds. `listed`: models that providers told of themselves, by provider name.

    A concrete leg becomes a qualified target; one that resolves to nothing keeps its name and is simply unavailable.
    """
    providers = provider_views(settings.providers, listed)
    models = [(name, model) for name, provider in settings.providers.items() for model in provider.models]
    return Policy(
        providers=providers,
        virtual_models={source: _qualified(model, providers) for source, model in settings.virtual_models.items()},
        smart=settings.smart,
        adaptive=settings.adaptive,
        is_health_enabled=settings.circuit_breaker_enabled,
        disabled_targets=frozenset(target_id(name, model.id) for name, model in models if not model.enabled),
        prices={target_id(name, model.id): model.price for name, model in models if model.price is not None},
    )


def _qualified(model: VirtualModel, providers: dict[str, Provider]) -> VirtualModel:
    return msgspec.structs.replace(model, legs=tuple(_qualified_leg(leg, providers) for leg in model.legs))


def _qualified_leg(leg: Leg, providers: dict[str, Provider]) -> Leg:
    target = None if leg.is_virtual else resolve_concrete(providers, leg.name)
    return leg if target is None or target == leg.name else Leg(target, False, leg.weight)
