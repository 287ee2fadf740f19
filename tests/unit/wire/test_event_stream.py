"""AWS's event-stream framing: whatever the split, the same messages; whatever the damage, an error and no message."""

import pytest

from gomodel_trio.wire.event_stream import MAX_MESSAGE_BYTES, Frame, FrameError, FrameParser, encode_frame

FRAMES = [
    Frame({":message-type": "event", ":event-type": "chunk"}, b'{"bytes":"e30="}'),
    Frame({}, b""),
    Frame({":exception-type": "throttlingException", "leer": "", "ü": "ä€"}, b"\x00\xff" * 700),
]
STREAM = b"".join(encode_frame(frame.headers, frame.payload) for frame in FRAMES)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11, 12, 13, 100, len(STREAM)])
def test_every_split_gives_the_same_messages(size: int) -> None:
    parser, found = FrameParser(), []
    for at in range(0, len(STREAM), size):
        found += parser.feed(STREAM[at : at + size])
    assert found == FRAMES
    assert not parser.is_mid_frame


def test_a_stream_that_ends_early_is_seen_to() -> None:
    parser = FrameParser()
    assert parser.feed(STREAM[:-1]) == FRAMES[:-1]
    assert parser.is_mid_frame


@pytest.mark.parametrize("at", range(len(encode_frame(FRAMES[0].headers, FRAMES[0].payload))))
def test_a_damaged_byte_is_an_error_and_no_message(at: int) -> None:
    damaged = bytearray(encode_frame(FRAMES[0].headers, FRAMES[0].payload))
    damaged[at] ^= 0x10
    with pytest.raises(FrameError):
        FrameParser().feed(bytes(damaged))


def test_headers_of_every_type_are_read_past() -> None:
    import struct
    import zlib

    values = {0: b"", 1: b"", 2: b"x", 3: b"xx", 4: b"xxxx", 5: b"x" * 8, 6: b"\x00\x03xyz", 8: b"x" * 8, 9: b"x" * 16}
    block = b"".join(b"\x01a" + bytes((kind,)) + value for kind, value in values.items()) + b"\x01b\x07\x00\x02ok"
    head = struct.pack("!II", 16 + len(block), len(block))
    message = head + zlib.crc32(head).to_bytes(4, "big") + block
    message += zlib.crc32(message).to_bytes(4, "big")
    assert FrameParser().feed(message) == [Frame({"b": "ok"}, b"")]


@pytest.mark.parametrize("block", [b"\x05ab", b"\x01a\x07\x00\x09short", b"\x01a\x63", b"\x01a\x07\x00\x01\xff"])
def test_headers_that_make_no_sense_are_an_error(block: bytes) -> None:
    import struct
    import zlib

    head = struct.pack("!II", 16 + len(block), len(block))
    message = head + zlib.crc32(head).to_bytes(4, "big") + block
    message += zlib.crc32(message).to_bytes(4, "big")
    with pytest.raises(FrameError):
        FrameParser().feed(message)


def test_an_absurd_length_is_an_error_at_once() -> None:
    import struct
    import zlib

    head = struct.pack("!II", MAX_MESSAGE_BYTES + 1, 0)
    with pytest.raises(FrameError):
        FrameParser().feed(head + zlib.crc32(head).to_bytes(4, "big"))
