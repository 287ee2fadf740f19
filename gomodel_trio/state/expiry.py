"""The scheduler that has the actor free and report what is over, at the instant it ends.

Layer: state. No decision depends on it. Source: architecture.md rule 5.
"""

from typing import Final

import trio

from gomodel_trio.state.actor import Actor, ActorStopped
from gomodel_trio.state.commands import Expire

SHORTEST_WAIT_S: Final = 0.05
"""However many things end, the actor is asked at most so often: reports are for gauges, which nobody reads faster."""

LONGEST_WAIT_S: Final = 30.0
"""A virtual model's pins, and a time to live that a reload shortened, begin without a sign to this task; it looks at least so often."""


async def run_expiry(
    actor: Actor,
    *,
    shortest_wait_s: float = SHORTEST_WAIT_S,
    longest_wait_s: float = LONGEST_WAIT_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Send `Expire` whenever something ends, until cancelled or the actor has stopped."""
    task_status.started()
    while True:
        begun = actor.ending_begun  # before asking: what begins behind the reply must not be missed
        try:
            reply = await actor.ask(Expire())
        except ActorStopped:
            return
        await trio.sleep(shortest_wait_s)
        wait_s = longest_wait_s if reply.at_s is None else min(reply.at_s - actor.now_s(), longest_wait_s)
        with trio.move_on_after(max(wait_s, 0.0)):
            await begun.wait()
