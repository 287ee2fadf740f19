"""Whole answers, both ways.

Layer: translate; pure. Source: OpenAI API reference (chat completions: the completion object).
"""

from typing import Any, Final

from gomodel_trio.translate.canonical import Answer, Form, Part, Reasoning, Refusal, Request, StopReason, Text, TokenUsage, ToolCall
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.usage import read_usage

READ_STOPS: Final = {
    "stop": StopReason.END,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
}
_WRITTEN_STOPS: Final = {
    StopReason.END: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.REFUSAL: "content_filter",
    StopReason.PAUSE: "stop",
}


def read_answer(body: bytes) -> Answer:
    """Read a completion, its first choice.

    Raises:
        ValueError: it is none.
    """
    found = decode_any(body)
    choices = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ValueError("no completion object")
    message = choices[0].get("message")
    parts = tuple(_parts(message if isinstance(message, dict) else {}))
    created = found.get("created")
    return Answer(
        id=text_of(found.get("id")),
        model=text_of(found.get("model")),
        parts=parts,
        stop=stop_of(choices[0].get("finish_reason"), has_calls=any(isinstance(part, ToolCall) for part in parts)),
        usage=usage_of(found.get("usage")),
        created_s=created if isinstance(created, int) else 0,
        service_tier=text_of(found.get("service_tier")) or None,
    )


def _parts(message: dict[str, Any]) -> list[Part]:
    parts: list[Part] = []
    thoughts = thoughts_of(message)
    if thoughts:
        parts.append(Reasoning(thoughts, origin=Form.CHAT))
    text = _text(message.get("content"))
    if text:
        parts.append(Text(text))
    if message.get("refusal"):
        parts.append(Refusal(text_of(message["refusal"])))
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            call_id = text_of(call.get("id")) or f"call_{index}"
            parts.append(ToolCall(call_id, text_of(function.get("name")), arguments_of(function.get("arguments"))))
    return parts


def _text(content: object) -> str:
    """The text; some servers answer with parts."""
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return text_of(content)


def thoughts_of(message: dict[str, Any]) -> str:
    """The thoughts, under the names that compatible servers give them; OpenAI itself shows none here."""
    return text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))


def arguments_of(raw: object) -> str:
    """A call's arguments as JSON text; some servers send the object itself."""
    return encoded(raw).decode() if isinstance(raw, dict) else text_of(raw)


def stop_of(reason: object, *, has_calls: bool) -> StopReason:
    """The stop reason; some servers say `stop` where there are calls."""
    stop = READ_STOPS.get(text_of(reason), StopReason.END)
    return StopReason.TOOL_CALLS if has_calls and stop is StopReason.END else stop


def usage_of(raw: object) -> TokenUsage | None:
    """The tokens."""
    usage = read_usage(raw)
    if usage is None:
        return None
    return TokenUsage(
        usage.input_tokens or 0, usage.output_tokens or 0, usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens
    )


def write_answer(answer: Answer, *, asked: Request, now_epoch_s: int) -> bytes:
    """Write a completion with one choice."""
    texts = [part.text for part in answer.parts if isinstance(part, Text)]
    refusals = [part.text for part in answer.parts if isinstance(part, Refusal)]
    thoughts = [part.text for part in answer.parts if isinstance(part, Reasoning) and part.text]
    calls = [written_call(part.id, part.name, part.arguments or "{}") for part in answer.parts if isinstance(part, ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": "".join(refusals) or None}
    if thoughts:
        message["reasoning_content"] = "\n\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    logprobs = [part.logprobs for part in answer.parts if isinstance(part, Text) and part.logprobs is not None]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs[0], "refusal": None} if logprobs and asked.wants_logprobs else None,
        "finish_reason": written_stop(answer.stop),
    }
    written: dict[str, Any] = {
        "id": completion_id(answer.id),
        "object": "chat.completion",
        "created": answer.created_s or now_epoch_s,
        "model": answer.model or asked.model,
        "choices": [choice],
    }
    if answer.usage is not None:
        written["usage"] = written_usage(answer.usage)
    return encoded(written)


def completion_id(answer_id: str) -> str:
    """An id as OpenAI's are shaped, made of the upstream's."""
    return answer_id if answer_id.startswith("chatcmpl") else f"chatcmpl-{answer_id or 'gomodel'}"


def written_stop(stop: StopReason) -> str:
    """The finish reason."""
    return _WRITTEN_STOPS[stop]


def written_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def written_usage(usage: TokenUsage) -> dict[str, Any]:
    """The tokens."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }
