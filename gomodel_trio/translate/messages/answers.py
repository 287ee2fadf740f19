"""Whole answers, both ways.

Layer: translate; pure. Source: Anthropic API reference (messages: the message object).
"""

from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Answer,
    Form,
    Part,
    Reasoning,
    Refusal,
    Request,
    StopReason,
    Text,
    TokenUsage,
    ToolCall,
)
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.usage import read_usage

READ_STOPS: Final = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "tool_use": StopReason.TOOL_CALLS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
_WRITTEN_STOPS: Final = {
    StopReason.END: "end_turn",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}


def read_answer(body: bytes) -> Answer:
    """Read a message.

    Raises:
        ValueError: it is none.
    """
    found = decode_any(body)
    if not isinstance(found, dict) or not isinstance(found.get("content"), list):
        raise ValueError("no message object")
    stop_sequence = found.get("stop_sequence")
    return Answer(
        id=text_of(found.get("id")),
        model=text_of(found.get("model")),
        parts=tuple(part for block in found["content"] if (part := read_block(block)) is not None),
        stop=READ_STOPS.get(text_of(found.get("stop_reason")), StopReason.END),
        stop_sequence=text_of(stop_sequence) if isinstance(stop_sequence, str) else None,
        usage=usage_of(found.get("usage")),
    )


def read_block(block: object) -> Part | None:
    """A block of an answer; None for those of tools that run at Anthropic, which was asked for none."""
    if not isinstance(block, dict):
        return None
    match block.get("type"):
        case "text":
            return Text(text_of(block.get("text")))
        case "tool_use":
            arguments = block.get("input")
            text = encoded(arguments if isinstance(arguments, dict) else {}).decode()
            return ToolCall(text_of(block.get("id")), text_of(block.get("name")), text)
        case "thinking":
            return Reasoning(text_of(block.get("thinking")), signature=text_of(block.get("signature")) or None, origin=Form.MESSAGES)
        case "redacted_thinking":
            return Reasoning("", redacted=text_of(block.get("data")), origin=Form.MESSAGES)
    return None


def usage_of(raw: object) -> TokenUsage | None:
    """The tokens; canonical input holds the cached ones, too."""
    usage = read_usage(raw)
    if usage is None:
        return None
    return TokenUsage(
        usage.input_tokens or 0, usage.output_tokens or 0, usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens
    )


def write_answer(answer: Answer, *, asked: Request, now_epoch_s: int) -> bytes:  # noqa: ARG001 - the shape of all forms
    """Write a message."""
    blocks = [block for part in answer.parts if (block := written_block(part)) is not None]
    return encoded(
        message_object(answer.id, answer.model, blocks, stop=answer.stop, stop_sequence=answer.stop_sequence, usage=answer.usage)
    )


def message_object(
    answer_id: str,
    model: str,
    blocks: list[dict[str, Any]],
    *,
    stop: StopReason | None = None,
    stop_sequence: str | None = None,
    usage: TokenUsage | None,
) -> dict[str, Any]:
    """The message; `stop` None while it is still being written."""
    return {
        "id": message_id(answer_id),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": None if stop is None else written_stop(stop),
        "stop_sequence": stop_sequence,
        "usage": written_usage(usage or TokenUsage()),
    }


def message_id(answer_id: str) -> str:
    """An id as Anthropic's are shaped, made of the upstream's."""
    return answer_id if answer_id.startswith("msg_") else f"msg_{answer_id or 'gomodel'}"


def written_stop(stop: StopReason) -> str:
    """The stop reason."""
    return _WRITTEN_STOPS[stop]


def written_usage(usage: TokenUsage) -> dict[str, Any]:
    """The tokens; Anthropic's `input_tokens` leaves the cached ones out."""
    read, write = usage.cache_read or 0, usage.cache_write or 0
    return {
        "input_tokens": max(0, usage.input - read - write),
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output,
    }


def written_block(part: Part) -> dict[str, Any] | None:
    """A block of an answer; None for parts that answers do not have."""
    match part:
        case Text() | Refusal():
            return {"type": "text", "text": part.text}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part.arguments)}
        case Reasoning():
            if part.redacted is not None and not part.text:
                return {"type": "redacted_thinking", "data": part.redacted}
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
    return None


def _input(arguments: str) -> Any:
    """The arguments as an object; a model that wrote no JSON is not corrected, but its words are kept."""
    text = arguments.strip() or "{}"
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"arguments": arguments}
    return msgspec.Raw(text.encode())
