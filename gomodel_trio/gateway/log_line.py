"""The one canonical log line of a request, written at its end.

Layer: gateway. Source: style.md (logging). Never prompts, keys or whole headers.
"""

from typing import Any

from gomodel_trio.gateway.deployment import Log
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord


def write_log_line(log: Log, record: RequestRecord, ended_s: float, *, is_quiet: bool) -> None:
    """Write the line; `is_quiet`: a probe's, at debug."""
    if is_quiet:
        log.debug("request", **fields_of(record, ended_s))
    else:
        log.line("request", fields_of(record, ended_s))


def fields_of(record: RequestRecord, ended_s: float) -> dict[str, Any]:
    """The line's fields, ready for JSON; what does not apply is left out."""
    fields: dict[str, Any] = {
        "request_id": record.request_id,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "outcome": record.outcome,
        "duration_ms": _ms(ended_s - record.started_s),
    }
    if record.model is not None:
        fields["model"] = record.model
    if (revision := record.revision) is not None:
        fields["alias"] = revision.alias
        fields["tier"] = revision.tier.value
        fields["score"] = revision.score
        fields["reason"] = revision.reason
    if record.source is not None:
        fields["virtual_model"] = record.source
    if record.target is not None:
        fields["target"] = record.target
    if record.is_stream:
        fields["stream"] = True
    if record.session is not None:
        fields["session"] = record.session
    if record.user_path:
        fields["user_path"] = record.user_path
    if record.error_code is not None:
        fields["error"] = record.error_code
    if record.first_byte_s is not None:
        fields["first_byte_ms"] = _ms(record.first_byte_s - record.started_s)
    _add_counts(fields, record)
    if record.attempts:
        fields["attempts"] = len(record.attempts)
        if len(record.attempts) > 1:
            fields["failed"] = [_failed(attempt) for attempt in record.attempts[:-1]]
    return fields


def _add_counts(fields: dict[str, Any], record: RequestRecord) -> None:
    if record.bytes_out:
        fields["bytes"] = record.bytes_out
    if record.chunks_out:
        fields["chunks"] = record.chunks_out
    if record.input_tokens is not None:
        fields["input_tokens"] = record.input_tokens
    if record.output_tokens is not None:
        fields["output_tokens"] = record.output_tokens
    if record.parse_errors:
        fields["parse_errors"] = record.parse_errors


def _failed(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "target": attempt.target,
        "kind": attempt.kind,
        "status": attempt.status,
        "outcome": attempt.outcome.value if attempt.outcome is not None else None,
        "cause": attempt.cause.value,
        "duration_ms": _ms(attempt.duration_s),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
