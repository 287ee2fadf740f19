"""The gate in front of the HTTP/2 machine: reads frame headers only, lets nothing but HTTP/2 in, and counts what comes against budgets.

Layer: listen; no I/O, time is an argument. Source: RFC 9113 §3.4 (preface), §4.1, §6; the flood attacks that `h2_limits` names.

The theory. Every HTTP/2 flood is cheap frames in great number. So each frame is counted by its kind before anything dear happens to it:
what moves a request or a body forward is free (streams and windows bound it), a WINDOW_UPDATE is earned by the DATA it can answer, and
all else is paid from a budget that refills with time. Frames that only ask for attention — PRIORITY (RFC 9113 §5.3.2 lets it be ignored),
unknown kinds — stay outside, and so does GOAWAY, on which h2 would give up the streams that are still to be answered.
"""

from typing import Final

from h2.errors import ErrorCodes

from gomodel_trio.listen.h2_limits import Http2Limits

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES: Final = 16384
"""The largest payload of a frame, in both directions: the protocol's smallest maximum."""
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = range(10)
_END_STREAM: Final = 0x1
_ACK: Final = 0x1
_END_HEADERS: Final = 0x4
_TINY_BYTES: Final = 16
"""A DATA frame below this carries less than its own cost."""
_BURST_S: Final = 3.0
"""How many seconds' worth of a budget may be spent at once."""
_SETTINGS_COST: Final = 10
"""A change of all streams' windows is dearer than other frames."""
_UPDATES_PER_DATA: Final = 4
_FREE_UPDATES: Final = 200
"""WINDOW_UPDATEs for each DATA frame that was sent (clients send one for the stream and one for the connection), and to begin with."""


class NotHttp2(Exception):
    """The client speaks something else."""


class Breach(Exception):
    """The client broke a rule of the connection, or a bound: the connection ends with this error code."""

    def __init__(self, code: ErrorCodes, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Budget:
    """So many a second, with a few seconds' worth at once."""

    __slots__ = ("_at_s", "_left", "_most", "_per_s")

    def __init__(self, per_s: float, now_s: float) -> None:
        self._per_s = per_s
        self._most = self._left = per_s * _BURST_S
        self._at_s = now_s

    def spend(self, count: int, now_s: float) -> bool:
        """Take so many; whether they were there."""
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s) - count
        self._at_s = now_s
        return self._left >= 0


class Gate:
    """One connection's gate."""

    __slots__ = (
        "_block_bytes",
        "_control",
        "_head",
        "_is_begun",
        "_is_in_block",
        "_kind",
        "_limits",
        "_passes",
        "_pending_unit",
        "_preface",
        "_resets",
        "_rest",
        "_units",
        "_updates",
        "is_leaving",
        "pending_since_s",
    )

    def __init__(self, limits: Http2Limits, now_s: float) -> None:
        self._limits = limits
        self._preface = PREFACE
        self._head = b""
        self._rest = 0
        self._kind = 0
        self._passes = True
        self._is_begun = False
        self._is_in_block = False
        self._block_bytes = 0
        self._units = 0
        self._pending_unit = -1
        self._resets = _Budget(limits.resets_per_s, now_s)
        self._control = _Budget(limits.control_per_s, now_s)
        self._updates = _FREE_UPDATES
        self.is_leaving = False
        """The client has said that it will ask for nothing more."""
        self.pending_since_s: float | None = now_s
        """Since when a frame or header block (at first: the preface with its SETTINGS) has been incomplete; None if none is."""

    @property
    def is_http2(self) -> bool:
        """Whether the whole preface has come."""
        return not self._preface

    @property
    def is_begun(self) -> bool:
        """Whether the client's first SETTINGS have come."""
        return self._is_begun

    def take(self, data: bytes, now_s: float) -> bytes:
        """Read what came; the result is what goes on to the machine.

        Raises:
            NotHttp2: it is no HTTP/2, as the first byte that differs shows.
            Breach: a rule or a budget is broken.
        """
        passed: list[bytes] = []
        at = 0
        if self._preface:
            at = min(len(self._preface), len(data))
            if data[:at] != self._preface[:at]:
                raise NotHttp2
            self._preface = self._preface[at:]
            passed.append(data[:at])
        while at < len(data):
            if not self._rest:
                head = self._head + data[at : at + 9 - len(self._head)]
                at += len(head) - len(self._head)
                if len(head) < 9:
                    self._head = head
                    break
                self._head = b""
                self._begin_frame(head, now_s)
                if self._passes:
                    passed.append(head)
            part = data[at : at + self._rest]
            at += len(part)
            self._rest -= len(part)
            if part and self._passes:
                passed.append(part)
            if not self._rest:
                self._end_frame()
        self._note_pending(now_s)
        return b"".join(passed)

    def note_data_sent(self) -> None:
        """A DATA frame went out: the client may answer it."""
        self._updates += _UPDATES_PER_DATA

    def charge_reset(self, now_s: float) -> None:
        """A stream ended by the client's reset, or for its fault.

        Raises:
            Breach: too many did.
        """
        if not self._resets.spend(1, now_s):
            raise Breach(ErrorCodes.ENHANCE_YOUR_CALM, "too many streams were reset")

    def _begin_frame(self, head: bytes, now_s: float) -> None:
        length = int.from_bytes(head[:3], "big")
        kind, flags = head[3], head[4]
        if length > FRAME_BYTES:
            raise Breach(ErrorCodes.FRAME_SIZE_ERROR, "the frame is too large")
        if not self._is_begun and (kind != _SETTINGS or flags & _ACK):
            raise Breach(ErrorCodes.PROTOCOL_ERROR, "the first frame has to be SETTINGS")
        if self._is_in_block != (kind == _CONTINUATION):
            raise Breach(ErrorCodes.PROTOCOL_ERROR, "the header block is interrupted, or continued without a beginning")
        self._kind = kind
        self._rest = length
        self._passes = kind <= _CONTINUATION and kind not in (_PRIORITY, _GOAWAY)
        if kind in (_HEADERS, _CONTINUATION):
            self._block_bytes = length + (self._block_bytes if kind == _CONTINUATION else 0)
            self._is_in_block = not flags & _END_HEADERS
            if self._block_bytes > self._limits.head_bytes:
                raise Breach(ErrorCodes.ENHANCE_YOUR_CALM, "the headers are too large")
        if kind == _RST_STREAM:
            self.charge_reset(now_s)
        elif kind == _WINDOW_UPDATE and self._updates > 0:
            self._updates -= 1
        elif kind != _HEADERS and (kind != _DATA or (length < _TINY_BYTES and not flags & _END_STREAM)):
            self._charge_control(_SETTINGS_COST if kind == _SETTINGS else 1, now_s)

    def _end_frame(self) -> None:
        if not self._is_in_block:
            self._units += 1
        if self._kind == _SETTINGS:
            self._is_begun = True
        elif self._kind == _GOAWAY:
            self.is_leaving = True

    def _note_pending(self, now_s: float) -> None:
        if self._is_begun and not (self._rest or self._head or self._is_in_block):
            self.pending_since_s = None
        elif self._is_begun and (self.pending_since_s is None or self._pending_unit != self._units):
            self._pending_unit = self._units
            self.pending_since_s = now_s

    def _charge_control(self, count: int, now_s: float) -> None:
        if not self._control.spend(count, now_s):
            raise Breach(ErrorCodes.ENHANCE_YOUR_CALM, "too many frames that carry nothing")
