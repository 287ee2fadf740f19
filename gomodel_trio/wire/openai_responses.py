"""Observe a responses stream.

Layer: wire. Source: OpenAI API reference (responses streaming events); behaviour.md §6.
"""

import re
from typing import Any, Final

import msgspec

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.sse import SseEvent


class ResponsesObserver(Observer):
    """Content: a non-empty delta of any kind, or what comes whole without one. End: `response.completed`, `response.incomplete`."""

    api = Api.RESPONSES

    def _observe(self, event: SseEvent, /) -> None:
        view = decode_as(_DECODER, event.data)
        if view is None:
            self._malformed_count += 1
            return
        if isinstance(view.sequence_number, int):
            self.sequence_number = view.sequence_number
        kind = view.type if isinstance(view.type, str) else (event.event or b"").decode("latin-1")
        if view.response is not None:
            self._note_model(view.response.model)
            self._note_usage(view.response.usage)
        is_failed = kind == "response.failed" or (kind in _ENDS and view.response is not None and view.response.status == "failed")
        if kind == "error" or view.error or is_failed:
            self._fail(_error_body(view, event.data))
        elif kind in _ENDS:
            self._end()
        elif not self.has_content and _has_content(kind, view):
            self._commit()

    def _observe_head(self, event: SseEvent, /) -> None:
        found = _TYPE.search(event.data)
        kind = (found[1] if found else event.event or b"").decode("latin-1")
        if kind in _ENDS:
            self._end()
        elif kind == "response.failed":
            self._fail(b"{}")
        elif kind not in _ECHOES:
            self._commit()


class _Response(msgspec.Struct):
    model: Any = None
    usage: Any = None
    status: Any = None
    error: Any = None


class _Item(msgspec.Struct):
    type: Any = None
    summary: Any = None


class _Event(msgspec.Struct):
    type: Any = None
    delta: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    partial_image_b64: Any = None
    item: _Item | None = None
    error: Any = None
    response: _Response | None = None
    sequence_number: Any = None


_DECODER: "msgspec.json.Decoder[_Event]" = msgspec.json.Decoder(_Event)
_TYPE = re.compile(rb'"type"\s{0,8}:\s{0,8}"([\w.]{1,80})"')
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.done"})
_ECHOES: Final = frozenset({"response.created", "response.queued", "response.in_progress", "response.output_item.added"})


def _has_content(kind: str, view: _Event) -> bool:
    if kind.endswith(".delta"):
        return bool(view.delta)
    if kind == "response.output_item.done":
        # A reasoning item without a summary shows nothing; every other item is an answer or a call.
        return view.item is not None and (view.item.type != "reasoning" or bool(view.item.summary))
    return bool(view.text or view.refusal or view.arguments or view.input or view.partial_image_b64)


def _error_body(view: _Event, data: bytes) -> bytes:
    """The error object in the shape of an ordinary error body: nested, flat, or inside the failed response."""
    if view.response is not None:
        return msgspec.json.encode({"error": view.response.error or view.error})
    return data
