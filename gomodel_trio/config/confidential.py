"""Everything of a configuration that must never be shown, as plain texts: for the log, which takes them out of whatever it is given.

Layer: config. Source: behaviour.md §8 (what is redacted), §9.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

from gomodel_trio.config.settings import Settings

_SHORTEST = 8
"""Shorter texts protect nothing, and taking them out would make lines unreadable: `x`, `test`, `none`."""
_SECRET_NAME = re.compile(r"auth|key|secret|token|cookie|credential|password", re.IGNORECASE)


def confidential_texts(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """The master key, the providers' keys and secret headers, and the proxies' credentials, those of the process's `environ` too.

    Left out: what is too short, and placeholders that are part of a configured name (`ollama-local` for the provider of that name).
    """
    public = " ".join(
        [
            *settings.providers,
            *(provider.type for provider in settings.providers.values()),
            *(model.id for provider in settings.providers.values() for model in provider.models),
            *settings.virtual_models,
            *settings.smart.aliases,
        ]
    )
    return frozenset(text for text in _all(settings, environ) if len(text) >= _SHORTEST and text not in public)


def _all(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    if settings.server.master_key is not None:
        yield settings.server.master_key.reveal()
    for provider in settings.providers.values():
        yield from (key.reveal() for key in provider.api_keys)
        yield from (value for name, value in provider.headers if _SECRET_NAME.search(name))
        if provider.proxy_url is not None:
            yield from _credentials(provider.proxy_url.reveal())
    for name, value in environ.items():
        if name.lower().endswith("_proxy"):
            yield from _credentials(value)


def _credentials(url: str) -> Iterator[str]:
    """User and password together, and the password alone, as written and decoded."""
    try:
        credentials, at, _ = urlsplit(url if "://" in url else f"http://{url}").netloc.rpartition("@")
    except ValueError:
        return
    password = credentials.partition(":")[2]
    if at:
        yield from (credentials, unquote(credentials), password, unquote(password))
