"""Providers that speak OpenAI's dialect at `base_url` + path, with a bearer token.

Layer: upstream. One class serves them all (openai, openrouter, groq, …): they differ in data only (`config.provider_types`).
"""

from dataclasses import dataclass

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.providers.adapter import merged, native_path_url, own_headers, with_query
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api, Dialect


@dataclass(frozen=True, slots=True)
class OpenAICompatible:
    """An OpenAI-dialect provider."""

    settings: ProviderSettings

    def speaks(self, dialect: Dialect) -> bool:
        """Only its own."""
        return dialect is Dialect.OPENAI

    def url(self, api: Api, model: str, query: bytes) -> str:  # noqa: ARG002 - the shape of Adapter
        """`base_url` holds the version, e.g. `https://api.openai.com/v1`."""
        return with_query(self.settings.base_url + api.path, query)

    def native_url(self, path: str, query: bytes) -> str:
        """The same base."""
        return native_path_url(self.settings.base_url, path, query)

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """With `authorization: Bearer` where there is a key."""
        own = own_headers(self.settings)
        if key is not None:
            own.append((b"authorization", b"Bearer " + key.reveal().encode("utf-8")))
        return merged(passed, own)
