"""Providers that speak OpenAI's dialect at `base_url` + path, with a bearer token.

Layer: upstream. One class serves them all (openai, openrouter, groq, …): they differ in data only (`config.provider_types`).
"""

from dataclasses import dataclass

from gomodel_trio.config.secret import Secret
from gomodel_trio.upstream.providers.adapter import AtBaseUrl, merged, own_headers
from gomodel_trio.upstream.transport import Headers


@dataclass(frozen=True, slots=True)
class OpenAICompatible(AtBaseUrl):
    """An OpenAI-dialect provider."""

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """With `authorization: Bearer` where there is a key."""
        own = own_headers(self.settings)
        if key is not None:
            own.append((b"authorization", b"Bearer " + key.reveal().encode("utf-8")))
        return merged(passed, own)
