"""What is told of JSON in a variable that ends too early, or goes on (behaviour.md §10)."""

import pytest

from gomodel_trio.config.findings import Findings
from gomodel_trio.config.json_value import parse_json_variable


def fault_of(text: str) -> str:
    findings = Findings()
    assert parse_json_variable("NAME", text, findings) is None
    (fault,) = findings.faults
    return fault.message


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"a":{"b":"c"}', "}"),
        ('["a"', "]"),
        ('{"a":["b"', "]"),
        ('{"a":"b', '"'),
        ('{"a":"}]\\n', '"'),
        ('{"a":1,', "}"),
    ],
)
def test_what_is_missing_at_the_end_is_named_and_a_cut_is_only_a_possibility(text: str, missing: str) -> None:
    assert f"it ends too early: a `{missing}` is missing, or the value was cut (systemd" in fault_of(text)


@pytest.mark.parametrize("text", ['{"a":oops}', '{"a":1}}', '["a"]]', "oops"])
def test_what_is_closed_is_not_said_to_end_too_early(text: str) -> None:
    assert "too early" not in fault_of(text)


@pytest.mark.parametrize("text", ['{"a":1} # the reason', "[1]#x", '{"a":"#"}\t#'])
def test_a_comment_behind_the_json_is_recognised(text: str) -> None:
    message = fault_of(text)
    assert "put the comment on a line of its own" in message
    assert "quotes" not in message
