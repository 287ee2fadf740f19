"""Signals: TERM and INT drain, insisting on it stops at once, HUP reloads.

Layer: service. Source: behaviour.md §6 (drain), §10 (HUP).
"""

import signal
from collections.abc import Callable
from typing import Literal

import trio

_REPEAT_S = 1.0
"""A supervisor and a terminal may both pass on one wish to stop: what follows within a second is the same wish."""
_STOPPING = {signal.SIGTERM, signal.SIGINT}
_RELOADING = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()


class StopRule:
    """What each wish to stop means."""

    def __init__(self) -> None:
        self._first_at_s: float | None = None

    def judge(self, at_s: float) -> Literal["drain", "ignore", "force"]:
        """The first drains; one more than a second after it forces; between them it is a repetition."""
        if self._first_at_s is None:
            self._first_at_s = at_s
            return "drain"
        return "force" if at_s - self._first_at_s > _REPEAT_S else "ignore"


async def watch_signals(
    on_drain: Callable[[], object],
    on_force: Callable[[], object],
    on_reload: Callable[[], object],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call back for each signal, for ever; started once the process's own handlers stand. The callbacks must not block."""
    rule = StopRule()
    with trio.open_signal_receiver(*_STOPPING, *_RELOADING) as signals:
        task_status.started()
        async for number in signals:
            if number in _RELOADING:
                on_reload()
                continue
            match rule.judge(trio.current_time()):
                case "drain":
                    on_drain()
                case "force":
                    on_force()
                case "ignore":
                    pass
