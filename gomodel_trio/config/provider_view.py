"""Providers as routing sees them, made from their settings; keys are left behind, only a fingerprint tells of them.

Layer: config. Source: behaviour.md §5 (a target whose key, base URL or region changed starts fresh).
"""

import hashlib
from collections.abc import Mapping, Sequence

from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.route.policy import Provider
from gomodel_trio.wire.dialect import Dialect

_FINGERPRINT_DIGITS = 16
_SPEAKS_EVERY_DIALECT = frozenset({"echo"})


def provider_views(providers: Mapping[str, ProviderSettings], listed: Mapping[str, Sequence[str]] | None = None) -> dict[str, Provider]:
    """The providers in order. `listed` are models a provider told of itself, by its name; they follow the configured ones."""
    return {name: _view(provider, (listed or {}).get(name, ())) for name, provider in providers.items()}


def fingerprint(provider: ProviderSettings) -> str:
    """A hash that changes with type, base URL, the way there, API version, own headers and keys, and from which none can be told."""
    digest = hashlib.sha256()
    parts = [provider.type, provider.base_url, provider.api_version or ""]
    parts += [text for header in provider.headers for text in header]
    parts += [key.reveal() for key in provider.api_keys]
    if provider.http2 or provider.proxy_url is not None:
        parts += [str(provider.http2), provider.proxy_url.reveal() if provider.proxy_url is not None else ""]
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]


def _view(provider: ProviderSettings, listed: Sequence[str]) -> Provider:
    disabled = {model.id for model in provider.models if not model.enabled}
    configured = [model.id for model in provider.models if model.enabled]
    return Provider(
        name=provider.name,
        type=provider.type,
        dialect=provider.dialect,
        is_available=provider.is_available,
        models=tuple(dict.fromkeys([*configured, *(model for model in listed if model not in disabled)])),
        key_count=max(1, len(provider.api_keys)),
        fingerprint=fingerprint(provider),
        other_dialects=frozenset(Dialect) - {provider.dialect} if provider.type in _SPEAKS_EVERY_DIALECT else frozenset(),
    )
