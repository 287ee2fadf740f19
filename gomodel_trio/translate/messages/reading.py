"""Read a Messages request.

Layer: translate; pure. Source: Anthropic API reference (messages: create); behaviour.md §7.
"""

from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Data,
    Document,
    FileId,
    Form,
    Image,
    Message,
    OutputFormat,
    Part,
    Reasoning,
    ReasoningWish,
    Request,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    Want,
)
from gomodel_trio.translate.fields import NULL, decoded, given, is_null, malformed, sound

_NATIVE_ONLY: Final = ("container", "mcp_servers")
"""What only Anthropic itself can do."""

_HINTS: Final = frozenset(
    {"inference_geo", "service_tier", "betas", "anthropic_version", "anthropic_beta", "speed", "cache_control", "context_management"}
)
"""Said to Anthropic alone, and of no consequence for what is answered. Context management spares tokens of a conversation that is sent
whole all the same; Claude Code asks for it with each request."""


class _Source(msgspec.Struct):
    type: str
    url: str | None = None
    media_type: str | None = None
    data: str | None = None
    file_id: str | None = None


class _Block(msgspec.Struct):
    """All fields of the blocks that are translated; Raw where kinds differ."""

    type: str
    text: str | None = None
    cache_control: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    title: str | None = None
    citations: msgspec.Raw = NULL
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NULL
    tool_use_id: str | None = None
    content: msgspec.Raw = NULL
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = NULL


class _Tool(msgspec.Struct):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = NULL
    strict: bool | None = None
    cache_control: msgspec.Raw = NULL


class _Choice(msgspec.Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class _Format(msgspec.Struct):
    type: str
    schema: msgspec.Raw = NULL


class _OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: _Format | None = None


class _Metadata(msgspec.Struct):
    user_id: str | None = None


class _Body(msgspec.Struct):
    model: str
    messages: list[_Message]
    system: msgspec.Raw = NULL
    stream: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: _Format | None = None
    metadata: _Metadata | None = None
    service_tier: str | None = None


_BODY: "msgspec.json.Decoder[_Body]" = msgspec.json.Decoder(_Body)
_MEMBERS: "msgspec.json.Decoder[dict[str, msgspec.Raw]]" = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CONTENT: "msgspec.json.Decoder[str | list[_Block] | None]" = msgspec.json.Decoder(str | list[_Block] | None)
_SOURCE: "msgspec.json.Decoder[_Source]" = msgspec.json.Decoder(_Source)
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_request(body: bytes) -> Request:
    """Read a request.

    Raises:
        Malformed: a known field has a wrong shape; names it.
    """
    plain = sound(body)
    found: _Body = decoded(_BODY, plain, "")
    members: dict[str, msgspec.Raw] = decoded(_MEMBERS, plain, "")
    wants = [Want(name, name) for name in _NATIVE_ONLY if name in members and not is_null(members[name])]
    messages = _messages(found, wants)
    tools = _tools(found.tools or [], wants)
    known = {*_Body.__struct_fields__, *_NATIVE_ONLY, *_HINTS}
    return Request(
        origin=Form.MESSAGES,
        model=found.model,
        messages=tuple(messages),
        is_stream=bool(found.stream),
        tools=tools,
        tool_choice=_tool_choice(found.tool_choice),
        parallel_tool_calls=False if found.tool_choice is not None and found.tool_choice.disable_parallel_tool_use else None,
        output=_output(found),
        reasoning=_reasoning(found),
        max_tokens=found.max_tokens,
        temperature=found.temperature,
        top_p=found.top_p,
        top_k=found.top_k,
        stop=tuple(found.stop_sequences or ()),
        user=None if found.metadata is None else found.metadata.user_id,
        extras={name: raw.copy() for name, raw in members.items() if name not in known},
        wants=tuple(wants),
    )


def _messages(found: _Body, wants: list[Want]) -> list[Message]:
    messages = []
    system = _parts(found.system, "system", wants)
    if system:
        messages.append(Message("system", tuple(system)))
    for index, message in enumerate(found.messages):
        role = _ROLES.get(message.role)
        if role is None:
            raise malformed(f"messages[{index}].role", f"unknown role {message.role!r:.40}")
        messages.append(Message(role, tuple(_parts(message.content, f"messages[{index}].content", wants))))
    return messages


def _parts(raw: msgspec.Raw, path: str, wants: list[Want]) -> list[Part]:
    content = decoded(_CONTENT, raw, path)
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    found = (_part(block, f"{path}[{index}]", wants) for index, block in enumerate(content))
    return [part for part in found if part is not None]


def _part(block: _Block, path: str, wants: list[Want]) -> Part | None:
    cache = given(block.cache_control)
    match block.type:
        case "text":
            return Text(_present(block.text, f"{path}.text"), cache)
        case "image":
            source = _source(block.source, f"{path}.source", wants)
            if isinstance(source, Text):
                raise malformed(f"{path}.source.type", "an image is no text")
            return Image(source, cache_control=cache)
        case "document":
            return Document(_source(block.source, f"{path}.source", wants), block.title, cache)
        case "tool_use":
            arguments = "{}" if is_null(block.input) else bytes(block.input).decode()
            return ToolCall(_present(block.id, f"{path}.id"), _present(block.name, f"{path}.name"), arguments, cache)
        case "tool_result":
            inner = _parts(block.content, f"{path}.content", wants)
            for index, part in enumerate(inner):
                if not isinstance(part, Text | Image | Document):
                    raise malformed(f"{path}.content[{index}].type", "it cannot stand in a tool's result")
            kept = tuple(part for part in inner if isinstance(part, Text | Image | Document))
            return ToolResult(_present(block.tool_use_id, f"{path}.tool_use_id"), kept, bool(block.is_error), cache)
        case "thinking":
            return Reasoning(block.thinking or "", signature=block.signature or None, origin=Form.MESSAGES)
        case "redacted_thinking":
            return Reasoning("", redacted=block.data, origin=Form.MESSAGES)
    wants.append(Want(f"{path}.type", block.type))
    return None


def _source(raw: msgspec.Raw, path: str, wants: list[Want]) -> Url | Data | FileId | Text:
    source: _Source = decoded(_SOURCE, raw, path)
    match source.type:
        case "base64":
            return Data(_present(source.media_type, f"{path}.media_type"), _present(source.data, f"{path}.data"))
        case "url":
            return Url(_present(source.url, f"{path}.url"))
        case "text":
            return Text(_present(source.data, f"{path}.data"))
        case "file":
            wants.append(Want(f"{path}.file_id", "file_id"))
            return FileId(source.file_id or "")
    wants.append(Want(f"{path}.type", source.type))
    return FileId("")


def _tools(found: list[_Tool], wants: list[Want]) -> tuple[Tool, ...]:
    tools = []
    for index, tool in enumerate(found):
        if tool.type not in (None, "custom"):
            wants.append(Want(f"tools[{index}].type", tool.type or ""))
            continue
        tools.append(Tool(tool.name, tool.description, given(tool.input_schema), tool.strict, given(tool.cache_control)))
    return tuple(tools)


def _tool_choice(choice: _Choice | None) -> ToolChoice | None:
    if choice is None:
        return None
    match choice.type:
        case "auto" | "none":
            return ToolChoice(choice.type)
        case "any":
            return ToolChoice("required")
        case "tool":
            return ToolChoice("named", _present(choice.name, "tool_choice.name"))
    raise malformed("tool_choice.type", f"unknown type {choice.type!r:.40}")


def _output(found: _Body) -> OutputFormat | None:
    config = found.output_config
    asked = config.format if config is not None and config.format is not None else found.output_format
    if asked is None:
        return None
    if asked.type != "json_schema":
        raise malformed("output_config.format.type", f"unknown type {asked.type!r:.40}")
    return OutputFormat(given(asked.schema))


def _reasoning(found: _Body) -> ReasoningWish | None:
    """An effort without thinking is a wish about the whole answer: it is heard by forms that know no other."""
    effort = None if found.output_config is None else found.output_config.effort
    thinking = found.thinking
    if thinking is None:
        return None if effort is None else ReasoningWish(effort=effort)
    match thinking.type:
        case "disabled":
            return ReasoningWish(is_disabled=True)
        case "adaptive":
            return ReasoningWish(effort=effort, is_adaptive=True, summary=thinking.display)
    return ReasoningWish(effort=effort, budget_tokens=thinking.budget_tokens, summary=thinking.display)


def _present(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise malformed(path, "it is missing")
    return value
