"""`explain`: what the gateway would do with a request, from configuration alone; nothing is called.

Layer: replay. Source: behaviour.md §10. The same code as the request path takes: `wire.view`, `route.*`, and the actor's `step` on a
fresh state, so there are no pins, no cooldowns and cursors stand at their start.
"""

from typing import Any

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import GatewayError
from gomodel_trio.route.directives import Headers, alias_of, forced_tier, user_path_of
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Kind, Tier
from gomodel_trio.route.policy import Alias
from gomodel_trio.route.score import RULES_VERSION, Verdict, score_request
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.commands import Decide, Decision, NoTarget, Preview, Stamped
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import Envelope, decode_envelope


def explain(settings: Settings, api: Api, headers: Headers, body: bytes) -> dict[str, Any]:
    """Session, score with contributions, tier and candidates, ready for JSON.

    A body that the gateway would refuse gives `{"error": …}` with the message and status a client would see.
    """
    try:
        envelope = decode_envelope(body)
    except GatewayError as error:
        return {"error": {"status": error.status, "code": error.code, "message": error.message}}
    user_path = user_path_of(headers)
    session = SessionDetector(settings.session).detect(headers, body, api, user_path)
    verdict = score_request(envelope, api, settings.smart, compile_keywords(settings.smart.keywords))
    alias = alias_of(settings.smart, envelope.model, envelope.provider, headers)
    tier = _tier(alias, api, verdict, headers)
    name = envelope.model or ""
    if alias is not None:
        name = alias.hard if tier is Tier.HARD else alias.easy
    decide = Decide(
        name=name,
        session=session,
        user_path=user_path,
        kind=Kind.STREAM if envelope.stream else Kind.UNARY,
        feeds_routing=api.is_scored,
        provider=envelope.provider,
    )
    return {
        "api": api.value,
        "model": envelope.model,
        "session": session,
        "user_path": user_path,
        "score": _score(settings, verdict),
        "tier": None if alias is None else _routed(alias, tier, verdict, headers, name),
        "resolution": _resolution(settings, decide, envelope),
    }


def _tier(alias: Alias | None, api: Api, verdict: Verdict, headers: Headers) -> Tier | None:
    if alias is None:
        return None
    if not api.is_scored:
        return Tier.EASY
    return forced_tier(headers) or verdict.tier


def _score(settings: Settings, verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "threshold": settings.smart.threshold,
        "explicit_reasoning": verdict.is_explicit_reasoning,
        "verdict": verdict.tier.value,
        "contributions": [{"signal": one.signal, "points": one.points, "evidence": one.evidence} for one in verdict.contributions],
        "rules_version": RULES_VERSION,
    }


def _routed(alias: Alias, tier: Tier | None, verdict: Verdict, headers: Headers, target: str) -> dict[str, Any]:
    reason = "forced" if forced_tier(headers) else "explicit_reasoning" if verdict.is_explicit_reasoning else "score"
    return {"alias": alias.name, "tier": tier.value if tier else None, "target": target, "reason": reason}


def _resolution(settings: Settings, decide: Decide, envelope: Envelope) -> dict[str, Any]:
    policy = compile_policy(settings)
    state = RoutingState(policy)
    decision, _ = step(state, Stamped(1, 0.0, (0.0, 0.0), Preview(decide)))
    shown: dict[str, Any] = {"name": decide.name, "provider": envelope.provider}
    if isinstance(decision, NoTarget):
        return {**shown, "target": None, "why": decision.why.value}
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
