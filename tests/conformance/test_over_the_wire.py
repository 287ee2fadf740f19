"""The shared cases through a running gateway: what clients see of session, tier, score and reason, over real sockets.

The pure parts have the same cases in `test_session_cases` and `test_scoring_cases`; here nothing between the socket and them may differ.
"""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gateway_process import GatewayProcess
from support.raw_http import Answer
from support.shared_cases import cases_folder, load_json, load_json_lines, needs_shared_cases

pytestmark = [pytest.mark.e2e, needs_shared_cases]

PATHS = {"openai.chat": "/v1/chat/completions", "openai.responses": "/v1/responses", "anthropic.messages": "/v1/messages"}
SCORED = frozenset(PATHS.values())
TIERS = {"easy": "echo/echo-small", "hard": "echo/echo-large"}
ALIASES = ("normal", "normal-easy", "claude-sonnet-4-5")
"""Every name that the captured clients ask for at a scored endpoint."""

NEVER_SENT = frozenset({"host", "content-length", "connection", "transfer-encoding", "keep-alive", "authorization", "x-api-key"})
"""What of a capture belongs to its connection, or was a credential."""

SESSION_CASES = (load_json("sessions.json") or {"cases": []})["cases"]
NAMES = {"text-embedding-3-small"} | {case["body"]["model"] for case in SESSION_CASES if "body" in case}
NAMES |= set(re.findall(r'"model": ?"([^"]+)"', " ".join(case.get("body_text", "") for case in SESSION_CASES)))
VARIABLES = {
    "ECHO_ENABLED": "true",
    "PRO_SMART_ROUTING_ROUTES": json.dumps(dict.fromkeys(ALIASES, TIERS)),
    "VIRTUAL_MODELS": json.dumps([{"source": name, "target": TIERS["easy"]} for name in sorted(NAMES - set(ALIASES))]),
}

Decision = tuple[str | None, str | None, str | None]
"""Tier, score and reason as the headers say them."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(VARIABLES, directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


def decision_of(answer: Answer) -> Decision:
    return answer.get("x-gomodel-pro-tier"), answer.get("x-gomodel-pro-tier-score"), answer.get("x-gomodel-pro-tier-reason")


def ask(gateway: GatewayProcess, api: str, request: Any, session: str) -> Decision:
    """Send a request of a session; the decision, which must be complete and lead to the tier's target."""
    body = json.dumps(request, ensure_ascii=False).encode()
    answer = gateway.exchange("POST", PATHS[api], headers={"Content-Type": "application/json", "X-Session-Id": session}, body=body)
    decision = decision_of(answer)
    assert (answer.status, answer.is_complete) == (200, True)
    assert answer.get("x-gomodel-target") == TIERS[str(decision[0])]
    return decision


def session_of(gateway: GatewayProcess, request_id: str) -> str | None:
    """The session that a request was taken for, from its log line."""
    found: str | None = gateway.wait_for_log("request", request_id=request_id).get("session")
    return found


# ---- sessions -------------------------------------------------------------------------------------------------------


def can_be_sent(case: dict[str, Any]) -> bool:
    return not any(character < " " or character == "\x7f" for value in case["headers"].values() for character in value)


@pytest.mark.parametrize("case", SESSION_CASES, ids=lambda case: case["name"])
def test_the_session_is_the_expected_one(case: dict[str, Any], gateway: GatewayProcess) -> None:
    if not can_be_sent(case):
        pytest.skip("HTTP/1.1 carries no control character in a header (RFC 9110 §5.5)")
    request_id = str(uuid.uuid4())
    headers = {**case["headers"], "X-Request-ID": request_id, "Content-Type": "application/json"}
    if case["user_path"]:
        headers["X-GoModel-User-Path"] = case["user_path"]
    body = case["body_text"].encode() if "body_text" in case else json.dumps(case["body"]).encode()
    answer = gateway.exchange("POST", case["path"], headers=headers, body=body)
    assert answer.status == (200 if is_object(body) else 400)
    assert session_of(gateway, request_id) == (case["expect"] or None)


def is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


# ---- scoring --------------------------------------------------------------------------------------------------------


def lines(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in load_json_lines(f"scoring/{name}.jsonl")]


def keywords(kind: str) -> list[str]:
    found = (load_json("scoring/keywords.json") or {}).get(kind, [])
    return [phrase for language in found for phrase in found[language]] if isinstance(found, dict) else found


def ask_with_words(gateway: GatewayProcess, words: str) -> Decision:
    return ask(gateway, "openai.chat", {"model": "normal", "messages": [{"role": "user", "content": words}]}, str(uuid.uuid4()))


@pytest.mark.parametrize("case", lines("traps"))
def test_a_trap_is_routed_as_expected(case: dict[str, Any], gateway: GatewayProcess) -> None:
    expect = case["expect"]
    tier, score, reason = ask(gateway, case["api"], case["request"], str(uuid.uuid4()))
    assert (tier, reason) == (expect["tier"], "explicit_reasoning" if expect["explicit_reasoning"] else "score")
    if expect["score"] is not None:
        assert score == str(expect["score"])


@pytest.mark.parametrize("case", [*lines("easy"), *lines("hard")])
def test_a_sample_goes_to_its_tier(case: dict[str, Any], gateway: GatewayProcess) -> None:
    assert ask(gateway, case["api"], case["request"], str(uuid.uuid4()))[0] == case["expect"]["tier"]


@pytest.mark.parametrize("words", [*keywords("phrases"), *keywords("hit")])
def test_words_of_effort_make_four_points(words: str, gateway: GatewayProcess) -> None:
    assert ask_with_words(gateway, words) == ("hard", "4", "score")


@pytest.mark.parametrize("words", keywords("miss"))
def test_other_words_make_no_point(words: str, gateway: GatewayProcess) -> None:
    tier, score, _ = ask_with_words(gateway, words)
    assert tier == "easy"
    assert score in ("0", "3")  # a miss inside of a fence is still code


@pytest.mark.parametrize("case", lines("sequences"))
def test_a_sequence_is_held_to_its_pin_in_one_session_and_judged_by_itself_in_many(case: dict[str, Any], gateway: GatewayProcess) -> None:
    session = str(uuid.uuid4())
    expected, got = [], []
    for step in case["steps"]:
        expect = step["expect"]
        is_raised = expect["tier_with_pin"] != expect["tier_alone"]
        expected.append((step["step"], expect["tier_alone"], expect["tier_with_pin"], is_raised))
        alone = ask(gateway, case["api"], step["request"], str(uuid.uuid4()))
        held = ask(gateway, case["api"], step["request"], session)
        assert held[1] == alone[1]
        got.append((step["step"], alone[0], held[0], held[2] == "session_pin"))
    assert got == expected


# ---- captures -------------------------------------------------------------------------------------------------------


def capture_folders() -> list[Path]:
    folder = cases_folder()
    return sorted(path.parent for path in folder.glob("captures/*/expected.json")) if folder is not None else []


def replay(gateway: GatewayProcess, capture: dict[str, Any]) -> tuple[Answer, str]:
    """Send a capture as it was recorded; the answer and the request's id."""
    request_id = str(uuid.uuid4())
    headers = [(name, value) for name, value in capture["headers"] if name.lower() not in NEVER_SENT]
    body = None if "body" not in capture else json.dumps(capture["body"], ensure_ascii=False).encode()
    answer = gateway.exchange(capture["method"], capture["path"], headers=[*headers, ("X-Request-ID", request_id)], body=body)
    return answer, request_id


def forced_tier(capture: dict[str, Any]) -> str | None:
    return next((value.lower() for name, value in capture["headers"] if name.lower() == "x-gomodel-tier"), None)


@pytest.mark.parametrize("folder", capture_folders(), ids=lambda folder: folder.name)
def test_a_recorded_client_gets_sessions_tiers_and_pins_as_expected(folder: Path, tmp_path: Path) -> None:
    """A process for each client: openings of two clients may be equal, and then they are one session."""
    expected, got = [], []
    pins: dict[tuple[str, str], str] = {}
    ids: dict[str, set[str | None]] = {}
    with GatewayProcess(VARIABLES, directory=tmp_path) as gateway:
        for entry in json.loads((folder / "expected.json").read_text(encoding="utf-8")):
            capture = json.loads((folder / entry["file"]).read_text(encoding="utf-8"))
            answer, request_id = replay(gateway, capture)
            if entry.get("api") is None:
                status = 404 if capture["path"].endswith("/input_tokens") else 200
                assert (entry["file"], answer.status, decision_of(answer)) == (entry["file"], status, (None, None, None))
                continue
            group = entry["session"] or (f"automatic {entry['automatic_group']}" if "automatic_group" in entry else None)
            expected.append((entry["file"], 200, *decision_expected(entry, capture, group, pins)))
            got.append((entry["file"], answer.status, *decision_of(answer)))
            assert (answer.get("content-type") or "").startswith("text/event-stream") == entry["stream"]
            session = session_of(gateway, request_id)
            ids.setdefault(group or "none", set()).add(session)
            assert entry["session"] in (None, session)
    assert got == expected
    assert ids.pop("none", {None}) == {None}
    assert all(len(found) == 1 and None not in found for found in ids.values())
    assert len(set.union(set(), *ids.values())) == len(ids)


def decision_expected(
    entry: dict[str, Any], capture: dict[str, Any], group: str | None, pins: dict[tuple[str, str], str]
) -> tuple[str, str, str]:
    """What the headers should say, and what that makes of the session's pin."""
    forced = forced_tier(capture)
    if forced is not None:
        return forced, str(entry["score"]), "forced"
    tier, reason = entry["tier_alone"], "explicit_reasoning" if entry["explicit_reasoning"] else "score"
    if group is not None:
        key = (capture["body"]["model"], group)
        if tier == "easy" and pins.get(key) == "hard":
            tier, reason = "hard", "session_pin"
        pins[key] = tier
    return tier, str(entry["score"]), reason
