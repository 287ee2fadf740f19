"""The same question asked by the official SDK of each client dialect, and what came back, in one shape for all.

A *feature* is what is asked; a *mode* is unary or stream. What the SDK gives is reduced to what a person would see.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["title", "count"],
    "additionalProperties": False,
}
TOOL_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}
LONG_SYSTEM = "Answer in one sentence, whatever is asked. " * 500
FEATURES = ("text", "tools", "parallel tools", "tool results", "structured output", "image", "reasoning", "long system")


@dataclass
class Said:
    """What came back. `stop`: end, tools or length."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stop: str = ""
    tokens: tuple[int, int] | None = None


def words_for(feature: str) -> str:
    """What the user says."""
    return {
        "tools": "Use get_weather, please.",
        "parallel tools": "Use get_weather and get_time, please.",
        "tool results": "What is the weather in Oslo?",
        "image": "What is this?",
    }.get(feature, "Hello, what is new?")


def has_tools(feature: str) -> bool:
    """Whether tools are offered."""
    return feature in ("tools", "parallel tools", "tool results")


# ---- OpenAI chat ----------------------------------------------------------------------------------------------------


def ask_chat(client: Any, model: str, feature: str, *, is_stream: bool) -> Said:
    """Through `chat.completions`."""
    content: Any = words_for(feature)
    if feature == "image":
        content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    more: dict[str, Any] = {}
    if feature == "long system":
        messages.insert(0, {"role": "system", "content": LONG_SYSTEM})
    if feature == "tool results":
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo", "days": 1}'}}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": "call_1", "content": "Rain."}]
    if has_tools(feature):
        more["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": TOOL_SCHEMA}} for name in ("get_weather", "get_time")
        ]
    if feature == "structured output":
        more["response_format"] = {"type": "json_schema", "json_schema": {"name": "step", "schema": SCHEMA, "strict": True}}
    if feature == "reasoning":
        more["reasoning_effort"] = "high"
    if not is_stream:
        answer = client.chat.completions.create(model=model, messages=messages, **more)
        choice = answer.choices[0]
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []]
        return Said(choice.message.content or "", calls, _chat_stop(choice.finish_reason), _chat_tokens(answer.usage))
    said = Said()
    pieces: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(
        model=model, messages=messages, stream=True, stream_options={"include_usage": True}, **more
    ):
        if chunk.usage is not None:
            said.tokens = _chat_tokens(chunk.usage)
        for choice in chunk.choices:
            said.text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                piece = pieces.setdefault(call.index, ["", ""])
                piece[0] += (call.function.name if call.function else None) or ""
                piece[1] += (call.function.arguments if call.function else None) or ""
            said.stop = _chat_stop(choice.finish_reason) or said.stop
    said.calls = [(name, json.loads(arguments)) for name, arguments in pieces.values()]
    return said


def _chat_stop(reason: str | None) -> str:
    return {None: "", "stop": "end", "tool_calls": "tools", "length": "length"}[reason]


def _chat_tokens(usage: Any) -> tuple[int, int] | None:
    return None if usage is None else (usage.prompt_tokens, usage.completion_tokens)


# ---- OpenAI Responses -----------------------------------------------------------------------------------------------


def ask_responses(client: Any, model: str, feature: str, *, is_stream: bool) -> Said:
    """Through `responses`."""
    content: Any = words_for(feature)
    if feature == "image":
        content = [{"type": "input_text", "text": content}, {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}]
    given: list[dict[str, Any]] = [{"role": "user", "content": content}]
    more: dict[str, Any] = {"store": False}
    if feature == "long system":
        more["instructions"] = LONG_SYSTEM
    if feature == "tool results":
        given += [
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo", "days": 1}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "Rain."},
        ]
    if has_tools(feature):
        more["tools"] = [
            {"type": "function", "name": name, "parameters": TOOL_SCHEMA, "strict": False} for name in ("get_weather", "get_time")
        ]
    if feature == "structured output":
        more["text"] = {"format": {"type": "json_schema", "name": "step", "schema": SCHEMA, "strict": True}}
    if feature == "reasoning":
        more["reasoning"] = {"effort": "high"}
    if not is_stream:
        return _of_response(client.responses.create(model=model, input=given, **more))
    text, last = "", None
    for event in client.responses.create(model=model, input=given, stream=True, **more):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            last = event.response
    assert last is not None, "the stream has no end"
    said = _of_response(last)
    assert said.text == text
    return said


def _of_response(response: Any) -> Said:
    calls = [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]
    assert response.status == "completed"
    return Said(response.output_text, calls, "tools" if calls else "end", (response.usage.input_tokens, response.usage.output_tokens))


# ---- Anthropic messages ---------------------------------------------------------------------------------------------


def ask_messages(client: Any, model: str, feature: str, *, is_stream: bool) -> Said:
    """Through `messages`."""
    content: Any = words_for(feature)
    if feature == "image":
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        content = [{"type": "text", "text": content}, {"type": "image", "source": source}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    more: dict[str, Any] = {"max_tokens": 20_000}
    if feature == "long system":
        more["system"] = LONG_SYSTEM
    if feature == "tool results":
        use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo", "days": 1}}
        messages += [{"role": "assistant", "content": [use]}]
        messages += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}]}]
    if has_tools(feature):
        more["tools"] = [{"name": name, "input_schema": TOOL_SCHEMA} for name in ("get_weather", "get_time")]
    if feature == "structured output":
        more["extra_body"] = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    if feature == "reasoning":
        more["thinking"] = {"type": "enabled", "budget_tokens": 16_000}
    if not is_stream:
        return _of_message(client.messages.create(model=model, messages=messages, **more))
    with client.messages.stream(model=model, messages=messages, **more) as stream:
        text = "".join(stream.text_stream)
        said = _of_message(stream.get_final_message())
    assert said.text == text
    return said


def _of_message(message: Any) -> Said:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    stop = {"end_turn": "end", "tool_use": "tools", "max_tokens": "length"}[message.stop_reason]
    return Said(text, calls, stop, (message.usage.input_tokens, message.usage.output_tokens))


ASKERS: dict[str, Callable[..., Said]] = {"chat": ask_chat, "responses": ask_responses, "messages": ask_messages}
