"""The items of `output`, and the response object around them.

Layer: translate; pure. Source: OpenAI API reference (responses: the response object).

Texts and refusals that follow one another are the content of one message; thoughts and calls are items of their own. Ids follow from the
answer's id and an item's place, so that a stream and a whole answer name their items alike.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import Part, Reasoning, Refusal, Request, StopReason, Text, TokenUsage, ToolCall
from gomodel_trio.translate.responses.items import written_thoughts
from gomodel_trio.translate.responses.sealed import sealed
from gomodel_trio.translate.responses.tools import written_call, written_tool_choice, written_tools
from gomodel_trio.translate.responses.writing import written_reasoning, written_text

_TIERS: Final = ("auto", "default", "flex", "scale", "priority")
_FOREIGN_PREFIXES: Final = ("resp_", "chatcmpl-", "msg_", "gen-")


class Outcome(msgspec.Struct, frozen=True):
    """What a response says of its end. `reason`: of an incomplete one."""

    status: str
    reason: str | None = None
    error: dict[str, str] | None = None

    @property
    def last_item_status(self) -> str:
        """An incomplete answer was cut in its last item."""
        return "incomplete" if self.status == "incomplete" else "completed"


def outcome_of(stop: StopReason, *, has_refusal: bool) -> Outcome:
    """The status for a stop reason; a refusal in words is complete."""
    match stop:
        case StopReason.MAX_TOKENS:
            return Outcome("incomplete", "max_output_tokens")
        case StopReason.REFUSAL if not has_refusal:
            return Outcome("incomplete", "content_filter")
    return Outcome("completed")


def id_stem(answer_id: str, created_s: int) -> str:
    """What all ids of a response are made of: the answer's id without its own form's prefix."""
    for prefix in _FOREIGN_PREFIXES:
        answer_id = answer_id.removeprefix(prefix)
    return answer_id or str(created_s)


def item_id(part: Part, stem: str, output_index: int) -> str:
    """The id of the item that begins with `part`."""
    match part:
        case Reasoning():
            return part.id or f"rs_{stem}_{output_index}"
        case ToolCall():
            return f"fc_{stem}_{output_index}"
    return f"msg_{stem}_{output_index}"


def joins_message(part: Part, before: Part | None) -> bool:
    """Whether a part is more content of the message of the part before it."""
    return isinstance(part, Text | Refusal) and isinstance(before, Text | Refusal)


def grouped(parts: Iterable[Part]) -> list[list[Part]]:
    """The parts of each item."""
    groups: list[list[Part]] = []
    before = None
    for part in parts:
        if joins_message(part, before):
            groups[-1].append(part)
        else:
            groups.append([part])
        before = part
    return groups


def output_item(parts: list[Part], ident: str, status: str, namespaced: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """One item of its parts."""
    match parts[0]:
        case ToolCall() as call:
            return {"id": ident, "status": status} | written_call(call.id, call.name, call.arguments or "{}", namespaced)
        case Reasoning() as thoughts:
            item: dict[str, Any] = {"id": ident, "type": "reasoning", "summary": written_thoughts(thoughts)}
            opaque = sealed(thoughts)
            return item if opaque is None else item | {"encrypted_content": opaque}
    return {"id": ident, "type": "message", "status": status, "role": "assistant", "content": [content_part(part) for part in parts]}


def content_part(part: Part) -> dict[str, Any]:
    """A message's content part."""
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    text = part if isinstance(part, Text) else Text("")
    return {"type": "output_text", "text": text.text, "annotations": [], "logprobs": text.logprobs or []}


def response_object(
    asked: Request,
    *,
    stem: str,
    model: str,
    created_s: int,
    outcome: Outcome,
    output: list[dict[str, Any]],
    usage: TokenUsage | None,
    service_tier: str | None = None,
) -> dict[str, Any]:
    """The response, with what it echoes of the request. Instructions are among the messages and not echoed."""
    return {
        "id": f"resp_{stem}",
        "object": "response",
        "created_at": created_s,
        "status": outcome.status,
        "background": False,
        "error": outcome.error,
        "incomplete_details": {"reason": outcome.reason} if outcome.reason else None,
        "instructions": None,
        "max_output_tokens": asked.max_tokens,
        "max_tool_calls": None,
        "model": model or asked.model,
        "output": output,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "previous_response_id": None,
        "prompt_cache_key": asked.cache_key,
        "reasoning": {"effort": None, "summary": None} | written_reasoning(asked.reasoning),
        "safety_identifier": None,
        "service_tier": service_tier if service_tier in _TIERS else "default",
        "store": False,
        "temperature": asked.temperature,
        "text": {"format": {"type": "text"}} | written_text(asked),
        "tool_choice": "auto" if asked.tool_choice is None else written_tool_choice(asked.tool_choice),
        "tools": written_tools(asked.tools, origin=asked.origin),
        "top_logprobs": asked.top_logprobs,
        "top_p": asked.top_p,
        "truncation": "disabled",
        "usage": None if usage is None else _usage(usage),
        "user": asked.user,
        "metadata": {} if asked.metadata is None else asked.metadata,
    }


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.input + usage.output,
    }
