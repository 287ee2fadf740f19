"""`explain`: what the gateway would do with a request, from configuration alone or as things stand at a running one; nothing is called.

Layer: replay. Source: behaviour.md §10. The same code as the request path takes: `wire.view`, `route.*`, and the actor's `step`. From
configuration alone that is a fresh state: no pins, no cooldowns, nothing measured, cursors at their start, and the lowest draws.

    read (pure) → ask the state, once, so that all of the answer is of one instant → write
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import GatewayError
from gomodel_trio.replay.documents import (
    Explained,
    RefusalDocument,
    Refused,
    ScoreDocument,
    TierDocument,
    resolution_document,
    rounded,
    score_document,
)
from gomodel_trio.route.directives import Headers, alias_of, forced_tier, user_path_of
from gomodel_trio.route.keywords import KeywordMatcher, compile_keywords
from gomodel_trio.route.names import Kind, SessionId, Tier
from gomodel_trio.route.policy import Alias, Policy
from gomodel_trio.route.score import Verdict, score_request
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.commands import Decide, Explain, Explanation, RouteTier, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope, require_model

Document = Explained | Refused


class Ground(msgspec.Struct, frozen=True):
    """What of a configuration a request is read by."""

    policy: Policy
    matcher: KeywordMatcher
    sessions: SessionDetector


class _Reading(msgspec.Struct, frozen=True):
    """A request as it was read: all that is left to know is the state. `tier`: as it is without a pin."""

    api: Api
    model: str
    session: SessionId | None
    user_path: str
    score: ScoreDocument | None
    tier: TierDocument | None
    question: Explain


def explain(settings: Settings, api: Api, headers: Headers, body: bytes) -> Document:
    """Tell what would be done with a request by configuration alone; `Refused` where the gateway would not take it."""
    ground = Ground(compile_policy(settings), compile_keywords(settings.smart.keywords), SessionDetector(settings.session))
    reading = _read(ground, api, headers, body)
    if isinstance(reading, Refused):
        return reading
    reply, _ = step(RoutingState(ground.policy), Stamped(1, 0.0, (0.0, 0.0), reading.question))
    assert isinstance(reply, Explanation)
    return _written(reading, reply, is_live=False)


async def explain_live(
    ground: Ground, api: Api, headers: Headers, body: bytes, *, ask: Callable[[Explain], Awaitable[Explanation]]
) -> Document:
    """Tell what would be done with a request now; `ask` reaches the routing state, which does not change.

    Raises:
        ActorStopped: the gateway is at its end.
    """
    import trio  # only here: the command has no need of it

    # A long body takes a while to read, and nobody else is to wait for it.
    reading = await trio.to_thread.run_sync(partial(_read, ground, api, headers, body))
    return reading if isinstance(reading, Refused) else _written(reading, await ask(reading.question), is_live=True)


def _read(ground: Ground, api: Api, headers: Headers, body: bytes) -> _Reading | Refused:
    try:
        envelope = decode_envelope(body)
        model = require_model(envelope)
    except GatewayError as error:
        return Refused(RefusalDocument(error.status, error.code, error.message))
    smart = ground.policy.smart
    user_path = user_path_of(headers)
    session = ground.sessions.detect(headers, body, api, user_path)
    verdict = score_request(envelope, api, smart, ground.matcher) if api.is_scored else None
    alias = alias_of(smart, model, envelope.provider, headers)
    tier = None if alias is None else _own_tier(alias, verdict, headers)
    decide = Decide(
        name=model if tier is None else tier.target,
        session=session,
        user_path=user_path,
        kind=Kind.STREAM if envelope.stream else Kind.UNARY,
        feeds_routing=api.is_scored,
        provider=envelope.provider,
        dialect=None if api.is_scored else api.dialect,
    )
    score = None if verdict is None else score_document(verdict, threshold=smart.threshold)
    question = Explain(decide)
    if alias is not None and verdict is not None and session is not None and forced_tier(headers) is None:
        question = Explain(decide, RouteTier(alias.name, session, verdict.tier), alias.hard)
    return _Reading(api, model, session, user_path, score, tier, question)


def _own_tier(alias: Alias, verdict: Verdict | None, headers: Headers) -> TierDocument:
    """What the alias means without the session's pin; without a verdict its easy target."""
    if verdict is None:
        tier, reason = Tier.EASY, "unscored"
    elif (forced := forced_tier(headers)) is not None:
        tier, reason = forced, "forced"
    else:
        tier, reason = verdict.tier, "explicit_reasoning" if verdict.is_explicit_reasoning else "score"
    return TierDocument(alias.name, tier.value, alias.hard if tier is Tier.HARD else alias.easy, reason)


def _written(reading: _Reading, shown: Explanation, *, is_live: bool) -> Explained:
    return Explained(
        is_live=is_live,
        now_s=rounded(shown.at_s) if is_live else None,
        api=reading.api.value,
        kind=shown.decide.kind.value,
        model=reading.model,
        session=reading.session,
        user_path=reading.user_path,
        score=reading.score,
        tier=_tier(reading, shown),
        resolution=resolution_document(shown),
    )


def _tier(reading: _Reading, shown: Explanation) -> TierDocument | None:
    """The tier with the session's pin."""
    own, held = reading.tier, shown.tier
    if own is None or held is None:
        return own
    return TierDocument(
        alias=own.alias,
        tier=held.reply.tier.value,
        target=shown.decide.name,
        reason="session_pin" if held.reply.is_pinned else own.reason,
        pin=None if held.pin is None else held.pin.value,
        pin_left_s=rounded(held.pin_left_s),
        is_escalated=held.reply.is_escalated,
    )
