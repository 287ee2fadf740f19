"""The one canonical log line of a request, written at its end.

Layer: gateway. Source: style.md (logging). Never prompts, keys or whole headers.
"""

from typing import Any

from gomodel_trio.gateway.deployment import Log
from gomodel_trio.gateway.record import AttemptRecord, RequestRecord


def write_log_line(log: Log, record: RequestRecord, ended_s: float, *, is_quiet: bool) -> None:
    """Write the line; `is_quiet`: a probe's, at debug."""
    fields = _fields(record, ended_s)
    (log.debug if is_quiet else log.info)("request", **fields)


def _fields(record: RequestRecord, ended_s: float) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "request_id": record.request_id,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "outcome": record.outcome,
        "duration_ms": _ms(ended_s - record.started_s),
    }
    revision = record.revision
    optional: dict[str, Any] = {
        "model": record.model,
        "alias": revision.alias if revision else None,
        "tier": revision.tier.value if revision else None,
        "score": revision.score if revision else None,
        "reason": revision.reason if revision else None,
        "virtual_model": record.source,
        "target": record.target,
        "stream": record.is_stream or None,
        "session": record.session,
        "user_path": record.user_path or None,
        "error": record.error_code,
        "first_byte_ms": _ms(record.first_byte_s - record.started_s) if record.first_byte_s is not None else None,
        "bytes": record.bytes_out or None,
        "chunks": record.chunks_out or None,
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "parse_errors": record.parse_errors or None,
        "attempts": len(record.attempts) or None,
        "failed": [_failed(attempt) for attempt in record.attempts[:-1]] or None,
    }
    fields.update({name: value for name, value in optional.items() if value is not None})
    return fields


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
