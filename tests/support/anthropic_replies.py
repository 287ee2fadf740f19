"""What an upstream of the Anthropic dialect answers, as the official SDK parses it: messages, token counts, models."""

import json
from collections.abc import Iterator
from typing import Any

from support.conversation import answer_to, words
from support.replies import Reply, anthropic_error, json_reply, sse_reply

MODELS = ("claude-opus-4-6", "claude-haiku-4-5")
_HEADERS = (("request-id", "req_fake"), ("anthropic-organization-id", "00000000-0000-0000-0000-000000000000"))
_USAGE = {
    "input_tokens": 11,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 7,
    "service_tier": "standard",
}


def version_missing() -> Reply:
    """What comes without the `anthropic-version` header."""
    return anthropic_error(400, "invalid_request_error", "anthropic-version: header is required", _HEADERS)


def messages(body: dict[str, Any]) -> Reply:
    """`POST /messages`."""
    answer = answer_to(body)
    blocks: list[dict[str, Any]] = []
    if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        blocks.append({"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmF0dXJl"})
    if isinstance(answer, str):
        blocks.append({"type": "text", "text": answer})
    else:
        blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call in answer]
    message = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": blocks,
        "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }
    return sse_reply(_events(message), _HEADERS) if body.get("stream") else json_reply(message, headers=_HEADERS)


def _events(message: dict[str, Any]) -> Iterator[bytes]:
    opening = {**message, "content": [], "stop_reason": None, "usage": {**_USAGE, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": opening})
    for index, block in enumerate(message["content"]):
        yield _event({"type": "content_block_start", "index": index, "content_block": _empty(block)})
        if index == 0:
            yield _event({"type": "ping"})
        for delta in _deltas(block):
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    yield _event({"type": "message_stop"})


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            return {**block, "input": {}}


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            for word in words(block["text"]):
                yield {"type": "text_delta", "text": word}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            arguments = json.dumps(block["input"])
            for at in range(0, len(arguments), 8):
                yield {"type": "input_json_delta", "partial_json": arguments[at : at + 8]}


def count_tokens(body: bytes) -> Reply:
    """`POST /messages/count_tokens`: a quarter of the body's bytes."""
    return json_reply({"input_tokens": max(1, len(body) // 4)}, headers=_HEADERS)


def models(model: str | None = None) -> Reply:
    """`GET /models`, or one of them."""
    if model is not None:
        return json_reply(_model(model), headers=_HEADERS)
    page = {"data": [_model(each) for each in MODELS], "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return json_reply(page, headers=_HEADERS)


def _model(model: str) -> dict[str, Any]:
    return {"type": "model", "id": model, "display_name": model, "created_at": "2026-01-01T00:00:00Z"}


def _event(content: dict[str, Any]) -> bytes:
    return f"event: {content['type']}\ndata: {json.dumps(content)}\n\n".encode()
