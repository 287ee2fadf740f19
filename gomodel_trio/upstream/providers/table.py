"""The kinds of providers, as an explicit table: nothing is imported by name at run time.

Layer: upstream.
"""

from collections.abc import Callable
from typing import Final

from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.providers.adapter import Adapter
from gomodel_trio.upstream.providers.anthropic import Anthropic
from gomodel_trio.upstream.providers.azure import Azure
from gomodel_trio.upstream.providers.echo import Echo
from gomodel_trio.upstream.providers.openai import OpenAICompatible

_OF_ITS_OWN: Final[dict[str, Callable[[ProviderSettings], Adapter]]] = {"anthropic": Anthropic, "azure": Azure, "echo": Echo}


def adapter_for(settings: ProviderSettings) -> Adapter:
    """The adapter of a provider's type; every type without one of its own speaks plain OpenAI."""
    return _OF_ITS_OWN.get(settings.type, OpenAICompatible)(settings)
