"""What the fake model decides to say to a request of any dialect: a text, an instance of the schema asked for, or calls of tools.

It calls a tool that `tool_choice` names, else each tool whose name stands in the newest user text, unless that turn already has a result.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

TEXT = "Hello from the fake upstream."


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` is JSON."""

    id: str
    name: str
    arguments: str


def answer_to(body: dict[str, Any]) -> str | list[Call]:
    """The text, or the calls."""
    tools = _tools(body)
    choice = body.get("tool_choice")
    forced = (choice.get("function") or choice).get("name") if isinstance(choice, dict) else None
    text = _newest_user_text(body)
    called = [name for name in tools if name == forced] or [name for name in tools if re.search(rf"\b{re.escape(name)}\b", text)]
    if called:
        return [Call(f"call_fake_{at}", name, json.dumps(instance(tools[name]))) for at, name in enumerate(called)]
    schema = _schema(body)
    return TEXT if schema is None else json.dumps(instance(schema))


def words(text: str) -> list[str]:
    """The text in the parts in which it is streamed."""
    return re.findall(r"\S+\s*", text)


def instance(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """A small value that the JSON schema allows."""
    root = schema if root is None else root
    if "$ref" in schema:
        found: Any = root
        for key in schema["$ref"].lstrip("#/").split("/"):
            found = found[key]
        return instance(found, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return instance(schema[union][0], root)
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: instance(each, root) for name, each in (schema.get("properties") or {}).items()}
        case "array":
            return [instance(schema.get("items") or {"type": "string"}, root)]
        case "integer":
            return 1
        case "number":
            return 1.5
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "text"


def _tools(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Name → schema of the arguments."""
    found = {}
    for tool in body.get("tools") or []:
        inner = tool.get("function") or tool
        if isinstance(inner.get("name"), str):
            found[inner["name"]] = inner.get("parameters") or inner.get("input_schema") or {"type": "object"}
    return found


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a structured output, {} for plain JSON, None for text."""
    asked = (
        body.get("response_format")
        or (body.get("text") or {}).get("format")
        or body.get("output_format")
        or (body.get("output_config") or {}).get("format")
        or {}
    )
    match asked.get("type"):
        case "json_schema":
            schema: dict[str, Any] = (asked.get("json_schema") or asked).get("schema") or {}
            return schema
        case "json_object":
            return {}
        case _:
            return None


def _newest_user_text(body: dict[str, Any]) -> str:
    """The text of the last turn; "" if a tool's result is its last word."""
    given = body.get("messages") or body.get("input") or []
    if isinstance(given, str):
        return given
    for item in reversed(given):
        if item.get("role") == "tool" or str(item.get("type", "")).endswith("_output"):
            return ""
        if item.get("role") == "user":
            content = item.get("content")
            if isinstance(content, str):
                return content
            if any(part.get("type") == "tool_result" for part in content or []):
                return ""
            return " ".join(str(part.get("text", "")) for part in content or [])
    return ""
