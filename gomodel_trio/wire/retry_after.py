"""When an upstream wants to be asked again: `retry-after-ms`, `retry-after`, or the delay in its error body.

Layer: wire. Source: RFC 9110 §10.2.3 and §5.6.7 (the three forms of HTTP-date); behaviour.md §5 (Retry-After).
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from gomodel_trio.wire.faults import Fault

LONGEST_S = 1e12
"""Stands for every longer wait, so that arithmetic on it stays finite; cooldowns cap it anyway."""

_LONGEST_HEADER = 400
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = dict(zip(_MONTH_NAMES, range(1, 13), strict=True))
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = (
    re.compile(rf"(?:[a-z]{{3}}, *)?(?P<day>\d{{1,2}}) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} (?:gmt|utc|[+-]0000)", re.ASCII),
    re.compile(rf"[a-z]{{6,9}}, *(?P<day>\d{{1,2}})-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} (?:gmt|utc)", re.ASCII),
    re.compile(rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) {{1,2}}(?P<day>\d{{1,2}}) {_TIME} (?P<year>\d{{4}})", re.ASCII),
)


def parse_retry_after(headers: Iterable[tuple[bytes, bytes]], now_epoch_s: float, fault: Fault | None = None) -> float | None:
    """Seconds until the upstream wants to be asked again, ≥ 0 and uncapped; None if it does not say or says nonsense.

    `headers` have lower-case names. A time in the past, or a negative number, is 0.
    """
    texts: dict[bytes, str] = {}
    for name, value in headers:
        if name in (b"retry-after-ms", b"retry-after"):
            texts.setdefault(name, value[:_LONGEST_HEADER].decode("latin-1").strip().lower())
    wait_ms = _number(texts.get(b"retry-after-ms", ""))
    if wait_ms is not None:
        return wait_ms / 1000
    text = texts.get(b"retry-after", "")
    wait_s = _number(text)
    if wait_s is None:
        at_epoch_s = _date_epoch_s(text, now_epoch_s)
        wait_s = None if at_epoch_s is None else max(0.0, at_epoch_s - now_epoch_s)
    if wait_s is None and fault is not None:
        wait_s = fault.retry_after_s
    return wait_s


def _number(text: str) -> float | None:
    return min(max(0.0, float(text)), LONGEST_S) if _NUMBER.fullmatch(text) else None


def _date_epoch_s(text: str, now_epoch_s: float) -> float | None:
    """Read an HTTP-date in any case. Two-digit years are taken to lie at most 50 years ahead, as RFC 9110 has it."""
    match = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if match is None or match["month"] not in _MONTHS:
        return None
    year = int(match["year"])
    try:
        if year < 100:
            this_year = datetime.fromtimestamp(now_epoch_s, UTC).year
            year += this_year - this_year % 100
            year -= 100 if year > this_year + 50 else 0
        second = min(int(match["second"]), 59)
        at = datetime(year, _MONTHS[match["month"]], int(match["day"]), int(match["hour"]), int(match["minute"]), second, tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.timestamp()
