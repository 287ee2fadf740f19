"""Why a provider cannot be asked, and what would change that; for clients, so no URL and no key is named.

Layer: config. Source: behaviour.md §4 (available), §7.
"""

from gomodel_trio.config.provider_types import PROVIDER_TYPES
from gomodel_trio.config.settings import ProviderSettings


def why_unavailable(provider: ProviderSettings) -> str:
    """One sentence about a provider that is not available."""
    row = PROVIDER_TYPES[provider.type]
    name = f"The provider {provider.name!r}"
    if not provider.enabled:
        return f"{name} is disabled in the gateway's configuration."
    if not row.is_in_this_version:
        return f"{name} is of the type {provider.type}, which is not in this version of the gateway."
    if row.is_key_required and not provider.api_keys:
        return f"{name} has no API key: the gateway's operator has to set {_key_setting(provider.name, row.variable)}."
    return f"{name} has no base URL in the gateway's configuration."


def _key_setting(name: str, variable: str) -> str:
    """The variable that gives a provider its key; providers named otherwise than variables would name them get it in the file."""
    spelled = name.upper().replace("-", "_")
    if (spelled == variable or spelled.startswith(variable + "_")) and spelled.isascii() and spelled.replace("_", "").isalnum():
        return f"{spelled}_API_KEY"
    return f"providers.{name}.api_key"
