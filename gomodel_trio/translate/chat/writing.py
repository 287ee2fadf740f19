"""Write a chat completions request.

Layer: translate; pure. Source: OpenAI API reference (chat completions: create); behaviour.md §7.
"""

import base64
from typing import Any, Final

from gomodel_trio.translate.canonical import (
    Audio,
    Data,
    Document,
    FileId,
    Form,
    Image,
    Message,
    Part,
    ReasoningWish,
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
from gomodel_trio.translate.defaults import JSON_SCHEMA_NAME
from gomodel_trio.translate.effort import effort_of, openai_effort
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.translate.offers import refused

MOST_USER_CHARS: Final = 64
"""OpenAI refuses a longer `user`."""

_FILE_NAMES: Final = {"application/pdf": "document.pdf", "text/plain": "document.txt"}
_MOST_STOPS: Final = 4
"""OpenAI takes no more stop sequences."""


def write_request(request: Request, *, model: str, knows_max_completion_tokens: bool = True) -> bytes:
    """Write a request for `model`.

    `knows_max_completion_tokens`: OpenAI's reasoning models want that name; many compatible servers know only `max_tokens`.

    Raises:
        Untranslatable: it wants what this form has not; names the client's field.
    """
    want = refused(request)
    if want is not None:
        raise Untranslatable(want.field, f"{want.field}: the target's chat completions cannot serve {want.feature} from this API")
    if len(request.stop) > _MOST_STOPS:
        field = "stop_sequences" if request.origin is Form.MESSAGES else "stop"
        raise Untranslatable(field, f"{field}: chat completions take at most {_MOST_STOPS} stop sequences")
    body: dict[str, Any] = {"model": model, "messages": _messages(request)}
    if request.is_stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}  # whatever the client said: other forms always tell the tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output is not None:
        body["response_format"] = _format(request)
    effort = _effort(request.reasoning)
    is_openai = request.origin in (Form.CHAT, Form.RESPONSES)
    plain = {
        "reasoning_effort": effort,
        "max_completion_tokens" if knows_max_completion_tokens else "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "frequency_penalty": request.frequency_penalty,
        "presence_penalty": request.presence_penalty,
        "stop": list(request.stop) or None,
        "logprobs": True if request.wants_logprobs else None,
        "top_logprobs": request.top_logprobs if request.wants_logprobs else None,
        "verbosity": request.verbosity,
        "user": None if request.user is None else request.user[:MOST_USER_CHARS],
        "prompt_cache_key": request.cache_key,
        "service_tier": request.service_tier if is_openai else None,
    }
    body |= {name: value for name, value in plain.items() if value is not None}
    return encoded({name: value for name, value in request.extras.items() if name not in body} | body)


def _effort(wish: ReasoningWish | None) -> str | None:
    if wish is None or wish.is_disabled:
        return None
    if wish.effort is not None:
        return openai_effort(wish.effort)
    return None if wish.budget_tokens is None else openai_effort(effort_of(wish.budget_tokens))


def _format(request: Request) -> dict[str, Any]:
    output = request.output
    if output is None or output.schema is None:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": output.name or JSON_SCHEMA_NAME, "schema": output.schema}
    if output.description is not None:
        schema["description"] = output.description
    # Anthropic keeps to a schema always; OpenAI does so only if told.
    strict = True if output.strict is None and request.origin is Form.MESSAGES else output.strict
    if strict is not None:
        schema["strict"] = strict
    return {"type": "json_schema", "json_schema": schema}


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.schema is not None:
        function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode == "named":
        return {"type": "function", "function": {"name": choice.name}}
    if choice.allowed and choice.mode != "none":
        tools = [{"type": "function", "function": {"name": name}} for name in choice.allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return choice.mode


# ---- messages -------------------------------------------------------------------------------------------------------


def _messages(request: Request) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        messages += _written(message, f"messages[{index}].content")
    return messages


def _written(message: Message, path: str) -> list[dict[str, Any]]:
    """The messages for a turn: results of calls are messages of their own, before what else the user says."""
    if message.role == "assistant":
        return [_assistant(message, path)]
    results = [_result(part, path) for part in message.parts if isinstance(part, ToolResult)]
    pictures = [
        picture for part in message.parts if isinstance(part, ToolResult) for picture in part.parts if not isinstance(picture, Text)
    ]
    rest = [part for part in message.parts if not isinstance(part, ToolResult)]
    content = [_content(part, f"{path}[{index}]") for index, part in enumerate([*pictures, *rest])]
    if not content:
        return results or [{"role": message.role, "content": ""}]
    written: dict[str, Any] = {"role": message.role, "content": _plain(content)}
    if message.name:
        written["name"] = message.name
    return [*results, written]


def _plain(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One text as a string, which every server takes."""
    return content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content


def _assistant(message: Message, path: str) -> dict[str, Any]:
    texts, calls, refusals = [], [], []
    for part in message.parts:
        match part:
            case Text():
                texts.append(part.text)
            case Refusal():
                refusals.append(part.text)
            case ToolCall():
                function = {"name": part.name, "arguments": part.arguments or "{}"}
                calls.append({"id": part.id, "type": "function", "function": function})
            case Image() | Document() | Audio():
                raise Untranslatable(path, f"{path}: chat completions take no image, document or audio of the assistant's")
            case _:
                pass  # thoughts: chat has no place for them to go back to
    written: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or (None if calls or refusals else "")}
    if refusals:
        written["refusal"] = "".join(refusals)
    if calls:
        written["tool_calls"] = calls
    if message.name:
        written["name"] = message.name
    return written


def _result(part: ToolResult, path: str) -> dict[str, Any]:
    """A result's texts; its images follow in a message of the user's, for a tool's message holds none."""
    del path
    text = "\n".join(inner.text for inner in part.parts if isinstance(inner, Text))
    if part.is_error and text:
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": part.call_id, "content": text}


def _content(part: Part, path: str) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Refusal():
            return {"type": "text", "text": part.text}
        case Image():
            image = {"url": _url(part.source, path)}
            return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
        case Document():
            return _document(part, path)
        case Audio():
            return {"type": "input_audio", "input_audio": {"data": part.base64, "format": part.format}}
        case _:
            return {"type": "text", "text": ""}


def _document(part: Document, path: str) -> dict[str, Any]:
    source = part.source
    if isinstance(source, Url):
        raise Untranslatable(path, f"{path}: chat completions take no document by URL")
    if isinstance(source, Text):
        source = Data("text/plain", base64.b64encode(text_of(source.text).encode()).decode())
    media_type = source.media_type if isinstance(source, Data) else ""
    name = part.title or _FILE_NAMES.get(media_type, "document")
    return {"type": "file", "file": {"filename": name, "file_data": _url(source, path)}}


def _url(source: Url | Data | FileId, path: str) -> str:
    match source:
        case Url():
            return source.url
        case Data():
            return f"data:{source.media_type};base64,{source.base64}"
        case FileId():
            raise Untranslatable(path, f"{path}: a file that was uploaded to another provider")
