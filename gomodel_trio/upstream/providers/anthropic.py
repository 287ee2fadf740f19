"""Providers that speak Anthropic's dialect: `x-api-key` and `anthropic-version`.

Layer: upstream. Source: behaviour.md §7.
"""

from dataclasses import dataclass
from typing import Final

from gomodel_trio.config.secret import Secret
from gomodel_trio.upstream.providers.adapter import AtBaseUrl, merged, own_headers
from gomodel_trio.upstream.transport import Headers

DEFAULT_VERSION: Final = b"2023-06-01"
"""Sent where a client sends none; the API refuses requests without it."""


@dataclass(frozen=True, slots=True)
class Anthropic(AtBaseUrl):
    """An Anthropic-dialect provider."""

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """With `x-api-key` where there is a key; the client's `anthropic-version` and `anthropic-beta` pass."""
        own = own_headers(self.settings)
        if key is not None:
            own.append((b"x-api-key", key.reveal().encode("utf-8")))
        if not any(name == b"anthropic-version" for name, _ in [*passed, *own]):
            own.append((b"anthropic-version", (self.settings.api_version or "").encode("latin-1") or DEFAULT_VERSION))
        return merged(passed, own)
