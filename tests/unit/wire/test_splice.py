"""Changing a body's model and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.errors import ClientFault
from gomodel_trio.wire.splice import remove_provider, rewrite, swap_model
from gomodel_trio.wire.view import decode_envelope

VECTORS = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "splice.json").read_text())["cases"]


def _rewrite(case: dict[str, Any]) -> bytes:
    return rewrite(case["body"].encode(), model=case.get("model"), drop_provider=case.get("drop_provider", False))


@pytest.mark.parametrize("case", [case for case in VECTORS if case["expect"] is not None], ids=lambda case: case["name"])
def test_exactly_the_bytes_in_question_change(case: dict[str, Any]) -> None:
    assert _rewrite(case) == case["expect"].encode()


@pytest.mark.parametrize(
    "case", [case for case in VECTORS if case["expect"] is not None and "model" in case], ids=lambda case: case["name"]
)
def test_a_value_that_is_known_already_changes_nothing(case: dict[str, Any]) -> None:
    body = case["body"].encode()
    try:
        was = decode_envelope(body).members.model
    except ClientFault:
        pytest.skip("the gateway refuses such a body")

    assert rewrite(body, model=case["model"], drop_provider=case.get("drop_provider", False), was=was) == case["expect"].encode()


@pytest.mark.parametrize("case", [case for case in VECTORS if case["expect"] is None], ids=lambda case: case["name"])
def test_a_body_that_cannot_be_spliced_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        _rewrite(case)


def test_bytes_that_are_no_utf8_pass() -> None:
    assert swap_model(b'{"x":"\xff","\xfe":"\xc0","model":"a"}', "b") == b'{"x":"\xff","\xfe":"\xc0","model":"b"}'


def test_an_escaped_key_that_breaks_off_is_no_key_of_ours() -> None:
    assert swap_model(b'{"\\ud83d":1,"model":"a"}', "b") == b'{"\\ud83d":1,"model":"b"}'


def test_nesting_deeper_than_any_recursion_passes() -> None:
    inner = b"[" * 5000 + b"{}" + b"]" * 5000

    assert swap_model(b'{"x":%b,"model":"a"}' % inner, "b") == b'{"x":%b,"model":"b"}' % inner


def test_the_provider_alone_can_be_removed() -> None:
    assert remove_provider(b'{"provider":"p","n":1.0}') == b'{"n":1.0}'
