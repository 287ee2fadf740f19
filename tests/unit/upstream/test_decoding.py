"""Content codings, read beside the relay."""

import gzip
import zlib

import pytest

from gomodel_trio.upstream.decoding import decoder_for, inflate_whole

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
        assert b"".join(decoder.feed(body[at : at + size]) for at in range(0, len(body), size)) == TEXT


def test_a_damaged_body_gives_nothing_and_does_not_raise() -> None:
    decoder = decoder_for("gzip")
    assert decoder is not None
    assert decoder.feed(b"no gzip at all") == b""
    assert decoder.feed(b"more") == b""


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
