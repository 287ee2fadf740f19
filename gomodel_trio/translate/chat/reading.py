"""Read a chat completions request.

Layer: translate; pure. Source: OpenAI API reference (chat completions: create); behaviour.md §7.
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Audio,
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
    Refusal,
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

_NATIVE_ONLY: Final = ("audio", "web_search_options")
"""What only OpenAI itself can do."""

_HINTS: Final = frozenset({"prediction", "store", "prompt_cache_retention"})
_LEGACY_CALL: Final = "call_legacy"
"""The id of calls of the older `function_call`, which had none: one call a turn."""


class _Function(msgspec.Struct):
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = NULL
    strict: bool | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    type: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = NULL
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call | None] | None = None
    tool_call_id: str | None = None
    function_call: _Function | None = None
    reasoning_content: msgspec.Raw = NULL
    reasoning: msgspec.Raw = NULL


class _ImageUrl(msgspec.Struct):
    url: str
    detail: str | None = None


class _InputAudio(msgspec.Struct):
    data: str
    format: str


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | None = None
    input_audio: _InputAudio | None = None
    file: _File | None = None
    cache_control: msgspec.Raw = NULL


class _Tool(msgspec.Struct):
    type: str
    function: _Function | None = None


class _Choice(msgspec.Struct):
    type: str = "function"
    function: _Function | None = None
    allowed_tools: "_Allowed | None" = None
    name: str | None = None


class _Allowed(msgspec.Struct):
    mode: str = "auto"
    tools: list[_Tool] = []


class _Schema(msgspec.Struct):
    name: str | None = None
    description: str | None = None
    schema: msgspec.Raw = NULL
    strict: bool | None = None


class _ResponseFormat(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct):
    model: str
    messages: list[_Message]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    functions: list[_Function] | None = None
    function_call: str | _Function | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ResponseFormat | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    modalities: list[str] | None = None
    verbosity: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: msgspec.Raw = NULL
    prompt_cache_key: str | None = None
    service_tier: str | None = None


_BODY: "msgspec.json.Decoder[_Body]" = msgspec.json.Decoder(_Body)
_MEMBERS: "msgspec.json.Decoder[dict[str, msgspec.Raw]]" = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CONTENT: "msgspec.json.Decoder[str | list[_Part] | None]" = msgspec.json.Decoder(str | list[_Part] | None)
_TEXT: "msgspec.json.Decoder[str | None]" = msgspec.json.Decoder(str | None)
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def read_request(body: bytes) -> Request:
    """Read a request.

    Raises:
        Malformed: a known field has a wrong shape; names it.
    """
    plain = sound(body)
    found: _Body = decoded(_BODY, plain, "")
    members: dict[str, msgspec.Raw] = decoded(_MEMBERS, plain, "")
    wants = _wants(found, members)
    messages = [_message(message, f"messages[{index}]", wants) for index, message in enumerate(found.messages)]
    known = {*_Body.__struct_fields__, *_NATIVE_ONLY, *_HINTS}
    return Request(
        origin=Form.CHAT,
        model=found.model,
        messages=tuple(message for message in messages if message is not None),
        is_stream=bool(found.stream),
        tools=_tools(found, wants),
        tool_choice=_tool_choice(found, wants),
        parallel_tool_calls=found.parallel_tool_calls,
        output=_output(found.response_format),
        reasoning=None if found.reasoning_effort is None else ReasoningWish(effort=found.reasoning_effort),
        max_tokens=found.max_tokens if found.max_completion_tokens is None else found.max_completion_tokens,
        temperature=found.temperature,
        top_p=found.top_p,
        top_k=found.top_k,
        seed=found.seed,
        frequency_penalty=found.frequency_penalty,
        presence_penalty=found.presence_penalty,
        stop=(found.stop,) if isinstance(found.stop, str) else tuple(found.stop or ()),
        top_logprobs=found.top_logprobs,
        wants_logprobs=bool(found.logprobs),
        verbosity=found.verbosity,
        includes_usage=found.stream_options is not None and bool(found.stream_options.include_usage),
        user=found.safety_identifier or found.user,
        metadata=given(found.metadata),
        cache_key=found.prompt_cache_key,
        service_tier=found.service_tier,
        extras={name: raw.copy() for name, raw in members.items() if name not in known},
        wants=tuple(wants),
    )


def _wants(found: _Body, members: dict[str, msgspec.Raw]) -> list[Want]:
    wants = [Want(name, name) for name in _NATIVE_ONLY if name in members and not is_null(members[name])]
    if found.n is not None and found.n > 1:
        wants.append(Want("n", "several choices"))
    if found.logit_bias:
        wants.append(Want("logit_bias", "logit_bias"))
    if found.modalities is not None and set(found.modalities) - {"text"}:
        wants.append(Want("modalities", "output in other modalities than text"))
    return wants


def _message(message: _Message, path: str, wants: list[Want]) -> Message | None:
    if message.role in ("tool", "function"):
        return _result(message, path, wants)
    role = _ROLES.get(message.role)
    if role is None:
        raise malformed(f"{path}.role", f"unknown role {message.role!r:.40}")
    parts: list[Part] = []
    if role == "assistant":
        thoughts = decoded(_TEXT, message.reasoning_content, f"{path}.reasoning_content") or _text(message.reasoning)
        parts += [Reasoning(thoughts, origin=Form.CHAT)] if thoughts else []
    parts += _parts(message.content, f"{path}.content", wants)
    if message.refusal:
        parts.append(Refusal(message.refusal))
    for index, call in enumerate(message.tool_calls or []):
        if call is None:
            continue
        if call.function is None:
            wants.append(Want(f"{path}.tool_calls[{index}].type", call.type or "unknown"))
            continue
        parts.append(ToolCall(_present(call.id, f"{path}.tool_calls[{index}].id"), call.function.name, call.function.arguments or ""))
    if message.function_call is not None:
        parts.append(ToolCall(_LEGACY_CALL, message.function_call.name, message.function_call.arguments or ""))
    return Message(role, tuple(parts), message.name)


def _result(message: _Message, path: str, wants: list[Want]) -> Message:
    call_id = _LEGACY_CALL if message.role == "function" else _present(message.tool_call_id, f"{path}.tool_call_id")
    parts = _parts(message.content, f"{path}.content", wants)
    return Message("user", (ToolResult(call_id, tuple(part for part in parts if isinstance(part, Text | Image | Document))),))


def _text(raw: msgspec.Raw) -> str:
    """The thoughts of compatible servers' `reasoning`; others give an object of that name."""
    try:
        return msgspec.json.decode(raw, type=str | None) or ""
    except msgspec.MsgspecError:
        return ""


def _parts(raw: msgspec.Raw, path: str, wants: list[Want]) -> list[Part]:
    content = decoded(_CONTENT, raw, path)
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    found = (_part(part, f"{path}[{index}]", wants) for index, part in enumerate(content))
    return [part for part in found if part is not None]


def _part(part: _Part, path: str, wants: list[Want]) -> Part | None:
    cache = given(part.cache_control)
    match part.type:
        case "text":
            return Text(_present(part.text, f"{path}.text"), cache)
        case "refusal":
            return Refusal(_present(part.refusal, f"{path}.refusal"))
        case "image_url" if part.image_url is not None:
            return Image(_data(part.image_url.url) or Url(part.image_url.url), part.image_url.detail, cache)
        case "input_audio" if part.input_audio is not None:
            return Audio(part.input_audio.data, part.input_audio.format)
        case "file" if part.file is not None:
            return Document(_file(part.file, path, wants), part.file.filename, cache)
        case "image_url" | "input_audio" | "file":
            raise malformed(f"{path}.{part.type}", "it is missing")
    wants.append(Want(f"{path}.type", part.type))
    return None


def _file(file: _File, path: str, wants: list[Want]) -> Data | FileId | Text:
    if file.file_data:
        found = _data(file.file_data) or Data("application/pdf", file.file_data)
        if found.media_type == "text/plain":
            try:
                return Text(base64.b64decode(found.base64, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return found
        return found
    if not file.file_id:
        raise malformed(f"{path}.file.file_data", "it is missing")
    wants.append(Want(f"{path}.file.file_id", "file_id"))
    return FileId(file.file_id)


def _data(url: str) -> Data | None:
    """A data URL's content; None for any other URL."""
    head, comma, rest = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return Data(head.removeprefix("data:").removesuffix(";base64").partition(";")[0] or "application/octet-stream", rest)


# ---- tools ----------------------------------------------------------------------------------------------------------


def _tools(found: _Body, wants: list[Want]) -> tuple[Tool, ...]:
    tools = []
    for index, tool in enumerate(found.tools or []):
        if tool.function is None:
            wants.append(Want(f"tools[{index}].type", tool.type))
        else:
            tools.append(_tool(tool.function, f"tools[{index}].function"))
    if found.tools is None:
        tools += [_tool(function, f"functions[{index}]") for index, function in enumerate(found.functions or [])]
    return tuple(tools)


def _tool(function: _Function, path: str) -> Tool:
    if not function.name:
        raise malformed(f"{path}.name", "the function's name is missing")
    return Tool(function.name, function.description, given(function.parameters), function.strict)


def _tool_choice(found: _Body, wants: list[Want]) -> ToolChoice | None:
    choice = found.tool_choice
    if choice is None:
        return _legacy_choice(found.function_call)
    if isinstance(choice, str):
        return _mode(choice, "tool_choice")
    if choice.function is not None and choice.function.name:
        return ToolChoice("named", choice.function.name)
    if choice.allowed_tools is not None:
        names = tuple(tool.function.name for tool in choice.allowed_tools.tools if tool.function is not None)
        mode = _mode(choice.allowed_tools.mode, "tool_choice.allowed_tools.mode")
        return ToolChoice(mode.mode, allowed=names)
    wants.append(Want("tool_choice.type", choice.type))
    return None


def _legacy_choice(choice: str | _Function | None) -> ToolChoice | None:
    if choice is None:
        return None
    return _mode(choice, "function_call") if isinstance(choice, str) else ToolChoice("named", choice.name)


def _mode(mode: str, path: str) -> ToolChoice:
    match mode:
        case "auto" | "none" | "required":
            return ToolChoice(mode)
        case "any":  # Mistral's word
            return ToolChoice("required")
    raise malformed(path, f"unknown mode {mode!r:.40}")


def _output(asked: _ResponseFormat | None) -> OutputFormat | None:
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return OutputFormat()
    if asked.type != "json_schema" or asked.json_schema is None:
        raise malformed("response_format.type", f"unknown type {asked.type!r:.40}")
    schema = asked.json_schema
    return OutputFormat(given(schema.schema), schema.name, schema.description, schema.strict)


def _present(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise malformed(path, "it is missing")
    return value
