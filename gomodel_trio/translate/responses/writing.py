"""Write a Responses request.

Layer: translate; pure. Source: OpenAI API reference (responses: create, input items); behaviour.md §7.

Nothing is stored at the provider (`store` false): whoever comes from another form hands its whole conversation over with each request.
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
    OutputFormat,
    ReasoningWish,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolResult,
    Untranslatable,
    Url,
)
from gomodel_trio.translate.canonical import Reasoning as ReasoningPart
from gomodel_trio.translate.defaults import JSON_SCHEMA_NAME
from gomodel_trio.translate.effort import effort_of, openai_effort
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.translate.offers import refused
from gomodel_trio.translate.responses.items import written_thoughts
from gomodel_trio.translate.responses.tools import written_call, written_tool_choice, written_tools

LEAST_OUTPUT_TOKENS: Final = 16
"""What OpenAI demands of `max_output_tokens`; clients that probe say 1."""

MOST_USER_CHARS: Final = 64
"""OpenAI refuses a longer `user`; Claude Code's are longer, and differ in what is kept."""

_SUMMARIES: Final = {"auto": "auto", "concise": "concise", "detailed": "detailed", "summarized": "auto"}
"""Anthropic's display `summarized` is asked for by name only: OpenAI gives summaries to verified organisations."""

_FILE_NAMES: Final = {"application/pdf": "document.pdf", "text/plain": "document.txt"}
"""OpenAI wants a name with a file's bytes."""


def write_request(request: Request, *, model: str) -> bytes:
    """Write a request for `model`.

    Raises:
        Untranslatable: it wants what this form has not; names the client's field.
    """
    _refuse(request)
    body: dict[str, Any] = {"model": model, "input": _input(request), "store": False}
    if request.is_stream:
        body["stream"] = True
    if request.tools:
        body["tools"] = written_tools(request.tools, origin=request.origin)
    if request.tool_choice is not None:
        body["tool_choice"] = written_tool_choice(request.tool_choice)
    text = written_text(request)
    if text:
        body["text"] = text
    reasoning = written_reasoning(request.reasoning)
    if reasoning:
        body["reasoning"] = reasoning
    if request.wants_logprobs:
        body["include"] = ["message.output_text.logprobs"]
    is_openai = request.origin in (Form.CHAT, Form.RESPONSES)
    plain = {
        "max_output_tokens": None if request.max_tokens is None else max(request.max_tokens, LEAST_OUTPUT_TOKENS),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_logprobs": request.top_logprobs,
        "parallel_tool_calls": request.parallel_tool_calls,
        "user": None if request.user is None else request.user[:MOST_USER_CHARS],
        "metadata": request.metadata,
        "prompt_cache_key": request.cache_key,
        "service_tier": request.service_tier if is_openai else None,
    }
    body |= {name: value for name, value in plain.items() if value is not None}
    return encoded({name: value for name, value in request.extras.items() if name not in body} | body)


def written_text(request: Request) -> dict[str, Any]:
    """The `text` object; empty if there is nothing to say."""
    text: dict[str, Any] = {}
    if request.output is not None:
        text["format"] = _format(request.output)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return text


def written_reasoning(wish: ReasoningWish | None) -> dict[str, str]:
    """The `reasoning` object; empty if there is nothing to say. That thinking is disabled is not said: most models refuse to hear it."""
    if wish is None:
        return {}
    reasoning: dict[str, str] = {}
    if wish.effort is not None:
        reasoning["effort"] = openai_effort(wish.effort)
    elif wish.budget_tokens is not None and not wish.is_disabled:
        reasoning["effort"] = openai_effort(effort_of(wish.budget_tokens))
    if wish.summary in _SUMMARIES:
        reasoning["summary"] = _SUMMARIES[wish.summary]
    return reasoning


def _refuse(request: Request) -> None:
    want = refused(request)
    if want is not None:
        raise Untranslatable(want.field, f"{want.field}: the target's Responses API cannot serve {want.feature} from this API")
    if request.stop:
        field = "stop_sequences" if request.origin is Form.MESSAGES else "stop"
        raise Untranslatable(field, f"{field}: the Responses API has no stop sequences")


def _format(output: OutputFormat) -> dict[str, Any]:
    if output.schema is None:
        return {"type": "json_object"}
    written: dict[str, Any] = {"type": "json_schema", "name": output.name or JSON_SCHEMA_NAME, "schema": output.schema}
    if output.description is not None:
        written["description"] = output.description
    if output.strict is not None:
        written["strict"] = output.strict
    return written


def _input(request: Request) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        items += _items(message, f"messages[{index}].content")
    return items


def _items(message: Message, path: str) -> list[dict[str, Any]]:
    """One turn's items: parts that a message holds are one message until something else comes between."""
    items: list[dict[str, Any]] = []
    content: list[dict[str, Any]] | None = None
    for part in message.parts:
        item: dict[str, Any] | None
        match part:
            case ToolCall():
                item = written_call(part.id, part.name, part.arguments or "{}", {})
            case ToolResult():
                item = {"type": "function_call_output", "call_id": part.call_id, "output": _result(part, path)}
            case ReasoningPart():
                item = _thoughts(part)
            case _:
                if content is None:
                    content = []
                    items.append({"type": "message", "role": message.role, "content": content})
                content.append(_content(part, message.role, path))
                continue
        if item is not None:
            items.append(item)
            content = None
    return items


def _thoughts(part: ReasoningPart) -> dict[str, Any] | None:
    """Only what the provider knows again is of use to it: nothing is stored there."""
    if part.origin != Form.RESPONSES or part.signature is None:
        return None
    item: dict[str, Any] = {"type": "reasoning", "summary": written_thoughts(part), "encrypted_content": part.signature}
    if part.id is not None:
        item["id"] = part.id
    return item


def _result(part: ToolResult, path: str) -> str | list[dict[str, Any]]:
    match part.parts:
        case ():
            return ""
        case (Text(text=text),):
            return text
    return [_content(inner, "user", path) for inner in part.parts]


def _content(part: Text | Refusal | Image | Document | Audio, role: str, path: str) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "output_text" if role == "assistant" else "input_text", "text": part.text}
        case Refusal():
            return {"type": "refusal", "refusal": part.text}
        case Image():
            return {"type": "input_image", "image_url": _url(part.source, path), "detail": part.detail or "auto"}
        case Document():
            return {"type": "input_file"} | _file(part, path)
        case Audio():
            return {"type": "input_audio", "input_audio": {"data": part.base64, "format": part.format}}


def _url(source: Url | Data | FileId, path: str) -> str:
    match source:
        case Url():
            return source.url
        case Data():
            return f"data:{source.media_type};base64,{source.base64}"
        case FileId():
            raise Untranslatable(path, f"{path}: a file that was uploaded to another provider")


def _file(part: Document, path: str) -> dict[str, Any]:
    source = part.source
    if isinstance(source, Url):
        return {"file_url": source.url}
    if isinstance(source, Text):
        source = Data("text/plain", base64.b64encode(text_of(source.text).encode()).decode())
    media_type = source.media_type if isinstance(source, Data) else ""
    return {"filename": part.title or _FILE_NAMES.get(media_type, "document"), "file_data": _url(source, path)}
