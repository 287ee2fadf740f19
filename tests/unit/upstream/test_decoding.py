"""Content codings, read beside the relay."""

import gzip
import zlib

import pytest

from gomodel_trio.upstream import decoding
from gomodel_trio.upstream.decoding import RATIO_FREE_BYTES, STEP_BYTES, Inflate, decoder_for, inflate_whole

TEXT = b"data: hello\n\n" * 50


def raw_deflate(data: bytes) -> bytes:
    packed = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packed.compress(data) + packed.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [(None, TEXT), ("identity", TEXT), ("gzip", gzip.compress(TEXT)), ("deflate", zlib.compress(TEXT)), ("deflate", raw_deflate(TEXT))],
)
def test_any_splitting_of_a_coded_answer_decodes_to_the_same_bytes(coding: str | None, body: bytes) -> None:
    for size in (1, 7, len(body)):
        decoder = decoder_for(coding)
        assert decoder is not None
        assert b"".join(piece for at in range(0, len(body), size) for piece in decoder.pieces(body[at : at + size])) == TEXT


def test_a_damaged_body_gives_nothing_and_does_not_raise() -> None:
    decoder = decoder_for("gzip")
    assert decoder is not None
    assert list(decoder.pieces(b"no gzip at all")) == []
    assert list(decoder.pieces(b"more")) == []
    assert not decoder.is_given_up


def test_a_body_of_several_members_is_read_as_one() -> None:
    body = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"end")
    for size in (1, 5, len(body)):
        decoder = Inflate(is_gzip=True)
        assert b"".join(piece for at in range(0, len(body), size) for piece in decoder.pieces(body[at : at + size])) == TEXT + b"end"


@pytest.mark.parametrize(("coding", "body"), [("gzip", gzip.compress(TEXT)), ("deflate", zlib.compress(TEXT))])
def test_what_follows_behind_the_end_is_neither_read_nor_kept(coding: str, body: bytes) -> None:
    decoder = decoder_for(coding)
    assert isinstance(decoder, Inflate)
    assert b"".join(decoder.pieces(body + b"tail")) == TEXT
    for _ in range(100):
        assert list(decoder.pieces(b"x" * 65_536)) == []
    assert decoder._machine is None
    assert len(decoder._head) <= 1
    assert not decoder.is_given_up


def test_a_long_answer_comes_in_steps_that_each_cost_little() -> None:
    text = b"".join(b"data: %d\n\n" % (number * 7919 % 1_000_003) for number in range(100_000))
    pieces = list(Inflate(is_gzip=True).pieces(gzip.compress(text)))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= STEP_BYTES


def test_a_bomb_is_given_up_beyond_the_ratio() -> None:
    decoder = Inflate(is_gzip=True)
    total = sum(map(len, decoder.pieces(gzip.compress(b"\n" * 20_000_000))))
    assert decoder.is_given_up
    assert RATIO_FREE_BYTES < total < 200 * 16_384 + 2 * STEP_BYTES
    assert list(decoder.pieces(b"more")) == []


def test_a_short_answer_may_shrink_as_much_as_it_likes() -> None:
    decoder = Inflate(is_gzip=True)
    assert sum(map(len, decoder.pieces(gzip.compress(b"\n" * RATIO_FREE_BYTES)))) == RATIO_FREE_BYTES
    assert not decoder.is_given_up


def test_an_answer_is_given_up_beyond_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_PLAIN_BYTES", 200_000)
    decoder = Inflate(is_gzip=False)
    assert sum(map(len, decoder.pieces(zlib.compress(bytes(range(256)) * 2000)))) == 4 * STEP_BYTES
    assert decoder.is_given_up


def test_members_without_end_are_given_up() -> None:
    decoder = Inflate(is_gzip=True)
    assert list(decoder.pieces(gzip.compress(b"") * 1024)) == []
    assert not decoder.is_given_up
    assert list(decoder.pieces(gzip.compress(b"late"))) == []
    assert decoder.is_given_up


def test_an_unknown_coding_has_no_decoder() -> None:
    assert decoder_for("br") is None


@pytest.mark.parametrize(
    ("coding", "body"), [("gzip", gzip.compress(TEXT)), ("deflate", zlib.compress(TEXT)), ("deflate", raw_deflate(TEXT))]
)
def test_a_whole_body_inflates_up_to_the_limit(coding: str, body: bytes) -> None:
    assert inflate_whole(body, coding, len(TEXT)) == TEXT
    assert inflate_whole(body, coding, len(TEXT) - 1) is None


def test_a_bomb_is_refused_without_being_inflated() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    assert inflate_whole(bomb, "gzip", 1_000_000) is None


@pytest.mark.parametrize("body", [b"", b"garbage", gzip.compress(TEXT)[:-4], gzip.compress(TEXT) + b"tail"])
def test_a_damaged_unfinished_or_padded_body_is_refused(body: bytes) -> None:
    assert inflate_whole(body, "gzip", 10_000) is None


def test_a_whole_body_without_a_coding_has_the_same_limit() -> None:
    assert inflate_whole(TEXT, "identity", len(TEXT)) == TEXT
    assert inflate_whole(TEXT, "identity", len(TEXT) - 1) is None


def test_a_whole_body_in_an_unknown_coding_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        inflate_whole(TEXT, "br", 10_000)


def test_a_damaged_deflate_body_is_refused_either_way() -> None:
    assert inflate_whole(b"\xff\xff\xff", "deflate", 10_000) is None
