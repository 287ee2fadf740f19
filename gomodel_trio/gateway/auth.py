"""Who may use the gateway: the master key, from the headers alone, in constant time.

Layer: gateway; pure. Source: behaviour.md §9.
"""

import hashlib
import hmac

from gomodel_trio.errors import Unauthenticated
from gomodel_trio.gateway.http import Headers


class MasterKey:
    """The one key, kept as a digest; without a key everybody is let in."""

    __slots__ = ("_digest",)

    def __init__(self, key: str | None) -> None:
        self._digest = None if key is None else hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

    @property
    def is_set(self) -> bool:
        """Whether a key is wanted at all."""
        return self._digest is not None

    def check(self, headers: Headers) -> None:
        """Let a request pass that bears the key as `Authorization: Bearer` or `x-api-key`; either is enough.

        Raises:
            Unauthenticated: neither holds the key. The message never repeats what was sent.
        """
        if self._digest is None:
            return
        offered = _credentials(headers)
        for key in offered:
            if hmac.compare_digest(hashlib.sha256(key).digest(), self._digest):
                return
        if offered:
            raise Unauthenticated("The API key is not this gateway's: send the gateway's own key, not a provider's.")
        raise Unauthenticated("No API key was sent: send `Authorization: Bearer KEY` or `x-api-key: KEY`.", code="missing_api_key")


def _credentials(headers: Headers) -> list[bytes]:
    found = []
    for name, value in headers:
        if name == b"x-api-key":
            found.append(value.strip())
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                found.append(key.strip())
    return [key for key in found if key]
