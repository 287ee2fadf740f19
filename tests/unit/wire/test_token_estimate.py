"""Estimated tokens are within a tenth of a real tokenizer's on ordinary text (vectors: spec/vectors/token_estimate.json)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gomodel_trio.wire.token_estimate import estimate, estimate_request
from support.shared_cases import vector

TEXTS = vector("token_estimate.json")["texts"]


@pytest.mark.parametrize("text", TEXTS, ids=[text["name"] for text in TEXTS])
def test_ordinary_text_is_estimated_within_a_tenth(text: dict[str, Any]) -> None:
    assert estimate(text["text"]) == pytest.approx(text["tokens"], rel=0.1)


def test_a_request_costs_its_texts_and_tools_and_a_little_for_each_message() -> None:
    words = TEXTS[0]["text"]
    plain = estimate_request(json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode())
    assert estimate(words) < plain < estimate(words) + 30
    tool = {"name": "get_weather", "description": words, "input_schema": {"type": "object"}}
    asked = {"model": "m", "system": words, "tools": [tool], "messages": [{"role": "user", "content": [{"type": "text", "text": words}]}]}
    assert 3 * estimate(words) < estimate_request(json.dumps(asked).encode()) < 3 * estimate(words) + 120


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["messages", "content", "tools", "system", "text"]), inner),
    max_leaves=12,
)


@given(document=JSON)
def test_any_json_is_counted_and_never_raises(document: Any) -> None:
    assert estimate_request(json.dumps(document).encode()) >= 1


@given(body=st.binary(max_size=60))
def test_any_bytes_are_counted_and_never_raise(body: bytes) -> None:
    assert estimate_request(body) >= 1
