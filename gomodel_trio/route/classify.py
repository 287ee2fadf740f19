"""Judge what an upstream answered: whose fault, does another target help, does waiting.

Layer: route. Pure and bounded. Source: behaviour.md §5 (outcome classes), §6 (what fails over, what is retried).

The status decides first and the code second; words count only where no code is given. A client must not be able to bench a target, so an
error about something of the client's own is *request*, and words that stand in its body prove nothing: the upstream may only be quoting it.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from gomodel_trio.route import codes
from gomodel_trio.route.outcome import Cause, Classification, Outcome
from gomodel_trio.route.phrases import account_phrase, bad_key_phrase, plain, says_flagged, says_no_model, says_too_large
from gomodel_trio.wire.fault_status import StreamFault, snake
from gomodel_trio.wire.faults import Fault, read_fault
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.retry_after import parse_retry_after

RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504, 522, 524, 529})
"""Where the same target may do better after a wait (§6)."""

_FAULT_STATUSES: Final = frozenset({408, 424, 425})
_TARGETS_OWN_STATUSES: Final = frozenset({401, 403, 429})
"""Where the target is at fault anyhow: the words then only tell the kind."""


def classify(
    *,
    status: int,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    request_body: bytes,
    model: str,
    now_epoch_s: float,
) -> Classification:
    """Judge an answer by status, headers (lower-case names) and body, of which the first 256 KiB suffice; a 2xx is SUCCESS unread.

    `request_body` is the client's, `model` the target's. A status outside 200–599 (0: no answer; a redirect) is a fault.
    """
    if 200 <= status < 300:
        return Classification(Outcome.SUCCESS, is_failover=False)
    headers = list(headers)
    fault = read_fault(body, content_type=_header(headers, b"content-type"), error_type=_header(headers, b"x-amzn-errortype"))
    outcome, is_failover = _judge(status, fault, request_body, model)
    return Classification(
        outcome=outcome,
        is_failover=is_failover,
        is_retryable=status in RETRYABLE_STATUSES and outcome in (Outcome.RATE, Outcome.FAULT),
        retry_after_s=parse_retry_after(headers, now_epoch_s, fault),
        cause=Cause.STATUS if outcome is Outcome.FAULT else Cause.NONE,
        code=_shown_code(fault),
        message=fault.message,
    )


def classify_stream_fault(error: StreamFault, *, request_body: bytes, model: str) -> Classification:
    """Judge an error under a 200: an error event, or a whole answer that is one. Before any content every one of them fails over."""
    outcome, _ = _judge(error.status, error.fault, request_body, model)
    is_open = not error.after_content
    return Classification(
        outcome=outcome,
        is_failover=is_open,
        is_retryable=is_open and error.status in RETRYABLE_STATUSES and outcome in (Outcome.RATE, Outcome.FAULT),
        retry_after_s=error.fault.retry_after_s,
        cause=Cause.ERROR_EVENT if outcome is Outcome.FAULT else Cause.NONE,
        code=_shown_code(error.fault),
        message=error.fault.message,
    )


def classify_stream_end(*, has_content: bool, has_ended: bool) -> Classification:
    """Judge a stream whose bytes are over, cleanly or cut, without an error event: without an end event it is truncated."""
    if has_ended:
        return Classification(Outcome.SUCCESS, is_failover=False)
    return Classification(Outcome.FAULT, is_failover=not has_content, is_retryable=not has_content, cause=Cause.TRUNCATED)


class _Case(msgspec.Struct, frozen=True):
    """A 4xx to be judged: its codes in one spelling, its message in plain lower case."""

    status: int
    fault: Fault
    codes: frozenset[str]
    text: str
    request_body: bytes
    model: str


def _judge(status: int, fault: Fault, request_body: bytes, model: str) -> tuple[Outcome, bool]:
    """The outcome, and whether the next target may do better."""
    if status >= 500 or status < 400 or status in _FAULT_STATUSES:
        return Outcome.FAULT, True
    it = _Case(status, fault, _codes(fault), plain(fault.message or ""), request_body, model)
    if status == 402 or _is_account(it):
        return Outcome.ACCOUNT, True
    match status:
        case 429:
            return (Outcome.REQUEST if says_too_large(it.text) else Outcome.RATE), True
        case 401:
            return Outcome.AUTH, True
        case 403:
            return (Outcome.REQUEST if _is_flagged(it) else Outcome.AUTH), True
        case 404:
            return (Outcome.REQUEST, False) if _is_about_clients_own(it) else (Outcome.NOT_FOUND, True)
        case _:
            return _judge_other(it)


def _judge_other(it: _Case) -> tuple[Outcome, bool]:
    """A 4xx whose status names nobody: mostly the request, but some providers put key, pace and model under a 400."""
    if it.codes & codes.AUTH or _is_bad_key(it):
        return Outcome.AUTH, True
    if it.status in (400, 498) and it.codes & codes.RATE:
        return Outcome.RATE, True
    return Outcome.REQUEST, _is_about_model(it)


# ---- account, moderation, model -------------------------------------------------------------------------------------


def _is_account(it: _Case) -> bool:
    if any(codes.ACCOUNT.fullmatch(code) for code in it.codes):
        return True
    return it.status not in (404, 413) and _says(it, account_phrase(it.text))


def _is_bad_key(it: _Case) -> bool:
    return _says(it, bad_key_phrase(it.text))


def _says(it: _Case, phrase: str | None) -> bool:
    """Whether a phrase found in the message counts: no code says otherwise, and it is not the client who is quoted."""
    if phrase is None or it.fault.param is not None or _has_own_code(it.fault):
        return False
    return it.status in _TARGETS_OWN_STATUSES or _bytes(phrase) not in it.request_body.lower()


def _is_flagged(it: _Case) -> bool:
    return it.fault.is_flagged or bool(it.codes & codes.FLAGGED) or says_flagged(it.text)


def _is_about_model(it: _Case) -> bool:
    if any(codes.NO_MODEL.fullmatch(code) for code in it.codes):
        return True
    if any(codes.PARAMETER.fullmatch(code) for code in it.codes) or _names_member(it.fault.param):
        return False
    return says_no_model(it.text, it.model)


# ---- the client's own things ----------------------------------------------------------------------------------------


def _is_about_clients_own(it: _Case) -> bool:
    """Whether a 404 is about something the client named, the model excepted: a response, a file, a thread."""
    own = [code for code in (it.fault.error_code, it.fault.code) if code is not None]
    if any(codes.NO_MODEL.fullmatch(snake(code)) for code in own):
        return False
    if any(codes.CLIENTS_OWN.fullmatch(snake(code)) for code in own):
        return True
    param = it.fault.param
    if param is not None and _names_member(param) and b'"' + _bytes(_root(param)) + b'"' in it.request_body:
        return True
    names = _model_names(it.request_body, it.model)
    ids = [quoted or bare for quoted, bare in _ID.findall((it.fault.message or "")[:_MOST_ID_TEXT])][:_MOST_IDS]
    return any(_is_value(text, it.request_body) for text in [*own, *ids] if not text.isdigit() and not _is_name(text, names))


def _model_names(request_body: bytes, model: str) -> tuple[str, ...]:
    """What the model is called: by the target, and by the client, who may have used another name."""
    view = decode_as(_MODEL_DECODER, request_body)
    asked = view.model if view is not None else ""
    return tuple(name for name in (model, model.rpartition("/")[2], asked, asked.rpartition("/")[2]) if name)


def _is_name(text: str, names: tuple[str, ...]) -> bool:
    return any(text == name or text.endswith("/" + name) for name in names)


def _is_value(text: str, request_body: bytes) -> bool:
    """Whether the text is a whole JSON string of the body, and not the name of a member."""
    needle = b'"' + _bytes(text) + b'"'
    at = request_body.find(needle)
    for _ in range(_MOST_FINDS):
        if at < 0:
            return False
        if request_body[at + len(needle) : at + len(needle) + 8].lstrip()[:1] != b":":
            return True
        at = request_body.find(needle, at + len(needle))
    return False


# ---- codes ----------------------------------------------------------------------------------------------------------


def _codes(fault: Fault) -> frozenset[str]:
    """Every code of the fault in one spelling; AWS's names without their ending."""
    given = (fault.error_code, fault.code, fault.type, fault.status_text)
    return frozenset(snake(code).removesuffix("_exception") for code in given if code is not None)


def _has_own_code(fault: Fault) -> bool:
    """Whether the provider says by a code what it means; numbers, sentences and mere categories are none."""
    return any(_WORD.fullmatch(code) and snake(code) not in codes.CATEGORIES for code in (fault.error_code, fault.code) if code is not None)


def _shown_code(fault: Fault) -> str | None:
    return fault.error_code or fault.code or fault.status_text or fault.type


def _names_member(param: str | None) -> bool:
    """Whether a parameter is named, other than the model."""
    return param is not None and _root(param) not in _MODEL_PARAMS


def _root(param: str) -> str:
    """The member of the body a parameter path begins with: `input[2].id` → `input`."""
    return _PATH_END.split(param, maxsplit=1)[0]


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class _ModelView(msgspec.Struct):
    model: str = ""


_MODEL_DECODER: "msgspec.json.Decoder[_ModelView]" = msgspec.json.Decoder(_ModelView)
_MOST_ID_TEXT = 1024
_MOST_IDS = 16
_MOST_FINDS = 64
_ID = re.compile(r"[`'\"]([^`'\"\s]{3,200})[`'\"]|\b([a-z]{2,20}[-_][A-Za-z0-9_-]{3,200})")
"""Something quoted, or an identifier as the APIs make them: `resp_abc`, `file-123`."""
_WORD = re.compile(r"[A-Za-z][\w.-]{0,99}", re.ASCII)
_PATH_END = re.compile(r"[.\[]")
_MODEL_PARAMS: Final = frozenset({"", "model", "model_id", "modelId", "engine", "deployment"})
