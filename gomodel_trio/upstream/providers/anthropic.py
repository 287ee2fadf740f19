"""Providers that speak Anthropic's dialect: `x-api-key` and `anthropic-version`.

Layer: upstream. Source: behaviour.md §7.
"""

from dataclasses import dataclass
from typing import Final

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.providers.adapter import merged, native_path_url, own_headers, with_query
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api, Dialect

DEFAULT_VERSION: Final = b"2023-06-01"
"""Sent where a client sends none; the API refuses requests without it."""


@dataclass(frozen=True, slots=True)
class Anthropic:
    """An Anthropic-dialect provider."""

    settings: ProviderSettings

    def speaks(self, dialect: Dialect) -> bool:
        """Only its own."""
        return dialect is Dialect.ANTHROPIC

    def url(self, api: Api, model: str, query: bytes) -> str:  # noqa: ARG002 - the shape of Adapter
        """`base_url` holds the version, e.g. `https://api.anthropic.com/v1`."""
        return with_query(self.settings.base_url + api.path, query)

    def native_url(self, path: str, query: bytes) -> str:
        """The same base."""
        return native_path_url(self.settings.base_url, path, query)

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """With `x-api-key` where there is a key; the client's `anthropic-version` and `anthropic-beta` pass."""
        own = own_headers(self.settings)
        if key is not None:
            own.append((b"x-api-key", key.reveal().encode("utf-8")))
        if not any(name == b"anthropic-version" for name, _ in [*passed, *own]):
            own.append((b"anthropic-version", (self.settings.api_version or "").encode("latin-1") or DEFAULT_VERSION))
        return merged(passed, own)
