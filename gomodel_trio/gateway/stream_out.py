"""Relaying an answer while it comes: held back until its first content event, then byte for byte.

Layer: gateway. Source: behaviour.md §6 (streams).

The theory. An answer is *held* until its first content event is seen: up to there a failure is a value (`Failure`) and another target may
serve. Then it is *committed*: head and held chunks go out, and from there on a failure is told to the client in its dialect and the answer
is visibly not ended. Holding is bounded in bytes and time; past the bounds it commits unseen. The pending read must survive that, so the
clock's task commits while the reader waits on, and whatever the reader gets next queues behind it.

    held --content | bounds--> committed --end seen--> SUCCESS
      |                            |---- cut, stall, error event --> FAULT, told in-stream
      |                            |---- the client leaves --> SUCCESS if it has the end event, which is all that it waited for
      '-- error, cut, timeout, empty --> Failure
"""

from collections.abc import Callable
from typing import Final

import msgspec
import trio

from gomodel_trio.gateway.http import Headers, Responder
from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.translate.translation import StreamTranslation
from gomodel_trio.upstream.attempt import (
    Failure,
    Opened,
    Question,
    empty_answer,
    failure_of_event,
    failure_of_timeout,
    failure_of_transport,
)
from gomodel_trio.upstream.decoding import Decoder
from gomodel_trio.upstream.transport import TransportError
from gomodel_trio.wire.faults import stream_error_event
from gomodel_trio.wire.observer import Observer

HOLD_S: Final = 5.0
HOLD_BYTES: Final = 64 << 10
_DEADLINE_GRAIN: Final = 1e-3
"""The share of the idle limit within which its deadline is not moved again: moving it costs more than all else a chunk does."""
HOLD_BYTES_WITH_TIMEOUT: Final = 4 << 20
"""With HTTP_FIRST_EVENT_TIMEOUT the operator chose to wait; the bytes stay bounded."""
MAX_ANSWER_BYTES: Final = 1 << 30
"""An answer that is no event stream ends somewhere: none of a model is as large as this."""


class RelayEnd(msgspec.Struct, frozen=True):
    """How a committed answer ended."""

    outcome: Outcome
    cause: Cause = Cause.NONE
    code: str | None = None


class Limits(msgspec.Struct, frozen=True):
    """Instants on trio's clock, lengths in seconds.

    `first_content_at_s`: a held answer without content has failed by then. `commits_unseen`: HOLD_S may commit it before.
    """

    first_content_at_s: float
    idle_s: float
    commits_unseen: bool


class Relay:
    """One answer on its way. `decoder` None: the coding is unknown, so nothing can be observed and the first bytes commit.

    `translation`: the client reads another form than the upstream writes. `is_recoded`: the plain bytes go out, not those that came; so it
    is with a translation, and with a framing that clients do not know.
    """

    def __init__(
        self,
        opened: Opened,
        responder: Responder,
        head: tuple[int, Headers],
        *,
        question: Question,
        observer: Observer | None,
        decoder: Decoder | None,
        limits: Limits,
        record: RequestRecord,
        on_content: Callable[[], None],
        on_commit: Callable[[], None],
        translation: StreamTranslation | None = None,
        is_recoded: bool = False,
    ) -> None:
        self._response = opened.response
        self._held = list(opened.held)
        self._is_event_stream = opened.is_event_stream
        self._responder = responder
        self._head = head
        self._question = question
        self._observer = observer if decoder is not None else None
        self._decoder = decoder
        self._translation = translation
        self._is_recoded = is_recoded or translation is not None
        self._limits = limits
        self._record = record
        self._on_content = on_content
        self._on_commit = on_commit
        self._has_content = False
        self._commits = False
        self._committed = trio.Event()
        self._commit_error: Exception | None = None
        self._holding: trio.CancelScope | None = None
        self._pending: bytes | Failure | None = None
        self._late = b""
        """What came to be known of while the held bytes went out."""
        self._is_writing = True
        """Whether some of what came has not gone out yet."""

    async def run(self) -> Failure | RelayEnd:
        """Relay to the end. A Failure means that nothing has been sent.

        Raises:
            ClientGone: the front door cannot write any more.
        """
        if self._observer is not None:
            failure = await self._hold()
            if failure is not None:
                return failure
        await self._commit()
        return await self._relay()

    def end_without_client(self) -> RelayEnd | None:
        """How the answer ended where the client left: well if it has the end event, though the upstream keeps the body open; else None."""
        observer = self._observer
        if self._is_writing or observer is None or not observer.has_ended or observer.error is not None:
            return None
        self._note(observer)
        return RelayEnd(Outcome.SUCCESS)

    # ---- held -------------------------------------------------------------------------------------------------------

    async def _hold(self) -> Failure | None:
        async with trio.open_nursery() as nursery:
            if self._limits.commits_unseen:
                nursery.start_soon(self._commit_when_due)
            failure = await self._until_content()
            if not self._commits:
                nursery.cancel_scope.cancel()
        return failure

    async def _commit_when_due(self) -> None:
        await trio.sleep(HOLD_S)
        await self._commit_contained()

    async def _commit_contained(self) -> None:
        # An exception here would leave the nursery as a group; the reader's side raises it instead. The pending read is no longer bound by
        # the time to the first byte, only by the idle limit.
        if self._holding is not None:
            self._holding.deadline = trio.current_time() + self._limits.idle_s
        try:
            await self._commit()
        except Exception as error:
            self._commit_error = error
            self._committed.set()
            if self._holding is not None:
                self._holding.cancel()

    async def _until_content(self) -> Failure | None:
        bound = HOLD_BYTES if self._limits.commits_unseen else HOLD_BYTES_WITH_TIMEOUT
        size = 0
        while True:
            with trio.CancelScope(deadline=self._limits.first_content_at_s) as scope:
                self._holding = scope
                chunk = await self._read()
            if scope.cancelled_caught:
                chunk = failure_of_timeout()
            if self._commits:
                await self._committed.wait()
                self._pending = chunk
                return None
            if isinstance(chunk, Failure):
                return chunk
            if not chunk:
                return self._ended_early()
            size += len(chunk)
            if not self._is_recoded:
                self._held.append(chunk)
                await self._taken(chunk)
            else:
                outgoing, _ = await self._taken(chunk)
                if self._commits:
                    self._late = outgoing
                else:
                    self._held.append(outgoing)
            if self._commits:  # while it was read: with what is held, this chunk too
                await self._committed.wait()
                return None
            if self._observer is not None and self._observer.error is not None and not self._has_content:
                return failure_of_event(self._observer.error, self._question)
            if self._has_content or size > bound:
                return None

    def _ended_early(self) -> Failure | None:
        """The body ended before any content: what its last bytes said decides."""
        assert self._observer is not None
        self._observer.close()
        if self._translation is not None:
            self._held.append(self._translation.close())
        self._pending = b""
        if self._observer.error is not None:
            return failure_of_event(self._observer.error, self._question)
        return None if self._observer.has_content else empty_answer()

    # ---- committed --------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        if self._commits:
            await self._committed.wait()
            if self._commit_error is not None:
                raise self._commit_error
            return
        self._commits = True
        self._record.open_stream = (self._translation or self._observer) if self._takes_events else None
        self._on_commit()
        await self._responder.start(*self._head)
        for chunk in self._held:
            if chunk:
                await self._write(chunk)
        self._held.clear()
        self._committed.set()

    async def _relay(self) -> RelayEnd:
        """Forward until the end; only the upstream's silence counts as a stall, a slow client holds the upstream back."""
        if self._late:
            await self._write(self._late)
        self._is_writing = False
        idle_s, set_at_s = self._limits.idle_s, trio.current_time()
        with trio.CancelScope(deadline=set_at_s + idle_s) as scope:
            while True:
                chunk, self._pending = (self._pending if self._pending is not None else await self._read()), None
                if isinstance(chunk, Failure) or not chunk:
                    break
                self._is_writing = True
                outgoing, has_progressed = await self._taken(chunk)
                if outgoing:
                    await self._write(outgoing)
                self._is_writing = False
                if not self._is_event_stream and self._record.bytes_out > MAX_ANSWER_BYTES:
                    return self._gave_up_on_upstream()
                if has_progressed and (now_s := trio.current_time()) - set_at_s > idle_s * _DEADLINE_GRAIN:
                    scope.deadline, set_at_s = now_s + idle_s, now_s
        if not scope.cancelled_caught:
            return await self._ended(chunk if isinstance(chunk, Failure) else None)
        if self._is_writing:
            return self._gave_up_on_client()
        return await self._ended(None) if self._observer is not None and self._observer.has_ended else await self._stalled()

    async def _stalled(self) -> RelayEnd:
        return await self._tell(504, "The upstream stream stalled.", RelayEnd(Outcome.FAULT, Cause.STALLED, "stream_incomplete"))

    def _gave_up_on_client(self) -> RelayEnd:
        self._responder.abort()
        return RelayEnd(Outcome.CLIENT, Cause.NONE, "client_too_slow")

    def _gave_up_on_upstream(self) -> RelayEnd:
        self._responder.abort()
        return RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "answer_too_large")

    async def _ended(self, failure: Failure | None) -> RelayEnd:
        observer = self._observer
        if observer is not None:
            observer.close()
            self._note(observer)
        if self._translation is not None and (last := self._translation.close()):
            await self._write(last)
        if observer is not None and observer.error is not None:
            if failure is None:
                await self._responder.end()
            else:
                self._responder.abort()
            judged = failure_of_event(observer.error, self._question).classification
            return RelayEnd(judged.outcome, Cause.ERROR_EVENT, judged.code or "stream_error")
        # Where the dialect's end was seen, what was lost with the connection is only its framing.
        if observer.has_ended if observer is not None else failure is None:
            await self._responder.end()
            return RelayEnd(Outcome.SUCCESS)
        if failure is not None and failure.classification.cause is Cause.TIMEOUT:
            return await self._stalled()
        end = RelayEnd(Outcome.FAULT, Cause.TRUNCATED, "stream_incomplete")
        return await self._tell(502, "The upstream ended before its answer was complete.", end)

    async def _tell(self, status: int, message: str, end: RelayEnd) -> RelayEnd:
        if self._translation is not None:
            await self._write(self._translation.fail(status=status, message=message, code="stream_incomplete"))
        elif self._observer is not None and self._takes_events:
            event = stream_error_event(
                self._question.api,
                status=status,
                message=message,
                code="stream_incomplete",
                sequence_number=self._observer.sequence_number + 1,
                is_mid_event=self._observer.is_mid_event,
            )
            await self._write(event)
        self._responder.abort()
        return end

    @property
    def _takes_events(self) -> bool:
        """Whether an event of ours may be put behind what the upstream has said."""
        return self._is_event_stream and not any(name == b"content-encoding" for name, _ in self._head[1])

    def _note(self, observer: Observer) -> None:
        self._record.parse_errors = observer.parse_errors
        if observer.usage is not None:
            self._record.input_tokens, self._record.output_tokens = observer.usage.input_tokens, observer.usage.output_tokens

    # ---- both -------------------------------------------------------------------------------------------------------

    async def _read(self) -> bytes | Failure:
        try:
            return await self._response.read()
        except TransportError as error:
            return failure_of_transport(error)

    async def _taken(self, chunk: bytes) -> tuple[bytes, bool]:
        """Show a chunk to the observer: what goes out for it, and whether it brought anything but comments.

        One that inflates to much takes its time in turns.
        """
        observer, decoder = self._observer, self._decoder
        if observer is None or decoder is None:
            return chunk, True
        has_progressed = is_next = False
        recoded: list[bytes] = []
        for piece in decoder.pieces(chunk):
            if is_next:
                await trio.lowlevel.checkpoint()
            is_next = True
            has_progressed = observer.feed(piece) or has_progressed
            if self._is_recoded:
                recoded.append(piece if self._translation is None else self._translation.feed(piece))
            if not self._has_content and observer.has_content:
                self._note_content()
        if decoder.is_given_up and not self._is_recoded:
            if observer.error is None and not observer.has_ended:
                self._look_away(observer)
            return chunk, True
        return b"".join(recoded) if self._is_recoded else chunk, has_progressed

    def _look_away(self, observer: Observer) -> None:
        """Relay the rest unseen: what inflates absurdly is the client's to judge, and ends where its body ends."""
        self._note(observer)
        self._observer = self._record.open_stream = None
        if not self._has_content:
            self._note_content()

    def _note_content(self) -> None:
        self._has_content = True
        self._on_content()

    async def _write(self, chunk: bytes) -> None:
        await self._responder.write(chunk)
        self._record.bytes_out += len(chunk)
        self._record.chunks_out += 1
