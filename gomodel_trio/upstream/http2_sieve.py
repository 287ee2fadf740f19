"""Takes GOAWAY out of what an HTTP/2 server sends: h2 would take it for the end of the running streams too.

Layer: upstream; no I/O. Source: RFC 9113 §4.1 (frames), §6.8 (streams up to the last id go on).
"""

from typing import Final

_HEADER_BYTES: Final = 9
_GOAWAY: Final = 7
_LAST_ID: Final = slice(_HEADER_BYTES, _HEADER_BYTES + 4)
_ID_MASK: Final = 0x7FFFFFFF
_MAX_FRAME_BYTES: Final = 16384
"""We never allow larger ones; h2 would take them in whole before it refuses them."""


class GoawaySieve:
    """Give it all bytes as they come. `last_id`: the last stream that the server will answer, once it has said so."""

    def __init__(self) -> None:
        self.last_id: int | None = None
        self._held = bytearray()
        """The beginning of a frame whose kind is not known yet, or a part of a GOAWAY."""
        self._passing_bytes = 0
        """How much of a frame of another kind is still to come."""

    def feed(self, received: bytes) -> bytes:
        """Take bytes; give back those of all other frames.

        Raises:
            ValueError: a frame is larger than any may be.
        """
        passed = bytearray()
        data = memoryview(bytes(self._held) + received if self._held else received)
        self._held.clear()
        while data:
            if self._passing_bytes:
                passed += data[: self._passing_bytes]
                taken = min(len(data), self._passing_bytes)
                self._passing_bytes -= taken
                data = data[taken:]
                continue
            size = _HEADER_BYTES + int.from_bytes(data[:3], "big")
            if len(data) >= 3 and size > _HEADER_BYTES + _MAX_FRAME_BYTES:
                raise ValueError("overlong frame")
            if len(data) >= _HEADER_BYTES and data[3] != _GOAWAY:
                self._passing_bytes = size
                continue
            if len(data) < _HEADER_BYTES or len(data) < size:
                self._held += data
                break
            self._note(bytes(data[:size]))
            data = data[size:]
        return bytes(passed)

    def _note(self, frame: bytes) -> None:
        last_id = int.from_bytes(frame[_LAST_ID], "big") & _ID_MASK
        self.last_id = last_id if self.last_id is None else min(last_id, self.last_id)
