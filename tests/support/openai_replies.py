"""What an upstream of the OpenAI dialect answers, as the official SDK parses it: chat, Responses, embeddings, models."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from support.conversation import Call, answer_to, words
from support.replies import Reply, json_reply, sse_reply

MODELS = ("gpt-5.1", "gpt-5.1-mini", "claude-opus-4-6")
_HEADERS = (("x-request-id", "req_fake"), ("openai-processing-ms", "5"))
_CREATED = 1_760_000_000
_CHAT_USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_RESPONSES_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}


# ---- chat -----------------------------------------------------------------------------------------------------------


def chat(body: dict[str, Any]) -> Reply:
    """`POST /chat/completions`."""
    answer = answer_to(body)
    base = {
        "id": "chatcmpl-fake",
        "created": _CREATED,
        "model": body.get("model"),
        "system_fingerprint": "fp_fake",
        "service_tier": "default",
    }
    if body.get("stream"):
        return sse_reply(_chat_events(body, base, answer), _HEADERS)
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    if isinstance(answer, str):
        message["content"] = answer
    else:
        message["tool_calls"] = [_chat_call(call, call.arguments) for call in answer]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    return json_reply({**base, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE}, headers=_HEADERS)


def _chat_events(body: dict[str, Any], base: dict[str, Any], answer: str | list[Call]) -> Iterator[bytes]:
    has_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if has_usage else {}
        return _data({**base, "object": "chat.completion.chunk", "choices": [choice], **usage})

    if isinstance(answer, str):
        yield chunk({"role": "assistant", "content": "", "refusal": None})
        for word in words(answer):
            yield chunk({"content": word})
    else:
        yield chunk({"role": "assistant", "content": None})
        for index, call in enumerate(answer):
            yield chunk({"tool_calls": [{"index": index, **_chat_call(call, "")}]})
            for part in _parts(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _finish_reason(answer))
    if has_usage:
        yield _data({**base, "object": "chat.completion.chunk", "choices": [], "usage": _CHAT_USAGE})
    yield b"data: [DONE]\n\n"


def _chat_call(call: Call, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish_reason(answer: str | list[Call]) -> str:
    return "stop" if isinstance(answer, str) else "tool_calls"


# ---- Responses ------------------------------------------------------------------------------------------------------


def responses(body: dict[str, Any]) -> Reply:
    """`POST /responses`."""
    answer = answer_to(body)
    items = [_message_item(answer)] if isinstance(answer, str) else [_call_item(call) for call in answer]
    if body.get("stream"):
        return sse_reply(_responses_events(body, items), _HEADERS)
    return json_reply(_response(body, "completed", items), headers=_HEADERS)


def _response(body: dict[str, Any], status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    echoed = {name: body.get(name) for name in ("instructions", "max_output_tokens", "previous_response_id", "prompt_cache_key", "user")}
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": body.get("model"),
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _RESPONSES_USAGE if status == "completed" else None,
        "metadata": body.get("metadata") or {},
        **echoed,
    }


def _responses_events(body: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[bytes]:
    number = -1

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return _event(kind, {"type": kind, "sequence_number": number, **fields})

    yield event("response.created", response=_response(body, "in_progress", []))
    yield event("response.in_progress", response=_response(body, "in_progress", []))
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "function_call":
            yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""})
            for part in _parts(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=part)
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"])
        else:
            part = item["content"][0]
            place["content_index"] = 0
            yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for word in words(part["text"]):
                yield event("response.output_text.delta", **place, delta=word, logprobs=[])
            yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_response(body, "completed", items))


def _message_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_fake", "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _call_item(call: Call) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


# ---- the rest -------------------------------------------------------------------------------------------------------


def embeddings(body: dict[str, Any]) -> Reply:
    """`POST /embeddings`, as floats or base64."""
    given = body.get("input")
    # A list of numbers is one text, as tokens.
    texts = given if isinstance(given, list) and not (given and isinstance(given[0], int)) else [given]
    vector: list[float] | str = [0.5, -0.25, 0.125]
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack("<3f", 0.5, -0.25, 0.125)).decode()
    rows = [{"object": "embedding", "index": index, "embedding": vector} for index in range(len(texts))]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return json_reply({"object": "list", "model": body.get("model"), "data": rows, "usage": usage}, headers=_HEADERS)


def models(model: str | None = None) -> Reply:
    """`GET /models`, or one of them."""
    if model is not None:
        return json_reply(_model(model), headers=_HEADERS)
    return json_reply({"object": "list", "data": [_model(each) for each in MODELS]}, headers=_HEADERS)


def _model(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": _CREATED, "owned_by": "fake"}


def _data(content: Any) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def _event(name: str, content: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()


def _parts(arguments: str) -> list[str]:
    return [arguments[at : at + 8] for at in range(0, len(arguments), 8)]
