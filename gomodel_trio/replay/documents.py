"""What `explain` tells of a request, as a document; the same from a running gateway and from configuration alone.

Layer: replay; pure. Source: behaviour.md §10. Units stand in the names: seconds are `_s`. What does not apply is null. Evidence and
names only, never text of the request.
"""

import msgspec

from gomodel_trio.route.score import RULES_VERSION, Contribution, Verdict
from gomodel_trio.state.commands import Explanation, LegState, NoTarget, Why

_STATUSES = {Why.UNKNOWN: 404, Why.FORBIDDEN: 404, Why.DIALECT: 400}
"""What a client is told where no target would be asked; anything else is 503."""
_DECIMALS = 6
"""Of seconds and weights: microseconds, and the parts of a weight that anybody could see an effect of."""


class RefusalDocument(msgspec.Struct, frozen=True):
    """What the client would be told: the HTTP status, the code, the message."""

    status: int
    code: str | None
    message: str


class Refused(msgspec.Struct, frozen=True):
    """A request that the gateway would not take."""

    error: RefusalDocument


class ScoreDocument(msgspec.Struct, frozen=True):
    """How hard the request looks. `verdict`: the tier by itself, hard from `threshold` on or where reasoning is asked for."""

    score: int
    threshold: int
    explicit_reasoning: bool
    verdict: str
    contributions: tuple[Contribution, ...]
    rules_version: str = RULES_VERSION


class TierDocument(msgspec.Struct, frozen=True):
    """What an alias means this time. `target`: the name the tier stands for.

    `reason`: forced, explicit_reasoning, session_pin, score, or unscored (the endpoint scores nothing: easy). `pin`: the tier the session
    is held to, null without one; it lasts `pin_left_s` more if nobody uses it. `is_escalated`: this request would make it hard.
    """

    alias: str
    tier: str
    target: str
    reason: str
    pin: str | None = None
    pin_left_s: float | None = None
    is_escalated: bool = False


class EstimatesDocument(msgspec.Struct, frozen=True):
    """Latency estimates as stored, null if never measured. `stream_s`: to the first content; `unary_s`: to the complete answer."""

    stream_s: float | None
    unary_s: float | None


class CandidateDocument(msgspec.Struct, frozen=True):
    """A candidate: a target, or a chained virtual model with its own `strategy` and `candidates`.

    `latency_s`: what adaptive routing takes it to need, measured or presumed; `load_s`: that times the attempts it would share the target
    with. `price_usd_per_mtok`: input plus output. `weight`: in a single draw (adaptive) or of the slots (round robin), `share`: its part of
    all. `standing`: well, probation or cooling. `is_warm`: it holds the session's prompt cache.
    """

    name: str
    standing: str
    cooldown_left_s: float
    cooldown_reason: str | None
    in_flight: int
    estimates: EstimatesDocument
    latency_s: float | None
    load_s: float | None
    price_usd_per_mtok: float | None
    weight: float | None
    share: float | None
    is_warm: bool
    is_pinned: bool
    strategy: str | None
    candidates: "list[CandidateDocument]"


class PinDocument(msgspec.Struct, frozen=True):
    """What the session is held to in the virtual model, for `left_s` more if nobody uses it. `is_honored`: this request would go there."""

    name: str
    left_s: float
    is_honored: bool


class ResolutionDocument(msgspec.Struct, frozen=True):
    """Where the request would go.

    `name`, `provider`: what was asked for, after the tier. `unavailable`: what the virtual model lists that this request cannot have.
    `target`, `reason`: whom it would be sent to first and why; `draws` decided, where adaptive routing drew lots: another request draws
    others. `then`: who follows, in order, should that fail. Where no target would be asked, `why`, the `status` a client is told, and
    `retry_after_s`, the least cooldown left.
    """

    name: str
    provider: str | None
    virtual_model: str | None
    strategy: str | None
    candidates: list[CandidateDocument]
    unavailable: tuple[str, ...]
    pin: PinDocument | None
    target: str | None
    reason: str | None
    draws: tuple[float, float] | None
    then: tuple[str, ...]
    why: str | None
    status: int | None
    retry_after_s: float | None


class Explained(msgspec.Struct, frozen=True):
    """What would be done with a request. `is_live`: as things stand at a running gateway, `now_s` after its start; else from configuration
    alone, where nothing is pinned, cooling or measured. `kind`: stream or unary. `score`: null where requests are not scored.
    """

    is_live: bool
    now_s: float | None
    api: str
    kind: str
    model: str
    session: str | None
    user_path: str
    score: ScoreDocument | None
    tier: TierDocument | None
    resolution: ResolutionDocument


def score_document(verdict: Verdict, *, threshold: int) -> ScoreDocument:
    """Write a verdict."""
    return ScoreDocument(verdict.score, threshold, verdict.is_explicit_reasoning, verdict.tier.value, verdict.contributions)


def resolution_document(shown: Explanation) -> ResolutionDocument:
    """Write where a request goes and why."""
    decide, made = shown.decide, shown.decision
    if isinstance(made, NoTarget):
        return ResolutionDocument(
            name=decide.name,
            provider=decide.provider,
            virtual_model=None,
            strategy=None,
            candidates=[],
            unavailable=(),
            pin=None,
            target=made.target,
            reason=None,
            draws=None,
            then=(),
            why=made.why.value,
            status=_STATUSES.get(made.why, 503),
            retry_after_s=rounded(made.retry_after_s),
        )
    return ResolutionDocument(
        name=decide.name,
        provider=decide.provider,
        virtual_model=made.source,
        strategy=None if shown.strategy is None else shown.strategy.value,
        candidates=[_candidate(leg) for leg in shown.legs],
        unavailable=shown.unavailable,
        pin=None if shown.pin is None else PinDocument(shown.pin.name, round(shown.pin.left_s, _DECIMALS), shown.pin.is_honored),
        target=made.target,
        reason=made.reason,
        draws=None if made.selected is None else made.selected.given.draws,
        then=made.left if made.is_failover_allowed else (),
        why=None,
        status=None,
        retry_after_s=None,
    )


def rounded(value: float | None) -> float | None:
    """A number as people read it; None stays None."""
    return None if value is None else round(value, _DECIMALS)


def _candidate(leg: LegState) -> CandidateDocument:
    return CandidateDocument(
        name=leg.name,
        standing=leg.standing.value,
        cooldown_left_s=round(leg.cooldown_left_s, _DECIMALS),
        cooldown_reason=None if leg.cooldown_reason is None else leg.cooldown_reason.value,
        in_flight=leg.in_flight,
        estimates=EstimatesDocument(rounded(leg.stream_latency_s), rounded(leg.unary_latency_s)),
        latency_s=rounded(leg.latency_s),
        load_s=rounded(leg.load_s),
        price_usd_per_mtok=rounded(leg.price),
        weight=rounded(leg.weight),
        share=rounded(leg.share),
        is_warm=leg.is_warm,
        is_pinned=leg.is_pinned,
        strategy=None if leg.strategy is None else leg.strategy.value,
        candidates=[_candidate(inner) for inner in leg.legs],
    )
