"""`GET /v1/models` and `/v1/models/{id}`: what may be asked for, in both dialects' shapes.

Layer: gateway; pure. Source: behaviour.md §1, §4 (virtual models, aliases, then the providers' models, each name once).
"""

from typing import Any, Final

import msgspec

from gomodel_trio.errors import model_not_found
from gomodel_trio.gateway.deployment import Deployment
from gomodel_trio.route.expand import is_allowed
from gomodel_trio.route.names import split_target
from gomodel_trio.route.resolve import resolve_concrete
from gomodel_trio.wire.dialect import Dialect

_CREATED: Final = 1_700_000_000
_CREATED_AT: Final = "2023-11-14T22:13:20Z"
"""No provider's date is known here; a constant keeps lists comparable."""


def list_models(deployment: Deployment, user_path: str, dialect: Dialect) -> bytes:
    """The whole list, as JSON."""
    entries = [_entry(name, owner, dialect) for name, owner in _names(deployment, user_path).items()]
    if dialect is Dialect.ANTHROPIC:
        ids = [entry["id"] for entry in entries]
        listed = {"data": entries, "has_more": False, "first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return msgspec.json.encode(listed)
    return msgspec.json.encode({"object": "list", "data": entries})


def one_model(deployment: Deployment, user_path: str, dialect: Dialect, name: str) -> bytes:
    """One entry, as JSON: any name that a request may use, listed or bare.

    Raises:
        ModelNotFound: the name resolves to nothing.
    """
    owner = _names(deployment, user_path).get(name) or _owner(deployment, user_path, name)
    if owner is None:
        raise model_not_found(name)
    return msgspec.json.encode(_entry(name, owner, dialect))


def _names(deployment: Deployment, user_path: str) -> dict[str, str]:
    """Every name with its owner, in the order of the list."""
    policy = deployment.policy
    names: dict[str, str] = {}
    if policy.smart.enabled:
        names.update(dict.fromkeys(policy.smart.aliases, "gomodel"))
    for virtual in policy.virtual_models.values():
        if virtual.enabled and is_allowed(virtual, user_path):
            names.setdefault(virtual.source, "gomodel")
    if deployment.settings.keep_only_aliases_at_models_endpoint:
        return names
    for provider in policy.providers.values():
        if provider.is_available:
            for model in provider.models:
                names.setdefault(f"{provider.name}/{model}", provider.name)
    return names


def _owner(deployment: Deployment, user_path: str, name: str) -> str | None:
    """The provider of an unlisted name; a virtual model that bears a real model's name hides it from whom it does not allow, too."""
    virtual = deployment.policy.virtual_models.get(name)
    if virtual is not None and virtual.enabled and not is_allowed(virtual, user_path):
        return None
    target = resolve_concrete(deployment.policy.providers, name)
    return None if target is None else split_target(target)[0]


def _entry(name: str, owner: str, dialect: Dialect) -> dict[str, Any]:
    if dialect is Dialect.ANTHROPIC:
        return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED_AT}
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": owner}
