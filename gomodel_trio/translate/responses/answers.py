"""Whole answers, both ways.

Layer: translate; pure. Source: OpenAI API reference (responses: the response object).
"""

from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import Answer, Part, Reasoning, Refusal, Request, StopReason, Text, TokenUsage, ToolCall
from gomodel_trio.translate.fields import encoded, text_of
from gomodel_trio.translate.responses.items import thoughts
from gomodel_trio.translate.responses.output import grouped, id_stem, item_id, outcome_of, output_item, response_object
from gomodel_trio.translate.responses.sealed import unsealed
from gomodel_trio.wire.lenient_json import decode_any
from gomodel_trio.wire.usage import read_usage

_INCOMPLETE: Final = {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}


def read_answer(body: bytes) -> Answer:
    """Read a response. Items of tools that run at the provider are left out: none was asked for.

    Raises:
        ValueError: it is no response, or a failed one.
    """
    found = decode_any(body)
    if not isinstance(found, dict) or not isinstance(found.get("output"), list):
        raise ValueError("no response object")
    if found.get("status") in ("failed", "cancelled"):
        raise ValueError("the response has failed")
    parts = tuple(part for item in found["output"] for part in item_parts(item))
    return Answer(
        id=text_of(found.get("id")),
        model=text_of(found.get("model")),
        parts=parts,
        stop=stop_of(found, parts),
        usage=usage_of(found.get("usage")),
        created_s=seconds_of(found.get("created_at")),
        service_tier=text_of(found.get("service_tier")) or None,
    )


def write_answer(answer: Answer, *, asked: Request, now_epoch_s: int) -> bytes:
    """Write a response to `asked`."""
    created_s = answer.created_s or now_epoch_s
    stem = id_stem(answer.id, created_s)
    outcome = outcome_of(answer.stop, has_refusal=any(isinstance(part, Refusal) for part in answer.parts))
    groups = grouped(part for part in answer.parts if isinstance(part, Text | Refusal | Reasoning | ToolCall))
    output = []
    for index, parts in enumerate(groups):
        status = outcome.last_item_status if index == len(groups) - 1 else "completed"
        output.append(output_item(parts, item_id(parts[0], stem, index), status, asked.namespaced))
    response = response_object(
        asked,
        stem=stem,
        model=answer.model,
        created_s=created_s,
        outcome=outcome,
        output=output,
        usage=answer.usage,
        service_tier=answer.service_tier,
    )
    return encoded(response)


# ---- what a response holds, as decoded JSON of whatever shape -------------------------------------------------------


def item_parts(item: Any) -> list[Part]:
    """The parts of an output item; none for kinds that say nothing here."""
    if not isinstance(item, dict):
        return []
    match item.get("type"):
        case "message":
            content = item.get("content")
            parts = (content_of(part) for part in content) if isinstance(content, list) else ()
            return [part for part in parts if part is not None]
        case "reasoning":
            part = reasoning_of(item)
            return [part] if part.text or part.signature or part.redacted else []
        case "function_call":
            return [call_of(item)]
    return []


def content_of(part: Any) -> Text | Refusal | None:
    """A message's content part."""
    if not isinstance(part, dict):
        return None
    match part.get("type"):
        case "output_text" | "text":
            return Text(text_of(part.get("text")), logprobs=logprobs_of(part.get("logprobs")))
        case "refusal":
            return Refusal(text_of(part.get("refusal")))
    return None


def reasoning_of(item: dict[str, Any]) -> Reasoning:
    """A reasoning item: its summary, or else its thoughts as they were."""
    text = _texts(item.get("summary")) or _texts(item.get("content"))
    return unsealed(text, text_of(item.get("encrypted_content")) or None, text_of(item.get("id")) or None)


def call_of(item: dict[str, Any]) -> ToolCall:
    """A function call's item."""
    call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
    return ToolCall(call_id, text_of(item.get("name")), text_of(item.get("arguments")))


def stop_of(response: Any, parts: tuple[Part, ...]) -> StopReason:
    """Why the model stopped: of an incomplete response what it says, else what its parts say."""
    response = response if isinstance(response, dict) else {}
    details = response.get("incomplete_details")
    if response.get("status") == "incomplete" or details:
        reason = details.get("reason") if isinstance(details, dict) else None
        return _INCOMPLETE.get(text_of(reason), StopReason.END)
    if any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_CALLS
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else StopReason.END


def usage_of(raw: Any) -> TokenUsage | None:
    """The tokens of a `usage` object."""
    usage = read_usage(raw)
    if usage is None:
        return None
    return TokenUsage(
        input=usage.input_tokens or 0,
        output=usage.output_tokens or 0,
        cache_read=usage.cached_tokens,
        cache_write=usage.cache_write_tokens,
        reasoning=usage.reasoning_tokens,
    )


def logprobs_of(raw: Any) -> msgspec.Raw | None:
    """A list of logprobs as JSON; None if it is none, or empty."""
    if not isinstance(raw, list) or not raw:
        return None
    try:
        return msgspec.Raw(msgspec.json.encode(raw))
    except UnicodeEncodeError:
        return None


def seconds_of(raw: Any) -> int:
    """Epoch seconds; 0 for anything else."""
    return int(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) and 0 <= raw < 1 << 40 else 0


def _texts(raw: Any) -> str:
    if not isinstance(raw, list):
        return ""
    return thoughts(text_of(part.get("text")) for part in raw if isinstance(part, dict))
