"""Observe a Converse stream, its frames already unpacked into events.

Layer: wire. Source: Amazon Bedrock API reference (ConverseStream); behaviour.md §6. Exceptions come as events named `error`.
"""

from typing import Any

import msgspec

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.sse import SseEvent


class ConverseObserver(Observer):
    """Content: a non-empty delta of a block. End: `messageStop`; the tokens follow it in `metadata`."""

    api = Api.CONVERSE

    def _observe(self, event: SseEvent, /) -> None:
        view = decode_as(_DECODER, event.data)
        if view is None:
            self._malformed_count += 1
            return
        match event.event:
            case b"contentBlockDelta":
                if not self.has_content and isinstance(view.delta, dict) and any(map(_says_something, view.delta.values())):
                    self._commit()
            case b"messageStop":
                self._end()
            case b"metadata":
                self._note_usage(view.usage)

    def _observe_head(self, event: SseEvent, /) -> None:
        if event.event == b"contentBlockDelta":
            self._commit()


class _Event(msgspec.Struct):
    delta: Any = None
    usage: Any = None


_DECODER: "msgspec.json.Decoder[_Event]" = msgspec.json.Decoder(_Event)


def _says_something(delta: object) -> bool:
    """A text, or a tool's input or thoughts with a text in them."""
    return any(delta.values()) if isinstance(delta, dict) else bool(delta)
