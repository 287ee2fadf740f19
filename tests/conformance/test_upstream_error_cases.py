"""Every recorded upstream error gets the class and the failover it should (HTTP and event streams; transports are tested elsewhere)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.classify import classify, classify_stream_end, classify_stream_fault
from gomodel_trio.route.outcome import Classification, Outcome
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for
from gomodel_trio.wire.retry_after import parse_retry_after

SHARED = Path(os.environ.get("GOMODEL_TRIO_SHARED") or Path(__file__).parents[2].parent / "shared")
ERRORS = SHARED / "cases" / "upstream-errors"
CASES = [] if not ERRORS.is_dir() else [
    pytest.param(case, id=f"{path.parent.name}/{path.stem}")
    for path in sorted(ERRORS.glob("*/*.json"))
    if (case := json.loads(path.read_text())).get("status") is not None and "raw_base64" not in case
]  # fmt: skip
ROUTING = SHARED / "cases" / "routing.json"
DELAYS = json.loads(ROUTING.read_text())["retry_after"] if ROUTING.is_file() else []
REQUEST = json.dumps(
    {"model": "smart", "messages": [{"role": "user", "content": "hello"}], "previous_response_id": "resp_abc", "max_tokens": 64}
).encode()

pytestmark = pytest.mark.skipif(not ERRORS.is_dir(), reason="the shared cases are not here")


def judge(case: dict[str, Any], chunk_bytes: int) -> Classification:
    if "sse" in case:
        observer = observer_for(Api(case["api"]))
        stream = "".join(case["sse"]).encode()
        for start in range(0, len(stream), chunk_bytes):
            observer.feed(stream[start : start + chunk_bytes])
        if not case.get("cut"):
            observer.close()
        if observer.error is not None:
            return classify_stream_fault(observer.error, request_body=REQUEST, model="m")
        return classify_stream_end(has_content=observer.has_content, has_ended=observer.has_ended)
    body = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    headers = [(name.lower().encode(), value.encode()) for name, value in case["headers"].items()]
    return classify(status=case["status"], headers=headers, body=body.encode(), request_body=REQUEST, model="m", now_epoch_s=1.8e9)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_an_upstream_error_is_judged_as_recorded(case: dict[str, Any], chunk_bytes: int) -> None:
    judged = judge(case, chunk_bytes)

    assert (judged.outcome, judged.is_failover) == (Outcome(case["expect"]["class"]), case["expect"]["failover"])


@pytest.mark.parametrize("case", DELAYS, ids=lambda case: str(case.get("name", case["header"])) or "empty")
def test_a_retry_after_header_is_read_as_recorded(case: dict[str, Any]) -> None:
    from datetime import datetime

    now = datetime.fromisoformat(case["now"]).timestamp() if "now" in case else 1.8e9
    header = case.get("name", "retry-after").encode()

    assert parse_retry_after([(header, case["header"].encode())], now) == case["seconds"]
