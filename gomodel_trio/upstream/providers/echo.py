"""The built-in provider `echo`, which speaks both dialects (see `upstream.echo` for what it says).

Layer: upstream.
"""

from dataclasses import dataclass

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.providers.adapter import native_path_url, with_query
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api, Dialect


@dataclass(frozen=True, slots=True)
class Echo:
    """The echo provider."""

    settings: ProviderSettings

    def speaks(self, dialect: Dialect) -> bool:  # noqa: ARG002 - the shape of Adapter
        """Every dialect."""
        return True

    def url(self, api: Api, model: str, query: bytes) -> str:  # noqa: ARG002 - the shape of Adapter
        """`echo:/chat/completions` and the like."""
        return with_query(self.settings.base_url + api.path, query)

    def native_url(self, path: str, query: bytes) -> str:
        """The same, with or without `v1/`."""
        return native_path_url(self.settings.base_url, path, query)

    def headers(self, passed: Headers, key: Secret | None) -> Headers:  # noqa: ARG002 - the shape of Adapter
        """As they came."""
        return passed
