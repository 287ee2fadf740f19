"""A lease: one attempt at a target, counted from the choice to its end whatever is cancelled in between.

Layer: state. Source: architecture.md rule 6; behaviour.md §5 (in-flight).
"""

from types import TracebackType

from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.state.actor import Actor
from gomodel_trio.state.commands import Decide, Decision, Finish, FirstByte, KeyFailed, NoTarget


def open_lease(actor: Actor, decide: Decide) -> "Lease":
    """Make the context manager of one attempt: `async with open_lease(actor, decide) as lease: …`.

    Entering asks the actor; `lease.decision` is its answer, and with a `NoTarget` no lease is open. Leaving closes the lease, as CLIENT if
    `finish` was not called: the client hung up, or the gateway itself failed, and neither is the target's fault.
    """
    return Lease(actor, decide)


class Lease:
    """One attempt in flight. Its methods are synchronous and safe after the end."""

    __slots__ = ("_actor", "_decide", "_has_first_byte", "_has_head", "_is_open", "decision")

    decision: Decision | NoTarget

    def __init__(self, actor: Actor, decide: Decide) -> None:
        self._actor = actor
        self._decide = decide
        self._is_open = False
        self._has_first_byte = False
        self._has_head = False

    async def __aenter__(self) -> "Lease":
        # Nothing may be awaited between the reply and the end of this method, or a cancelled asker would leak what it was given.
        self.decision = await self._actor.ask(self._decide)
        self._is_open = isinstance(self.decision, Decision)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.finish(Outcome.CLIENT)

    def head(self) -> None:
        """Note that an answer has begun with a 2xx. It is told only if the client leaves before its end: else the end says more."""
        self._has_head = True

    def first_byte(self) -> None:
        """Tell that an answer's first content has come."""
        if self._is_open and not self._has_first_byte and isinstance(self.decision, Decision):
            self._has_first_byte = True
            self._actor.tell(FirstByte(self.decision.lease))

    def next_key(self, key: int, outcome: Outcome, *, cause: Cause = Cause.NONE, retry_after_s: float | None = None) -> None:
        """Tell that the attempt with one key ended so, and the next begins with `key`."""
        if self._is_open and isinstance(self.decision, Decision):
            self._has_head = False
            self._actor.tell(KeyFailed(self.decision.lease, key, outcome, cause, retry_after_s))

    def finish(self, outcome: Outcome, *, cause: Cause = Cause.NONE, retry_after_s: float | None = None) -> None:
        """End the attempt; only the first call counts."""
        if self._is_open and isinstance(self.decision, Decision):
            if self._has_head and outcome is Outcome.CLIENT and not self._has_first_byte:
                self._actor.tell(FirstByte(self.decision.lease, is_content=False))
            self._is_open = False
            self._actor.tell(Finish(self.decision.lease, outcome, cause, retry_after_s))
