"""The commands the state actor takes, what it replies, and the facts it reports.

Layer: state. Commands are imperative, facts past. Source: architecture.md rules 3–6; behaviour.md §3 (pins), §4, §5.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from gomodel_trio.route.decide import DecisionInput, Selection
from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import Policy, Strategy
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
    """The target answered 2xx. No reply. `is_content`: its first content event (§6) came; else only the head of an answer did."""

    lease: LeaseId
    is_content: bool = True


class Finish(msgspec.Struct, frozen=True, tag=True):
    """The attempt is over; closes the lease. No reply. `outcome` CLIENT: the client hung up or the gateway itself gave up."""

    lease: LeaseId
    outcome: Outcome
    cause: Cause = Cause.NONE
    retry_after_s: float | None = None


class KeyFailed(msgspec.Struct, frozen=True, tag=True):
    """The attempt with one of the provider's keys failed, and the next begins with `next_key` on the same lease. No reply.

    The last key's end is told by `Finish`. Sent only where the decision has several keys.
    """

    lease: LeaseId
    next_key: int
    outcome: Outcome
    cause: Cause = Cause.NONE
    retry_after_s: float | None = None


class Expire(msgspec.Struct, frozen=True, tag=True):
    """Free what is over and report it. Decisions never depend on it (rule 5). → NextExpiry"""


class ReplacePolicy(msgspec.Struct, frozen=True, tag=True):
    """Take a new policy; state survives by target name unless the provider's fingerprint changed. No reply."""

    policy: Policy


class ResetTarget(msgspec.Struct, frozen=True, tag=True):
    """Forget a target's health and estimates, and the health of its provider's keys. → bool (whether it was known)"""

    target: TargetId


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Show the state of every target. → Inspection"""


class Preview(msgspec.Struct, frozen=True, tag=True):
    """What Decide would answer, without changing anything. → Decision | NoTarget"""

    decide: Decide


class Explain(msgspec.Struct, frozen=True, tag=True):
    """What RouteTier and then Decide would answer, and out of what, without changing anything. → Explanation

    `route` None: no tier pin has a say. `raised_name` takes the place of `decide.name` where the pin alone makes the request hard.
    """

    decide: Decide
    route: RouteTier | None = None
    raised_name: str | None = None


Command = RouteTier | Decide | FirstByte | KeyFailed | Finish | Expire | ReplacePolicy | ResetTarget | Inspect | Preview | Explain


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


Reason = Literal["single", "round_robin", "cost", "failover", "p2c", "pinned", "next", "probe", "all_cooling", "again"]
"""How a target was chosen."""

Picked = Literal["p2c", "pinned", "probe", "all_cooling"]
"""How an adaptive virtual model chose."""


class Selected(msgspec.Struct, frozen=True):
    """What the selector of a virtual model was given and what it made of it: enough to recompute the decision."""

    source: str
    given: DecisionInput
    made: Selection


class Decision(msgspec.Struct, frozen=True):
    """A target was chosen and counted.

    `source`: the outermost virtual model, None for a concrete name. `reason`: how it was chosen. `candidates`: the available targets, in
    declared order, chained ones flattened. `left`: how many untried candidates remain after this one, in the order they would be tried
    (for adaptive: not cooling first). `is_failover_allowed`: the virtual model's `failover`. `was_cooling`: it is a last resort.
    `keys`: indices of the provider's keys that do not cool, in the order to use them; where all do, only the first to come back.
    `slowdown`: of the virtual model, None if there is none. `selected`: the selector's decision, None where it was not asked (outermost
    first, if a chain asks more than one, the last).
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
    selected: Selected | None = None


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


class TargetWeight(msgspec.Struct, frozen=True):
    """What a target would weigh now for a request without a session in an adaptive virtual model, and its share of the draws."""

    source: str
    kind: Kind
    weight: float
    share: float


class TargetState(msgspec.Struct, frozen=True):
    """One row of an inspection. `*_latency_s`: the estimates as stored, None if never measured. `streak`: consecutive cooldowns.

    `weights`: one for each adaptive virtual model and kind that has the target as a leg of its own. `cooldown_reason`: of a cooldown that
    runs, or that the target has not proven itself since.
    """

    target: TargetId
    in_flight: int
    is_cooling: bool
    is_on_probation: bool
    cooldown_left_s: float
    streak: int
    pins: int
    stream_latency_s: float | None = None
    unary_latency_s: float | None = None
    weights: tuple[TargetWeight, ...] = ()
    cooldown_reason: Outcome | None = None


class KeyState(msgspec.Struct, frozen=True):
    """A key of a provider that has several, by its `index` from 0; the other fields as in `TargetState`."""

    provider: str
    index: int
    in_flight: int
    standing: Standing
    cooldown_left_s: float
    cooldown_reason: Outcome | None
    streak: int


class Inspection(msgspec.Struct, frozen=True):
    """The whole state at `at_s`, for operators and tests."""

    targets: tuple[TargetState, ...]
    open_leases: int
    tier_pins: int
    target_pins: int
    at_s: float = 0.0
    keys: tuple[KeyState, ...] = ()


class LegState(msgspec.Struct, frozen=True):
    """A candidate as one request meets it: a target, or a chained virtual model, which has a `strategy` and `legs` of its own.

    `stream_latency_s`, `unary_latency_s`: the estimates as stored. `latency_s`: what the selector takes it to need, measured or presumed;
    `load_s`: that times the attempts it would share the target with; both None where no selector would be asked. `weight`, `share`: of a
    single draw of an adaptive model, or of the slots of round robin; None for the other strategies. `price`: USD per Mtok, both directions.
    """

    name: str
    in_flight: int
    standing: Standing
    cooldown_left_s: float
    cooldown_reason: Outcome | None
    stream_latency_s: float | None
    unary_latency_s: float | None
    price: float | None
    latency_s: float | None = None
    load_s: float | None = None
    weight: float | None = None
    share: float | None = None
    is_warm: bool = False
    is_pinned: bool = False
    strategy: Strategy | None = None
    legs: "tuple[LegState, ...]" = ()


class PinState(msgspec.Struct, frozen=True):
    """A session's live pin in a virtual model: the leg it holds, available or not, and how long it lasts unused.

    `is_honored`: the leg may be used now, so the session is kept there.
    """

    name: str
    left_s: float
    is_honored: bool


class TierState(msgspec.Struct, frozen=True):
    """What a session's tier pin makes of a request. `pin` and `pin_left_s`: None without a live one."""

    reply: TierReply
    pin: Tier | None
    pin_left_s: float | None


class Explanation(msgspec.Struct, frozen=True):
    """A request as it would be routed at `at_s`. `decide`: as it was decided on in the end. `decision` has no lease.

    `strategy`, `unavailable` (its legs that are no candidates) and `pin` are those of the virtual model asked for; `legs`: all candidates.
    """

    at_s: float
    decide: Decide
    decision: Decision | NoTarget
    tier: TierState | None = None
    strategy: Strategy | None = None
    legs: tuple[LegState, ...] = ()
    unavailable: tuple[str, ...] = ()
    pin: PinState | None = None


Reply = TierReply | Decision | NoTarget | NextExpiry | Inspection | Explanation | bool | None
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
    """An attempt ended: a lease was closed, or goes on with another key."""

    target: TargetId
    outcome: Outcome
    cause: Cause
    elapsed_s: float


class InFlightChanged(msgspec.Struct, frozen=True, tag=True):
    """A target's count of running attempts."""

    target: TargetId
    count: int


class TargetSelected(msgspec.Struct, frozen=True, tag=True):
    """An adaptive virtual model chose among its candidates."""

    source: str
    target: TargetId
    reason: Picked


class SelectionDeclined(msgspec.Struct, frozen=True, tag=True):
    """The selector of an adaptive virtual model failed by an internal fault; round robin chose in its place."""

    source: str
    error: str


class EstimateChanged(msgspec.Struct, frozen=True, tag=True):
    """A target's stored latency estimate; None: it was forgotten."""

    target: TargetId
    kind: Kind
    value_s: float | None


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
    | TargetSelected
    | SelectionDeclined
    | EstimateChanged
)
