"""Heads of answers: complete, and impossible to split."""

import json
import re

import pytest

from gomodel_trio.listen.h1_head import declared_bytes, encode_error, encode_head


def lines(status: int, *headers: tuple[bytes, bytes], framing: bytes = b"") -> list[bytes]:
    head = encode_head(status, list(headers), framing)
    assert head.endswith(b"\r\n\r\n")
    return head[:-4].split(b"\r\n")


def test_a_head_has_status_headers_date_and_framing() -> None:
    found = lines(200, (b"content-type", b"a/b"), (b"X-Y", b"1"), framing=b"content-length: 3\r\n")
    assert found[:3] == [b"HTTP/1.1 200 OK", b"content-type: a/b", b"x-y: 1"]
    assert re.fullmatch(rb"date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", found[3])
    assert found[4:] == [b"content-length: 3"]


@pytest.mark.parametrize(
    ("status", "line"),
    [(404, b"404 Not Found"), (529, b"529 Server Error"), (299, b"299 Success"), (399, b"399 Redirection"), (799, b"799 Unknown")],
)
def test_every_status_has_a_reason(status: int, line: bytes) -> None:
    assert lines(status)[0] == b"HTTP/1.1 " + line


@pytest.mark.parametrize("status", [0, 100, 101, 199, 1000, -200])
def test_what_ends_no_exchange_is_no_status(status: int) -> None:
    with pytest.raises(ValueError, match="no status"):
        encode_head(status, [], b"")


def test_control_characters_in_values_become_blanks() -> None:
    found = lines(200, (b"a", b"1\r\nset-cookie: x"), (b"b", b"\x00\x7f\tz"), (b"c", b"\n"), (b"d", b"good"))
    assert found[1:5] == [b"a: 1  set-cookie: x", b"b:   \tz", b"c:  ", b"d: good"]


@pytest.mark.parametrize("name", [b"", b"a b", b"a:b", b"a\r\nb", b"\xff", b"Connection", b"TRANSFER-ENCODING", b"content-length", b"date"])
def test_names_that_are_none_or_the_servers_own_are_left_out(name: bytes) -> None:
    assert len(lines(200, (name, b"1"))) == 2


@pytest.mark.parametrize(
    ("values", "declared"),
    [([], None), ([b"0"], 0), ([b"12"], 12), ([b"12", b"12"], None), ([b"+1"], None), ([b""], None), ([b"9" * 19], None)],
)
def test_a_declared_length_is_taken_where_it_is_clear(values: list[bytes], declared: int | None) -> None:
    assert declared_bytes([(b"content-length", value) for value in values]) == declared


@pytest.mark.parametrize(("status", "kind"), [(400, "invalid_request_error"), (501, "invalid_request_error"), (503, "api_error")])
def test_an_error_is_a_whole_closing_answer(status: int, kind: str) -> None:
    head, _, body = encode_error(status, "No.").partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"
    assert json.loads(body) == {"type": "error", "error": {"message": "No.", "type": kind, "param": None, "code": None}}
