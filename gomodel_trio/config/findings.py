"""What reading the configuration found: faults that stop the start, warnings that do not.

Layer: config. Source: behaviour.md §10 (every fault is reported at once with its name and place).
"""

import difflib
from collections.abc import Iterable

from gomodel_trio.errors import ConfigFault, ConfigurationError

_LONGEST_SHOWN = 80
"""Characters of a wrong value that a message repeats: enough to recognise it, too few to flood a terminal."""


class Findings:
    """Collects faults and warnings while the configuration is read; both are kept in the order found, without repeats."""

    def __init__(self) -> None:
        self._faults: dict[tuple[str, str], ConfigFault] = {}
        self._warnings: dict[str, None] = {}

    def fault(self, place: str, message: str) -> None:
        """Note something that must be corrected before the gateway can start."""
        self._faults.setdefault((place, message), ConfigFault(place, message))

    def warn(self, place: str, message: str) -> None:
        """Note something the operator should know."""
        self._warnings.setdefault(f"{place}: {message}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, one line each."""
        return tuple(self._warnings)

    @property
    def faults(self) -> tuple[ConfigFault, ...]:
        """The faults so far."""
        return tuple(self._faults.values())

    def raise_faults(self) -> None:
        """Raise all faults together, if there is one.

        Raises:
            ConfigurationError: with every fault.
        """
        if self._faults:
            raise ConfigurationError(list(self._faults.values()))


def shown(text: str) -> str:
    """Quote a wrong value for a message, shortened. Never call it with a secret."""
    return repr(text) if len(text) <= _LONGEST_SHOWN else repr(text[:_LONGEST_SHOWN]) + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that `word` most likely stands for: `; did you mean "x"?`, or nothing."""
    if len(word) > _LONGEST_SHOWN:
        return ""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""
