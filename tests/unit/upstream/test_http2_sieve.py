"""GOAWAY is taken out of what an HTTP/2 server sends."""

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame

from gomodel_trio.upstream.http2_sieve import GoawaySieve

DATA = DataFrame(1, b"content").serialize()
PING = PingFrame(0, b"01234567").serialize()


def goaway(last_id: int) -> bytes:
    return GoAwayFrame(0, last_stream_id=last_id, error_code=0, additional_data=b"why").serialize()


def test_a_goaway_is_noted_and_everything_else_passes() -> None:
    sieve = GoawaySieve()
    assert sieve.feed(DATA + goaway(7) + PING) == DATA + PING
    assert sieve.last_id == 7


def test_frames_may_come_in_any_pieces() -> None:
    sent = DATA + goaway(7) + PING + goaway(3) + DATA
    for size in range(1, len(sent)):
        sieve = GoawaySieve()
        passed = b"".join(sieve.feed(sent[start : start + size]) for start in range(0, len(sent), size))
        assert (passed, sieve.last_id) == (DATA + PING + DATA, 3)


def test_a_later_goaway_may_only_lower_the_last_stream() -> None:
    sieve = GoawaySieve()
    assert sieve.last_id is None
    sieve.feed(goaway(2**31 - 1))
    assert sieve.last_id == 2**31 - 1
    sieve.feed(goaway(5) + goaway(9))
    assert sieve.last_id == 5


def test_a_goaway_too_short_to_be_one_refuses_every_stream() -> None:
    sieve = GoawaySieve()
    assert sieve.feed(b"\x00\x00\x00\x07\x00\x00\x00\x00\x00") == b""
    assert sieve.last_id == 0


@pytest.mark.parametrize("head", [b"\xff\xff\xff", b"\x00\x40\x01\x00\x00\x00\x00\x00\x01", b"\x00\x40\x01\x07\x00\x00\x00\x00\x00"])
def test_a_frame_larger_than_any_may_be_is_refused_at_its_first_bytes(head: bytes) -> None:
    with pytest.raises(ValueError, match="overlong"):
        GoawaySieve().feed(head)
    sieve = GoawaySieve()
    assert sieve.feed(b"\x00\x40\x00\x00\x00\x00\x00\x00\x01") == b"\x00\x40\x00\x00\x00\x00\x00\x00\x01"
