"""What every kind of provider has: the form it wants to be asked in, and a way to make an upstream request of a body in that form.

Layer: upstream. Source: behaviour.md §7.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.decoding import Decoder
from gomodel_trio.upstream.transport import Headers, UpstreamRequest
from gomodel_trio.wire.dialect import Api

TRANSLATED: Final = frozenset({Api.CHAT, Api.RESPONSES, Api.MESSAGES})
"""What clients may ask in and be answered from any form of a target."""


class Adapter(Protocol):
    """One configured provider, ready to be asked."""

    @property
    def settings(self) -> ProviderSettings: ...

    def asks_in(self, api: Api, model: str) -> Api | None:
        """The form in which `model` is asked what a client asks in `api`; another means translation. None: it cannot be asked that."""
        ...

    def url(self, api: Api, model: str, query: bytes, *, is_stream: bool) -> str:
        """The URL for a request in the form `api`; `query` is the client's, already free of credentials."""
        ...

    def body(self, body: bytes, model: str, passed: Headers, *, is_stream: bool) -> bytes:
        """A body in the form it is asked in, with what the provider wants different from the form's inventor."""
        ...

    @property
    def is_signed(self) -> bool:
        """Whether requests must pass `authorized` before they are sent."""
        ...

    async def authorized(self, request: UpstreamRequest, key: Secret | None) -> UpstreamRequest:
        """The request with a signature or a fetched token.

        Raises:
            CredentialsUnavailable: there are none to be had now.
        """
        ...

    async def refreshed(self) -> bool:
        """Fetch new credentials after a refusal; whether there are any that were not refused yet."""
        ...

    def unframer(self, content_type: str | None) -> Decoder | None:
        """What makes an event stream of the provider's own framing of answers; None: it has none."""
        ...

    def native_url(self, path: str, query: bytes) -> str:
        """The URL for the native path `path` (no leading slash, percent-encoded as the client sent it)."""
        ...

    def headers(self, passed: Headers, key: Secret | None) -> Headers:
        """The headers to send: the client's that may pass, the provider's own, and its credential."""
        ...


class CredentialsUnavailable(Exception):
    """The provider's credentials cannot be had: wrong, gone, or their issuer is silent. The message never holds one."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A provider that takes a body as its form has it, and a key in a header."""

    settings: ProviderSettings
    is_signed: ClassVar[bool] = False

    def asks_in(self, api: Api, model: str) -> Api | None:  # noqa: ARG002 - the shape of Adapter
        """As it is asked, where it can be; else in the first of its forms, as far as there is a translation."""
        forms = self.settings.forms
        if api in forms:
            return api
        return forms[0] if api in TRANSLATED and forms else None

    def body(self, body: bytes, model: str, passed: Headers, *, is_stream: bool) -> bytes:  # noqa: ARG002 - the shape of Adapter
        """As it is."""
        return body

    async def authorized(self, request: UpstreamRequest, key: Secret | None) -> UpstreamRequest:  # noqa: ARG002
        """As it is: the key is in a header already."""
        return request

    async def refreshed(self) -> bool:
        """A key is what it is."""
        return False

    def unframer(self, content_type: str | None) -> Decoder | None:  # noqa: ARG002 - the shape of Adapter
        """Event streams are framed as such."""
        return None


@dataclass(frozen=True, slots=True)
class AtBaseUrl(Plain):
    """Where a provider is whose endpoints stand under its base URL, which holds the version: `https://api.openai.com/v1`."""

    def url(self, api: Api, model: str, query: bytes, *, is_stream: bool) -> str:  # noqa: ARG002 - the shape of Adapter
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
