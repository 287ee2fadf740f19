"""Read a whole answer under a 200: is it one, or an error in disguise; which model, how many tokens.

Layer: wire. Never raises; one pass over the top level. Source: behaviour.md §6 (a unary 200 whose body is an error).
"""

from typing import Any, Final

import msgspec

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.fault_status import UNKNOWN_STATUS, StreamFault, status_of
from gomodel_trio.wire.faults import Fault, read_fault
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.usage import Usage, read_usage


class Answer(msgspec.Struct, frozen=True):
    """What a whole answer says. `is_readable`: it is a JSON object. `error`: it is an error, in spite of its status."""

    error: StreamFault | None = None
    is_readable: bool = False
    model: str | None = None
    raw_usage: dict[str, Any] = {}

    @property
    def usage(self) -> Usage | None:
        """The tokens it reports."""
        return read_usage(self.raw_usage)


def read_answer(body: bytes, api: Api) -> Answer:
    """Read the body of a 200. An empty body and an HTML page are errors; other bytes that are no JSON are the client's to judge."""
    start = body[:256].lstrip()[:1]
    if start in (b"", b"<"):
        fault = read_fault(body) if start else Fault(message="the answer was empty")
        return Answer(error=StreamFault(fault, UNKNOWN_STATUS))
    view = decode_as(_DECODER, body)
    if view is None:
        return Answer()
    fault_found = _fault(view, body, api)
    error = StreamFault(fault_found, status_of(fault_found)) if fault_found is not None else None
    model = view.model if isinstance(view.model, str) else None
    return Answer(error=error, is_readable=True, model=model, raw_usage=view.usage if isinstance(view.usage, dict) else {})


def unary_error(body: bytes, api: Api) -> StreamFault | None:
    """The error that the body of a 200 is; None if it is an answer."""
    return read_answer(body, api).error


def unary_usage(body: bytes, api: Api) -> Usage | None:
    """The tokens that the body of a 200 reports; None if it reports none."""
    return read_answer(body, api).usage


class _Choice(msgspec.Struct):
    error: Any = None
    finish_reason: Any = None


class _View(msgspec.Struct):
    type: Any = None
    object: Any = None
    error: Any = None
    errors: Any = None
    status: Any = None
    model: Any = None
    usage: Any = None
    message: Any = None
    code: Any = None
    base_resp: Any = None
    choices: list[_Choice] | None = None
    output: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    input_tokens: msgspec.Raw = msgspec.Raw()


_DECODER: "msgspec.json.Decoder[_View]" = msgspec.json.Decoder(_View)


def _fault(view: _View, body: bytes, api: Api) -> Fault | None:
    if view.error or view.type == "error" or view.object == "error" or (api is Api.RESPONSES and view.status == "failed"):
        return read_fault(body)
    choice = view.choices[0] if view.choices else None
    if choice is not None and (choice.error or choice.finish_reason == "error"):
        return read_fault(msgspec.json.encode({"error": choice.error}) if choice.error else b"{}")
    if choice is None and isinstance(view.base_resp, dict) and view.base_resp.get("status_code"):
        return _minimax_fault(view.base_resp)
    if not _has_result(view, api) and (view.message or view.code or view.errors):
        return read_fault(body)
    return None


def _has_result(view: _View, api: Api) -> bool:
    """Whether the member that makes it an answer of this API is there."""
    is_there = {
        Api.CHAT: view.choices is not None,
        Api.RESPONSES: bool(view.output) or view.object == "response",
        Api.MESSAGES: bool(view.content),
        Api.EMBEDDINGS: bool(view.data),
        Api.COUNT_TOKENS: bool(view.input_tokens),
        Api.CONVERSE: bool(view.output),
    }
    return is_there[api]


def _minimax_fault(base: dict[str, Any]) -> Fault:
    """MiniMax answers every error with a 200 and a number of its own (platform.minimax.io, error codes)."""
    code, message = base.get("status_code"), base.get("status_msg")
    return Fault(
        code=str(code)[:20],
        message=message if isinstance(message, str) else None,
        http_status=_MINIMAX_STATUS.get(code) if isinstance(code, int) else None,
    )


_MINIMAX_STATUS: Final = {
    1000: 500, 1001: 504, 1002: 429, 1004: 401, 1008: 402, 1013: 500, 1024: 500, 1026: 400, 1027: 400, 1033: 500, 1039: 429, 1041: 429,
    2013: 400, 2049: 401, 2056: 429,
}  # fmt: skip
