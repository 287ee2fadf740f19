"""One HTTP/2 connection, shared by many exchanges: h2 for the protocol, and turns at the stream for those who send and receive.

Layer: upstream. Source: RFC 9113; behaviour.md §6 (the hang-up of one client must not touch another's stream). No task of its own: whoever
waits first receives for all and, when it leaves, hands that on. What one exchange does not read holds back this exchange only: the window
of the connection is given back at once, that of a stream as its body is read.
"""

import contextlib
from collections.abc import Callable
from typing import Final, Protocol

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from gomodel_trio.upstream.http2_sieve import GoawaySieve
from gomodel_trio.upstream.link import close_now, is_readable
from gomodel_trio.upstream.transport import TransportFault

WINDOW_BYTES: Final = 1 << 20
"""How much of an answer may come before it is read: ten megabytes a second over 100 ms, and bounded memory for slow readers."""
_CONNECTION_WINDOW_BYTES: Final = 16 << 20
_FIRST_WINDOW_BYTES: Final = 65535
"""What a connection begins with (RFC 9113 §6.9.2)."""
_MAX_HEAD_BYTES: Final = 64 << 10
_MAX_STREAMS: Final = 100
"""More exchanges go over a further connection, even where the server allows them: one lost packet holds up all streams of a connection."""
_MAX_STREAM_ID: Final = (1 << 31) - 1024
_RECEIVE_BYTES: Final = 64 << 10
_SEND_BYTES: Final = 64 << 10
_GRACE_S: Final = 1.0
"""How long a cancelled exchange goes on sending what it began: half a frame would end every other stream."""
_TEND_S: Final = 0.1
"""How long the rest of what has begun to come is waited for."""
_CONFIG: Final = H2Configuration(
    client_side=True,
    header_encoding=None,
    # Ours are checked before; theirs by the exchange they belong to, where h2 would end the connection.
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
)


class Exchange(Protocol):
    """What the connection tells an exchange, synchronously. Each call may be what it waits for."""

    def on_head(self, headers: list[tuple[bytes, bytes]]) -> None: ...
    def on_informational(self) -> None: ...
    def on_data(self, content: bytes, size: int) -> None: ...
    def on_end(self) -> None: ...
    def on_reset(self, code: int) -> None: ...
    def on_refusal(self) -> None:
        """The server will not answer it, and has not looked at it."""
        ...

    def on_loss(self, fault: TransportFault) -> None:
        """The connection is gone: SHORT_BODY where it was closed, RESET, or PROTOCOL."""
        ...


class Http2Connection:
    """A connection on a stream that speaks HTTP/2. `open` first. An exchange joins, waits by `until` and leaves."""

    def __init__(self, stream: trio.abc.Stream, keep_alive_s: float) -> None:
        self.h2 = H2Connection(_CONFIG)
        self.received_count = 0
        """How often something came."""
        self.is_used = False
        """Whether an exchange has ever joined."""
        self.opened_at_s = trio.current_time()
        self._stream = stream
        self._keep_alive_s = keep_alive_s
        self._idle_since_s = self.opened_at_s
        self._sieve = GoawaySieve()
        self._has_settings = False
        self._is_over = False
        self._is_receiving = False
        self._sending = trio.Lock()
        self._unsent = bytearray()
        self._unreturned_bytes = 0
        self._members: set[Exchange] = set()
        self._by_id: dict[int, Exchange] = {}
        self._waiting: dict[object, trio.Event] = {}

    async def open(self) -> None:
        """Greet, and wait for the server's settings, without which nobody knows how many streams it allows.

        Raises:
            trio.BrokenResourceError: the connection ended, or what came is not HTTP/2.
        """
        wanted = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES}
        wanted[SettingCodes.MAX_HEADER_LIST_SIZE] = _MAX_HEAD_BYTES
        self.h2.local_settings = Settings(client=True, initial_values=wanted)
        del self.h2.local_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL]  # a server's to say
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_CONNECTION_WINDOW_BYTES - _FIRST_WINDOW_BYTES)
        await self.flush()
        await self.until(self, lambda: self._has_settings)
        if self._is_over:
            raise trio.BrokenResourceError

    # ---- who is on it ---------------------------------------------------------------------------------------------------------------

    @property
    def can_serve(self) -> bool:
        """Whether one more exchange may join."""
        if self._is_over or self._sieve.last_id is not None or self.h2.highest_outbound_stream_id > _MAX_STREAM_ID:
            return False
        return len(self._members) < min(_MAX_STREAMS, self.h2.remote_settings.max_concurrent_streams)

    @property
    def is_idle(self) -> bool:
        """Whether no exchange is on it."""
        return not self._members

    @property
    def is_finished(self) -> bool:
        """Whether it can only be closed: over, told to go away, or idle for too long."""
        if self._is_over:
            return True
        is_retired = self._sieve.last_id is not None or self.h2.highest_outbound_stream_id > _MAX_STREAM_ID
        return self.is_idle and (is_retired or trio.current_time() - self._idle_since_s > self._keep_alive_s)

    def join(self, exchange: Exchange) -> None:
        """Count one exchange more."""
        self.is_used = True
        self._members.add(exchange)

    def begin(self, exchange: Exchange, headers: list[tuple[bytes, bytes]], *, is_all: bool) -> int:
        """Open the exchange's stream with the head of its request; the stream's id. 0: the connection cannot any more.

        `is_all`: there is no body.
        """
        if self._is_over or self._sieve.last_id is not None:
            return 0
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, headers, end_stream=is_all)
        self._by_id[stream_id] = exchange
        return stream_id

    async def leave(self, exchange: Exchange, stream_id: int, *, is_complete: bool) -> None:
        """End the exchange; its stream is cancelled unless both sides have ended it. The bounds of waiting are the caller's."""
        self._members.discard(exchange)
        if not self._members:
            self._idle_since_s = trio.current_time()
        if stream_id and self._by_id.pop(stream_id, None) is not None and not is_complete and not self._is_over:
            with contextlib.suppress(ProtocolError):  # the server has just ended it
                self.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
            await self.flush()

    # ---- taking turns ---------------------------------------------------------------------------------------------------------------

    async def until(self, waiting: object, is_met: Callable[[], bool]) -> None:
        """Wait until `is_met`, or the connection is lost; meanwhile receive for all unless another does.

        What `is_met` looks at changes by what is received; who waits is told by `Exchange`'s methods.
        """
        try:
            while not is_met() and not self._is_over:
                if self._is_receiving:
                    self._waiting[waiting] = woken = trio.Event()
                    await woken.wait()
                    continue
                await self._receive(is_met)
                if self._has_unsent():
                    self._wake_one()  # a server that takes nothing until it has sent something must not be waited for by all
                    await self.flush()
        finally:
            self._waiting.pop(waiting, None)
            if not self._is_receiving:
                self._wake_one()

    async def flush(self) -> None:
        """Send what is due, of all exchanges, in whole frames."""
        if not self._has_unsent():
            return
        async with self._sending:
            while self._has_unsent():
                piece = bytes(self._unsent[:_SEND_BYTES])
                del self._unsent[:_SEND_BYTES]
                await self._send(piece)
        if self._is_over:
            await self.close()

    async def tend(self) -> None:
        """Take what came while nobody receives — a ping, a farewell, the end — and answer it."""
        while not self._is_over and not self._is_receiving and is_readable(self._stream):
            before = self.received_count
            with trio.move_on_after(_TEND_S):
                await self.until(self, lambda seen=before: self.received_count > seen)  # type: ignore[misc]
            if self.received_count == before:
                return

    async def close(self) -> None:
        """Close at once; who is still on it is told."""
        self._lose(TransportFault.RESET)
        await close_now(self._stream)

    async def _receive(self, is_met: Callable[[], bool]) -> None:
        """Receive for all until `is_met` or there is something to send."""
        self._is_receiving = True
        try:
            while not is_met() and not self._has_unsent() and not self._is_over:
                try:
                    received = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._lose(TransportFault.RESET)
                else:
                    self._take(received)
        finally:
            self._is_receiving = False
        if self._is_over:
            await self.close()

    def _has_unsent(self) -> bool:
        self._unsent += self.h2.data_to_send()
        return bool(self._unsent) and not self._is_over

    async def _send(self, piece: bytes) -> None:
        """Send a piece whole: who is cancelled meanwhile goes on for a moment; if that is not enough the connection is lost."""

        async def shorten(sending: trio.CancelScope) -> None:
            try:
                await trio.sleep_forever()
            finally:
                sending.deadline = trio.current_time() + _GRACE_S

        is_sent = False
        async with trio.open_nursery() as nursery:
            with trio.CancelScope(shield=True) as sending:
                nursery.start_soon(shorten, sending)
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._stream.send_all(piece)
                    is_sent = True
            if not is_sent:
                self._lose(TransportFault.RESET)
            nursery.cancel_scope.cancel()

    def _wake(self, waiting: object) -> None:
        woken = self._waiting.pop(waiting, None)
        if woken is not None:
            woken.set()

    def _wake_one(self) -> None:
        """Let one of those who wait receive for the others."""
        for waiting in self._waiting:
            self._wake(waiting)
            return

    def _wake_all(self) -> None:
        for waiting in list(self._waiting):
            self._wake(waiting)

    # ---- what comes -----------------------------------------------------------------------------------------------------------------

    def _take(self, received: bytes) -> None:
        if not received:
            self._lose(TransportFault.SHORT_BODY)
            return
        self.received_count += 1
        last_before = self._sieve.last_id
        try:
            for event in self.h2.receive_data(self._sieve.feed(received)):
                self._apply(event)
        except Exception:  # whatever a hostile server can make three libraries raise
            self._lose(TransportFault.PROTOCOL)
            return
        if self._unreturned_bytes >= _CONNECTION_WINDOW_BYTES // 2:
            self.h2.increment_flow_control_window(self._unreturned_bytes)
            self._unreturned_bytes = 0
        if self._sieve.last_id is not None and self._sieve.last_id != last_before:
            self._refuse_above(self._sieve.last_id)

    def _apply(self, event: Event) -> None:
        match event:
            case RemoteSettingsChanged():
                self._has_settings = True
                self._wake_all()
            case WindowUpdated(stream_id=0):
                self._wake_all()
            case DataReceived():
                self._unreturned_bytes += event.flow_controlled_length or 0
        stream_id: int = getattr(event, "stream_id", None) or 0
        exchange = self._by_id.get(stream_id)
        if exchange is None:
            return
        match event:
            case ResponseReceived():
                exchange.on_head([(bytes(name), bytes(value)) for name, value in event.headers or ()])
            case InformationalResponseReceived():
                exchange.on_informational()
            case DataReceived():
                exchange.on_data(event.data or b"", event.flow_controlled_length or 0)
            case StreamEnded():
                exchange.on_end()
            case StreamReset():
                exchange.on_reset(int(event.error_code or 0))
        self._wake(exchange)

    def _refuse_above(self, last_id: int) -> None:
        for stream_id, exchange in list(self._by_id.items()):
            if stream_id > last_id:
                exchange.on_refusal()
                self._wake(exchange)

    def _lose(self, fault: TransportFault) -> None:
        if self._is_over:
            return
        self._is_over = True
        for exchange in list(self._members):
            exchange.on_loss(fault)
        self._wake_all()
