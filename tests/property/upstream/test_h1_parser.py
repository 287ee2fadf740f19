"""Any cutting of an answer into pieces reads the same; mutated answers never raise."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import fuzz_client
from support.http_fuzz import fuzz

BODY = b"\xe5\x8c\x97 data: 1\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
FRAMINGS = {
    "length": (b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY, BODY, True),
    "one chunk": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), BODY, True),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%X;x=y\r\n%b\r\n" % (len(BODY[i : i + 7]), BODY[i : i + 7]) for i in range(0, len(BODY), 7))
        + b"00\r\nx: y\r\n\r\n",
        BODY,
        True,
    ),
    "close": (b"HTTP/1.1 200 OK\r\n\r\n" + BODY, BODY, False),
    "old": (b"HTTP/1.0 200 OK\r\nx: y\r\n\r\n" + BODY, BODY, False),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "informational": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\na: b\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
        b"x",
        True,
    ),
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_split_point_of_every_framing_gives_the_same_body(framing: str) -> None:
    answer, body, keeps_alive = FRAMINGS[framing]
    for at in range(len(answer) + 1):
        reading = fuzz_client.read([answer[:at], answer[at:]])
        assert (reading.body, reading.is_complete, reading.keeps_alive) == (body, True, keeps_alive)


@given(st.sampled_from(sorted(FRAMINGS)), st.lists(st.integers(0, 400)))
def test_any_cutting_gives_the_same_body(framing: str, places: list[int]) -> None:
    answer, body, keeps_alive = FRAMINGS[framing]
    bounds = [0, *sorted(min(place, len(answer)) for place in places), len(answer)]
    reading = fuzz_client.read([answer[begin:end] for begin, end in itertools.pairwise(bounds)])
    assert (reading.body, reading.is_complete, reading.keeps_alive) == (body, True, keeps_alive)


@given(st.sampled_from(sorted(FRAMINGS)), st.data())
def test_what_is_cut_off_is_never_complete_unless_only_the_end_could_tell(framing: str, data: st.DataObject) -> None:
    answer, body, _ = FRAMINGS[framing]
    reading = fuzz_client.read([answer[: data.draw(st.integers(0, len(answer) - 1))]])
    assert body.startswith(reading.body)
    assert reading.is_complete is (framing in ("close", "old") and reading.status == 200)


@given(st.binary(), st.binary())
def test_any_bytes_end_in_an_answer_or_a_fault(one: bytes, other: bytes) -> None:
    reading = fuzz_client.read([b"HTTP/1.1 200 OK\r\n" + one, other])
    assert reading.is_complete is (reading.fault is None)


@given(st.integers())
def test_mutated_answers_are_read_alike_however_they_are_cut_and_as_h11_reads_them(seed: int) -> None:
    assert fuzz_client.run(20, seed).complaints == []


async def test_answers_mutated_further_are_read_alike_too() -> None:
    target = fuzz_client.AnswerTarget()
    await fuzz(target, cases=3000, seed=1)
    assert target.compared > 300
