"""The one task that owns the routing state: an inbox, a stamp, a step, a reply.

Layer: state. Source: architecture.md rules 3, 4, 6 and 8.

Theory. An asker puts its task and command into the inbox and sleeps; the actor, once awake, takes what is in the inbox without a checkpoint
in between. Taking a command and waking its asker are one synchronous stretch, so a command is either not taken, and dropped with its
cancelled asker, or its reply arrives, whatever is cancelled. `tell` never waits and is never refused: after the actor has stopped
it is carried out on the spot, so that leases closed while everything winds down are still counted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import overload

import outcome
import trio

from gomodel_trio.route.policy import Policy
from gomodel_trio.state.commands import (
    Command,
    CooldownStarted,
    Decide,
    Decision,
    Expire,
    Explain,
    Explanation,
    Fact,
    Finish,
    FirstByte,
    Inspect,
    Inspection,
    NextExpiry,
    NoTarget,
    Preview,
    ReplacePolicy,
    Reply,
    ResetTarget,
    RouteTier,
    Stamped,
    TierPinsCounted,
    TierReply,
)
from gomodel_trio.state.routing_state import RoutingState, step


class ActorStopped(Exception):
    """The actor has stopped; nothing is decided any more."""


class _Asker:
    """A command in the inbox. `task` is None for a tell; `is_dropped`: its asker was cancelled before it was taken."""

    __slots__ = ("command", "is_dropped", "task")

    def __init__(self, command: Command, task: trio.lowlevel.Task | None) -> None:
        self.command = command
        self.task = task
        self.is_dropped = False

    def drop(self, _raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        self.is_dropped = True
        return trio.lowlevel.Abort.SUCCEEDED


class Actor:
    """Owns the routing state; run it as a task, ask it and tell it from others.

    `draws` gives two uniform numbers in [0, 1). `on_facts` gets the facts of a batch of commands, in order; `journal` each command as
    stamped, before it is carried out. Both are synchronous; what they raise is contained and counted in `callback_failures`. A told
    command that raises is counted in `tell_failures`; an asked one raises at its asker.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        draws: Callable[[], tuple[float, float]],
        on_facts: Callable[[Sequence[Fact]], None],
        journal: Callable[[Stamped], None] | None = None,
    ) -> None:
        self._state = RoutingState(policy)
        self._draws = draws
        self._on_facts = on_facts
        self._journal = journal
        self._inbox: deque[_Asker] = deque()
        self._sleeping: trio.lowlevel.Task | None = None
        self._start_s: float | None = None
        self._last_at_s = 0.0
        self._seq = 0
        self._is_stopped = False
        self._ending_begun = trio.Event()
        self.callback_failures = 0
        self.tell_failures = 0

    @property
    def ending_begun(self) -> trio.Event:
        """Set when the next thing begins that may be the first to end: a cooldown, or the only pin; take it anew each time."""
        return self._ending_begun

    def now_s(self) -> float:
        """Tell the seconds since the actor started, on the clock that stamps commands; 0 before."""
        return 0.0 if self._start_s is None else trio.current_time() - self._start_s

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; whatever was told by then is carried out, whoever still asks gets `ActorStopped`."""
        self._start_s = trio.current_time()
        task_status.started()
        try:
            while True:
                self._take_batch()
                if self._inbox:  # a callback told something: others first
                    await trio.lowlevel.checkpoint()
                else:
                    self._sleeping = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._stop_sleeping)
        finally:
            self._last_at_s = self.now_s()
            self._is_stopped = True
            self._refuse_askers()
            self._take_batch()

    @overload
    async def ask(self, command: Decide | Preview) -> Decision | NoTarget: ...
    @overload
    async def ask(self, command: RouteTier) -> TierReply: ...
    @overload
    async def ask(self, command: Expire) -> NextExpiry: ...
    @overload
    async def ask(self, command: Inspect) -> Inspection: ...
    @overload
    async def ask(self, command: Explain) -> Explanation: ...
    @overload
    async def ask(self, command: ResetTarget) -> bool: ...
    @overload
    async def ask(self, command: ReplacePolicy | FirstByte | Finish) -> None: ...
    async def ask(self, command: Command) -> Reply:
        """Have a command carried out and tell its reply.

        Cancelled before the command was taken, it is dropped; taken, its reply is returned even to a cancelled asker.

        Raises:
            ActorStopped: the actor has stopped.
        """
        if self._is_stopped:
            raise ActorStopped
        asker = _Asker(command, trio.lowlevel.current_task())
        self._put(asker)
        reply: Reply = await trio.lowlevel.wait_task_rescheduled(asker.drop)
        return reply

    def tell(self, command: Command) -> None:
        """Have a command carried out soon, in the order of asks and tells; never refused, never waits."""
        self._put(_Asker(command, None))
        if self._is_stopped:
            self._take_batch()

    def _put(self, asker: _Asker) -> None:
        self._inbox.append(asker)
        if self._sleeping is not None:
            trio.lowlevel.reschedule(self._sleeping)
            self._sleeping = None

    def _stop_sleeping(self, _raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        self._sleeping = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _take_batch(self) -> None:
        """Carry out what is in the inbox now; commands that callbacks add wait for the next batch."""
        facts: list[Fact] = []
        for _ in range(len(self._inbox)):
            asker = self._inbox.popleft()
            if not asker.is_dropped:
                self._take(asker, facts)
        if facts:
            self._report(facts)

    def _take(self, asker: _Asker, facts: list[Fact]) -> None:
        try:
            reply, news = step(self._state, self._stamped(asker.command))
        except Exception as error:
            # A fault in one command is its asker's; the task that decides for all must live.
            if asker.task is None:
                self.tell_failures += 1
            else:
                trio.lowlevel.reschedule(asker.task, outcome.Error(error))
            return
        facts.extend(news)
        if asker.task is not None:
            trio.lowlevel.reschedule(asker.task, outcome.Value(reply))

    def _stamped(self, command: Command) -> Stamped:
        self._seq += 1
        if not self._is_stopped:
            self._last_at_s = self.now_s()
        stamped = Stamped(self._seq, self._last_at_s, self._draws(), command)
        if self._journal is not None:
            try:
                self._journal(stamped)
            except Exception:
                self.callback_failures += 1
        return stamped

    def _report(self, facts: list[Fact]) -> None:
        # Pins live equally long: one that is not alone ends after others that are waited for already.
        if any(isinstance(fact, CooldownStarted) or (isinstance(fact, TierPinsCounted) and fact.count == 1) for fact in facts):
            self._ending_begun.set()
            self._ending_begun = trio.Event()
        try:
            self._on_facts(facts)
        except Exception:
            self.callback_failures += 1

    def _refuse_askers(self) -> None:
        for asker in self._inbox:
            if asker.task is not None and not asker.is_dropped:
                asker.is_dropped = True
                trio.lowlevel.reschedule(asker.task, outcome.Error(ActorStopped()))
