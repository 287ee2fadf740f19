"""Session detection, by its vectors."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gomodel_trio.errors import ClientFault
from gomodel_trio.route.session import ExtraHeader, SessionDetector, SessionRules, detect_session
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope

VECTORS = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "sessions.json").read_text())["cases"]
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def _expected(case: dict[str, Any]) -> str | None:
    for kind, prefix in (("preimage", "auto-"), ("scope_preimage", "scoped-")):
        if kind in case:
            return prefix + hashlib.sha256(case[kind].encode()).hexdigest()[:32]
    expect: str | None = case["expect"]
    return expect


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_the_session_is_the_one_the_rules_give(case: dict[str, Any]) -> None:
    rules = msgspec.convert(case.get("rules", {}), SessionRules)
    headers = [(name.encode(), value.encode()) for name, value in case["headers"]]
    body = bytes.fromhex(case["body_hex"]) if "body_hex" in case else case["body"].encode()
    api = None if case["api"] is None else Api(case["api"])

    assert detect_session(headers, body, api, case["user_path"], rules) == _expected(case)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_the_members_of_a_body_tell_the_same_session_as_the_body(case: dict[str, Any]) -> None:
    rules = msgspec.convert(case.get("rules", {}), SessionRules)
    headers = [(name.encode(), value.encode()) for name, value in case["headers"]]
    body = bytes.fromhex(case["body_hex"]) if "body_hex" in case else case["body"].encode()
    api = None if case["api"] is None else Api(case["api"])
    try:
        members = decode_envelope(body).members
    except ClientFault:
        pytest.skip("the gateway refuses such a body")

    assert SessionDetector(rules).detect(headers, members, api, case["user_path"]) == _expected(case)


def test_a_header_that_is_no_utf8_is_read_as_latin_1() -> None:
    assert detect_session([(b"x-session-id", b"caf\xe9")], b"", Api.CHAT, "", SessionRules()) == "café"


def test_with_a_header_the_body_is_not_looked_at() -> None:
    body: Any = None

    assert SessionDetector(SessionRules()).detect([(b"session-id", b"s")], body, Api.CHAT, "") == "s"


def test_with_nothing_to_look_for_the_body_is_not_looked_at() -> None:
    body: Any = None
    rules = SessionRules(builtin_rules=False, extra_headers=(ExtraHeader("x-a"),))

    assert SessionDetector(rules).detect([], body, Api.EMBEDDINGS, "") is None


def test_a_user_path_with_lone_surrogates_is_hashed_as_replaced() -> None:
    detector = SessionDetector(SessionRules())

    assert detector.detect([(b"session-id", b"s")], b"", None, "/\udcff") == detector.detect([(b"session-id", b"s")], b"", None, "/\ufffd")
    assert detector.detect([], BODY, Api.CHAT, "/\udcff") == detector.detect([], BODY, Api.CHAT, "/\ufffd")


@pytest.mark.parametrize(
    "body",
    [
        b'{"session_id":"s","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"messages":[{"role":"user","content":' + b"9" * 5000 + b"}]}",
        b'{"messages":[' + b"[" * 900 + b"\\",
        b'{"metadata":{"user_id":"{' + b"[" * 10 + b'"}}',
        b'{"messages":[{"role":"user"',
        b"\xff\xfe{}",
    ],
)
def test_hostile_bodies_are_no_session(body: bytes) -> None:
    assert detect_session([], body, Api.CHAT, "", SessionRules()) is None
