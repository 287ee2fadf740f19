"""`/p/{provider}/…`: a provider's native API, with the gateway's credential in the place of the client's.

Layer: gateway. Source: behaviour.md §1, §7. No session, no tier, no failover; it feeds no routing state.
"""

from urllib.parse import unquote_to_bytes

from gomodel_trio.config.availability import why_unavailable
from gomodel_trio.errors import NotFound, Unavailable, shortened
from gomodel_trio.gateway import answers
from gomodel_trio.gateway.deployment import Deployment, Tools
from gomodel_trio.gateway.headers import for_client, for_upstream, query_for_upstream
from gomodel_trio.gateway.http import Request, Responder
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord
from gomodel_trio.gateway.redaction import Redactor
from gomodel_trio.route.classify import classify
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.upstream.attempt import Failure, failure_of_transport, header_of, read_error_body, told_status
from gomodel_trio.upstream.providers.adapter import Adapter
from gomodel_trio.upstream.transport import TransportError, UpstreamRequest, UpstreamResponse

_MAY_MEAN_US = frozenset({401, 402, 403})
"""Statuses that may be about the gateway's own key or account."""


async def pass_through(
    tools: Tools, deployment: Deployment, request: Request, responder: Responder, *, record: RequestRecord, rest: bytes
) -> None:
    """Serve `/p/{rest}`; `rest` is still percent-encoded, and the path in it goes on as it was sent.

    Raises:
        NotFound: no such provider, or the path leads out of its base URL.
        Unavailable: the provider lacks something that only the operator can give it.
        BodyTooLarge, ClientGone: see `Request.read_body`.
    """
    head, _, path = rest.partition(b"/")
    provider = unquote_to_bytes(head).decode("utf-8", "replace")
    adapter = deployment.adapters.get(provider)
    if adapter is None:
        raise NotFound(f"There is no provider {shortened(provider)!r} here.", code="provider_not_found")
    if not adapter.settings.is_available:
        raise Unavailable(why_unavailable(adapter.settings), code="provider_unavailable", should_retry=False)
    if _climbs(path):
        raise NotFound("The path leads out of the provider's base URL.", code="unknown_url")
    body = await request.read_body(deployment.settings.server.body_size_limit_bytes)
    record.target = TargetId(provider)
    attempt = AttemptRecord("primary", record.target, tools.clock.now_s())
    record.attempts.append(attempt)
    try:
        response = await deployment.transports[provider].send(_upstream_request(deployment, adapter, request, path, body))
    except TransportError as error:
        await _refuse(failure_of_transport(error), adapter, deployment.redactors[provider], responder, record)
        return
    finally:
        attempt.duration_s = tools.clock.now_s() - attempt.started_s
    try:
        attempt.status = response.status
        await _answer(tools, deployment, response, adapter, responder, record=record)
    finally:
        await response.aclose()
        attempt.duration_s = tools.clock.now_s() - attempt.started_s


def _climbs(path: bytes) -> bool:
    """Whether a path holds a dot segment, in any spelling: the operator's credential is for what lies under the base URL."""
    return not {b".", b".."}.isdisjoint(unquote_to_bytes(path).replace(b"\\", b"/").split(b"/"))


def _upstream_request(deployment: Deployment, adapter: Adapter, request: Request, path: bytes, body: bytes) -> UpstreamRequest:
    timeouts = deployment.settings.attempts
    keys = adapter.settings.api_keys
    passed = for_upstream(request.headers)
    coding = [(name, value) for name, value in request.headers if name == b"content-encoding"]
    return UpstreamRequest(
        method=request.method,
        url=adapter.native_url(path.decode("latin-1"), query_for_upstream(request.query)),
        headers=adapter.headers([*passed, *coding], keys[0] if keys else None),
        body=body,
        connect_timeout_s=timeouts.connect_timeout_s,
        header_timeout_s=min(timeouts.header_timeout_s, timeouts.request_timeout_s),
        idle_timeout_s=timeouts.stream_idle_timeout_s,
    )


async def _answer(
    tools: Tools, deployment: Deployment, response: UpstreamResponse, adapter: Adapter, responder: Responder, *, record: RequestRecord
) -> None:
    redactor = deployment.redactors[adapter.settings.name]
    if response.status >= 400 and (record.method != "HEAD" or response.status in _MAY_MEAN_US or response.status > 599):
        failure = await _refusal(tools, response)
        is_ours = response.status in _MAY_MEAN_US and failure.classification.outcome in (Outcome.AUTH, Outcome.ACCOUNT)
        if is_ours or (failure.body and not answers.is_json_error(failure.body)):
            await _refuse(failure, adapter, redactor, responder, record)
        else:
            await _hand_on(failure, redactor, responder, record)
        return
    record.status = response.status
    record.first_byte_s = tools.clock.now_s()
    try:
        await _relay(response, redactor, responder, record)
    except TransportError as error:
        record.outcome, record.error_code = Outcome.FAULT.value, error.fault.value
        record.attempts[-1].outcome, record.attempts[-1].cause = Outcome.FAULT, Cause.TRUNCATED
        responder.abort()
        return
    record.attempts[-1].outcome = Outcome.SUCCESS
    await responder.end()


async def _hand_on(failure: Failure, redactor: Redactor, responder: Responder, record: RequestRecord) -> None:
    """The provider's own error, as it is but for what must not be told."""
    judged = failure.classification
    record.attempts[-1].outcome, record.attempts[-1].cause, record.attempts[-1].code = judged.outcome, judged.cause, judged.code
    record.status = failure.status
    headers = [pair for pair in redactor.headers(for_client(failure.headers)) if pair[0] != b"content-encoding"]
    body = redactor.data(failure.body or b"")
    await responder.send(failure.status, [*headers, *answers.own_headers(record)], body)
    record.bytes_out = len(body)


async def _relay(response: UpstreamResponse, redactor: Redactor, responder: Responder, record: RequestRecord) -> None:
    """Hand on head and body as they come, with the length where it is known.

    A client that knows the length may leave with the last byte, so the end is read before that byte goes out.
    """
    headers = [*redactor.headers(for_client(response.headers)), *answers.own_headers(record)]
    left = 0 if record.method == "HEAD" else None
    length = header_of(response.headers, b"content-length")
    if length is not None and length.isascii() and length.isdigit():
        headers.append((b"content-length", length.encode()))
        left = 0 if record.method == "HEAD" else int(length)
    if left == 0:
        await response.read()
    await responder.start(response.status, headers)
    while chunk := await response.read():
        if left is not None:
            left -= len(chunk)
            if left == 0:
                await response.read()
        await responder.write(chunk)
        record.bytes_out += len(chunk)
        record.chunks_out += 1


async def _refusal(tools: Tools, response: UpstreamResponse) -> Failure:
    body = await read_error_body(response)
    judged = classify(
        status=response.status, headers=response.headers, body=body, request_body=b"", model="", now_epoch_s=tools.clock.epoch_s()
    )
    return Failure(judged, told_status(response.status), f"The upstream answered {response.status}.", response.headers, body)


async def _refuse(failure: Failure, adapter: Adapter, redactor: Redactor, responder: Responder, record: RequestRecord) -> None:
    judged, settings = failure.classification, adapter.settings
    record.attempts[-1].outcome, record.attempts[-1].cause = judged.outcome, judged.cause
    answer = answers.of_failure(
        failure, settings.dialect, settings.name, request_id=record.request_id, retry_after_s=None, redactor=redactor
    )
    record.status, record.outcome, record.error_code = answer.status, judged.outcome.value, answer.code
    await responder.send(answer.status, [*answer.headers, *answers.own_headers(record)], answer.body)
