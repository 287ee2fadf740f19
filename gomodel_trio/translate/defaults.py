"""What a writer says where its dialect demands a value that the client did not give.

Layer: translate; pure.
"""

from typing import Final

MAX_TOKENS: Final = 32_000
"""`max_tokens` toward Anthropic, which demands one: what every current Claude model can give, and enough for long answers. A client that
wants to be sure says so itself."""

LEAST_MAX_TOKENS_BEYOND_BUDGET: Final = 4_096
"""Anthropic wants `max_tokens` above the thinking budget: so much is left for the answer where the client's own figure leaves nothing."""

JSON_OBJECT_SCHEMA: Final = b'{"type":"object"}'
"""JSON mode without a schema, toward dialects that know structured output by schema only."""

JSON_SCHEMA_NAME: Final = "response"
"""The name of a schema, where OpenAI's dialects demand one."""

MOST_ANTHROPIC_TEMPERATURE: Final = 1.0
"""OpenAI's temperatures reach 2, Anthropic's 1: hotter ones are cut."""
