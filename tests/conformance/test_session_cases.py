"""The shared cases: every session of `sessions.json`, every recorded request of real clients."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.session import SessionDetector, SessionRules
from gomodel_trio.wire.dialect import API_BY_PATH

SHARED = Path(os.environ.get("GOMODEL_TRIO_SHARED") or Path(__file__).parents[3] / "shared")
CASES = SHARED / "cases" / "sessions.json"
CAPTURES = SHARED / "cases" / "captures"
DETECTOR = SessionDetector(SessionRules())

pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")


def _load(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}


def _body(case: dict[str, Any]) -> bytes:
    return case["body_text"].encode() if "body_text" in case else json.dumps(case["body"]).encode()


def _headers(pairs: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in pairs]


@pytest.mark.parametrize("case", _load(CASES).get("cases", []), ids=lambda case: case["name"])
def test_the_session_is_the_expected_one(case: dict[str, Any]) -> None:
    api = API_BY_PATH.get(case["path"])

    found = DETECTOR.detect(_headers(case["headers"].items()), _body(case), api, case["user_path"])

    assert (found or "") == case["expect"]


@pytest.mark.parametrize("folder", sorted(CAPTURES.glob("*/")), ids=lambda folder: folder.name)
def test_recorded_clients_are_recognised_and_grouped(folder: Path) -> None:
    found_of_group: dict[int, set[str | None]] = {}
    for expected in _load(folder / "expected.json"):
        if "api" not in expected:
            continue
        capture = _load(folder / expected["file"])
        api = API_BY_PATH[expected["path"].partition("?")[0]]
        assert api == expected["api"]
        found = DETECTOR.detect(_headers(capture["headers"]), _body(capture), api, "")
        if expected["session"] is not None:
            assert found == expected["session"], expected["file"]
        elif "automatic_group" in expected:
            assert found is None or found.startswith("auto-"), expected["file"]
            found_of_group.setdefault(expected["automatic_group"], set()).add(found)
        else:
            assert found is None, expected["file"]

    assert all(len(ids) == 1 and None not in ids for ids in found_of_group.values())
    assert len(set.union(set(), *found_of_group.values())) == len(found_of_group)
