"""From the text of a variable to its value, by the catalogue's row: type, range, choices.

Layer: config. Source: behaviour.md §0 (durations), §10.
"""

import math
import re

from gomodel_trio.config.catalogue import Variable, VariableKind
from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.located import Located, kind_of
from gomodel_trio.units import format_duration, parse_duration_s, parse_size_bytes

_INT = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})

Value = bool | int | float | str


def parse_value(row: Variable, text: str) -> Value:
    """Read `text` as the row says: bool, int (sizes too), float (durations in seconds too) or str (choices in their main spelling).

    Raises:
        ValueError: it is of another kind or out of range; the message repeats the value unless it is a secret.
    """
    match row.kind:
        case VariableKind.BOOL:
            return _bool(text)
        case VariableKind.INT | VariableKind.SIZE | VariableKind.FLOAT | VariableKind.DURATION:
            return _in_range(row, text, _number(row.kind, text))
        case VariableKind.CHOICE:
            return _choice(row, text)
        case _:
            return text


def text_of_scalar(row: Variable, item: Located, findings: Findings) -> str | None:
    """Write a YAML scalar as its variable would be written; None if it is blank, or after a fault."""
    value = item.value
    if isinstance(value, str):
        return clean(value) or None
    if row.kind in (VariableKind.STRING, VariableKind.SECRET) or not isinstance(value, int | float):
        hint = " (put it in quotes)" if isinstance(value, bool | int | float) else ""
        findings.fault(item.place, f"must be a {row.kind.value}, not {kind_of(value)}{hint}")
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def read_scalar(row: Variable, item: Located, findings: Findings) -> Value | None:
    """Read a YAML scalar as the row says; None if it is blank, or after a fault."""
    text = text_of_scalar(row, item, findings)
    if text is None:
        return None
    try:
        return parse_value(row, text)
    except ValueError as error:
        findings.fault(item.place, str(error))
        return None


def clean(text: str) -> str:
    """Drop what files and tools leave around a value: white space, a trailing newline, a byte order mark. A pair of quotes is blank."""
    text = text.strip().strip("\ufeff").strip()
    return "" if text in ('""', "''") else text


def is_wrapped_in_quotes(text: str) -> bool:
    """Whether quotes stand around the value as part of it, as `docker run --env-file` leaves them."""
    return len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""


def _bool(text: str) -> bool:
    word = text.lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError(f"must be true or false, not {shown(text)}" + _quotes_hint(text))


def _choice(row: Variable, text: str) -> str:
    word = text.lower()
    if word in row.choices:
        return row.choices[word]
    raise ValueError(f"must be one of {row.range_text}, not {shown(text)}" + _quotes_hint(text) + did_you_mean(word, row.choices))


def _number(kind: VariableKind, text: str) -> int | float:
    if kind is VariableKind.DURATION:
        return float(parse_duration_s(text))
    if kind is VariableKind.SIZE:
        return parse_size_bytes(text)
    if kind is VariableKind.INT:
        if _INT.fullmatch(text):
            return int(text)
        raise ValueError(f"must be a whole number, not {shown(text)}" + _quotes_hint(text))
    if _FLOAT.fullmatch(text):
        return float(text)
    raise ValueError(f"must be a number, not {shown(text)}" + _quotes_hint(text))


def _in_range(row: Variable, text: str, number: int | float) -> int | float:
    if row.zero_is_off and number == 0:
        return number
    is_low = (row.least is not None and number < row.least) or (row.above is not None and number <= row.above)
    if is_low or (row.most is not None and number > row.most) or not math.isfinite(number):
        raise ValueError(f"must be {_range_words(row)}, not {shown(text)}")
    return number


def _range_words(row: Variable) -> str:
    """The range in words, durations in their own unit."""

    def unit(bound: float) -> str:
        return format_duration(bound) if row.kind is VariableKind.DURATION else f"{bound:g}"

    words = []
    if row.least is not None and row.most is not None:
        words.append(f"from {unit(row.least)} to {unit(row.most)}")
    elif row.least is not None:
        words.append(f"at least {unit(row.least)}")
    elif row.above is not None:
        words.append(f"more than {unit(row.above)}")
    elif row.most is not None:
        words.append(f"at most {unit(row.most)}")
    else:
        words.append("a finite number")
    return " ".join(words) + (" (or 0 for off)" if row.zero_is_off else "")


def _quotes_hint(text: str) -> str:
    return "; the quotes are part of the value: this file format does not strip them" if is_wrapped_in_quotes(text) else ""
