"""Values that know where they stand, and readers that turn them into types or into faults at that place.

Layer: config. Shared by YAML and by JSON in variables, so that one rule gives one message wherever it is broken.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from gomodel_trio.config.findings import Findings, did_you_mean, shown


class Origin(Protocol):
    """Where a tree of values was read from."""

    def place(self, path: str) -> str:
        """Name the place of the value at `path` for a message."""


class VariableOrigin:
    """A variable that holds JSON: a path begins with its name and is its own place."""

    def place(self, path: str) -> str:
        """The path itself, e.g. `VIRTUAL_MODELS[0].source`."""
        return path


class ExpandedText(str):
    """Text that `${VAR}` was expanded in: it may stand for a number or a flag, which no other string may."""

    __slots__ = ()


@dataclass(frozen=True)
class Located:
    """A value of a tree and its path from the root, e.g. `virtual_models[0].targets`."""

    value: object
    path: str
    origin: Origin

    @property
    def place(self) -> str:
        """The place for messages."""
        return self.origin.place(self.path)

    def child(self, key: str | int, value: object) -> "Located":
        """The member `key` of this list or object."""
        if isinstance(key, int):
            return Located(value, f"{self.path}[{key}]", self.origin)
        return Located(value, f"{self.path}.{key}" if self.path else key, self.origin)


def kind_of(value: object) -> str:
    """Name the JSON kind of a value for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "an object"


def text_of(item: Located, findings: Findings, what: str = "a string") -> str | None:
    """Read a string that is not blank, trimmed; None after a fault."""
    if not isinstance(item.value, str):
        findings.fault(item.place, f"must be {what}, not {kind_of(item.value)}" + _quoting_hint(item.value))
        return None
    text = item.value.strip()
    if not text:
        findings.fault(item.place, f"must be {what}, but it is empty")
        return None
    return text


def flag_of(item: Located, findings: Findings) -> bool | None:
    """Read true or false; None after a fault."""
    if isinstance(item.value, bool):
        return item.value
    if isinstance(item.value, ExpandedText) and item.value.strip().lower() in ("true", "false"):
        return item.value.strip().lower() == "true"
    findings.fault(item.place, f"must be true or false, not {kind_of(item.value)}")
    return None


def number_of(item: Located, findings: Findings, *, least: float = 0.0, most: float = math.inf) -> float | None:
    """Read a finite number from `least` to `most`; None after a fault."""
    value = item.value
    if isinstance(value, ExpandedText):
        try:
            value = float(value)
        except ValueError:
            findings.fault(item.place, f"must be a number, not {shown(str(item.value))}")
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        findings.fault(item.place, f"must be a number, not {kind_of(value)}")
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        bound = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        findings.fault(item.place, f"must be a finite number {bound}, not {shown(f'{number:g}')}")
        return None
    return number


def items_of(item: Located, findings: Findings) -> list[Located] | None:
    """Read a list; None after a fault."""
    if not isinstance(item.value, list):
        findings.fault(item.place, f"must be a list, not {kind_of(item.value)}")
        return None
    return [item.child(index, value) for index, value in enumerate(item.value)]


def members_of(item: Located, findings: Findings, what: str = "an object") -> dict[str, Located] | None:
    """Read an object; None after a fault."""
    if not isinstance(item.value, dict):
        findings.fault(item.place, f"must be {what}, not {kind_of(item.value)}")
        return None
    return {str(key): item.child(str(key), value) for key, value in item.value.items()}


def texts_of(item: Located, findings: Findings) -> list[str]:
    """Read a list of strings that are not blank; those that are wrong are faults and left out."""
    texts = (text_of(each, findings) for each in items_of(item, findings) or ())
    return [text for text in texts if text is not None]


def check_keys(members: dict[str, Located], known: Collection[str], foreign: Collection[str], findings: Findings) -> None:
    """Make every unknown key a fault; one that GoModel knows and this version lacks only warns."""
    for key, item in members.items():
        if key in known:
            continue
        if key in foreign:
            findings.warn(item.place, "is GoModel's and not in this version: ignored")
        else:
            findings.fault(item.place, f"unknown key {shown(key)}" + did_you_mean(key, known))


def _quoting_hint(value: object) -> str:
    """YAML reads bare `yes`, `1.0` or `null` as other kinds: say so."""
    return " (put it in quotes)" if isinstance(value, bool | int | float) else ""
