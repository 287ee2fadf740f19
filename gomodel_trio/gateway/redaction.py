"""What must not reach a client in an upstream's own words: the configured secrets, and where the provider is.

Layer: gateway; pure. Source: behaviour.md §9 (never a key or an upstream URL to the client).
"""

import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.gateway.headers import is_credential
from gomodel_trio.gateway.http import Headers

REDACTED: Final = "[REDACTED]"
_SURE_LENGTH: Final = 8
"""A secret of so many characters stands in no text by chance."""
_LEAST_LENGTH: Final = 4
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Redactor:
    """Takes exact occurrences of a provider's keys, of the master key and of the provider's base URL out of texts.

    A secret of 4 to 7 characters counts only where it stands as a word of its own, and not if it is made of letters alone, as the
    placeholders of local servers are: those stand in ordinary prose.
    """

    __slots__ = ("_pattern",)

    def __init__(self, master_key: Secret | None, provider: ProviderSettings | None) -> None:
        spellings = {spelling for text in _private(master_key, provider) for spelling in _spellings(text)}
        patterns = [pattern for text in sorted(spellings, key=lambda each: (-len(each), each)) if (pattern := _pattern(text))]
        self._pattern = re.compile("|".join(patterns).encode("utf-8")) if patterns else None

    def is_clean(self, data: bytes) -> bool:
        """Whether nothing in it is to be hidden."""
        return self._pattern is None or self._pattern.search(data) is None

    def data(self, data: bytes) -> bytes:
        """The same bytes, with what is to be hidden replaced."""
        return data if self._pattern is None else self._pattern.sub(REDACTED.encode(), data)

    def text(self, text: str) -> str:
        """The same text, with what is to be hidden replaced."""
        encoded = text.encode("utf-8", "surrogatepass")
        return text if self.is_clean(encoded) else self.data(encoded).decode("utf-8", "surrogatepass")

    def headers(self, headers: Headers) -> Headers:
        """The headers without those that hold what is to be hidden."""
        if self._pattern is None or self._pattern.search(b"\0".join([part for pair in headers for part in pair])) is None:
            return headers
        return [(name, value) for name, value in headers if self.is_clean(name) and self.is_clean(value)]


def _private(master_key: Secret | None, provider: ProviderSettings | None) -> Iterator[str]:
    if master_key is not None:
        yield master_key.reveal()
    if provider is None:
        return
    for key in provider.api_keys:
        yield key.reveal()
    for name, value in provider.headers:
        if is_credential(name.encode("utf-8")):
            yield value
    yield from _addresses(provider.base_url)
    if provider.proxy_url is not None:
        yield from _addresses(provider.proxy_url.reveal())


def _addresses(url: str) -> Iterator[str]:
    """A URL, its origin, its authority where that has a port or credentials, and the password."""
    if "://" not in url:
        return
    yield url
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), parts.netloc.rpartition("@")[2]
    yield f"{scheme}://{host}"
    if parts.password:
        yield parts.password
    yield host if re.search(r":\d+$", host) else f"{host}:{_DEFAULT_PORTS.get(scheme, 0)}"


def _spellings(text: str) -> tuple[str, ...]:
    """A text as it is, as JSON writes it, and as JSON writers write it that escape slashes."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return text, escaped, escaped.replace("/", "\\/")


def _pattern(text: str) -> str | None:
    if len(text) >= _SURE_LENGTH:
        return re.escape(text)
    if len(text) < _LEAST_LENGTH or text.isalpha():
        return None
    return rf"(?<![A-Za-z0-9_-]){re.escape(text)}(?![A-Za-z0-9_-])"


NOTHING_PRIVATE: Final = Redactor(None, None)
