"""Read a Responses request.

Layer: translate; pure. Source: OpenAI API reference (responses: create); behaviour.md §7 (hints, losses that change the meaning).
"""

from typing import Final

import msgspec

from gomodel_trio.translate.canonical import Form, Message, OutputFormat, Raw, ReasoningWish, Request, Text, Want
from gomodel_trio.translate.fields import NULL, decoded, given, is_null, malformed, sound
from gomodel_trio.translate.responses.items import read_input
from gomodel_trio.translate.responses.tools import read_tool_choice, read_tools

_LOGPROBS: Final = "message.output_text.logprobs"


class _Format(msgspec.Struct):
    type: str
    name: str | None = None
    description: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class _TextConfig(msgspec.Struct):
    format: _Format | None = None
    verbosity: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class _Body(msgspec.Struct, kw_only=True):
    """The fields that are understood; a null is as good as none."""

    model: str
    input: Raw = NULL
    instructions: str | None = None
    stream: bool | None = None
    tools: Raw = NULL
    tool_choice: Raw = NULL
    parallel_tool_calls: bool | None = None
    text: _TextConfig | None = None
    reasoning: _Reasoning | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    metadata: dict[str, Raw] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    # What cannot be said elsewhere.
    store: bool | None = None
    background: bool | None = None
    previous_response_id: Raw = NULL
    conversation: Raw = NULL
    prompt: Raw = NULL
    moderation: Raw = NULL
    # No fields of this form, but servers that offer it take them.
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: str | list[str] | None = None


_BODY: "msgspec.json.Decoder[_Body]" = msgspec.json.Decoder(_Body)
_TOP: "msgspec.json.Decoder[dict[str, Raw]]" = msgspec.json.Decoder(dict[str, Raw])

_HINTS: Final = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "context_management",
        "image",
        "max_tool_calls",
        "prompt_cache_options",
        "prompt_cache_retention",
        "stream_options",
        "truncation",
    }
)
"""Dropped: they change how an answer is made or kept, not what was asked. `client_metadata` is Codex's."""

_KNOWN: Final = frozenset(_Body.__struct_fields__) | _HINTS


def read_request(body: bytes) -> Request:
    """Read a request.

    Raises:
        Malformed: it is no JSON object, or a known field has a wrong shape; names the field.
    """
    body = sound(body)
    extras = {name: raw.copy() for name, raw in decoded(_TOP, body, "").items() if name not in _KNOWN}
    fields = decoded(_BODY, body, "")
    tool_set = read_tools(fields.tools)
    tool_choice, choice_want = read_tool_choice(fields.tool_choice)
    output, output_want = _output(fields.text)
    wants = _wants(fields)
    messages, input_wants = _messages(fields, is_elsewhere=bool(wants))
    wants += [*input_wants, *tool_set.wants, *(want for want in (choice_want, output_want) if want is not None)]
    return Request(
        origin=Form.RESPONSES,
        model=fields.model,
        messages=tuple(messages),
        is_stream=fields.stream or False,
        tools=tool_set.tools,
        namespaced=tool_set.namespaced,
        tool_choice=tool_choice,
        parallel_tool_calls=fields.parallel_tool_calls,
        output=output,
        reasoning=_reasoning(fields.reasoning),
        max_tokens=fields.max_output_tokens,
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=fields.top_k,
        seed=fields.seed,
        frequency_penalty=fields.frequency_penalty,
        presence_penalty=fields.presence_penalty,
        stop=(fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ()),
        top_logprobs=fields.top_logprobs,
        wants_logprobs=_LOGPROBS in (fields.include or ()),
        verbosity=fields.text.verbosity if fields.text else None,
        user=fields.safety_identifier or fields.user,
        metadata=None if fields.metadata is None else Raw(msgspec.json.encode(fields.metadata)),
        cache_key=fields.prompt_cache_key,
        service_tier=fields.service_tier,
        extras=extras,
        wants=tuple(wants),
    )


def _messages(fields: _Body, *, is_elsewhere: bool) -> tuple[list[Message], list[Want]]:
    """The conversation, instructions first. `is_elsewhere`: a part of it is kept by the provider, so that there may be no input."""
    head = [Message("system", (Text(fields.instructions),))] if fields.instructions else []
    if is_null(fields.input):
        if not is_elsewhere:
            raise malformed("input", "it is missing")
        return head, []
    messages, wants = read_input(fields.input)
    return head + messages, wants


def _output(text: _TextConfig | None) -> tuple[OutputFormat | None, Want | None]:
    if text is None or text.format is None or text.format.type == "text":
        return None, None
    wish = text.format
    if wish.type == "json_object":
        return OutputFormat(), None
    if wish.type != "json_schema":
        return None, Want("text.format.type", wish.type)
    schema = given(wish.schema)
    if schema is None:
        raise malformed("text.format.schema", "it is missing")
    return OutputFormat(schema, wish.name, wish.description, wish.strict), None


def _reasoning(wish: _Reasoning | None) -> ReasoningWish | None:
    if wish is None:
        return None
    summary = wish.summary or wish.generate_summary
    return ReasoningWish(effort=wish.effort, summary=summary) if wish.effort or summary else None


def _wants(fields: _Body) -> list[Want]:
    """What the provider would have to keep, or to do beside answering."""
    wants = [Want(name, name, Raw(b"true")) for name in ("store", "background") if getattr(fields, name)]
    for name in ("previous_response_id", "conversation", "prompt", "moderation"):
        value = given(getattr(fields, name))
        if value is not None:
            wants.append(Want(name, name, value))
    return wants
