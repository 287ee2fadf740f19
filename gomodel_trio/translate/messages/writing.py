"""Write a Messages request.

Layer: translate; pure. Source: Anthropic API reference (messages: create, structured outputs, extended thinking); behaviour.md §7.

Anthropic wants turns of user and assistant in alternation, the results of calls first in the user's turn, no empty text, `max_tokens`, and
system texts at the top: later ones stay where they are, as words of the user's turn.
"""

from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Audio,
    Data,
    Document,
    FileId,
    Form,
    Image,
    Malformed,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Untranslatable,
    Url,
)
from gomodel_trio.translate.defaults import JSON_OBJECT_SCHEMA, LEAST_MAX_TOKENS_BEYOND_BUDGET, MAX_TOKENS, MOST_ANTHROPIC_TEMPERATURE
from gomodel_trio.translate.effort import budget_of
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.translate.offers import refused

_EMPTY_SCHEMA: Final = msgspec.Raw(b'{"type":"object","properties":{}}')
_OPENAI_ONLY: Final = frozenset(
    {"modalities", "audio", "prediction", "web_search_options", "functions", "function_call", "n", "logit_bias"}
)


def write_request(request: Request, *, model: str) -> bytes:
    """Write a request for `model`.

    Raises:
        Untranslatable: it wants what this form has not. Malformed: a call's arguments are no JSON object. Both name the client's field.
    """
    _refuse(request)
    turns, system = _turns(request)
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens or MAX_TOKENS, "messages": turns}
    if system:
        body["system"] = system
    if request.is_stream:
        body["stream"] = True
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools if not _is_hidden(tool, request.tool_choice)]
        choice = _tool_choice(request)
        if choice is not None:
            body["tool_choice"] = choice
    if request.output is not None:
        schema = request.output.schema or msgspec.Raw(JSON_OBJECT_SCHEMA)
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    _add_thinking(body, request)
    if request.temperature is not None and "thinking" not in body:
        body["temperature"] = min(request.temperature, MOST_ANTHROPIC_TEMPERATURE)
    if request.top_p is not None and "thinking" not in body:
        body["top_p"] = request.top_p
    if request.top_k is not None and "thinking" not in body:
        body["top_k"] = request.top_k
    if request.stop:
        body["stop_sequences"] = [stop for stop in request.stop if stop.strip()]
    if request.user is not None:
        body["metadata"] = {"user_id": request.user}
    extras = {name: value for name, value in request.extras.items() if name not in body and name not in _OPENAI_ONLY}
    return encoded(extras | body)


def _refuse(request: Request) -> None:
    want = refused(request)
    if want is not None:
        raise Untranslatable(want.field, f"{want.field}: the target's Messages API cannot serve {want.feature}")
    if request.wants_logprobs:
        field = "include" if request.origin is Form.RESPONSES else "logprobs"
        raise Untranslatable(field, f"{field}: the target's Messages API gives no log probabilities")


def _add_thinking(body: dict[str, Any], request: Request) -> None:
    """A budget where there is a figure or a word for one; Anthropic wants `max_tokens` above it, and no forced tool beside it."""
    wish = request.reasoning
    if wish is None or wish.is_disabled or wish.effort == "none":
        return
    if request.tool_choice is not None and request.tool_choice.mode in ("required", "named"):
        return  # what must be called counts for more than how long to think of it
    budget = wish.budget_tokens or (budget_of(wish.effort) if wish.effort is not None else None)
    if wish.is_adaptive and budget is None:
        body["thinking"] = {"type": "adaptive"}
        return
    if budget is None:
        return
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    if body["max_tokens"] <= budget:
        body["max_tokens"] = budget + LEAST_MAX_TOKENS_BEYOND_BUDGET


def _tool(tool: Tool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "input_schema": tool.schema or _EMPTY_SCHEMA}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.strict:
        written["strict"] = True
    if tool.cache_control is not None:
        written["cache_control"] = tool.cache_control
    return written


def _is_hidden(tool: Tool, choice: ToolChoice | None) -> bool:
    return choice is not None and bool(choice.allowed) and tool.name not in choice.allowed


def _tool_choice(request: Request) -> dict[str, Any] | None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    modes = {"auto": "auto", "none": "none", "required": "any", "named": "tool"}
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False else None
    written: dict[str, Any] = {"type": modes[choice.mode]}
    if choice.mode == "named":
        written["name"] = choice.name
    if parallel is False and choice.mode != "none":
        written["disable_parallel_tool_use"] = True
    return written


# ---- turns ----------------------------------------------------------------------------------------------------------


def _turns(request: Request) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The turns in alternation, and the system's blocks."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        path = f"messages[{index}]"
        blocks = _blocks(message, path)
        if message.role == "system" and not turns:
            system += [block for block in blocks if block["type"] == "text"]
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":  # Anthropic looks for the results right behind the calls
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return turns, system


def _blocks(message: Message, path: str) -> list[dict[str, Any]]:
    blocks = []
    for index, part in enumerate(message.parts):
        block = _block(part, f"{path}.content[{index}]")
        if block is not None:
            blocks.append(block)
    return blocks


def _block(part: Part, path: str) -> dict[str, Any] | None:
    match part:
        case Text():
            return _cached({"type": "text", "text": part.text}, part.cache_control) if part.text.strip() else None
        case Refusal():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Image():
            return _cached({"type": "image", "source": _source(part.source, path)}, part.cache_control)
        case Document():
            titled = {"title": part.title} if part.title else {}
            return _cached({"type": "document", "source": _source(part.source, path)} | titled, part.cache_control)
        case Audio():
            raise Untranslatable(path, f"{path}: the target's Messages API takes no audio")
        case ToolCall():
            return _cached({"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part, path)}, part.cache_control)
        case ToolResult():
            return _result(part, path)
        case Reasoning():
            return _thoughts(part)


def _thoughts(part: Reasoning) -> dict[str, Any] | None:
    """Only what Anthropic signed: it refuses thoughts of others."""
    if part.origin != Form.MESSAGES:
        return None
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature} if part.signature else None


def _result(part: ToolResult, path: str) -> dict[str, Any]:
    blocks = [block for inner in part.parts if (block := _block(inner, path)) is not None]
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.call_id}
    if blocks:
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text" and len(blocks[0]) == 2
        written["content"] = blocks[0]["text"] if is_text else blocks
    if part.is_error:
        written["is_error"] = True
    return _cached(written, part.cache_control)


def _input(part: ToolCall, path: str) -> msgspec.Raw:
    """The arguments as they are spelled, for they are JSON in both."""
    text = part.arguments.strip() or "{}"
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise Malformed(path, f"{path}: the arguments of the call {part.name!r:.80} are no JSON object") from None
    return msgspec.Raw(text.encode())


def _source(source: Url | Data | FileId | Text, path: str) -> dict[str, Any]:
    match source:
        case Url():
            return {"type": "url", "url": source.url}
        case Data():
            return {"type": "base64", "media_type": source.media_type, "data": source.base64}
        case Text():
            return {"type": "text", "media_type": "text/plain", "data": text_of(source.text)}
        case FileId():
            raise Untranslatable(path, f"{path}: a file that was uploaded to another provider")


def _cached(block: dict[str, Any], cache_control: msgspec.Raw | None) -> dict[str, Any]:
    return block if cache_control is None else block | {"cache_control": cache_control}
