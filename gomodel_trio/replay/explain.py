"""`explain`: what the gateway would do with a request, from configuration alone; nothing is called.

Layer: replay. Source: behaviour.md §10. The same code as the request path takes: `wire.view`, `route.*`, and the actor's `step` on a
fresh state, so there are no pins, no cooldowns and cursors stand at their start.
"""

from typing import Any

import msgspec

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import GatewayError
from gomodel_trio.route.directives import Headers, alias_of, forced_tier, user_path_of
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Kind, TargetId, Tier, split_target
from gomodel_trio.route.policy import Alias, Policy
from gomodel_trio.route.score import RULES_VERSION, Verdict, score_request
from gomodel_trio.route.session import SessionDetector
from gomodel_trio.state.commands import Decide, Decision, NoTarget, Preview, Stamped, Why
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.upstream.providers.table import adapter_for
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope, require_model


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
    )
    return {
        "api": api.value,
        "model": model,
        "session": session,
        "user_path": user_path,
        "score": None if verdict is None else _score(settings, verdict),
        "tier": routed,
        "resolution": _resolution(settings, decide, api),
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


def _resolution(settings: Settings, decide: Decide, api: Api) -> dict[str, Any]:
    policy = compile_policy(settings)
    decision, then = _choice(settings, policy, decide, api)
    shown: dict[str, Any] = {"name": decide.name, "provider": decide.provider}
    if isinstance(decision, NoTarget):
        status = 404 if decision.why in (Why.UNKNOWN, Why.FORBIDDEN) else 503
        return {**shown, "target": None, "why": decision.why.value, "status": status}
    virtual = policy.virtual_models.get(decision.source) if decision.source is not None else None
    chosen: dict[str, Any] = {
        **shown,
        "virtual_model": decision.source,
        "strategy": virtual.strategy.value if virtual is not None else None,
        "candidates": list(decision.candidates),
        "target": decision.target,
        "reason": decision.reason,
        "then": then if decision.is_failover_allowed else [],
    }
    return chosen if _speaks(settings, decision.target, api) else {**chosen, "why": "dialect_mismatch", "status": 400}


def _choice(settings: Settings, policy: Policy, decide: Decide, api: Api) -> tuple[Decision | NoTarget, list[TargetId]]:
    """The first target, and those after it; in a pool of both dialects the ones that cannot be asked in this one are passed over."""
    while True:
        decision, _ = step(RoutingState(policy), Stamped(1, 0.0, (0.0, 0.0), Preview(decide)))
        if isinstance(decision, NoTarget):
            return decision, []
        assert isinstance(decision, Decision)
        left = [target for target in decision.left if _speaks(settings, target, api)]
        if not left or _speaks(settings, decision.target, api):
            return decision, left
        decide = msgspec.structs.replace(decide, tried=(*decide.tried, decision.target))


def _speaks(settings: Settings, target: TargetId, api: Api) -> bool:
    provider, _ = split_target(target)
    return adapter_for(settings.providers[provider]).speaks(api.dialect)
