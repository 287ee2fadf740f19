"""Observe a messages stream.

Layer: wire. Source: Anthropic API reference (streaming messages); behaviour.md §6.
"""

import re
from typing import Any

import msgspec

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.sse import SseEvent


class MessagesObserver(Observer):
    """Content: a non-empty delta of a block, or a block that comes whole. End: a stop reason or `message_stop`."""

    api = Api.MESSAGES

    def _observe(self, event: SseEvent, /) -> None:
        view = decode_as(_DECODER, event.data)
        if view is None:
            self._malformed_count += 1
            return
        match view.type if isinstance(view.type, str) else (event.event or b"").decode("latin-1"):
            case "content_block_delta":
                if not self.has_content and isinstance(view.delta, dict) and _is_non_empty(view.delta):
                    self._commit()
            case "content_block_start":
                if not self.has_content and isinstance(view.content_block, dict) and _comes_whole(view.content_block):
                    self._commit()
            case "message_start":
                if view.message is not None:
                    self._note_model(view.message.model)
                    self._note_usage(view.message.usage)
            case "message_delta":
                self._note_usage(view.usage)
                if isinstance(view.delta, dict) and view.delta.get("stop_reason"):
                    self._end()
            case "message_stop":
                self._end()
            case _:
                if view.type == "error" or view.error:
                    self._fail(event.data)

    def _observe_head(self, event: SseEvent, /) -> None:
        found = _TYPE.search(event.data)
        if (found[1] if found else event.event or b"").startswith(b"content_block"):
            self._commit()


class _Message(msgspec.Struct):
    model: Any = None
    usage: Any = None


class _Event(msgspec.Struct):
    type: Any = None
    delta: Any = None
    content_block: Any = None
    message: _Message | None = None
    usage: Any = None
    error: Any = None


_DECODER: "msgspec.json.Decoder[_Event]" = msgspec.json.Decoder(_Event)
_TYPE = re.compile(rb'"type"\s{0,8}:\s{0,8}"(\w{1,80})"')


def _is_non_empty(delta: dict[str, Any]) -> bool:
    """Text, thinking, signature, partial JSON, a citation: whatever kind of delta it is, it holds something."""
    return any(value for name, value in delta.items() if name != "type")


def _comes_whole(block: dict[str, Any]) -> bool:
    """Redacted thinking and results of server tools have no deltas; the head of a tool call or of an empty text says nothing yet."""
    if block.get("text") or block.get("thinking") or block.get("data"):
        return True
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_result")
