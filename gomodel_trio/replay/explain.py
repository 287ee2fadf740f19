"""`explain`: what the gateway would do with a request, from configuration alone; nothing is called.

Layer: replay. Source: behaviour.md §10. The same code as the request path takes: `wire.view`, `route.*`, and the actor's `step` on a
fresh state, so there are no pins, no cooldowns and cursors stand at their start.
"""

from typing import Any, Final

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import GatewayError
from gomodel_trio.route.directives import Headers, alias_of, forced_tier, user_path_of
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Kind, Tier
from gomodel_trio.route.policy import Alias
from gomodel_trio.route.score import RULES_VERSION, Verdict, score_request
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.commands import Decide, Decision, NoTarget, Preview, Stamped, Why
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope, require_model

_STATUSES: Final = {Why.UNKNOWN: 404, Why.FORBIDDEN: 404, Why.DIALECT: 400}
"""What a client is told where no target would be asked; anything else is 503."""


def explain(settings: Settings, api: Api, headers: Headers, body: bytes) -> dict[str, Any]:
    """Session, score with contributions, tier and candidates, ready for JSON.

    A body that the gateway would refuse gives `{"error": …}` with the message and status a client would see. `score` is None where
    requests are not scored. `resolution` holds `why` and `status` where no target would be asked.
    """
    try:
        envelope = decode_envelope(body)
        model = require_model(envelope)
    except GatewayError as error:
        return {"error": {"status": error.status, "code": error.code, "message": error.message}}
    user_path = user_path_of(headers)
    session = SessionDetector(settings.session).detect(headers, body, api, user_path)
    verdict = score_request(envelope, api, settings.smart, compile_keywords(settings.smart.keywords)) if api.is_scored else None
    alias = alias_of(settings.smart, model, envelope.provider, headers)
    routed = None if alias is None else _routed(alias, verdict, headers)
    decide = Decide(
        name=model if routed is None else routed["target"],
        session=session,
        user_path=user_path,
        kind=Kind.STREAM if envelope.stream else Kind.UNARY,
        feeds_routing=api.is_scored,
        provider=envelope.provider,
        dialect=api.dialect,
    )
    return {
        "api": api.value,
        "model": model,
        "session": session,
        "user_path": user_path,
        "score": None if verdict is None else _score(settings, verdict),
        "tier": routed,
        "resolution": _resolution(settings, decide),
    }


def _routed(alias: Alias, verdict: Verdict | None, headers: Headers) -> dict[str, Any]:
    """What the alias means this time; without a verdict its easy target."""
    if verdict is None:
        tier, reason = Tier.EASY, "unscored"
    elif (forced := forced_tier(headers)) is not None:
        tier, reason = forced, "forced"
    else:
        tier, reason = verdict.tier, "explicit_reasoning" if verdict.is_explicit_reasoning else "score"
    return {"alias": alias.name, "tier": tier.value, "target": alias.hard if tier is Tier.HARD else alias.easy, "reason": reason}


def _score(settings: Settings, verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "threshold": settings.smart.threshold,
        "explicit_reasoning": verdict.is_explicit_reasoning,
        "verdict": verdict.tier.value,
        "contributions": [{"signal": one.signal, "points": one.points, "evidence": one.evidence} for one in verdict.contributions],
        "rules_version": RULES_VERSION,
    }


def _resolution(settings: Settings, decide: Decide) -> dict[str, Any]:
    policy = compile_policy(settings)
    decision, _ = step(RoutingState(policy), Stamped(1, 0.0, (0.0, 0.0), Preview(decide)))
    shown: dict[str, Any] = {"name": decide.name, "provider": decide.provider}
    if isinstance(decision, NoTarget):
        return {**shown, "target": decision.target, "why": decision.why.value, "status": _STATUSES.get(decision.why, 503)}
    assert isinstance(decision, Decision)
    virtual = policy.virtual_models.get(decision.source) if decision.source is not None else None
    return {
        **shown,
        "virtual_model": decision.source,
        "strategy": virtual.strategy.value if virtual is not None else None,
        "candidates": list(decision.candidates),
        "target": decision.target,
        "reason": decision.reason,
        "then": list(decision.left) if decision.is_failover_allowed else [],
    }
