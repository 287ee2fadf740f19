"""The chunked coding: whole, in pieces, and broken."""

import pytest

from gomodel_trio.listen.h1_chunks import ChunkedDecoder
from gomodel_trio.listen.h1_parser import Refusal

WHOLE = b"3\r\nabc\r\n00A;x=y; z\r\n0123456789\r\n0\r\nx-sum: 1\r\nother:\r\n\r\n"


def test_a_body_is_decoded_and_what_follows_it_kept() -> None:
    decoder = ChunkedDecoder()
    assert decoder.feed(WHOLE + b"GET /") == b"abc0123456789"
    assert decoder.is_complete
    assert decoder.rest == b"GET /"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_cut_of_the_pieces_does_not_matter(size: int) -> None:
    decoder = ChunkedDecoder()
    body = b"".join(decoder.feed(WHOLE[at : at + size]) for at in range(0, len(WHOLE), size))
    assert (body, decoder.is_complete, decoder.rest) == (b"abc0123456789", True, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1\t;x\r\n",
        b"1_0\r\n",
        b"g\r\n",
        b"\r\n",
        b"1\n",
        b"\n",
        b"1\ra\r\n",
        b"1;\x00\r\n",
        b"1;a\rb\r\n",
        b"f" * 16 + b"\r\n",
        b"0" * 17 + b"1\r\n",
        b"1;" + b"x" * 5000,
        b"3\r\nabcd\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc\rx",
        b"0\r\nx y: 1\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n",
        b"0\r\ncontent-length:: v\r\n",
        b"0\r\nhost: x\r\n",
        b"0\r\n folded\r\n",
        b"0\r\nx: 1\n\r\n",
        b"0\r\n" + b"x: " + b"y" * 5000,
        b"0\r\n" + b"x: y\r\n" * 5000,
        b"".join(b"1;" + b"x" * 1000 + b"\r\na\r\n" for _ in range(20)),
    ],
)
def test_what_is_broken_or_mostly_framing_is_refused(data: bytes) -> None:
    def decode() -> None:
        decoder = ChunkedDecoder()
        for at in range(0, len(data), 100):
            decoder.feed(data[at : at + 100])
        decoder.feed(b"\r\n")

    with pytest.raises(Refusal) as caught:
        decode()
    assert caught.value.status == 400


def test_many_small_chunks_are_no_excess() -> None:
    decoder = ChunkedDecoder()
    assert decoder.feed(b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n") == b"a" * 10_000
