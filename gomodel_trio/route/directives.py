"""What a caller's headers ask of routing: a tier, none at all, a user path.

Layer: route; pure. Source: behaviour.md §3 (overrides), §9 (user path).
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import Alias, SmartRouting

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

_TIERS: Final = {tier.value: tier for tier in Tier}


def header(headers: Headers, name: bytes) -> str | None:
    """The first value of a header (name in lower case) as text, latin-1; None if absent."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def alias_of(smart: SmartRouting, model: str | None, provider: str | None, headers: Headers) -> Alias | None:
    """The alias that a request names; None where tier routing does not apply: off, an explicit provider, or switched off by header."""
    if not smart.enabled or model is None or provider is not None or model not in smart.aliases:
        return None
    switch = header(headers, b"x-gomodel-smart-routing")
    return None if switch is not None and switch.strip().lower() == "off" else smart.aliases[model]


def forced_tier(headers: Headers) -> Tier | None:
    """The tier that `X-GoModel-Tier` demands; other values are ignored."""
    wanted = header(headers, b"x-gomodel-tier")
    return None if wanted is None else _TIERS.get(wanted.strip().lower())


def user_path_of(headers: Headers) -> str:
    """The caller's user path (X-GoModel-User-Path), "" if none: one leading slash, none at the end, no empty segments."""
    given = header(headers, b"x-gomodel-user-path")
    if given is None:
        return ""
    with suppress(UnicodeDecodeError):  # latin-1 it is, then
        given = given.encode("latin-1").decode("utf-8")
    segments = [segment for segment in given.strip().split("/") if segment]
    return "/" + "/".join(segments) if segments else ""
