"""One target asked, and its answer delivered: keys in turn, body spliced, relayed whole or streamed.

Layer: gateway. Source: behaviour.md §6. A Failure comes back where nothing was sent, so that `exchange` may go on elsewhere.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import msgspec
import trio

from gomodel_trio.errors import Unavailable, dialect_mismatch
from gomodel_trio.gateway import answers
from gomodel_trio.gateway.deployment import Deployment, Tools
from gomodel_trio.gateway.headers import for_client, query_for_upstream
from gomodel_trio.gateway.http import Headers, Responder
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord
from gomodel_trio.gateway.retime import retimed
from gomodel_trio.gateway.stream_out import Limits, Relay, RelayEnd
from gomodel_trio.route.names import split_target
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import Decision
from gomodel_trio.state.lease import Lease
from gomodel_trio.upstream.attempt import Failure, Opened, Question, Whole, failure_of_timeout, header_of, try_once
from gomodel_trio.upstream.decoding import decoder_for
from gomodel_trio.upstream.providers.adapter import Adapter
from gomodel_trio.upstream.transport import UpstreamRequest
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for
from gomodel_trio.wire.splice import rewrite

AttemptKind = Literal["primary", "failover", "retry"]
_NEXT_KEY_HELPS: Final = frozenset({Outcome.RATE, Outcome.AUTH, Outcome.ACCOUNT})


class Outgoing(msgspec.Struct, frozen=True):
    """What every attempt of a request has in common.

    `model_raw`: the model as it stands in the body. `passed`: the client's headers that may go upstream. `deadline_s`: trio's clock.
    """

    api: Api
    body: bytes
    model: str
    model_raw: msgspec.Raw
    has_provider: bool
    passed: Headers
    query: bytes
    deadline_s: float


@dataclass(slots=True)
class Delivery:
    """The attempts at one target on one lease."""

    tools: Tools
    deployment: Deployment
    responder: Responder
    record: RequestRecord
    outgoing: Outgoing
    decision: Decision
    lease: Lease
    _attempt: AttemptRecord = field(init=False)
    _provider: str = field(init=False)
    _question: Question = field(init=False)
    _sent_at_s: float = field(init=False, default=0.0)

    async def run(self, kind: AttemptKind) -> Failure | None:
        """Try the target with one key after the other; None: the client has its answer.

        Raises:
            ClientFault: a reload made the target speak another dialect.
            Unavailable: a reload took its provider away since the decision.
        """
        self._provider, model = split_target(self.decision.target)
        self._question = Question(self.outgoing.api, model, self.outgoing.body, is_stream=self.record.is_stream)
        adapter = self._adapter()
        body = await self._body(model)
        failure: Failure | None = None
        for number, key in enumerate(self.decision.keys):
            self._attempt = AttemptRecord("key" if number else kind, self.decision.target, self.tools.clock.now_s())
            self.record.attempts.append(self._attempt)
            try:
                failure = await self._try(adapter, body, key)
            finally:
                self._attempt.duration_s = self.tools.clock.now_s() - self._attempt.started_s
            if failure is None:
                return None
            self._note(failure)
            if failure.classification.outcome not in _NEXT_KEY_HELPS or trio.current_time() >= self.outgoing.deadline_s:
                break
        assert failure is not None
        judged = failure.classification
        self.lease.finish(judged.outcome, cause=judged.cause, retry_after_s=judged.retry_after_s)
        return failure

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _adapter(self) -> Adapter:
        adapter = self.deployment.adapters.get(self._provider)
        if adapter is None:
            raise Unavailable(f"The provider {self._provider!r} is no longer configured.", retry_after_s=1.0)
        if not adapter.speaks(self.outgoing.api.dialect):  # a reload changed it since the decision
            raise dialect_mismatch(self.decision.target, adapter.settings.dialect.value, self.outgoing.api.dialect.value)
        return adapter

    async def _body(self, model: str) -> bytes:
        outgoing = self.outgoing
        if model == outgoing.model and not outgoing.has_provider:
            return outgoing.body
        swap = partial(rewrite, outgoing.body, model=model, drop_provider=outgoing.has_provider, was=outgoing.model_raw)
        return swap() if len(outgoing.body) <= LONG_BODY_BYTES else await trio.to_thread.run_sync(swap)

    def _request(self, adapter: Adapter, body: bytes, key: int) -> UpstreamRequest:
        outgoing, timeouts, patience_s = self.outgoing, self.deployment.settings.attempts, self._patience_s
        keys = adapter.settings.api_keys
        return UpstreamRequest(
            method="POST",
            url=adapter.url(outgoing.api, self._question.model, query_for_upstream(outgoing.query)),
            headers=adapter.headers(outgoing.passed, keys[key] if key < len(keys) else None),
            body=body,
            connect_timeout_s=min(timeouts.connect_timeout_s, patience_s),
            header_timeout_s=min(timeouts.header_timeout_s, patience_s),
        )

    @property
    def _patience_s(self) -> float:
        """How long the target may be silent: not the whole request's time while another is left, nor beyond a stream's first content."""
        left_s = max(0.0, self.outgoing.deadline_s - self._sent_at_s)
        first_s = self.deployment.settings.attempts.first_event_timeout_s if self.record.is_stream else None
        return min(left_s / 2 if self._has_another else left_s, math.inf if first_s is None else first_s)

    @property
    def _has_another(self) -> bool:
        """Whether another target may be tried after this one."""
        rules = self.deployment.attempt_rules
        if not self.decision.left or not self.decision.is_failover_allowed or not rules.is_failover_enabled:
            return False
        return rules.max_attempts == 0 or len({attempt.target for attempt in self.record.attempts}) <= rules.max_attempts

    async def _try(self, adapter: Adapter, body: bytes, key: int) -> Failure | None:
        self._sent_at_s = trio.current_time()
        with trio.CancelScope(deadline=self.outgoing.deadline_s) as scope:
            got = await try_once(
                self.deployment.transports[self._provider],
                self._request(adapter, body, key),
                self._question,
                now_epoch_s=self.tools.clock.epoch_s(),
                on_head=self.lease.head,
            )
        if scope.cancelled_caught:
            return failure_of_timeout()
        match got:
            case Failure():
                return got
            case Whole():
                await self._send(got)
                return None
            case Opened():
                return await self._relay(got)

    # ---- delivering -------------------------------------------------------------------------------------------------

    async def _send(self, whole: Whole) -> None:
        self._attempt.status = whole.status
        if self.decision.slowdown:
            await trio.sleep(self.decision.slowdown * (trio.current_time() - self._sent_at_s))
        if whole.usage is not None:
            self.record.input_tokens, self.record.output_tokens = whole.usage.input_tokens, whole.usage.output_tokens
        # The target has done its part: whether the client still reads is not its concern.
        self._finish(RelayEnd(Outcome.SUCCESS))
        self._started(whole.status)
        await self.responder.send(whole.status, [*self._passed(whole.headers), *answers.own_headers(self.record)], whole.body)
        self.record.bytes_out = len(whole.body)

    async def _relay(self, opened: Opened) -> Failure | None:
        self._attempt.status = opened.response.status
        async with retimed(opened, self.decision.slowdown, self._sent_at_s) as answer:
            relay = self._relay_of(answer)
            try:
                end = await relay.run()
            except BaseException:
                reached = relay.end_without_client()
                if reached is not None:
                    self.record.is_delivered = True
                    self._finish(reached)
                raise
        if isinstance(end, Failure):
            return end
        self._finish(end)
        return None

    def _passed(self, headers: Headers) -> Headers:
        """The answer's headers that may go to the client, without any that hold a configured secret or the provider's address."""
        return self.deployment.redactors[self._provider].headers(for_client(headers))

    def _relay_of(self, opened: Opened) -> Relay:
        response, timeouts = opened.response, self.deployment.settings.attempts
        headers = self._passed(response.headers)
        if opened.is_event_stream:
            headers = [pair for pair in headers if pair[0] not in (b"cache-control", b"x-accel-buffering")]
            headers += [(b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no")]
        first_s, deadline_s = timeouts.first_event_timeout_s, self.outgoing.deadline_s
        return Relay(
            opened,
            self.responder,
            (response.status, [*headers, *answers.own_headers(self.record)]),
            question=self._question,
            observer=observer_for(self.outgoing.api) if opened.is_event_stream else None,
            decoder=decoder_for(header_of(response.headers, b"content-encoding")),
            limits=Limits(
                first_content_at_s=deadline_s if first_s is None else min(deadline_s, self._sent_at_s + first_s),
                idle_s=timeouts.stream_idle_timeout_s,
                commits_unseen=first_s is None,
            ),
            record=self.record,
            on_content=self.lease.first_byte,
            on_commit=partial(self._started, response.status),
        )

    # ---- noting -----------------------------------------------------------------------------------------------------

    def _started(self, status: int) -> None:
        self.record.status = status
        self.record.first_byte_s = self.tools.clock.now_s()

    def _note(self, failure: Failure) -> None:
        judged = failure.classification
        attempt = self._attempt
        attempt.outcome, attempt.cause, attempt.code = judged.outcome, judged.cause, judged.code
        if attempt.status is None and failure.has_answer:
            attempt.status = failure.status

    def _finish(self, end: RelayEnd) -> None:
        self._attempt.outcome, self._attempt.cause, self._attempt.code = end.outcome, end.cause, end.code
        if end.outcome is not Outcome.SUCCESS:
            self.record.outcome, self.record.error_code = end.outcome.value, end.code
        self.lease.finish(end.outcome, cause=end.cause)
