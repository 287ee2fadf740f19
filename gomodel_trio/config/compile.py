"""From settings to the routing policy: legs qualified, disabled targets, prices by target from the configuration and the packaged list.

Layer: config. Source: behaviour.md §4, §5, §8; the cross-checks were made when the settings were loaded.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gomodel_trio.config.prices import Priced, PriceList, price_targets
from gomodel_trio.config.provider_view import provider_views
from gomodel_trio.config.settings import Settings
from gomodel_trio.route.names import TargetId, target_id
from gomodel_trio.route.policy import Leg, Policy, Provider, VirtualModel
from gomodel_trio.route.resolve import resolve_concrete


def compile_policy(settings: Settings, listed: Mapping[str, Sequence[str]] | None = None) -> Policy:
    """Compile the policy that the actor holds. `listed`: models that providers told of themselves, by provider name.

    A concrete leg becomes a qualified target; one that resolves to nothing keeps its name and is simply unavailable.
    """
    providers = provider_views(settings.providers, listed)
    virtual_models = {source: _qualified(model, providers) for source, model in settings.virtual_models.items()}
    policy = Policy(
        providers=providers,
        virtual_models=virtual_models,
        smart=settings.smart,
        adaptive=settings.adaptive,
        is_health_enabled=settings.circuit_breaker_enabled,
        disabled_targets=frozenset(
            target_id(name, model.id) for name, provider in settings.providers.items() for model in provider.models if not model.enabled
        ),
    )
    prices = {target: priced.price for target, priced in priced_targets(settings, policy).items()}
    return msgspec.structs.replace(policy, prices=prices)


def declared_targets(policy: Policy) -> tuple[TargetId, ...]:
    """Every target that the configuration or a provider's list names: listed models, disabled ones, legs and tier targets, each once.

    A name that no provider could be found for is none.
    """
    targets = [target_id(name, model) for name, provider in policy.providers.items() for model in provider.models]
    targets += sorted(policy.disabled_targets)
    tiers = [name for alias in policy.smart.aliases.values() for name in (alias.easy, alias.hard) if name not in policy.virtual_models]
    names = [leg.name for model in policy.virtual_models.values() for leg in model.legs if not leg.is_virtual]
    found = (resolve_concrete(policy.providers, name) for name in (*names, *tiers))
    return tuple(dict.fromkeys([*targets, *(target for target in found if target is not None)]))


def priced_targets(settings: Settings, policy: Policy) -> dict[TargetId, Priced]:
    """The price of every declared target that has one, and where it came from."""
    return price_targets(declared_targets(policy), settings.providers, PriceList())


def _qualified(model: VirtualModel, providers: dict[str, Provider]) -> VirtualModel:
    return msgspec.structs.replace(model, legs=tuple(_qualified_leg(leg, providers) for leg in model.legs))


def _qualified_leg(leg: Leg, providers: dict[str, Provider]) -> Leg:
    target = None if leg.is_virtual else resolve_concrete(providers, leg.name)
    return leg if target is None or target == leg.name else Leg(target, False, leg.weight)
