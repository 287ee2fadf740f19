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
from gomodel_trio.route.health import OF_A_KEY
from gomodel_trio.route.names import split_target
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import Decision
from gomodel_trio.state.lease import Lease
from gomodel_trio.translate.canonical import Form
from gomodel_trio.translate.translation import Translation, translation
from gomodel_trio.upstream.attempt import (
    Failure,
    Opened,
    Question,
    Whole,
    failure_of_timeout,
    header_of,
    refused_credentials,
    try_once,
    unreadable_answer,
)
from gomodel_trio.upstream.decoding import decoder_for
from gomodel_trio.upstream.providers.adapter import Adapter, CredentialsUnavailable
from gomodel_trio.upstream.transport import UpstreamRequest
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for
from gomodel_trio.wire.splice import rewrite

_OF_A_DIALECT: Final = (b"anthropic-", b"openai-", b"x-stainless-")
"""Client headers that mean nothing to a target of another form."""
_OF_OPENAI: Final = frozenset({"openai", "azure"})
"""Types whose chat completions take `max_completion_tokens`; compatible servers may know `max_tokens` only."""
AttemptKind = Literal["primary", "failover", "retry"]
_OF_THE_BODY: Final = (b"content-type", b"content-encoding", b"x-amzn-bedrock-content-type")


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
    _passed_on: Headers = field(init=False)
    _query: bytes = field(init=False)
    _translation: Translation | None = field(init=False, default=None)
    _question: Question = field(init=False)
    _sent_at_s: float = field(init=False, default=0.0)

    async def run(self, kind: AttemptKind) -> Failure | None:
        """Try the target with one key after the other; None: the client has its answer.

        Raises:
            ClientFault: a reload made the target speak another dialect.
            Unavailable: a reload took its provider away since the decision.
            Untranslatable: the target cannot be asked this in its form.
            Malformed: the request cannot be read for being translated.
        """
        self._provider, model = split_target(self.decision.target)
        adapter = self._adapter()
        asked = adapter.asks_in(self.outgoing.api, model)
        if asked is None:  # a reload changed it since the decision
            raise dialect_mismatch(self.decision.target, adapter.settings.dialect.value, self.outgoing.api.dialect.value)
        self._question = Question(asked, model, self.outgoing.body, is_stream=self.record.is_stream)
        self._passed_on, self._query = self.outgoing.passed, query_for_upstream(self.outgoing.query)
        if asked is self.outgoing.api:
            body = await self._body(model)
        else:
            self._translation, body = await self._translated(adapter, asked, model)
            self._passed_on, self._query = [pair for pair in self._passed_on if not pair[0].startswith(_OF_A_DIALECT)], b""
        body = adapter.body(body, model, self._passed_on, is_stream=self.record.is_stream)
        failure: Failure | None = None
        for number, key in enumerate(self.decision.keys):
            if failure is not None:
                judged = failure.classification
                self.lease.next_key(key, judged.outcome, cause=judged.cause, retry_after_s=judged.retry_after_s)
            self._attempt = AttemptRecord("key" if number else kind, self.decision.target, self.tools.clock.now_s())
            self.record.attempts.append(self._attempt)
            try:
                failure = await self._try(adapter, body, key)
            finally:
                self._attempt.duration_s = self.tools.clock.now_s() - self._attempt.started_s
            if failure is None:
                return None
            self._note(failure)
            if failure.classification.outcome not in OF_A_KEY or trio.current_time() >= self.outgoing.deadline_s:
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
        return adapter

    async def _translated(self, adapter: Adapter, asked: Api, model: str) -> tuple[Translation, bytes]:
        outgoing = self.outgoing

        def translate() -> tuple[Translation, bytes]:
            now_epoch_s = int(self.tools.clock.epoch_s())
            found = translation(
                Form(outgoing.api),
                Form(asked),
                outgoing.body,
                now_epoch_s=now_epoch_s,
                drops_provider=outgoing.has_provider,
                is_openai=adapter.settings.type in _OF_OPENAI,
            )
            return found, found.body(model)

        return translate() if len(outgoing.body) <= LONG_BODY_BYTES else await trio.to_thread.run_sync(translate)

    async def _body(self, model: str) -> bytes:
        outgoing = self.outgoing
        if model == outgoing.model and not outgoing.has_provider:
            return outgoing.body
        swap = partial(rewrite, outgoing.body, model=model, drop_provider=outgoing.has_provider, was=outgoing.model_raw)
        return swap() if len(outgoing.body) <= LONG_BODY_BYTES else await trio.to_thread.run_sync(swap)

    def _request(self, adapter: Adapter, body: bytes, key: int) -> UpstreamRequest:
        timeouts, patience_s = self.deployment.settings.attempts, self._patience_s
        keys = adapter.settings.api_keys
        return UpstreamRequest(
            method="POST",
            url=adapter.url(self._question.api, self._question.model, self._query, is_stream=self.record.is_stream),
            headers=adapter.headers(self._passed_on, keys[key] if key < len(keys) else None),
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
            request = self._request(adapter, body, key)
            if adapter.is_signed:
                try:
                    request = await adapter.authorized(request, keys[key] if key < len(keys := adapter.settings.api_keys) else None)
                except CredentialsUnavailable as error:
                    return refused_credentials(str(error))
            got = await try_once(
                self.deployment.transports[self._provider],
                request,
                self._question,
                now_epoch_s=self.tools.clock.epoch_s(),
                on_head=self.lease.head,
            )
        if scope.cancelled_caught:
            return failure_of_timeout()
        match got:
            case Failure():
                got.is_foreign = self._translation is not None
                return got
            case Whole():
                if self._translation is not None:
                    translated = await self._answer(got, self._translation)
                    if translated is None:
                        return unreadable_answer()
                    got = translated
                await self._send(got)
                return None
            case Opened() if self._translation is not None and not got.is_event_stream:
                await got.response.aclose()
                return unreadable_answer()
            case Opened():
                return await self._relay(got)

    # ---- delivering -------------------------------------------------------------------------------------------------

    async def _answer(self, whole: Whole, translation: Translation) -> Whole | None:
        """A whole answer as the client wants it; None: it is none."""
        plain = whole.plain
        if plain is None:
            return None
        try:
            if len(plain) <= LONG_BODY_BYTES:
                body = translation.answer(plain)
            else:
                body = await trio.to_thread.run_sync(translation.answer, plain)
        except ValueError:
            return None
        kind = b"text/event-stream" if translation.asked.is_stream else b"application/json"
        headers = [pair for pair in whole.headers if pair[0] not in _OF_THE_BODY]
        return Whole(whole.status, [(b"content-type", kind), *headers], body, whole.usage)

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
        adapter = self._adapter()
        unframer = adapter.unframer(header_of(response.headers, b"content-type"))
        is_recoded = unframer is not None or self._translation is not None
        if is_recoded:
            headers = [(b"content-type", b"text/event-stream"), *(pair for pair in headers if pair[0] not in _OF_THE_BODY)]
        if opened.is_event_stream:
            headers = [pair for pair in headers if pair[0] not in (b"cache-control", b"x-accel-buffering")]
            headers += [(b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no")]
        first_s, deadline_s = timeouts.first_event_timeout_s, self.outgoing.deadline_s
        return Relay(
            opened,
            self.responder,
            (response.status, [*headers, *answers.own_headers(self.record)]),
            question=self._question,
            observer=observer_for(self._question.api) if opened.is_event_stream else None,
            decoder=unframer or decoder_for(header_of(response.headers, b"content-encoding")),
            limits=Limits(
                first_content_at_s=deadline_s if first_s is None else min(deadline_s, self._sent_at_s + first_s),
                idle_s=timeouts.stream_idle_timeout_s,
                commits_unseen=first_s is None,
            ),
            record=self.record,
            on_content=self.lease.first_byte,
            on_commit=partial(self._started, response.status),
            translation=None if self._translation is None else self._translation.stream(),
            is_recoded=is_recoded,
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
