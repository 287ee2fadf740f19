"""Token counts as the providers report them, in one shape.

Layer: wire. Source: the OpenAI and Anthropic API references; behaviour.md §8 (tokens and cost).
"""

from typing import Any

import msgspec

_MOST = 1 << 53
"""A count beyond what JSON numbers hold exactly is noise."""


class Usage(msgspec.Struct, frozen=True):
    """What an answer cost in tokens; None where the provider does not say.

    `input_tokens` is everything that was read, so it includes `cached_tokens` (read from a prompt cache) and `cache_write_tokens`
    (Anthropic's own field leaves both out, and so does Converse's). `output_tokens` includes `reasoning_tokens`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


def read_usage(raw: object) -> Usage | None:
    """Read a `usage` object of any dialect; None if it is none or names no count."""
    if not isinstance(raw, dict):
        return None
    input_tokens = _count(raw, "prompt_tokens", "input_tokens", "inputTokens")
    input_details = _object(raw, "prompt_tokens_details", "input_tokens_details")
    output_details = _object(raw, "completion_tokens_details", "output_tokens_details")
    read = _count(raw, "cache_read_input_tokens", "cacheReadInputTokens")
    written = _count(raw, "cache_creation_input_tokens", "cacheWriteInputTokens")
    if input_tokens is not None and "prompt_tokens" not in raw:
        input_tokens += (read or 0) + (written or 0)
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=_count(raw, "completion_tokens", "output_tokens", "outputTokens"),
        cached_tokens=_first(read, _count(input_details, "cached_tokens"), _count(raw, "prompt_cache_hit_tokens", "cached_tokens")),
        cache_write_tokens=_first(written, _count(input_details, "cache_write_tokens")),
        reasoning_tokens=_first(_count(output_details, "reasoning_tokens", "thinking_tokens"), _count(raw, "reasoning_tokens")),
    )
    return usage if usage != _NOTHING else None


def _first(*counts: int | None) -> int | None:
    for count in counts:
        if count is not None:
            return count
    return None


def _count(raw: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = raw.get(name)
        if type(value) is int and 0 <= value < _MOST:  # a bool is none
            return value
    return None


def _object(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = raw.get(name)
        if isinstance(value, dict):
            return value
    return {}


_NOTHING = Usage()
