"""The names that routing works with, as types.

Layer: route. Source: behaviour.md §0.
"""

from enum import StrEnum
from typing import NewType

TargetId = NewType("TargetId", str)
"""A target's qualified name, `provider/model`."""

SessionId = NewType("SessionId", str)
LeaseId = NewType("LeaseId", int)


class Tier(StrEnum):
    """What an alias is split into."""

    EASY = "easy"
    HARD = "hard"


class Kind(StrEnum):
    """How the answer comes; latency estimates are kept apart by it."""

    STREAM = "stream"
    UNARY = "unary"


def target_id(provider: str, model: str) -> TargetId:
    """The qualified name of `model` at `provider`."""
    return TargetId(f"{provider}/{model}")


def split_target(target: TargetId) -> tuple[str, str]:
    """The provider's name and the model of a qualified name; the model may hold slashes."""
    provider, _, model = target.partition("/")
    return provider, model
