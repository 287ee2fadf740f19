"""An object of a scenario file being read: each key once, unknown ones and wrong ranges as faults at their place.

Layer: replay. On the configuration's own readers, so that a scenario is as strict as config.yaml and says it in the same words.
"""

import math
from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.located import Located, check_keys, items_of, kind_of, members_of, number_of, text_of
from gomodel_trio.units import format_duration, parse_duration_s

Choice = TypeVar("Choice", bound=StrEnum)


class Members:
    """The members of an object; null ones are absent. Readers give the default for an absent member, and after a fault."""

    def __init__(self, item: Located, known: Collection[str], findings: Findings, what: str = "a mapping") -> None:
        self._place = item.place if item.path else item.place.partition(": ")[0]  # of the whole file, its name
        self._findings = findings
        members = members_of(item, findings, what) or {}
        check_keys(members, known, (), findings)
        self._given = {key: member for key, member in members.items() if member.value is not None}
        self.is_readable = isinstance(item.value, dict)

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def get(self, key: str) -> Located | None:
        """The member as it stands."""
        return self._given.get(key)

    def require(self, *keys: str) -> bool:
        """Whether all `keys` are there; each that is not is a fault."""
        missing = [key for key in keys if key not in self._given]
        if self.is_readable:
            for key in missing:
                self._findings.fault(self._place, f"has no {key!r}")
        return not missing

    def text(self, key: str, default: str = "") -> str:
        """A string that is not blank."""
        item = self._given.get(key)
        return default if item is None else text_of(item, self._findings) or default

    def number(self, key: str, default: float, *, least: float = 0.0, most: float = math.inf) -> float:
        """A finite number in a range."""
        item = self._given.get(key)
        number = None if item is None else number_of(item, self._findings, least=least, most=most)
        return default if number is None else number

    def whole(self, key: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
        """A whole number in a range."""
        item = self._given.get(key)
        if item is None:
            return default
        number = number_of(item, self._findings, least=least, most=most)
        if number is None:
            return default
        if number != int(number):
            self._findings.fault(item.place, f"must be a whole number, not {number:g}")
            return default
        return int(number)

    def duration(self, key: str, default: float, *, least: float = 0.0, most: float = math.inf) -> float:
        """A duration in seconds."""
        item = self._given.get(key)
        read = None if item is None else duration_of(item, self._findings, least=least, most=most)
        return default if read is None else read

    def choice(self, key: str, default: Choice) -> Choice:
        """One of an enumeration's values."""
        item = self._given.get(key)
        return default if item is None else choice_of(item, type(default), self._findings) or default

    def choices(self, key: str, kind: type[Choice]) -> tuple[Choice, ...]:
        """A list of an enumeration's values, without repeats; empty if absent."""
        item = self._given.get(key)
        read = [choice_of(each, kind, self._findings) for each in items_of(item, self._findings) or ()] if item is not None else []
        return tuple(dict.fromkeys(each for each in read if each is not None))

    def whole_range(self, key: str, default: tuple[int, int], *, least: int = 0, most: int = 10**9) -> tuple[int, int]:
        """A whole number, or a list of the least and the most."""
        item = self._given.get(key)
        if item is None or not isinstance(item.value, list):
            both = self.whole(key, default[0], least=least, most=most)
            return default if item is None else (both, both)
        numbers = [number_of(each, self._findings, least=least, most=most) for each in items_of(item, self._findings) or ()]
        if None in numbers:
            return default
        ends = [int(number) for number in numbers if number is not None]
        if len(ends) != 2 or ends[0] > ends[1] or ends != numbers:
            self._findings.fault(item.place, "must be a whole number or two of them, [least, most]")
            return default
        return ends[0], ends[1]

    def items(self, key: str) -> list[Located]:
        """A list; empty if absent."""
        item = self._given.get(key)
        return [] if item is None else items_of(item, self._findings) or []


def choice_of(item: Located, kind: type[Choice], findings: Findings) -> Choice | None:
    """Read one of an enumeration's values; None after a fault."""
    text = text_of(item, findings)
    known = [each.value for each in kind]
    if text is None or text in known:
        return None if text is None else kind(text)
    findings.fault(item.place, f"must be one of {', '.join(known)}, not {shown(text)}{did_you_mean(text, known)}")
    return None


def duration_of(item: Located, findings: Findings, *, least: float = 0.0, most: float = math.inf) -> float | None:
    """Read a duration, in seconds; None after a fault."""
    value = item.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        findings.fault(item.place, f"must be a duration such as 30s, not {kind_of(value)}")
        return None
    try:
        read = float(parse_duration_s(value if isinstance(value, str) else f"{value:f}"))
    except (ValueError, OverflowError) as error:
        findings.fault(item.place, str(error))
        return None
    if not least <= read <= most:
        bound = f"at least {format_duration(least)}" if most == math.inf else f"from {format_duration(least)} to {format_duration(most)}"
        findings.fault(item.place, f"must be {bound}, not {value}")
        return None
    return read
