"""Answers that the gateway makes itself: errors in the caller's dialect, and the headers it adds to every answer.

Layer: gateway. Source: behaviour.md §3 (response headers), §6 (everything failed), §9 (errors).
"""

import math
from functools import lru_cache
from typing import Final

import msgspec

from gomodel_trio.errors import GatewayError, MethodNotAllowed
from gomodel_trio.gateway.headers import for_client
from gomodel_trio.gateway.http import Headers
from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.gateway.redaction import NOTHING_PRIVATE, Redactor
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.upstream.attempt import Failure
from gomodel_trio.wire.dialect import Dialect
from gomodel_trio.wire.faults import error_body, read_fault
from gomodel_trio.wire.lenient_json import decode_any

JSON: Final = (b"content-type", b"application/json")
_MAY_PASS_LATER: Final = frozenset({408, 425, 429})
"""The only 4xx statuses that waiting can cure; for the others clients are told not to retry."""
_LONGEST_VALUE: Final = 1024
_TRACEBACK: Final = "Traceback (most recent call last)"
_WAITS: Final = frozenset({b"retry-after", b"retry-after-ms"})
_TOLD_ANEW: Final = _WAITS | {b"content-type", b"content-encoding"}
"""Headers of a refusal that the answer gives itself. SDKs heed the milliseconds first, so the two must never disagree."""


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, but for `own_headers`."""

    status: int
    headers: Headers
    body: bytes
    code: str | None = None


def own_headers(record: RequestRecord) -> Headers:
    """The gateway's headers for this request: the request id, the tier's where it was routed, the target's where one was tried."""
    headers: Headers = [(b"x-request-id", record.request_id.encode("latin-1", "replace"))]
    revision = record.revision
    if revision is not None:
        headers += [
            (b"x-gomodel-pro-tier", revision.tier.encode()),
            (b"x-gomodel-pro-tier-target", header_value(revision.target)),
            (b"x-gomodel-pro-tier-score", b"%d" % revision.score),
            (b"x-gomodel-pro-tier-reason", revision.reason.encode()),
        ]
    if record.attempts:
        headers.append((b"x-gomodel-target", header_value(record.attempts[-1].target)))
    if record.api is not None or record.attempts:
        headers.append((b"x-gomodel-attempts", b"%d" % len(record.attempts)))
    return headers


def header_value(text: str) -> bytes:
    """A name as a header value: UTF-8, control characters replaced, and no longer than any client's limit on headers."""
    # Cut before it is remembered: clients choose names, and may choose megabytes.
    return _header_value(text[:_LONGEST_VALUE])


@lru_cache(maxsize=1024)
def _header_value(text: str) -> bytes:
    return "".join(char if char.isprintable() else "?" for char in text).encode("utf-8", "replace")


def of_error(error: GatewayError, dialect: Dialect, request_id: str) -> Answer:
    """The gateway's own refusal."""
    headers: Headers = [JSON]
    if error.retry_after_s is not None:
        headers.append(_retry_after(error.retry_after_s))
    if error.should_retry is False or (400 <= error.status < 500 and error.status not in _MAY_PASS_LATER):
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    body = error_body(
        dialect, status=error.status, message=error.message, code=error.code, kind=error.kind, param=error.param, request_id=request_id
    )
    return Answer(error.status, headers, body, error.code)


def of_failure(
    failure: Failure,
    dialect: Dialect,
    provider: str,
    *,
    request_id: str,
    retry_after_s: float | None,
    redactor: Redactor = NOTHING_PRIVATE,
) -> Answer:
    """What the client is told when the last attempt failed.

    `retry_after_s`: the least cooldown left, where every target is cooling or the upstream of a 429 named no time. `redactor` hides what
    the upstream must not tell.
    """
    match failure.classification.outcome:
        case Outcome.AUTH:
            return _masked(dialect, request_id, "upstream_authentication", f"The provider {provider!r} refused the gateway's credentials.")
        case Outcome.ACCOUNT:
            what = f"The gateway's account at the provider {provider!r} cannot be used now (credit, quota or spending limit)."
            return _masked(dialect, request_id, "upstream_account", what)
    headers = redactor.headers(for_client([pair for pair in failure.headers if pair[0] not in _TOLD_ANEW]))
    headers += _waiting(failure, retry_after_s)
    if failure.status < 500 and failure.status not in _MAY_PASS_LATER:
        headers = [pair for pair in headers if pair[0] != b"x-should-retry"] + [(b"x-should-retry", b"false")]
    code = failure.classification.code
    if failure.body is not None and not failure.is_foreign:
        verbatim = redactor.data(failure.body)
        if _is_error_of(dialect, verbatim):
            return Answer(failure.status, [JSON, *headers], verbatim, code)
    code = redactor.text(code) if code else "upstream_error"
    message = redactor.text(_words(failure))
    body = error_body(dialect, status=failure.status, message=message, code=code, kind=None, param=None, request_id=request_id)
    return Answer(failure.status, [JSON, *headers], body, code)


def is_json_error(body: bytes) -> bool:
    """Whether an error's body is made for programs. Pages and plain text are for the upstream's developers, tracebacks among them."""
    return isinstance(decode_any(body), dict | list)


def _words(failure: Failure) -> str:
    """The message for an error that cannot be relayed as it is: the upstream's, where it is one."""
    if failure.body and not is_json_error(failure.body):
        return failure.detail
    message = failure.classification.message or (read_fault(failure.body).message if failure.body else None)
    return message if message and _TRACEBACK not in message else failure.detail


def _is_error_of(dialect: Dialect, body: bytes) -> bool:
    """Whether a body is an error in the dialect's own shape, so that it can be relayed verbatim."""
    found = decode_any(body)
    if not isinstance(found, dict) or not isinstance(found.get("error"), dict | str):
        return False
    return dialect is Dialect.OPENAI or (found.get("type") == "error" and isinstance(found["error"], dict))


def _masked(dialect: Dialect, request_id: str, code: str, message: str) -> Answer:
    # Clients take a 401 for a fault of their own key, and the upstream's words may show part of the gateway's.
    body = error_body(dialect, status=502, message=message, code=code, kind=None, param=None, request_id=request_id)
    return Answer(502, [JSON, (b"x-should-retry", b"false")], body, code)


def _waiting(failure: Failure, retry_after_s: float | None) -> Headers:
    if retry_after_s is not None:
        return [_retry_after(retry_after_s)]
    kept = [pair for pair in failure.headers if pair[0] in _WAITS]
    if not any(name == b"retry-after" for name, _ in kept) and failure.classification.retry_after_s is not None:
        kept.append(_retry_after(failure.classification.retry_after_s))
    return kept


def _retry_after(seconds: float) -> tuple[bytes, bytes]:
    return (b"retry-after", b"%d" % max(1, math.ceil(min(seconds, 1e9))))
