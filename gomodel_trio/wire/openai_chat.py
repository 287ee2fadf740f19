"""Observe a chat completions stream, with the spellings of the providers that speak this dialect.

Layer: wire. Source: OpenAI API reference (chat completion chunk); Groq, OpenRouter, DeepSeek, Mistral and vLLM where they differ;
behaviour.md §6.
"""

from typing import Any

import msgspec

from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.lenient_json import decode_as
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.sse import MAX_EVENT_BYTES, SseEvent


class ChatObserver(Observer):
    """Content: text, reasoning, refusal, tool calls, audio, images. End: a finish reason for every choice begun, or `[DONE]`."""

    api = Api.CHAT

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__(max_event_bytes)
        self._unfinished: set[int] = set()
        self._has_finished = False

    def _observe(self, event: SseEvent, /) -> None:
        chunk = decode_as(_DECODER, event.data)
        if chunk is None:
            self._malformed_count += 1
            return
        if self.model is None:
            self._note_model(chunk.model)
        if chunk.usage is not None:
            self._note_usage(chunk.usage)
        if self.error is None:
            for choice in chunk.choices or ():
                if choice is not None:
                    self._observe_choice(choice)
            self._observe_error(chunk, event.data)
        if isinstance(chunk.x_groq, dict):
            self._note_usage(chunk.x_groq.get("usage"))

    def _observe_choice(self, choice: "_Choice") -> None:
        index = choice.index if isinstance(choice.index, int) else 0
        if choice.text or _has_content(choice.delta) or _has_content(choice.message):
            self.has_content = True
            self._unfinished.add(index)
        if choice.finish_reason:
            self._unfinished.discard(index)
            self._has_finished = True

    def _observe_error(self, chunk: "_Chunk", data: bytes) -> None:
        """Find an error at the top, in the first choice, in Groq's member or in the bare finish reason; else see whether it is the end."""
        choice = chunk.choices[0] if chunk.choices else None
        groq_error = chunk.x_groq.get("error") if isinstance(chunk.x_groq, dict) else None
        if chunk.error or chunk.object == "error":
            self._fail(data)
        elif choice is not None and choice.error:
            self._fail(msgspec.json.encode({"error": choice.error}))
        elif groq_error:
            self._fail(msgspec.json.encode({"error": {"code": groq_error}}))
        elif choice is not None and choice.finish_reason == "error":
            self._fail(data)
        elif self._has_finished:
            self.has_content = True
            self.has_ended = not self._unfinished

    def _observe_head(self, _event: SseEvent, /) -> None:
        # Only inline images and audio are that large.
        self._commit()


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None
    images: Any = None


class _Choice(msgspec.Struct):
    index: Any = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: Any = None
    text: Any = None
    error: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice | None] | None = None
    model: Any = None
    usage: Any = None
    error: Any = None
    object: Any = None
    x_groq: Any = None


def _has_content(delta: _Delta | None) -> bool:
    if delta is None:
        return False
    if delta.content:
        return True
    return bool(
        delta.reasoning_content
        or delta.reasoning
        or delta.reasoning_details
        or delta.refusal
        or delta.tool_calls
        or delta.function_call
        or delta.audio
        or delta.images
    )


_DECODER: "msgspec.json.Decoder[_Chunk]" = msgspec.json.Decoder(_Chunk)
