"""What an HTTP/2 connection sends: frames by turns, as far as windows and socket have room, and no more held than that.

Layer: listen. Source: RFC 9113 §5.2, §6.9; performance.md (optimistic I/O); CVE-2019-9511, CVE-2019-9517 (windows that dribble).

The theory. A write takes from three rooms: its stream's window, the connection's window, and what the socket may owe. Who lacks the first
waits for its own WINDOW_UPDATE; who lacks the others waits in a queue, first come first, and everyone who leaves a write passes what room
is left to the next in the queue: so no room is ever left unused, and no client's frame wakes more streams than it made room for.
"""

from collections.abc import Callable
from typing import Final

import trio
from h2.errors import ErrorCodes
from h2.exceptions import H2Error

from gomodel_trio.errors import ClientGone
from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h1_socket import H1Socket
from gomodel_trio.listen.h2_gate import FRAME_BYTES
from gomodel_trio.listen.h2_machine import Machine
from gomodel_trio.listen.h2_stream import Http2Stream

_OWED_BYTES: Final = 65536
"""What the socket may owe before answers wait."""
_OWED_BYTES_MOST: Final = 4 * _OWED_BYTES
"""What it may owe with all that does not wait (acknowledgements, resets): a client that provokes more without reading is cut off."""
_GATHERED_BYTES: Final = 65536
"""What is framed before it goes to the socket; also how much a slow client has to read in `write_s`."""


class Outbox:
    """One connection's way out. `on_data` is told of each DATA frame, `on_broken` when nothing can be sent any more."""

    def __init__(
        self, machine: Machine, sock: H1Socket, write_s: float, *, on_data: Callable[[], None], on_broken: Callable[[], None]
    ) -> None:
        self._machine = machine
        self._sock = sock
        self._write_s = write_s
        self._on_data = on_data
        self._on_broken = on_broken
        self._queue: dict[int, Http2Stream] = {}
        self._owes = trio.Event()
        self.is_broken = False
        """Whether nothing can be said any more."""

    # ---- at once -----------------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what the machine has ready: now, or by the flusher."""
        data = self._machine.data_to_send()
        if data:
            self.send_raw(data)

    def send_raw(self, data: bytes) -> None:
        """Send bytes past the machine."""
        if self.is_broken:
            return
        try:
            if self._sock.send_now(data):
                return
        except OSError:
            self.fail()
            return
        self._owes.set()
        if len(self._sock.unsent) > _OWED_BYTES_MOST:
            self.fail()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream."""
        try:
            self._machine.reset_stream(stream_id, code)
        except H2Error:  # it is closed already
            return
        self.flush()

    def fail(self) -> None:
        """The client is gone, or does not read."""
        self.is_broken = True
        self._on_broken()

    def share_room(self) -> None:
        """Wake as many of the queue as there is room for."""
        room = min(self._machine.outbound_flow_control_window, _OWED_BYTES - len(self._sock.unsent))
        while self._queue and room > 0:
            self._queue.pop(next(iter(self._queue))).wake()
            room -= FRAME_BYTES

    # ---- waiting for the client --------------------------------------------------------------------------------------------------

    async def flush_forever(self) -> None:
        """Send what is owed, as the client reads; ends, broken, where it does not."""
        try:
            while not self.is_broken:
                await self._owes.wait()
                self._owes = trio.Event()
                with trio.move_on_after(self._write_s) as patience:
                    await self._sock.flush()
                if patience.cancelled_caught:
                    break
                self.share_room()
        except OSError:
            pass
        self.fail()

    async def settle(self, patience_s: float) -> None:
        """Send what is owed at the end, when the flusher has ended. Raises OSError."""
        if self._sock.unsent and not self.is_broken:
            with trio.move_on_after(patience_s):
                await self._sock.flush()

    async def write_head(self, stream: Http2Stream, fields: Headers, *, ends: bool, flushes: bool) -> None:
        """Send a head; waits while the socket owes too much. `ends`: it is all; not `flushes`: a `write` follows at once.

        Raises:
            ClientGone: nobody waits for it.
        """
        until_s = trio.current_time() + self._write_s
        try:
            self._require(stream)
            while len(self._sock.unsent) >= _OWED_BYTES:
                await self._wait_for_room(stream, until_s)
                self._require(stream)
            self._machine.send_headers(stream.id, fields, end_stream=ends)
            if flushes:
                self.flush()
        except H2Error:
            raise ClientGone from None
        finally:
            self.share_room()
        if flushes and not ends:
            await self._give_turn()

    async def write(self, stream: Http2Stream, data: bytes, *, ends: bool) -> None:
        """Send part of a body, `ends`: the last; waits while the client does not read, but never behind the end: then all is said.

        Raises:
            ClientGone: nobody waits for it.
        """
        try:
            self._require(stream)
            if data:
                await self._write(stream, data, ends=ends)
            elif ends:
                self._machine.end_stream(stream.id)
            self.flush()
        except H2Error:
            raise ClientGone from None
        finally:
            self.share_room()
        if not ends:
            await self._give_turn()

    async def _write(self, stream: Http2Stream, data: bytes, *, ends: bool) -> None:
        until_s = trio.current_time() + self._write_s
        at = gathered = 0
        while at < len(data):
            size = min(len(data) - at, self._room(stream))
            if size > 0:
                last = at + size
                self._machine.send_data(stream.id, data[at:last], end_stream=ends and last == len(data))
                self._on_data()
                at = last
                gathered += size
                if ends and at == len(data):
                    return
                if gathered >= _GATHERED_BYTES:
                    gathered = 0
                    until_s = trio.current_time() + self._write_s
                    self.flush()
                    self.share_room()
                    await trio.lowlevel.checkpoint()  # those who waited come first
            else:
                self.flush()
                if self._room(stream) <= 0:
                    await self._wait_for_room(stream, until_s)
            self._require(stream)

    def _require(self, stream: Http2Stream) -> None:
        if stream.is_gone or self.is_broken:
            raise ClientGone

    def _room(self, stream: Http2Stream) -> int:
        """How much one frame of a stream may hold now."""
        if len(self._sock.unsent) >= _OWED_BYTES:
            return 0
        return min(self._machine.local_flow_control_window(stream.id), FRAME_BYTES)

    async def _wait_for_room(self, stream: Http2Stream, until_s: float) -> None:
        """Wait until there may be room; a client that made none until `until_s` loses the answer."""
        stream.room = trio.Event()
        is_own_window_shut = self._machine.local_flow_control_window(stream.id) <= 0 < self._machine.outbound_flow_control_window
        if is_own_window_shut and len(self._sock.unsent) < _OWED_BYTES:
            self.share_room()
        else:
            self._queue[stream.id] = stream
        try:
            with trio.move_on_at(until_s) as waiting:
                await stream.room.wait()
        finally:
            stream.room = None
            self._queue.pop(stream.id, None)
        if waiting.cancelled_caught:
            self.reset(stream.id, ErrorCodes.CANCEL)
            stream.lose()

    async def _give_turn(self) -> None:
        if self._sock.is_turn_over():
            await trio.lowlevel.checkpoint()
