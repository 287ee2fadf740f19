"""Retry-After in all its forms, from the vectors."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.wire.faults import Fault
from gomodel_trio.wire.retry_after import parse_retry_after

CASES = json.loads((Path(__file__).parents[3] / "spec" / "vectors" / "retry_after.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_wait_is_read_as_the_vectors_say(case: dict[str, Any]) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in case["headers"].items()]
    fault = Fault(retry_after_s=case["body_delay_s"]) if case["body_delay_s"] is not None else None

    assert parse_retry_after(headers, datetime.fromisoformat(case["now"]).timestamp(), fault) == case["seconds"]


def test_the_first_of_several_headers_counts() -> None:
    assert parse_retry_after([(b"via", b"x"), (b"retry-after", b"5"), (b"retry-after", b"9")], 0.0) == 5.0


def test_a_fault_without_a_delay_adds_nothing() -> None:
    assert parse_retry_after([], 0.0, Fault(message="later")) is None


def test_a_clock_out_of_range_is_no_error() -> None:
    assert parse_retry_after([(b"retry-after", b"Thursday, 04-Mar-27 05:06:45 GMT")], 1e300) is None
