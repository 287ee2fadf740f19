"""From a model's name, as clients and legs write it, to the target it means.

Layer: route. Source: behaviour.md §7 (naming), §4 (explicit provider).
"""

from collections.abc import Sequence

from gomodel_trio.route.names import TargetId, target_id
from gomodel_trio.route.policy import Provider
from gomodel_trio.wire.dialect import Dialect


def resolve_concrete(
    providers: dict[str, Provider], name: str, provider: str | None = None, dialect: Dialect | None = None
) -> TargetId | None:
    """Resolve a concrete model's name; virtual models and aliases are not considered.

    `name/model` goes by provider name, then by provider type (the first available provider of that type, else its first); the model need
    not be listed. Any other name is a bare id, slashes included: the first provider that lists it, available ones before others and among
    them those that speak `dialect`. With an explicit `provider` (a name, then a type) the model may be anything, and one leading
    `provider/` is not repeated. None: nobody serves it.
    """
    if not name:
        return None
    if provider is not None:
        return _at_provider(providers, name, provider, dialect)
    head, slash, model = name.partition("/")
    if slash and model:
        by_head = _by_name_or_type(providers, head, dialect)
        if by_head is not None:
            return target_id(by_head.name, model)
    listing = _available_first([candidate for candidate in providers.values() if name in candidate.models], dialect)
    return target_id(listing.name, name) if listing is not None else None


def _at_provider(providers: dict[str, Provider], name: str, provider: str, dialect: Dialect | None) -> TargetId | None:
    """Resolve `name` at the provider the client asked for."""
    named = _by_name_or_type(providers, provider, dialect)
    if named is None:
        return None
    head, slash, model = name.partition("/")
    is_qualified = bool(slash and model) and head in (provider, named.name) and name not in named.models
    return target_id(named.name, model if is_qualified else name)


def _by_name_or_type(providers: dict[str, Provider], word: str, dialect: Dialect | None) -> Provider | None:
    """The provider of that name, else the first available one of that type, else the first of that type."""
    named = providers.get(word)
    if named is not None:
        return named
    return _available_first([candidate for candidate in providers.values() if candidate.type == word], dialect)


def _available_first(candidates: Sequence[Provider], dialect: Dialect | None) -> Provider | None:
    """The first candidate that can serve `dialect`, else the first available one, else the first."""
    serving = next((candidate for candidate in candidates if candidate.can_serve(dialect)), None)
    if serving is not None or not candidates:
        return serving
    return next((candidate for candidate in candidates if candidate.is_available), candidates[0])
