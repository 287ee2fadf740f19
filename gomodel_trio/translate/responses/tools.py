"""Tools and the choice among them, both ways.

Layer: translate; pure. Source: OpenAI API reference (responses: tools, tool_choice); behaviour.md §7.

Functions are what every dialect knows. A namespace (a group of functions under one name, which Codex sends for its agents and for MCP
servers) is flattened: its functions get names that hold the group's, and calls of them are taken apart again on their way back. All other
kinds run at the provider, or have a grammar of their own, and are a `Want`.
"""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import Form, Tool, ToolChoice, Want
from gomodel_trio.translate.fields import NULL, decoded, given, is_null, malformed

MOST_NAME_CHARS: Final = 64
"""What OpenAI's functions may be called, and Bedrock's."""

EMPTY_SCHEMA: Final = msgspec.Raw(b'{"type":"object","properties":{}}')
"""The schema of a function without arguments, where one must be given."""


class ToolSet(msgspec.Struct, frozen=True):
    """What `tools` says. `namespaced`: flat name → namespace and name."""

    tools: tuple[Tool, ...]
    namespaced: dict[str, tuple[str, str]]
    wants: tuple[Want, ...]


class _Tool(msgspec.Struct):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = NULL
    strict: bool | None = None
    tools: "list[_Tool] | None" = None
    namespace: str | None = None


class _Choice(msgspec.Struct):
    type: str
    name: str | None = None
    namespace: str | None = None
    mode: str = "auto"
    tools: list[_Tool] = []


_TOOLS: "msgspec.json.Decoder[list[_Tool]]" = msgspec.json.Decoder(list[_Tool])
_CHOICE: "msgspec.json.Decoder[str | _Choice]" = msgspec.json.Decoder(str | _Choice)


def flat_name(namespace: str | None, name: str) -> str:
    """The name of a namespace's function among all the others; deterministic, so that later turns find it again."""
    if not namespace:
        return name
    flat = f"{namespace}__{name}"
    if len(flat) <= MOST_NAME_CHARS:
        return flat
    return f"{flat[: MOST_NAME_CHARS - 9]}_{zlib.crc32(flat.encode('utf-8', 'replace')):08x}"


def read_tools(raw: msgspec.Raw) -> ToolSet:
    """Read `tools`.

    Raises:
        Malformed: a tool has no type, or a function no name.
    """
    if is_null(raw):
        return ToolSet((), {}, ())
    tools: list[Tool] = []
    wants: list[Want] = []
    namespaced: dict[str, tuple[str, str]] = {}
    found: list[_Tool] = decoded(_TOOLS, raw, "tools")
    for index, tool in enumerate(found):
        path = f"tools[{index}]"
        if tool.type == "function":
            tools.append(_function(tool, path, None, tool.description))
        elif tool.type == "namespace" and tool.name and tool.tools is not None:
            for inner_index, inner in enumerate(tool.tools):
                if inner.type != "function":
                    wants.append(Want(f"{path}.tools[{inner_index}].type", inner.type))
                    continue
                # What the group is for is told once, with its first function.
                texts = (tool.description, inner.description) if inner_index == 0 else (inner.description,)
                function = _function(inner, f"{path}.tools[{inner_index}]", tool.name, "\n\n".join(filter(None, texts)) or None)
                tools.append(function)
                namespaced[function.name] = (tool.name, inner.name or "")
        else:
            wants.append(Want(f"{path}.type", tool.type))
    return ToolSet(tuple(tools), namespaced, tuple(wants))


def read_tool_choice(raw: msgspec.Raw) -> tuple[ToolChoice | None, Want | None]:
    """Read `tool_choice`.

    Raises:
        Malformed: it names no function, or a mode that nobody knows.
    """
    if is_null(raw):
        return None, None
    choice = decoded(_CHOICE, raw, "tool_choice")
    if isinstance(choice, str):
        match choice:
            case "auto" | "none" | "required":
                return ToolChoice(choice), None
        raise malformed("tool_choice", f"unknown mode {choice[:40]!r}")
    if choice.type == "function":
        if not choice.name:
            raise malformed("tool_choice.name", "the function's name is missing")
        return ToolChoice("named", flat_name(choice.namespace, choice.name)), None
    if choice.type != "allowed_tools":
        return None, Want("tool_choice.type", choice.type)
    names: list[str] = []
    for index, tool in enumerate(choice.tools):
        if tool.type != "function" or not tool.name:
            return None, Want(f"tool_choice.tools[{index}].type", tool.type)
        names.append(flat_name(tool.namespace, tool.name))
    match choice.mode:
        case "auto" | "required":
            return ToolChoice(choice.mode, allowed=tuple(names)), None
    raise malformed("tool_choice.mode", f"unknown mode {choice.mode[:40]!r}")


def written_tools(tools: tuple[Tool, ...], *, origin: Form) -> list[dict[str, Any]]:
    """Write `tools`. Responses tries to be strict where nothing is said, the other forms do not."""
    written = []
    for tool in tools:
        strict = tool.strict if tool.strict is not None or origin is Form.RESPONSES else False
        entry: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": tool.schema or EMPTY_SCHEMA, "strict": strict}
        if tool.description is not None:
            entry["description"] = tool.description
        written.append(entry)
    return written


def written_tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    """Write `tool_choice`."""
    if choice.mode == "named":
        return {"type": "function", "name": choice.name}
    if choice.allowed and choice.mode != "none":
        return {"type": "allowed_tools", "mode": choice.mode, "tools": [{"type": "function", "name": name} for name in choice.allowed]}
    return choice.mode


def written_call(call_id: str, name: str, arguments: str, namespaced: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Write a call's item, without id and status."""
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    if name in namespaced:
        call["namespace"], call["name"] = namespaced[name]
    return call


def _function(tool: _Tool, path: str, namespace: str | None, description: str | None) -> Tool:
    if not tool.name:
        raise malformed(f"{path}.name", "the function's name is missing")
    return Tool(flat_name(namespace, tool.name), description=description, schema=given(tool.parameters), strict=tool.strict)
