"""Signals before the gateway listens to them, and after: the start and the last moments of the process.

Layer: service. Source: behaviour.md §6, §10; signal(7). Standard library only, for it comes before everything that is slow to import.

Starting, TERM and INT end the process at once with 0, as they do later when nothing runs; HUP is remembered, since what it is about may
have been read already. Once `service.signals` has taken over, what comes after its end finds a process that is about to end anyway.
"""

import os
import signal
from types import FrameType

_RELOADING = getattr(signal, "SIGHUP", None)


class EarlySignals:
    """What the process does with signals while `service.signals` does not receive them."""

    def __init__(self) -> None:
        self._has_served = False
        self._reload_is_wanted = False

    def install(self) -> None:
        """Take the signals; from the main thread, before anything else."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if _RELOADING is not None:
            signal.signal(_RELOADING, self._note_reload)

    def hand_over(self) -> bool:
        """Note that somebody else receives them now; whether a reload was asked for until then."""
        wanted, self._reload_is_wanted, self._has_served = self._reload_is_wanted, False, True
        return wanted

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._has_served:
            os._exit(0)  # nothing is open, and whatever is being imported must not tell how it was interrupted

    def _note_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload_is_wanted = True


EARLY = EarlySignals()
"""The process's own: there is one set of handlers."""
