"""The life of one request for a model: the file to read first.

Layer: gateway. Source: architecture.md ("One request"), behaviour.md §1–§6.

    body → envelope → session → tier → [ decide → deliver ] until somebody answered or nobody can

What follows a failed attempt is `route.attempts`' business, which target comes next is the actor's, and asking it is `delivery`'s.
"""

from collections.abc import Callable

import trio

from gomodel_trio.errors import Unavailable, dialect_mismatch, model_not_found, shortened, untranslatable
from gomodel_trio.gateway import answers, tiering
from gomodel_trio.gateway.delivery import AttemptKind, Delivery, Outgoing
from gomodel_trio.gateway.deployment import Deployment, Tools
from gomodel_trio.gateway.headers import for_upstream
from gomodel_trio.gateway.http import Request, Responder
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES, open_envelope, read_plain_body
from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.gateway.redaction import NOTHING_PRIVATE
from gomodel_trio.gateway.token_count import estimated_count
from gomodel_trio.route import attempts
from gomodel_trio.route.directives import alias_of
from gomodel_trio.route.names import Kind, TargetId, split_target
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import Decide, Decision, NoTarget, Preview, Why
from gomodel_trio.state.lease import open_lease
from gomodel_trio.translate.canonical import Malformed, Untranslatable
from gomodel_trio.upstream.attempt import Failure
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import Envelope

_RELOADS_FOLLOWED = 3
"""How often a request is routed anew because a reload came in between: once is rare, and none may wait for the last of many."""
NOTHING_TRIED_RETRY_AFTER_S = 30.0
"""Told where no target could be tried and no cooldown says when one can."""


class Exchange:
    """One request of `api` on its way through the gateway.

    `current` tells the deployment as it is now. A reload replaces it and the actor's policy in one step, so the deployment taken just
    before the actor is asked is the one whose policy decides, and what the decision's names are looked up in.
    """

    def __init__(
        self, tools: Tools, current: Callable[[], Deployment], request: Request, responder: Responder, *, record: RequestRecord, api: Api
    ) -> None:
        self._tools = tools
        self._current = current
        self._deployment = current()
        self._redactor = NOTHING_PRIVATE
        self._request = request
        self._responder = responder
        self._record = record
        self._api = api

    async def run(self) -> None:
        """Serve the request to its end.

        Raises:
            GatewayError: nothing was sent; the caller tells the client.
            ClientGone: the client left.
        """
        deadline_s = trio.current_time() + self._deployment.settings.attempts.request_timeout_s
        body = await read_plain_body(self._request, self._deployment.settings.server.body_size_limit_bytes)
        envelope = await open_envelope(body)
        assert envelope.model is not None
        decide = await self._routed(envelope, envelope.model, body)
        outgoing = Outgoing(
            api=self._api,
            body=body,
            model=envelope.model,
            model_raw=envelope.members.model,
            has_provider=envelope.provider is not None,
            passed=for_upstream(self._request.headers),
            query=self._request.query,
            deadline_s=deadline_s,
        )
        await self._serve(decide, outgoing)

    async def _routed(self, envelope: Envelope, model: str, body: bytes) -> Decide:
        """Route by the deployment of now, which a reload may have replaced since the request began, or does while it is routed."""
        decide = await self._route(envelope, model, body)
        for _ in range(_RELOADS_FOLLOWED):
            if self._current() is self._deployment:
                break
            decide = await self._route(envelope, model, body)
        if (revision := self._record.revision) is not None:
            self._tools.metrics.tier_routed(revision.alias, revision.tier, revision.reason, revision.score)
        return decide

    async def _route(self, envelope: Envelope, model: str, body: bytes) -> Decide:
        """Detect the session on what the client sent, then the tier; the question for the actor."""
        self._deployment = self._current()
        record, headers = self._record, self._request.headers
        record.model, record.is_stream, record.revision = model, envelope.stream, None
        detect, asked = self._deployment.sessions.detect, (headers, envelope.members, self._api, record.user_path)
        record.session = detect(*asked) if len(body) <= LONG_BODY_BYTES else await trio.to_thread.run_sync(detect, *asked)
        alias = alias_of(self._deployment.policy.smart, model, envelope.provider, headers)
        name = model
        if alias is not None and self._api.is_scored:
            record.revision = await tiering.route_tier(
                self._tools, self._deployment, alias, envelope, api=self._api, headers=headers, session=record.session, size=len(body)
            )
            name = record.revision.target
        elif alias is not None:
            name = alias.easy
        return Decide(
            name=name,
            session=record.session,
            user_path=record.user_path,
            kind=Kind.STREAM if envelope.stream else Kind.UNARY,
            feeds_routing=self._api.is_scored,
            provider=envelope.provider,
            dialect=None if self._api.is_scored else self._api.dialect,  # what is scored can be translated
        )

    # ---- the loop ---------------------------------------------------------------------------------------------------

    async def _serve(self, first: Decide, outgoing: Outgoing) -> None:
        decide = first
        retries = 0
        last: tuple[Failure, Decision] | None = None
        loss: Untranslatable | Malformed | None = None
        while True:
            self._deployment = self._current()
            async with open_lease(self._tools.actor, decide) as lease:
                decision = lease.decision
                if isinstance(decision, NoTarget):
                    if loss is not None and last is None:
                        raise untranslatable(loss.message, loss.field)
                    if decision.why is Why.DIALECT and self._api is Api.COUNT_TOKENS:
                        return await self._estimate(outgoing.body)
                    return await self._without_target(decision, last, first)
                self._record.source, self._record.target = decision.source, decision.target
                kind: AttemptKind = "retry" if decide.again else "failover" if last is not None else "primary"
                delivery = Delivery(self._tools, self._deployment, self._responder, self._record, outgoing, decision, lease)
                try:
                    failure = await delivery.run(kind)
                except (Untranslatable, Malformed) as error:
                    lease.finish(Outcome.REQUEST)
                    loss = loss or error
                    if not decision.left:
                        return await self._without_translation(loss, last, first)
                    decide = _asking(first, (*decide.tried, decision.target), None)
                    continue
            if failure is None:
                return None
            # Kept, for a reload may take the provider away before its failure is told.
            self._redactor = self._deployment.redactors.get(split_target(decision.target)[0], NOTHING_PRIVATE)
            tried = decide.tried if decision.target in decide.tried else (*decide.tried, decision.target)
            last = (failure, decision)
            match self._next(decision, failure, retries, outgoing.deadline_s):
                case attempts.TryNext():
                    decide = _asking(first, tried, None)
                case attempts.Wait(for_s=for_s):
                    retries += 1
                    await trio.sleep(for_s)
                    decide = _asking(first, tried, decision.target)
                case attempts.Respond():
                    return await self._respond(failure, decision, first)

    def _next(
        self, decision: Decision, failure: Failure, retries: int, deadline_s: float
    ) -> attempts.TryNext | attempts.Wait | attempts.Respond:
        progress = attempts.Progress(
            targets_tried=len({attempt.target for attempt in self._record.attempts}),
            retries_made=retries,
            targets_left=len(decision.left),
            is_failover_allowed=decision.is_failover_allowed,
            was_cooling=decision.was_cooling,
            now_s=trio.current_time(),
            deadline_s=deadline_s,
        )
        return attempts.next_step(self._deployment.attempt_rules, progress, failure.classification, self._tools.draw())

    # ---- nobody answered --------------------------------------------------------------------------------------------

    async def _respond(self, failure: Failure, decision: Decision, first: Decide) -> None:
        judged = failure.classification
        retry_after_s = None
        if decision.was_cooling or (judged.outcome is Outcome.RATE and judged.retry_after_s is None):
            # A last resort, or an upstream that names no time: what to wait for is the first target to come back, as things stand now.
            left = await self._tools.actor.ask(Preview(_asking(first, (*decision.candidates, decision.target), None)))
            retry_after_s = left.retry_after_s if isinstance(left, NoTarget) else None
        provider, _ = split_target(decision.target)
        answer = answers.of_failure(
            failure,
            self._api.dialect,
            provider,
            request_id=self._record.request_id,
            retry_after_s=retry_after_s,
            redactor=self._redactor,
        )
        self._record.status, self._record.outcome = answer.status, judged.outcome.value
        self._record.error_code = answer.code
        await self._responder.send(answer.status, [*answer.headers, *answers.own_headers(self._record)], answer.body)
        self._record.bytes_out = len(answer.body)

    async def _estimate(self, body: bytes) -> None:
        answer = await estimated_count(body)
        self._record.status = answer.status
        await self._responder.send(answer.status, [*answer.headers, *answers.own_headers(self._record)], answer.body)
        self._record.bytes_out = len(answer.body)

    async def _without_translation(self, loss: Untranslatable | Malformed, last: tuple[Failure, Decision] | None, first: Decide) -> None:
        """Nobody left can be asked this: what an upstream said comes first, else the field that stands in the way."""
        if last is None:
            raise untranslatable(loss.message, loss.field)
        await self._respond(*last, first)

    async def _without_target(self, decision: NoTarget, last: tuple[Failure, Decision] | None, first: Decide) -> None:
        if last is not None:
            failure, tried = last
            return await self._respond(failure, tried, first)
        name = self._record.model or ""
        if decision.why in (Why.UNKNOWN, Why.FORBIDDEN):
            raise model_not_found(name)
        if decision.target is not None:
            self._record.target = decision.target
            theirs = " and ".join(dialect.value for dialect in decision.dialects)
            raise dialect_mismatch(decision.target, theirs, self._api.dialect.value)
        if decision.why is Why.UNAVAILABLE:
            raise Unavailable(
                f"No target of the model {shortened(name)!r} is available: its providers have no key, or they are disabled.",
                code="no_target_available",
                retry_after_s=NOTHING_TRIED_RETRY_AFTER_S,
                should_retry=False,
            )
        raise Unavailable(
            f"No target of the model {shortened(name)!r} can be tried now.",
            code="no_target_available",
            retry_after_s=decision.retry_after_s if decision.retry_after_s is not None else NOTHING_TRIED_RETRY_AFTER_S,
        )


def _asking(first: Decide, tried: tuple[TargetId, ...], again: TargetId | None) -> Decide:
    return Decide(
        name=first.name,
        session=first.session,
        user_path=first.user_path,
        kind=first.kind,
        feeds_routing=first.feeds_routing,
        provider=first.provider,
        tried=tried,
        again=again,
        dialect=first.dialect,
    )
