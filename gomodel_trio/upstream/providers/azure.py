"""Azure OpenAI: `api-key`, and either the v1 API or one URL a deployment with an api-version.

Layer: upstream. Source: behaviour.md §7. A base URL that ends in `/openai/v1` is the v1 API (the deployment is the body's model); any other
is a resource, whose deployment stands in the path.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from gomodel_trio.config.secret import Secret
from gomodel_trio.upstream.providers.adapter import Plain, merged, native_path_url, own_headers, with_query
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api

DEFAULT_API_VERSION: Final = "2024-10-21"
"""The latest generally available version of the deployments API."""


@dataclass(frozen=True, slots=True)
class Azure(Plain):
    """An Azure OpenAI resource."""

    def url(self, api: Api, model: str, query: bytes, *, is_stream: bool) -> str:  # noqa: ARG002 - the shape of Adapter
        """The deployment's URL; Responses has none of its own and stays under `/openai`."""
        if self._is_v1:
            return self._versioned(self.settings.base_url + api.path, query)
        root = self.settings.base_url.removesuffix("/openai") + "/openai"
        if api is Api.RESPONSES:
            return self._versioned(root + api.path, query)
        return self._versioned(f"{root}/deployments/{quote(model, safe='')}{api.path}", query)

    def native_url(self, path: str, query: bytes) -> str:
        """Under the base URL as it is written."""
        return self._versioned(native_path_url(self.settings.base_url, path, b""), query)

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """With `api-key` where there is a key."""
        own = own_headers(self.settings)
        if key is not None:
            own.append((b"api-key", key.reveal().encode("utf-8")))
        return merged(passed, own)

    @property
    def _is_v1(self) -> bool:
        return self.settings.base_url.endswith("/v1")

    def _versioned(self, url: str, query: bytes) -> str:
        version = self.settings.api_version or (None if self._is_v1 else DEFAULT_API_VERSION)
        if version is None or b"api-version=" in query:
            return with_query(url, query)
        return with_query(with_query(url, query), f"api-version={quote(version)}".encode())
