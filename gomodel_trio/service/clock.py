"""The one clock: seconds since the start, and wall time.

Layer: service. Source: architecture.md (trio's time starts at a random offset: record seconds since the start, and wall time).
"""

import time
from collections.abc import Callable

import trio


class Clock:
    """Runs on trio's clock, so in tests on virtual time. Made inside `trio.run`."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._started_at = trio.current_time()
        self._wall = wall

    def now_s(self) -> float:
        """Seconds since the start; never goes back."""
        return trio.current_time() - self._started_at

    def epoch_s(self) -> float:
        """Wall time, seconds since 1970; follows corrections of the system's clock."""
        return self._wall()
