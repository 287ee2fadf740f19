"""One HTTP/1.1 connection: hypercorn's protocol over a trio stream, with the bounds that hypercorn leaves out.

Layer: listen. Source: RFC 9112; performance.md (what hypercorn must be kept from); architecture.md (facts found by trying).

What differs from hypercorn's own connection (see also `h11_protocol`):
- one reader task sees the client's departure while a request runs, while a pipelined one waits, and while a write is blocked;
- heads, bodies, writes and idle connections have deadlines; a write can be cancelled (the connection is then beyond repair and closed);
- what an early answer leaves unread is drained, within bounds, so that the client can read the answer before it meets a reset;
- a failure here ends this connection and nothing else.
"""

import contextlib
import math
import socket
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, cast

import msgspec
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

from gomodel_trio.listen.asgi import AsgiApp, OnError
from gomodel_trio.listen.h11_protocol import Http1Protocol, Inbox

_READ_BYTES = 65536
_HELD_BYTES = 65536
"""How much of pipelined requests is read ahead while one runs: the reader has to go on reading to see a hang-up."""
_LINGER_S = 10.0
_LINGER_IDLE_S = 2.0
_LINGER_BYTES = 64 << 20
"""How long, and how much, a client may go on sending after its answer (nginx: lingering_close)."""
_RESET = struct.pack("ii", 1, 0)


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may take. Times in seconds.

    `body_idle_s` bounds a pause within a body and `body_total_s` the whole body, both only until the answer begins; `write_s` one write
    to a client that does not read; `keep_alive_s` is above the 60 s after which common load balancers drop idle connections.
    """

    head_bytes: int = 65536
    header_count: int = 128
    head_s: float = 30.0
    body_idle_s: float = 30.0
    body_total_s: float = 600.0
    write_s: float = 300.0
    keep_alive_s: float = 75.0
    connections: int = 10_000


class Connection:
    """One client connection; also the nursery that hypercorn's protocol starts applications in (its "task group")."""

    def __init__(
        self,
        app: AsgiApp,
        stream: trio.abc.HalfCloseableStream,
        *,
        config: Config,
        context: WorkerContext,
        limits: ConnectionLimits,
        on_error: OnError,
    ) -> None:
        self.app = app
        self._stream = stream
        self._context = context
        self._limits = limits
        self._on_error = on_error
        self._protocol = Http1Protocol(
            self, config, context, _client(stream), head_bytes=limits.head_bytes, header_count=limits.header_count
        )
        self._nursery: trio.Nursery
        self._write_lock = trio.Lock()
        self._reading: trio.CancelScope | None = None
        self._writing: trio.CancelScope | None = None
        self._is_closing = False
        self._is_gone = False
        self._is_resumed = False
        self._must_linger = False
        self._idle_since = self._read_at = self._request_at = trio.current_time()
        self._head_since: float | None = None

    async def run(self) -> None:
        """Serve until the connection ends; the caller closes the stream. Raises nothing but cancellations."""
        try:
            async with trio.open_nursery() as self._nursery:
                await self._read()
                await self._protocol.handle(Closed())
            await self._linger()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as group:
            self._on_error(group)
        finally:
            if self._protocol.is_cut_silently:
                self._reset()

    def begin_drain(self) -> None:
        """Close now if no request runs, else with the answer that is under way. The context has to be `terminated` already."""
        if self._protocol.is_between_requests:
            self._is_closing = True
            self._wake()

    # ---- reading ---------------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while not self._is_closing:
            data = await self._next_bytes()
            if self._is_closing:
                return
            if data == b"":
                self._lose()
                return
            if data is None and not self._is_resumed:
                if trio.current_time() >= self._read_deadline():
                    await self._time_out()
                    return
                continue
            self._is_resumed = False
            if data:
                self._note_bytes()
            await self._protocol.feed(data or b"")
            self._read_at = trio.current_time()  # the wait for a slow application is not the client's

    async def _next_bytes(self) -> bytes | None:
        """What the client sent, b"" where it is gone, None where the wait was ended from inside or by its deadline."""
        with trio.CancelScope(deadline=self._read_deadline()) as self._reading:
            if self._is_resumed:
                return None
            if self._protocol.held_bytes > _HELD_BYTES:
                await trio.sleep_forever()
            try:
                return bytes(await self._stream.receive_some(_READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return b""
        return None

    def _read_deadline(self) -> float:
        if self._protocol.is_between_requests:
            if self._head_since is not None:
                return self._head_since + self._limits.head_s
            return self._idle_since + self._limits.keep_alive_s
        if self._protocol.is_awaiting_body:
            return min(self._read_at + self._limits.body_idle_s, self._request_at + self._limits.body_total_s)
        return math.inf

    async def _time_out(self) -> None:
        if self._head_since is not None or not self._protocol.is_between_requests:
            await self._protocol.refuse(408)

    def _wake(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _note_bytes(self) -> None:
        self._read_at = trio.current_time()
        if self._protocol.is_between_requests and self._head_since is None:
            self._head_since = self._read_at

    def note_request(self) -> None:
        """A head is complete."""
        self._head_since = None
        self._request_at = trio.current_time()

    def refresh(self) -> None:
        """Let the reader's deadline follow the state of the exchange."""
        if self._reading is not None:
            self._reading.deadline = self._read_deadline()

    def note_end(self, *, is_more_held: bool) -> None:
        """A request is over and the connection free for the next, whose bytes may be here already."""
        self._idle_since = trio.current_time()
        if is_more_held:
            self._head_since = self._idle_since
            self._is_resumed = True
            self._wake()
        else:
            self.refresh()

    # ---- writing ---------------------------------------------------------------------------------------------------------------

    async def transmit(self, event: Event) -> None:
        """Do what the protocol asks for: write, or close."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._finish()

    async def _write(self, data: bytes) -> None:
        if not data or self._is_gone:
            await trio.lowlevel.checkpoint()  # a handler that only writes must still meet its cancellation
            return
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._limits.write_s) as self._writing:
                async with self._write_lock:
                    await self._stream.send_all(data)
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except BaseException:
            self._lose()
            raise
        self._lose()

    async def _finish(self) -> None:
        self._is_closing = True
        if self._protocol.is_cut_silently:
            self._reset()
        elif not self._is_gone:
            self._must_linger = self._protocol.is_client_sending
            async with self._write_lock:
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                    await self._stream.send_eof()
        self._wake()

    def _lose(self) -> None:
        """The client is gone, or a write was cut short: nothing more can be said on this connection."""
        self._is_closing = self._is_gone = True
        self._wake()
        if self._writing is not None:
            self._writing.cancel()

    def _reset(self) -> None:
        self._is_gone = True
        if isinstance(self._stream, trio.SocketStream):
            with contextlib.suppress(OSError):
                self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    async def _linger(self) -> None:
        """Discard what the client is still sending, until it has seen the end."""
        if self._is_gone or not self._must_linger:
            return
        size = 0
        with trio.move_on_after(_LINGER_S):
            while size < _LINGER_BYTES:
                data = b""
                with trio.move_on_after(_LINGER_IDLE_S):
                    data = bytes(await self._stream.receive_some(_READ_BYTES))
                if not data:
                    return
                size += len(data)

    # ---- hypercorn's task group ------------------------------------------------------------------------------------------------

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the application for one request; the result takes its messages."""
        del app, config
        inbox = Inbox(self._protocol.allow_body)
        self._nursery.start_soon(self._run_app, scope, inbox, send)
        return inbox.put

    async def _run_app(self, scope: Scope, inbox: Inbox, send: Callable[[ASGISendEvent | None], Awaitable[None]]) -> None:
        try:
            await self.app(cast(Any, scope), cast(Any, inbox.receive), cast(Any, send))
        except* Exception as group:
            self._on_error(group)
        finally:
            inbox.close()
        await send(None)

    def spawn(self, func: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Start a helper of the protocol's."""
        self._nursery.start_soon(func, *args)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: type[BaseException], exc_value: BaseException, tb: TracebackType) -> None:
        return None


def _client(stream: trio.abc.HalfCloseableStream) -> tuple[str, int] | None:
    """The client's address; None for anything but an IP socket, and for a client that is gone already."""
    if not isinstance(stream, trio.SocketStream) or stream.socket.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:
        return None
    return host, port
