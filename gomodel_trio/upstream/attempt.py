"""One try at one target: send, judge the head, read what must be whole before anybody sees it.

Layer: upstream. Source: behaviour.md §5 (outcome classes), §6 (attempts). Streams are handed on open: `gateway.stream_out` holds them back
until their first content event.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

from gomodel_trio.route.classify import classify, classify_stream_fault
from gomodel_trio.route.outcome import Cause, Classification, Outcome
from gomodel_trio.upstream.decoding import decoder_for
from gomodel_trio.upstream.transport import Headers, Transport, TransportError, TransportFault, UpstreamRequest, UpstreamResponse
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.fault_status import StreamFault
from gomodel_trio.wire.unary import Answer, read_answer
from gomodel_trio.wire.usage import Usage

MAX_ERROR_BYTES: Final = 1 << 20
"""Of an error's body no more is read: it is for people and for classification."""

ERROR_BODY_S: Final = 2.0
"""So long it may take from the error's head: the status has said already that the next target is to be tried."""

MAX_WHOLE_BYTES: Final = 16 << 20
"""Up to this size a unary answer is held until it is whole, so that a cut one can fail over; a longer one is handed on as it comes."""

_LONG_BYTES: Final = 1 << 20
"""Above this an answer is read in a thread: it would hold up every other request for milliseconds."""

LOCAL_RETRY_AFTER_S: Final = 1.0
"""After that the gateway may have files, ports or memory again."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, as far as answers are judged by it.

    `model`: the target's; `client_body`: searched for ids that errors quote; `is_stream`: a stream was asked for.
    """

    api: Api
    model: str
    client_body: bytes
    is_stream: bool = False


@dataclass(slots=True)
class Failure:
    """An attempt that gave nothing to relay as a success.

    `status` is what the client would see; `body` the upstream's plain body, None if there was none; `detail` our words, without URL or key.
    `is_foreign`: the body is in another dialect than the client's.
    """

    classification: Classification
    status: int
    detail: str
    headers: Headers = field(default_factory=list)
    body: bytes | None = None
    is_foreign: bool = False

    @property
    def has_answer(self) -> bool:
        """Whether the upstream answered at all (with `status`, unless the answer was no error)."""
        return self.body is not None


@dataclass(slots=True)
class Whole:
    """A complete answer; `body` as it came (still coded), `plain` decoded, None if its coding is unknown. `usage` None: it reports none."""

    status: int
    headers: Headers
    body: bytes
    usage: Usage | None
    plain: bytes | None = None


@dataclass(slots=True)
class Opened:
    """An answer still coming. The caller must close `response`. `held`: chunks already read."""

    response: UpstreamResponse
    is_event_stream: bool
    held: list[bytes] = field(default_factory=list)


def header_of(headers: Headers, name: bytes) -> str | None:
    """The first value of a header as text; None if absent."""
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def failure_of_transport(error: TransportError) -> Failure:
    """A failure below HTTP: the target's fault, 504 for a timeout, else 502; but 503 where the gateway had nothing left to ask it with."""
    if error.fault is TransportFault.LOCAL:
        return _failure_of_ours(error.message)
    if error.is_timeout:
        cause, status, detail = Cause.TIMEOUT, 504, "The upstream did not answer in time."
    elif error.fault is TransportFault.SHORT_BODY:
        cause, status, detail = Cause.TRUNCATED, 502, "The upstream's answer was cut short."
    elif error.fault is TransportFault.LOOP:
        cause, status, detail = Cause.NETWORK, 502, "The provider's base URL, or a proxy, leads back to this gateway."
    elif error.fault is TransportFault.TLS:
        cause, status, detail = Cause.NETWORK, 502, "The upstream's TLS handshake or certificate failed."
    else:
        cause, status, detail = Cause.NETWORK, 502, "The upstream could not be reached."
    # A retry of the same target may help against anything on the wire (a bad certificate stays bad, but costs only the retries), but not
    # against silence, which has cost the request's time already, nor against a way that leads back here.
    is_retryable = error.fault not in (TransportFault.HEADER_TIMEOUT, TransportFault.IDLE_TIMEOUT, TransportFault.LOOP)
    return Failure(Classification(outcome=Outcome.FAULT, is_failover=True, is_retryable=is_retryable, cause=cause), status, detail)


def _failure_of_ours(message: str) -> Failure:
    # It says nothing about the target, and the next one would meet the same: neither cooldown nor failover.
    judged = Classification(
        outcome=Outcome.CLIENT, is_failover=False, is_retryable=False, retry_after_s=LOCAL_RETRY_AFTER_S, code="gateway_exhausted"
    )
    return Failure(judged, 503, message)


def failure_of_timeout() -> Failure:
    """The attempt's time was up before anything could be relayed."""
    return failure_of_transport(TransportError(TransportFault.HEADER_TIMEOUT, "no answer in time"))


def failure_of_event(error: StreamFault, question: Question) -> Failure:
    """An error event, or a 200 whose body is an error: judged by the status it stands for."""
    judged = classify_stream_fault(error, request_body=question.client_body, model=question.model)
    return Failure(judged, error.status, error.fault.message or "The upstream reported an error.")


def unreadable_answer() -> Failure:
    """A success that cannot be translated, for it is no answer in the form that was asked for."""
    classification = Classification(outcome=Outcome.FAULT, is_failover=True, is_retryable=False, cause=Cause.TRUNCATED)
    return Failure(classification, 502, "The upstream's answer could not be read.")


def refused_credentials(message: str) -> Failure:
    """The gateway's own credentials for the provider cannot be had."""
    return Failure(Classification(outcome=Outcome.AUTH, is_failover=True, code="credentials_unavailable"), 502, message)


def empty_answer() -> Failure:
    """A success that says nothing."""
    classification = Classification(outcome=Outcome.FAULT, is_failover=True, is_retryable=False, cause=Cause.TRUNCATED)
    return Failure(classification, 502, "The upstream's answer was empty.")


async def try_once(
    transport: Transport, request: UpstreamRequest, question: Question, *, now_epoch_s: float, on_head: Callable[[], None]
) -> Failure | Whole | Opened:
    """Send `request` and judge what comes.

    `now_epoch_s` is for dates in its headers; `on_head` is told of the head of an answer that is read whole.
    """
    try:
        response = await transport.send(request)
    except TransportError as error:
        return failure_of_transport(error)
    is_handed_on = False
    try:
        if 200 <= response.status < 300:
            got = await _answer(response, question, on_head)
            is_handed_on = isinstance(got, Opened)
            return got
        return await _refusal(response, question, now_epoch_s)
    finally:
        if not is_handed_on:
            await response.aclose()


async def _answer(response: UpstreamResponse, question: Question, on_head: Callable[[], None]) -> Failure | Whole | Opened:
    if _is_event_stream(header_of(response.headers, b"content-type"), question):
        return Opened(response, is_event_stream=True)
    on_head()
    chunks, size = [], 0
    try:
        while chunk := await response.read():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_WHOLE_BYTES:
                return Opened(response, is_event_stream=False, held=chunks)
    except TransportError as error:
        return failure_of_transport(error)
    body = b"".join(chunks)
    if not body:
        return empty_answer()
    read = await _read(body, header_of(response.headers, b"content-encoding"), question.api)
    if read is None:
        return Whole(response.status, response.headers, body, None)
    answer, plain = read
    if answer.error is not None:
        return failure_of_event(answer.error, question)
    return Whole(response.status, response.headers, body, answer.usage, plain)


async def _read(body: bytes, content_encoding: str | None, api: Api) -> tuple[Answer, bytes] | None:
    """What a whole answer says, and its plain bytes; None where it cannot be read, or would be absurdly large.

    A long one is read in a thread.
    """
    decoder = decoder_for(content_encoding)
    if decoder is None:
        return None
    pieces = iter(decoder.pieces(body))
    start = _joined(pieces, _LONG_BYTES)

    def finish() -> tuple[Answer, bytes] | None:
        rest = _joined(pieces, MAX_WHOLE_BYTES)
        plain = start + rest if rest else start
        return None if decoder.is_given_up or len(plain) > MAX_WHOLE_BYTES else (read_answer(plain, api), plain)

    return finish() if len(start) <= _LONG_BYTES else await trio.to_thread.run_sync(finish)


def _joined(pieces: Iterator[bytes], enough_bytes: int) -> bytes:
    """The next pieces, until they are more than `enough_bytes`."""
    taken, size = [], 0
    for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if size > enough_bytes:
            break
    return taken[0] if len(taken) == 1 else b"".join(taken)


def _is_event_stream(content_type: str | None, question: Question) -> bool:
    """Whether to relay as it comes: some servers stream under no name or a wrong one, but none gives JSON or a page another's."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "text/event-stream" or (question.is_stream and not kind.endswith("json") and kind != "text/html")


async def _refusal(response: UpstreamResponse, question: Question, now_epoch_s: float) -> Failure:
    body = await read_error_body(response)
    classification = classify(
        status=response.status,
        headers=response.headers,
        body=body,
        request_body=question.client_body,
        model=question.model,
        now_epoch_s=now_epoch_s,
    )
    return Failure(classification, told_status(response.status), f"The upstream answered {response.status}.", response.headers, body)


def told_status(status: int) -> int:
    """The status that a client is told for an upstream's error.

    A redirect, or a number that no client knows, is the operator's base URL gone wrong and not the client's business.
    """
    return status if 400 <= status <= 599 else 502


async def read_error_body(response: UpstreamResponse) -> bytes:
    """Read the body of an error, decoded; what came of it where it was cut or slow, and empty where its coding is unknown."""
    decoder = decoder_for(header_of(response.headers, b"content-encoding"))
    body = b""
    try:
        with trio.move_on_after(ERROR_BODY_S):
            while len(body) < MAX_ERROR_BYTES and (chunk := await response.read()):
                body += _joined(iter(decoder.pieces(chunk)), MAX_ERROR_BYTES) if decoder is not None else b""
    except TransportError:
        pass  # what came is enough: the status says what happened
    return body[:MAX_ERROR_BYTES]
