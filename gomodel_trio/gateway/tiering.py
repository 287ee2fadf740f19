"""Smart tier routing of one request: which tier an alias means this time.

Layer: gateway. The scoring is `route.score`, the pin is the actor's; this joins them. Source: behaviour.md §3.
"""

from typing import Literal

import msgspec
import trio

from gomodel_trio.gateway.deployment import Deployment, Tools
from gomodel_trio.gateway.http import Headers
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES
from gomodel_trio.gateway.record import TierRevision
from gomodel_trio.route.directives import forced_tier
from gomodel_trio.route.names import SessionId, Tier
from gomodel_trio.route.policy import Alias
from gomodel_trio.route.score import RULES_VERSION, Verdict, score_request
from gomodel_trio.state.commands import RouteTier
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import Envelope

Reason = Literal["forced", "explicit_reasoning", "session_pin", "score"]


async def route_tier(
    tools: Tools,
    deployment: Deployment,
    alias: Alias,
    envelope: Envelope,
    *,
    api: Api,
    headers: Headers,
    session: SessionId | None,
    size: int,
) -> TierRevision:
    """Score the request (`size`: of its body, bytes), hold it against the session's pin, and say where it goes."""
    verdict = await _verdict(deployment, envelope, api, size)
    forced = forced_tier(headers)
    if forced is not None:
        revision = _revision(deployment, alias, verdict, forced, reason="forced", size=size)
    elif session is None or deployment.settings.smart.session_ttl_s <= 0:
        revision = _revision(deployment, alias, verdict, verdict.tier, reason=_own_reason(verdict), size=size)
    else:
        reply = await tools.actor.ask(RouteTier(alias=alias.name, session=session, verdict=verdict.tier))
        reason: Reason = "session_pin" if reply.is_pinned else _own_reason(verdict)
        revision = _revision(
            deployment, alias, verdict, reply.tier, reason=reason, size=size, is_pinned=reply.is_pinned, is_escalated=reply.is_escalated
        )
    return revision


def _own_reason(verdict: Verdict) -> Reason:
    return "explicit_reasoning" if verdict.is_explicit_reasoning else "score"


async def _verdict(deployment: Deployment, envelope: Envelope, api: Api, size: int) -> Verdict:
    smart, matcher = deployment.settings.smart, deployment.matcher
    if size <= LONG_BODY_BYTES:
        return score_request(envelope, api, smart, matcher)
    return await trio.to_thread.run_sync(score_request, envelope, api, smart, matcher)


def _revision(
    deployment: Deployment,
    alias: Alias,
    verdict: Verdict,
    tier: Tier,
    *,
    reason: Reason,
    size: int,
    is_pinned: bool = False,
    is_escalated: bool = False,
) -> TierRevision:
    target = alias.hard if tier is Tier.HARD else alias.easy
    return TierRevision(
        alias=alias.name,
        tier=tier,
        target=target,
        score=verdict.score,
        threshold=deployment.settings.smart.threshold,
        reason=reason,
        contributions=verdict.contributions,
        pinned=is_pinned,
        escalated=is_escalated,
        rules_version=RULES_VERSION,
        bytes_before=size,
        bytes_after=size + _length(target) - _length(alias.name),
    )


def _length(name: str) -> int:
    return len(msgspec.json.encode(name))
