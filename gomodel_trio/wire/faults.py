"""Error bodies, both ways: what any provider's says, and how ours are written.

Layer: wire. Reading is bounded, linear and never raises. Source: behaviour.md §5 (where codes are read from), §9 (Errors), and the error
pages of the OpenAI, Azure, Anthropic, Google, AWS and OpenRouter references.
"""

import re
from typing import Any, Final

import msgspec

from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.lenient_json import decode_any

_MOST_BODY_BYTES = 1 << 18
_MOST_WRAPPINGS = 2
"""Other gateways put the error they got inside one of their own."""

_MOST_TEXT = 4096
"""What is kept of a message: patterns are sought in no more."""


class Fault(msgspec.Struct, frozen=True):
    """What an error body says; None where it says nothing.

    `code` is `error.code` (numbers as text), `type` `error.type` or AWS's exception name, `status_text` Google's `error.status`,
    `error_code` the more exact code inside `details` or `innererror`. `http_status` is a status (400–599) named inside the body,
    `retry_after_s` a delay named there. `is_flagged`: it carries the findings of a moderation of the input.
    """

    code: str | None = None
    type: str | None = None
    status_text: str | None = None
    error_code: str | None = None
    message: str | None = None
    param: str | None = None
    http_status: int | None = None
    retry_after_s: float | None = None
    is_flagged: bool = False


def read_fault(body: bytes, *, content_type: str | None = None, error_type: str | None = None) -> Fault:
    """Read an error body of whatever provider. `error_type`: the `x-amzn-errortype` header, which Bedrock gives in place of a type."""
    aws_type = _text(error_type.partition(":")[0]) if error_type else None
    is_html = (content_type or "").lower().startswith("text/html") or body[:256].lstrip()[:1] == b"<"
    found = None if is_html or len(body) > _MOST_BODY_BYTES else decode_any(body)
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, str):
        return Fault(type=aws_type, message=_text(found), retry_after_s=_delay_in_text(found))
    if isinstance(found, dict):
        return _read_object(found, aws_type)
    text = body[: 4 * _MOST_TEXT].decode("utf-8", "replace")
    if is_html:
        title = _TITLE.search(text)
        return Fault(type=aws_type, message=_text(title[1].strip()) if title else None)
    return Fault(type=aws_type, message=_text(text.strip()), retry_after_s=_delay_in_text(text))


def error_body(
    dialect: Dialect,
    *,
    status: int,
    message: str,
    code: str | None = None,
    kind: str | None = None,
    param: str | None = None,
    request_id: str | None = None,
) -> bytes:
    """Write an error in the caller's dialect. `kind` is the type in OpenAI's words; Anthropic's follows from the status."""
    error = _error_object(dialect, status=status, message=message, code=code, kind=kind, param=param)
    if request_id is not None and dialect is Dialect.ANTHROPIC:
        error["request_id"] = _clean(request_id)
    return msgspec.json.encode(error)


def stream_error_event(
    api: Api,
    *,
    status: int,
    message: str,
    code: str | None = None,
    kind: str | None = None,
    param: str | None = None,
    sequence_number: int = 0,
    is_mid_event: bool = False,
) -> bytes:
    """Write the event that tells a client inside a stream that it failed, in the form its official SDK raises.

    `sequence_number`: for responses, one more than the last seen. `is_mid_event`: what went out before ended inside an event.
    """
    error = _error_object(api.dialect, status=status, message=message, code=code, kind=kind, param=param)
    if api.dialect is Dialect.ANTHROPIC:
        # A half event is taken over (its name is overwritten): ended, it would be broken JSON to the SDK instead of an error.
        return (b"\n" if is_mid_event else b"") + b"event: error\ndata: " + msgspec.json.encode(error) + b"\n\n"
    start = b"\n\n" if is_mid_event else b""
    if api is Api.RESPONSES:
        # The flat form is the documented one; the SDKs raise on the nested one. OpenAI has sent both.
        flat = {"type": "error", "sequence_number": sequence_number, "code": code, "message": _clean(message), "param": param}
        return start + b"event: error\ndata: " + msgspec.json.encode(flat | error) + b"\n\n"
    return start + b"data: " + msgspec.json.encode(error) + b"\n\n"


# ---- reading --------------------------------------------------------------------------------------------------------


def _read_object(body: dict[str, Any], aws_type: str | None) -> Fault:
    errors = body.get("errors")
    error = body.get("error") or (errors[0] if isinstance(errors, list) and errors else None)
    inner = error if isinstance(error, dict) else body
    for _ in range(_MOST_WRAPPINGS):
        deeper = inner.get("error")
        if isinstance(deeper, dict) and inner is not body:
            inner = deeper
    details = _details(inner.get("details"))
    metadata = _object(inner.get("metadata"))
    message = _message(inner) or (_flatten(error) if inner is body else _message(body))
    is_nested = inner is not body
    kind = _text(inner.get("type")) if is_nested or inner.get("type") != "error" else None
    kind = kind or _text(inner.get("__type")) or _text(inner.get("error_type"))
    return Fault(
        code=_text(inner.get("code")) or (_text(body.get("code")) if is_nested else None),
        type=kind.rpartition("#")[2] if kind else aws_type,
        status_text=_text(inner.get("status")) if isinstance(inner.get("status"), str) else None,
        error_code=_first_text(details, "error_code", "reason") or _text(_object(inner.get("innererror")).get("code")),
        message=message,
        param=_text(inner.get("param")),
        http_status=_http_status(inner) or _http_status(body),
        retry_after_s=_delay(inner, details, message),
        is_flagged=bool(metadata.get("reasons") or metadata.get("flagged_input")),
    )


def _details(raw: object) -> dict[str, Any]:
    """Anthropic's `details` object; of Google's list the members of its entries as one."""
    if isinstance(raw, list):
        merged: dict[str, Any] = {}
        for entry in raw[:16]:
            if isinstance(entry, dict):
                merged = entry | merged
        return merged
    return _object(raw)


def _message(raw: dict[str, Any]) -> str | None:
    return next((text for name in _MESSAGE_NAMES if (text := _flatten(raw.get(name)))), None)


def _flatten(raw: object, depth: int = 0) -> str | None:
    """The text of a message that may be an object or a list of them, as validation errors are."""
    if isinstance(raw, str) or depth > 3:
        return _text(raw)
    if isinstance(raw, dict):
        return next((text for name in _MESSAGE_NAMES if (text := _flatten(raw.get(name), depth + 1))), None)
    if isinstance(raw, list):
        return _text("; ".join(text for item in raw[:4] if (text := _flatten(item, depth + 1))))
    return None


def _text(raw: object) -> str | None:
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) < 1 << 63:
        return str(raw)
    return raw[:_MOST_TEXT] or None if isinstance(raw, str) else None


def _first_text(raw: dict[str, Any], *names: str) -> str | None:
    return next((text for name in names if (text := _text(raw.get(name)))), None)


def _object(raw: object) -> dict[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _http_status(raw: dict[str, Any]) -> int | None:
    for name in ("code", "status", "status_code", "statusCode", "http_code", "raw_status_code"):
        value = raw.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return None


def _delay(inner: dict[str, Any], details: dict[str, Any], message: str | None) -> float | None:
    """Google's RetryInfo, a number under one of the usual names, or what the message says in words."""
    for raw in (details.get("retryDelay"), *(inner.get(name) for name in _DELAY_NAMES)):
        delay_s = _delay_number(raw.get("seconds") if isinstance(raw, dict) else raw)
        if delay_s is not None:
            return delay_s
    return _delay_in_text(message) if message else None


def _delay_number(raw: object) -> float | None:
    if isinstance(raw, str):
        match = _DELAY_NUMBER.fullmatch(raw.strip()[:32])
        raw = float(match[1]) if match else None
    if isinstance(raw, int | float) and not isinstance(raw, bool) and 0 <= raw < _LONGEST_DELAY_S:
        return float(raw)
    return None


def _delay_in_text(text: str) -> float | None:
    match = _DELAY_WORDS.search(text[:_MOST_TEXT])
    if match is None:
        return None
    return sum(float(number) * _UNIT_S[unit.lower()] for number, unit in _DELAY_PART.findall(match[1]))


_MESSAGE_NAMES: Final = ("message", "Message", "msg", "detail", "error_message", "error_msg", "error_description", "error")
_DELAY_NAMES: Final = ("retry_after", "retry_after_seconds", "resets_in_seconds")
_LONGEST_DELAY_S = 1e12
_DELAY_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s?s?", re.ASCII)
_UNIT = r"(?:ms|milliseconds?|hours?|h|minutes?|min|m|seconds?|secs?|s)"
_DELAY_WORDS = re.compile(
    rf"\b(?:try again|retry)(?: your request)? (?:in|after) ((?:\d{{1,9}}(?:\.\d{{1,9}})? ?{_UNIT}){{1,3}})\b", re.I | re.A
)
_DELAY_PART = re.compile(rf"(\d+(?:\.\d+)?) ?({_UNIT})", re.I | re.A)
_UNIT_S: Final = (
    dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001)
    | dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0)
    | dict.fromkeys(("m", "min", "minute", "minutes"), 60.0)
    | dict.fromkeys(("h", "hour", "hours"), 3600.0)
)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})</title", re.IGNORECASE)

# ---- writing --------------------------------------------------------------------------------------------------------


def _error_object(dialect: Dialect, *, status: int, message: str, code: str | None, kind: str | None, param: str | None) -> dict[str, Any]:
    if dialect is Dialect.OPENAI:
        kind = kind or _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"error": {"message": _clean(message), "type": kind, "param": _clean(param), "code": _clean(code)}}
    error: dict[str, Any] = {
        "type": _ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error"),
        "message": _clean(message),
    }
    if code:
        error["details"] = {"error_code": _clean(code)}
    return {"type": "error", "error": error}


def _clean(text: str | None) -> str | None:
    """What UTF-8 can carry: lone surrogates of a client's body may have found their way into a message."""
    return None if text is None else text.encode("utf-8", "replace").decode()


_OPENAI_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
