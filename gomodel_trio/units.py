"""Units as operators write them: "30m" → 1800.0 seconds, "10M" → bytes.

Layer: the floor; imports nothing of ours. Source: behaviour.md §0 (Go's duration syntax or a bare number of seconds).
"""

import re
from typing import NewType

Seconds = NewType("Seconds", float)

_DURATION = re.compile(r"(?P<sign>[+-]?)(?P<parts>(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNIT_NS = (("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))
_NS_PER_MS = 1_000_000
_BARE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)", re.ASCII)
_SIZE = re.compile(r"(\d+\.?\d*|\.\d+)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE | re.ASCII)
_SIZE_FACTOR = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LONGEST_S = 100 * 365 * 86400.0
"""A century: beyond it a duration is a typing mistake, and arithmetic on deadlines stays exact."""


def parse_duration_s(text: str) -> Seconds:
    """Read a duration in Go's syntax ("1h30m", "250ms") or a bare number of seconds; it may be negative.

    Raises:
        ValueError: it is neither, or longer than a century.
    """
    stripped = text.strip()
    if _BARE.fullmatch(stripped):
        value = float(stripped)
    else:
        whole = _DURATION.fullmatch(stripped)
        if whole is None:
            raise ValueError(f"{text!r} is no duration: write 30s, 5m, 1h30m, 250ms or a number of seconds")
        value = sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION_PART.findall(whole["parts"]))
        if whole["sign"] == "-":
            value = -value
    if abs(value) > _LONGEST_S:
        raise ValueError(f"{text!r} is longer than a century")
    return Seconds(value)


def format_duration(value_s: float) -> str:
    """Write seconds in whole units, so that it reads back ("1h30m", "30s", "250ms"): to the millisecond, below one to the nanosecond."""
    left_ns = round(abs(value_s) * 1e9)
    if left_ns >= _NS_PER_MS:
        left_ns = round(abs(value_s) * 1e3) * _NS_PER_MS
    if left_ns == 0:
        return "0s"
    out = "-" if value_s < 0 else ""
    for unit, unit_ns in _UNIT_NS:
        count, left_ns = divmod(left_ns, unit_ns)
        if count:
            out += f"{count}{unit}"
    return out


def parse_size_bytes(text: str) -> int:
    """Read a size: bytes, or with K, M, G, T (powers of 1024; "KB", "KiB" alike).

    Raises:
        ValueError: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size: write 10M, 512K or a number of bytes")
    size = float(match[1]) * (_SIZE_FACTOR[match[2].upper()] if match[2] else 1)
    if size >= 1 << 50:
        raise ValueError(f"{text!r} is beyond a petabyte")
    return int(size)
