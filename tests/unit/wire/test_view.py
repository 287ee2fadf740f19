"""The envelope of a body and the view that is scored."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.errors import ClientFault
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import ScoredView, decode_envelope, require_model, scored_view

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "spec/vectors/scoring/bodies.json").read_text())


def body_of(case: dict[str, Any]) -> bytes:
    text = case["body"] if "body" in case else "".join(part * times for part, times in case["repeat"])
    return str(text).encode()


def name_of(case: dict[str, Any]) -> str:
    return repr(case.get("body") or case.get("repeat"))[:60]


def view(request: bytes, api: Api = Api.CHAT) -> ScoredView:
    return scored_view(decode_envelope(request), api)


@pytest.mark.parametrize("case", VECTORS["refused"], ids=name_of)
def test_an_unsound_body_is_refused_by_name(case: dict[str, Any]) -> None:
    with pytest.raises(ClientFault) as caught:
        decode_envelope(body_of(case))
    assert (caught.value.status, caught.value.code, caught.value.kind) == (400, "invalid_json", "invalid_request_error")
    assert case["says"] in caught.value.message


@pytest.mark.parametrize("case", VECTORS["read"], ids=name_of)
def test_a_sound_body_is_read(case: dict[str, Any]) -> None:
    body = body_of(case)
    envelope = decode_envelope(body)
    assert envelope.model == case["model"]
    assert len(envelope.readable) == len(body)


@pytest.mark.parametrize(
    "body", [b'{"a":"\xff"}', b'{"\xc0\x80":1}', b'{"messages":"\xed\xa0\x80"}', "{}".encode("utf-16"), b'{"a":"\xe4\xb8"}']
)
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(ClientFault, match="not valid UTF-8"):
        decode_envelope(body)


def test_a_body_without_lone_surrogates_is_readable_itself() -> None:
    body = b'{"model":"\\ud83d\\ude00"}'
    assert decode_envelope(body).readable is body


def test_lone_surrogates_are_read_as_replacement_characters() -> None:
    envelope = decode_envelope(b'{"messages":[{"role":"user","content":"\\ud800 \\uDBFF\\u0041 \\\\ud800 \\ud83d\\ude00"}]}')
    assert envelope.readable == b'{"messages":[{"role":"user","content":"\\ufffd \\ufffd\\u0041 \\\\ud800 \\ud83d\\ude00"}]}'
    assert scored_view(envelope, Api.CHAT).texts == ["\ufffd \ufffdA \\ud800 😀"]


def test_a_surrogate_escape_does_not_excuse_other_faults() -> None:
    with pytest.raises(ClientFault, match="not valid JSON: object keys must be strings"):
        decode_envelope(b'{"a":"\\ud83d\\ude00",b}')


@pytest.mark.parametrize(
    ("provider", "name", "is_object"),
    [('"x"', "x", False), ('{"order":[]}', None, True), ("null", None, False), ("5", None, False), ('""', "", False)],
)
def test_a_provider_is_a_name_or_the_upstreams_own(provider: str, name: str | None, is_object: bool) -> None:
    envelope = decode_envelope(b'{"provider": ' + provider.encode() + b"}")
    assert (envelope.provider, envelope.has_provider_object) == (name, is_object)


@pytest.mark.parametrize(("stream", "expect"), [("true", True), ("false", False), ("1", False), ('"true"', False), ("null", False)])
def test_only_a_literal_true_asks_for_a_stream(stream: str, expect: bool) -> None:
    assert decode_envelope(b'{"stream" :' + stream.encode() + b" }").stream is expect


@pytest.mark.parametrize("body", [b"{}", b'{"model":""}', b'{"model":null}', b'{"model":["m"]}', b'{"model":"m","model":1}'])
def test_a_body_without_a_models_name_is_refused(body: bytes) -> None:
    with pytest.raises(ClientFault) as caught:
        require_model(decode_envelope(body))
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "missing_model", "model")


def test_the_models_name_is_told() -> None:
    assert require_model(decode_envelope(b'{"model":"m"}')) == "m"


def test_an_absent_member_is_nothing() -> None:
    envelope = decode_envelope(b"{}")
    assert (envelope.provider, envelope.has_provider_object, envelope.stream) == (None, False, False)
    assert scored_view(envelope, Api.RESPONSES) == ScoredView([], [], 0, 0, 0, 0, (), (), None, None)


def test_numbers_beyond_every_machine_type_are_no_obstacle() -> None:
    digits = b"9" * 4000
    got = view(
        b'{"messages":[{"role":"user","content":["a",{"type":"text","text":"b","x":1e999}],"y":[' + digits + b"]},7],"
        b'"system":[{"type":"text","text":"cd","x":1e999}],"thinking":{"type":1e999}}',
        Api.MESSAGES,
    )
    assert (got.texts, got.user_turns, got.char_count, got.item_count, got.thinking_type) == (["a", "b"], [["a", "b"]], 4, 2, None)


def test_the_last_of_several_copies_counts() -> None:
    got = view(b'{"messages":7,"messages":[{"role":"x","role":"user","content":1,"content":"b"}],"thinking":{"type":"a","type":"b"}}')
    assert (got.user_turns, got.thinking_type) == ([["b"]], "b")


@pytest.mark.parametrize("member", ["model", "provider"])
def test_a_name_longer_than_any_that_is_kept_is_refused(member: str) -> None:
    longest = json.dumps({"model": "m", member: "x" * 512}).encode()
    assert require_model(decode_envelope(longest))
    with pytest.raises(ClientFault, match=f"`{member}` is 513 characters long") as refused:
        require_model(decode_envelope(longest.replace(b"xx", b"xxx", 1)))
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "name_too_long", member)
