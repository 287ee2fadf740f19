"""The commands the state actor takes, what it replies, and the facts it reports.

Layer: state. Commands are imperative, facts past. Source: architecture.md rules 3–6; behaviour.md §3 (pins), §4, §5.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import Policy
from gomodel_trio.wire.dialect import Dialect

# ---- commands -------------------------------------------------------------------------------------------------------


class RouteTier(msgspec.Struct, frozen=True, tag=True):
    """Raise or read the tier pin of (alias, session) for a scored request. Not sent for forced or unpinned requests. → TierReply"""

    alias: str
    session: SessionId
    verdict: Tier


class Decide(msgspec.Struct, frozen=True, tag=True):
    """Choose a target and open a lease on it, in one step. → Decision | NoTarget

    `name` is the model asked for after tier routing (virtual model, qualified or bare). `provider`: the body's explicit one (no virtual
    model then). `tried`: targets this request has already attempted; they are not chosen again. `again`: take this very target once more
    (a retry), without strategy or pin. `feeds_routing`: chat, responses and messages; others touch neither pins nor estimates.
    `dialect`: what the request is in; targets that do not speak it are not available to it. None: any.
    """

    name: str
    session: SessionId | None
    user_path: str
    kind: Kind
    feeds_routing: bool = True
    provider: str | None = None
    tried: tuple[TargetId, ...] = ()
    again: TargetId | None = None
    dialect: Dialect | None = None


class FirstByte(msgspec.Struct, frozen=True, tag=True):
    """The target answered 2xx: a stream's first content event (§6), or the head of a unary answer. No reply."""

    lease: LeaseId


class Finish(msgspec.Struct, frozen=True, tag=True):
    """The attempt is over; closes the lease. No reply. `outcome` CLIENT: the client hung up or the gateway itself gave up."""

    lease: LeaseId
    outcome: Outcome
    cause: Cause = Cause.NONE
    retry_after_s: float | None = None


class Expire(msgspec.Struct, frozen=True, tag=True):
    """Free what is over and report it. Decisions never depend on it (rule 5). → NextExpiry"""


class ReplacePolicy(msgspec.Struct, frozen=True, tag=True):
    """Take a new policy; state survives by target name unless the provider's fingerprint changed. No reply."""

    policy: Policy


class ResetTarget(msgspec.Struct, frozen=True, tag=True):
    """Forget a target's health and estimates. → bool (whether it was known)"""

    target: TargetId


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Show the state of every target. → Inspection"""


class Preview(msgspec.Struct, frozen=True, tag=True):
    """What Decide would answer, without changing anything. → Decision | NoTarget"""

    decide: Decide


Command = RouteTier | Decide | FirstByte | Finish | Expire | ReplacePolicy | ResetTarget | Inspect | Preview


class Stamped(msgspec.Struct, frozen=True):
    """A command as the actor's task took it: with it every reply can be recomputed. `at_s`: seconds since start; two uniform draws."""

    seq: int
    at_s: float
    draws: tuple[float, float]
    command: Command


# ---- replies --------------------------------------------------------------------------------------------------------


class TierReply(msgspec.Struct, frozen=True):
    """`tier` = max(pin, verdict). `is_pinned`: the pin alone raised it. `is_escalated`: the pin went easy → hard now."""

    tier: Tier
    is_pinned: bool
    is_escalated: bool


Reason = Literal["single", "round_robin", "cost", "failover", "adaptive", "pinned", "next", "probe", "all_cooling", "again"]
"""How a target was chosen."""


class Decision(msgspec.Struct, frozen=True):
    """A target was chosen and counted.

    `source`: the outermost virtual model, None for a concrete name. `reason`: how it was chosen. `candidates`: the available targets, in
    declared order, chained ones flattened. `left`: how many untried candidates remain after this one, in the order they would be tried
    (for adaptive: not cooling first). `is_failover_allowed`: the virtual model's `failover`. `was_cooling`: it is a last resort.
    `keys`: indices of the provider's keys, in the order to use them. `slowdown`: of the virtual model, None if there is none.
    """

    lease: LeaseId
    target: TargetId
    reason: Reason
    source: str | None = None
    candidates: tuple[TargetId, ...] = ()
    left: tuple[TargetId, ...] = ()
    is_failover_allowed: bool = True
    was_cooling: bool = False
    keys: tuple[int, ...] = (0,)
    slowdown: float | None = None


class Why(StrEnum):
    """Why there is no target."""

    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"
    FORBIDDEN = "forbidden"
    DIALECT = "dialect_mismatch"
    EXHAUSTED = "exhausted"


class NoTarget(msgspec.Struct, frozen=True):
    """Nothing to choose. UNKNOWN: the name resolves to nothing; UNAVAILABLE: only to targets of unavailable providers; FORBIDDEN: the user
    path is not allowed (shown to the client as unknown); DIALECT: only to targets that do not speak the request's dialect, though they are
    available to others; EXHAUSTED: every candidate was tried.

    `retry_after_s`: the least remaining cooldown of the candidates, None if none is cooling. Of DIALECT: `target` is the first that would
    serve a request in one of `dialects`.
    """

    why: Why
    retry_after_s: float | None = None
    target: TargetId | None = None
    dialects: tuple[Dialect, ...] = ()


class NextExpiry(msgspec.Struct, frozen=True):
    """The next instant anything ends; None if nothing will."""

    at_s: float | None


class TargetState(msgspec.Struct, frozen=True):
    """One row of an inspection."""

    target: TargetId
    in_flight: int
    is_cooling: bool
    is_on_probation: bool
    cooldown_left_s: float
    streak: int
    pins: int


class Inspection(msgspec.Struct, frozen=True):
    """The whole state, for operators and tests."""

    targets: tuple[TargetState, ...]
    open_leases: int
    tier_pins: int
    target_pins: int


Reply = TierReply | Decision | NoTarget | NextExpiry | Inspection | bool | None
"""What a command may be answered with; None where there is no reply."""

# ---- facts ----------------------------------------------------------------------------------------------------------


class TierEscalated(msgspec.Struct, frozen=True, tag=True):
    """A session's pin went from easy to hard."""

    alias: str


class TierPinsCounted(msgspec.Struct, frozen=True, tag=True):
    """How many tier pins there are now."""

    count: int


class CooldownStarted(msgspec.Struct, frozen=True, tag=True):
    """A target was benched. `reason`: rate, auth, not_found, account or fault."""

    target: TargetId
    reason: Outcome
    until_s: float
    for_s: float


class CooldownEnded(msgspec.Struct, frozen=True, tag=True):
    """A target may be chosen again (on probation, unless a success ended it)."""

    target: TargetId


class PinReleased(msgspec.Struct, frozen=True, tag=True):
    """A session left a cooling target for good."""

    source: str


class PinHonored(msgspec.Struct, frozen=True, tag=True):
    """A session was kept on its target."""

    source: str


class PinExpired(msgspec.Struct, frozen=True, tag=True):
    """Pins that nobody used ended. `kind`: tier or target."""

    kind: Literal["tier", "target"]
    count: int


class AttemptEnded(msgspec.Struct, frozen=True, tag=True):
    """A lease was closed."""

    target: TargetId
    outcome: Outcome
    cause: Cause
    elapsed_s: float


class InFlightChanged(msgspec.Struct, frozen=True, tag=True):
    """A target's count of running attempts."""

    target: TargetId
    count: int


Fact = (
    TierEscalated
    | TierPinsCounted
    | CooldownStarted
    | CooldownEnded
    | PinReleased
    | PinHonored
    | PinExpired
    | AttemptEnded
    | InFlightChanged
)
