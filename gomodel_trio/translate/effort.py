"""Reasoning effort in words ↔ a budget of tokens: the one table.

Layer: translate; pure. OpenAI's dialects and Anthropic's adaptive thinking take words, older Claude models and Converse a budget.
"""

from typing import Final

BUDGETS: Final = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 31_999}
"""Tokens of thought for an effort. 1 024 is the least that Anthropic takes."""

ANTHROPIC_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
"""What `output_config.effort` knows; OpenAI's `minimal` is its `low`."""

OPENAI_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
"""What `reasoning_effort` knows; Anthropic's `max` is its `xhigh`."""


def budget_of(effort: str) -> int | None:
    """The budget for an effort in words, tokens; None: no thinking, or a word nobody knows."""
    return BUDGETS.get(effort)


def effort_of(budget_tokens: int) -> str:
    """The effort that a budget stands for: the least whose budget is not smaller."""
    return next((effort for effort, budget in BUDGETS.items() if budget_tokens <= budget), "xhigh")


def openai_effort(effort: str) -> str:
    """An effort as OpenAI's dialects spell it."""
    return "xhigh" if effort == "max" else effort


def anthropic_effort(effort: str) -> str:
    """An effort as Anthropic spells it."""
    return "low" if effort in ("minimal", "none") else effort
