"""What every kind of provider has: a way to turn a request of its dialect into an upstream request.

Layer: upstream. Source: behaviour.md §7.
"""

from dataclasses import dataclass
from typing import Protocol

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.transport import Headers
from gomodel_trio.wire.dialect import Api, Dialect


class Adapter(Protocol):
    """One configured provider, ready to be asked."""

    @property
    def settings(self) -> ProviderSettings: ...

    def speaks(self, dialect: Dialect) -> bool:
        """Whether requests of that dialect can be sent as they are."""
        ...

    def url(self, api: Api, model: str, query: bytes) -> str:
        """The URL for a request of `api`; `query` is the client's, already free of credentials."""
        ...

    def native_url(self, path: str, query: bytes) -> str:
        """The URL for the native path `path` (no leading slash, percent-encoded as the client sent it)."""
        ...

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """The headers to send: the client's that may pass, the provider's own, and its credential."""
        ...


@dataclass(frozen=True, slots=True)
class AtBaseUrl:
    """Where a provider is whose endpoints stand under its base URL, which holds the version: `https://api.openai.com/v1`."""

    settings: ProviderSettings

    def url(self, api: Api, model: str, query: bytes) -> str:  # noqa: ARG002 - the shape of Adapter
        """The base URL and the endpoint's path."""
        return with_query(self.settings.base_url + api.path, query)

    def native_url(self, path: str, query: bytes) -> str:
        """The base URL and the native path."""
        return native_path_url(self.settings.base_url, path, query)


def with_query(url: str, query: bytes) -> str:
    """`url` with a raw query appended."""
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{_unfragmented(query.decode('latin-1'))}"


def merged(passed: Headers, own: list[tuple[bytes, bytes]]) -> Headers:
    """The client's headers with the provider's own in the place of any of the same name."""
    names = {name for name, _ in own}
    return [(name, value) for name, value in passed if name not in names] + own


def own_headers(settings: ProviderSettings) -> list[tuple[bytes, bytes]]:
    """The headers that the provider's configuration adds to every request."""
    return [(name.lower().encode("latin-1"), value.encode("utf-8")) for name, value in settings.headers]


def native_path_url(base_url: str, path: str, query: bytes) -> str:
    """Join a native path to a base URL; a version that both name stands once (`…/v1` + `v1/files` → `…/v1/files`)."""
    version = base_url.rsplit("/", 1)[-1]
    head, slash, rest = path.partition("/")
    joined = rest if slash and head == version else path
    return with_query(f"{base_url}/{_unfragmented(joined)}", query)


def _unfragmented(text: str) -> str:
    """A request has no fragment: a `#` in its target is an ordinary character, and one that URLs must not hold."""
    return text.replace("#", "%23")
