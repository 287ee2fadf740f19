"""Scoring takes any JSON: it does not raise, it is deterministic, and its score is in range."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gomodel_trio.route.diagnostics import find_diagnostic
from gomodel_trio.route.folding import fold
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.policy import SmartRouting
from gomodel_trio.route.score import LARGEST_SCORE, score_request
from gomodel_trio.route.user_words import own_words
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope

MATCHER = compile_keywords()
SMART = SmartRouting()
WORDS = ["user", "system", "assistant", "tool", "text", "input_text", "image", "tool_result", "message", "reasoning", "json_schema", "high"]
KEYS = ["role", "content", "type", "text", "output", "input", "format", "effort", "mode", "stdout", "tool_calls"]
MEMBERS = [
    *["model", "provider", "stream", "messages", "input", "system", "instructions", "tools", "functions", "mcp_servers"],
    *["response_format", "text", "output_format", "output_config", "reasoning_effort", "reasoning", "thinking"],
]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8), st.sampled_from(WORDS)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
REQUESTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=6)
MARKUP = st.lists(
    st.sampled_from(["`", "``", "```", "~~~", "\n", " ", ">", "a", "at ", "#1 ", "<system-reminder>", "</system-reminder>"])
).map("".join)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(request=REQUESTS, api=st.sampled_from([Api.CHAT, Api.RESPONSES, Api.MESSAGES]))
def test_any_json_is_scored_without_raising(request: dict[str, Any], api: Api) -> None:
    body = json.dumps(request).encode()
    verdict = score_request(decode_envelope(body), api, SMART, MATCHER)
    assert 0 <= verdict.score <= LARGEST_SCORE
    assert verdict.score == sum(one.points for one in verdict.contributions)
    assert verdict == score_request(decode_envelope(body), api, SMART, MATCHER)


@given(text=MARKUP)
def test_own_words_are_never_longer_than_the_text_and_hold_no_closed_reminder(text: str) -> None:
    words = own_words(text)
    assert len(words) <= len(text) + 1
    find_diagnostic([text])


@given(text=MARKUP)
def test_words_behind_a_closed_paragraph_are_kept(text: str) -> None:
    plain = text.replace("`", "").replace("~", "").replace(">", "")
    assert "step by step" in own_words(plain + "\nstep by step")


@given(text=st.text())
def test_folding_is_idempotent_and_leaves_single_spaces(text: str) -> None:
    folded = fold(text)
    assert "  " not in folded
    assert fold(folded).isascii() or not folded.isascii()
