"""Read JSON that somebody else wrote, without ever raising.

Layer: wire. msgspec is fast and strict: it refuses lone surrogates (which providers send where a delta splits an emoji), NaN and
integers beyond 64 bits. What it refuses is read again by the standard library. Source: behaviour.md §6 (the observer never raises).
"""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_MOST_SLOW_BYTES = 1 << 18
"""The standard library reads about 50 MB a second: a quarter of a megabyte costs 5 ms, more is not worth it."""


def decode_as(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T | None:
    """Decode to the decoder's type; None if it is no JSON of that shape."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError):
        pass
    if len(body) > _MOST_SLOW_BYTES:
        return None
    try:
        loose: T = msgspec.convert(json.loads(body.decode("utf-8", "replace")), decoder.type)
        return loose
    except (ValueError, RecursionError):
        return None


def decode_any(body: bytes) -> Any:
    """Decode to plain objects; None if it is no JSON."""
    return decode_as(_ANY, body)


_ANY: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(Any)
