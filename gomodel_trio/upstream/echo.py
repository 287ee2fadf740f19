"""The built-in provider `echo`: answers without keys or network, in both dialects, whole and streamed.

Layer: upstream; a Transport. Source: behaviour.md §7. Its delay and failures are settable, so that failover can be tried at a desk.
"""

import hashlib
import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final

import trio

from gomodel_trio.config.settings import EchoSettings
from gomodel_trio.upstream.transport import Headers, UpstreamRequest
from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.faults import error_body

_SCHEME: Final = "echo:"
_CREATED: Final = 1_700_000_000
_DIMENSIONS: Final = 8


class EchoTransport:
    """Answers requests to `echo:/…` itself; `draw` gives uniform numbers for the settable share of failures."""

    def __init__(self, settings: EchoSettings, draw: Callable[[], float]) -> None:
        self._settings = settings
        self._draw = draw

    async def send(self, request: UpstreamRequest) -> "EchoResponse":
        """Answer as a model would that repeats what it is told."""
        await trio.sleep(self._settings.delay_s)
        api = _api_of(request.url)
        if self._draw() < self._settings.failure_fraction:
            return _refusal(api, self._settings.failure_status, "echo was told to fail (ECHO_FAILURE_FRACTION).")
        if api is None:
            return _refusal(None, 404, "echo knows no such path.")
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            return _refusal(api, 400, "The body is not JSON.")
        if not isinstance(body, dict):
            return _refusal(api, 400, "The body is no JSON object.")
        text = f"echo: {_last_words(body)}"
        if body.get("stream") is True and api.is_scored:
            chunks = [chunk.encode() for chunk in _STREAMS[api](str(body.get("model")), text)]
            return EchoResponse(200, [(b"content-type", b"text/event-stream; charset=utf-8")], chunks, self._settings.chunk_delay_s)
        answer = json.dumps(_WHOLE[api](body, text), separators=(",", ":")).encode()
        return EchoResponse(200, [(b"content-type", b"application/json")], [answer], 0.0)

    async def aclose(self) -> None:
        """Nothing to close."""


class EchoResponse:
    """An answer made up beforehand, given chunk by chunk."""

    def __init__(self, status: int, headers: Headers, chunks: list[bytes], chunk_delay_s: float) -> None:
        self.status = status
        self.headers = headers
        self._chunks = iter(chunks)
        self._chunk_delay_s = chunk_delay_s

    async def read(self) -> bytes:
        """The next chunk, after the set delay."""
        await trio.sleep(self._chunk_delay_s)
        return next(self._chunks, b"")

    async def aclose(self) -> None:
        """Nothing to close."""


def _api_of(url: str) -> Api | None:
    path = url.removeprefix(_SCHEME).partition("?")[0].removeprefix("/v1")
    return next((api for api in Api if api.path == path), None)


def _refusal(api: Api | None, status: int, message: str) -> EchoResponse:
    body = error_body(api.dialect if api else Dialect.OPENAI, status=status, message=message, code="echo_failure")
    return EchoResponse(status, [(b"content-type", b"application/json")], [body], 0.0)


def _last_words(body: Any) -> str:
    items = body.get("messages", body.get("input", "")) if isinstance(body, dict) else ""
    if isinstance(items, str):
        return items
    for item in reversed(items if isinstance(items, list) else []):
        if isinstance(item, str):
            return item
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            if isinstance(content, str):
                return content
            parts = [part.get("text") for part in content or [] if isinstance(part, dict)] if isinstance(content, list) else []
            return " ".join(part for part in parts if isinstance(part, str))
    return ""


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _tokens(text: str) -> int:
    return len(text) // 4 + 1


def _chat(body: Any, text: str) -> dict[str, Any]:
    tokens = _tokens(text)
    return {
        "id": "chatcmpl-echo",
        "object": "chat.completion",
        "created": _CREATED,
        "model": body.get("model"),
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}, "logprobs": None, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": 2 * tokens},
    }


def _chat_stream(model: str, text: str) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        frame = {"id": "chatcmpl-echo", "object": "chat.completion.chunk", "created": _CREATED, "model": model, "choices": [choice]}
        return f"data: {json.dumps(frame, separators=(',', ':'))}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(text):
        yield chunk({"content": word})
    yield chunk({}, "stop")
    yield "data: [DONE]\n\n"


def _response(model: Any, text: str, status: str = "completed") -> dict[str, Any]:
    is_done = status == "completed"
    tokens = _tokens(text)
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2 * tokens,
    }
    return {
        "id": "resp_echo",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [_message(text, "completed")] if is_done else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if is_done else None,
    }


def _message(text: str | None, status: str) -> dict[str, Any]:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_echo", "type": "message", "role": "assistant", "status": status, "content": content}


def _responses_stream(model: str, text: str) -> Iterator[str]:
    where = {"item_id": "msg_echo", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response(model, text, "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": _message(None, "in_progress")},
        {"type": "response.content_part.added", **where, "part": part},
        *({"type": "response.output_text.delta", **where, "delta": word, "logprobs": []} for word in _words(text)),
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": _message(text, "completed")},
        {"type": "response.completed", "response": _response(model, text)},
    ]
    for number, event in enumerate(events):
        yield _event({**event, "sequence_number": number})


def _message_whole(body: Any, text: str) -> dict[str, Any]:
    return {**_anthropic_head(body.get("model"), text), "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def _anthropic_head(model: Any, text: str) -> dict[str, Any]:
    tokens = _tokens(text)
    return {
        "id": "msg_echo",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": tokens},
    }


def _messages_stream(model: str, text: str) -> Iterator[str]:
    yield _event({"type": "message_start", "message": _anthropic_head(model, text)})
    yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for word in _words(text):
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})
    yield _event({"type": "content_block_stop", "index": 0})
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": _tokens(text)}})
    yield _event({"type": "message_stop"})


def _event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"


def _embeddings(body: Any, text: str) -> dict[str, Any]:
    given = body.get("input")
    inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    vectors = [_vector(json.dumps(one)) for one in inputs]
    if body.get("encoding_format") == "base64":
        rows: list[Any] = [b64encode(struct.pack(f"<{_DIMENSIONS}f", *vector)).decode() for vector in vectors]
    else:
        rows = list(vectors)
    listed = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    tokens = _tokens(text)
    return {"object": "list", "model": body.get("model"), "data": listed, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def _vector(text: str) -> list[float]:
    return [byte / 128 - 1 for byte in hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_DIMENSIONS]]


def _count(body: Any, text: str) -> dict[str, Any]:  # noqa: ARG001 - the shape of its siblings
    return {"input_tokens": len(json.dumps(body)) // 4 + 1}


_WHOLE: Final[dict[Api, Callable[[Any, str], dict[str, Any]]]] = {
    Api.CHAT: _chat,
    Api.RESPONSES: lambda body, text: _response(body.get("model"), text),
    Api.MESSAGES: _message_whole,
    Api.COUNT_TOKENS: _count,
    Api.EMBEDDINGS: _embeddings,
}
_STREAMS: Final[dict[Api, Callable[[str, str], Iterator[str]]]] = {
    Api.CHAT: _chat_stream,
    Api.RESPONSES: _responses_stream,
    Api.MESSAGES: _messages_stream,
}
