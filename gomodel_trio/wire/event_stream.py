"""AWS's event-stream framing (`application/vnd.amazon.eventstream`), taken apart piece by piece.

Layer: wire; pure. Source: the framing's description in the Smithy specification ("Amazon Event Stream").

    total length u32 · headers length u32 · CRC32 of these 8 bytes · headers · payload · CRC32 of all before
    header: name length u8 · name · type u8 · value

Any split of the bytes gives the same messages. A checksum that does not fit, or an absurd length, ends the stream: nothing behind it can be
found.
"""

import struct
import zlib
from typing import Final

import msgspec

MAX_MESSAGE_BYTES: Final = 24 << 20
"""Messages are at most 16 MiB of payload and 128 KiB of headers by the specification; beyond that it is noise."""

_PRELUDE: Final = struct.Struct("!III")
_LEAST_BYTES: Final = _PRELUDE.size + 4
_FIXED_BYTES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Header types with a value of fixed length: true, false, byte, short, integer, long, timestamp, uuid."""
_BYTES, _STRING = 6, 7


class Frame(msgspec.Struct, frozen=True):
    """One message. `headers`: those with text values, which are all that is used."""

    headers: dict[str, str]
    payload: bytes


class FrameError(ValueError):
    """The bytes are no event stream, or one that was damaged on its way."""


class FrameParser:
    """Takes bytes as they come and gives the messages they complete."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def is_mid_frame(self) -> bool:
        """Whether the bytes so far end inside a message."""
        return bool(self._pending)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes.

        Raises:
            FrameError: what came cannot be read, and nothing behind it.
        """
        self._pending += chunk
        frames: list[Frame] = []
        start = 0
        while (end := self._end_of_message(start)) is not None:
            frames.append(_read_message(bytes(self._pending[start:end])))
            start = end
        if start:
            del self._pending[:start]
        return frames

    def _end_of_message(self, start: int) -> int | None:
        """Where the message that begins at `start` ends; None if that has not come yet."""
        if len(self._pending) - start < _PRELUDE.size:
            return None
        total, headers, checksum = _PRELUDE.unpack_from(self._pending, start)
        if zlib.crc32(self._pending[start : start + 8]) != checksum:
            raise FrameError("the checksum of a message's head does not fit")
        if not _LEAST_BYTES + headers <= total <= MAX_MESSAGE_BYTES:
            raise FrameError("the lengths of a message are absurd")
        return start + total if start + total <= len(self._pending) else None


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Write one message with text headers."""
    written = b"".join(
        bytes((len(name),)) + name + bytes((_STRING,)) + len(value).to_bytes(2, "big") + value
        for name, value in ((name.encode(), value.encode()) for name, value in headers.items())
    )
    head = struct.pack("!II", _LEAST_BYTES + len(written) + len(payload), len(written))
    message = head + zlib.crc32(head).to_bytes(4, "big") + written + payload
    return message + zlib.crc32(message).to_bytes(4, "big")


def _read_message(message: bytes) -> Frame:
    if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:], "big"):
        raise FrameError("the checksum of a message does not fit")
    _, header_bytes, _ = _PRELUDE.unpack_from(message)
    begin, end = _PRELUDE.size, _PRELUDE.size + header_bytes
    return Frame(_read_headers(message[begin:end]), message[end:-4])


def _read_headers(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            name_end = at + 1 + block[at]
            kind, value_at = block[name_end], name_end + 1
            if kind in (_BYTES, _STRING):
                size = int.from_bytes(block[value_at : value_at + 2], "big")
                value_at += 2
            else:
                size = _FIXED_BYTES[kind]
            if value_at + size > len(block):
                raise FrameError("a message's headers are cut")
            if kind == _STRING:
                headers[block[at + 1 : name_end].decode()] = block[value_at : value_at + size].decode()
            at = value_at + size
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise FrameError("a message's headers cannot be read") from error
    return headers
