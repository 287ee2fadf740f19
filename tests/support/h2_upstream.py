"""An HTTP/2 upstream on trio and h2 that does as it is told: TLS with ALPN, and a handler for each stream."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import h2.events
import trio
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from gomodel_trio.upstream.transport import Headers

Handler = Callable[["Stream"], Awaitable[None]]


class Stream:
    """One request, complete or not, and the way to answer it. `reset_code`: why the client gave it up, if it did."""

    def __init__(self, connection: "Connection", stream_id: int, headers: Headers) -> None:
        self.connection = connection
        self.id = stream_id
        self.headers = headers
        self.body = b""
        self.is_complete = False
        self.reset_code: int | None = None

    @property
    def path(self) -> str:
        """The target."""
        return dict(self.headers)[b":path"].decode()

    async def head(self, status: int = 200, headers: Headers | None = None, *, is_all: bool = False) -> None:
        """Begin the answer."""
        self.connection.h2.send_headers(self.id, [(b":status", str(status).encode()), *(headers or [])], end_stream=is_all)
        await self.connection.flush()

    async def data(self, content: bytes, *, is_last: bool = False, padding: int | None = None) -> None:
        """Send a piece of the body, as the client's windows allow."""
        machine, rest = self.connection.h2, memoryview(content)
        while rest:
            await self.connection.until(lambda: self.room() > (padding or 0) + 1 or self.reset_code is not None)
            if self.reset_code is not None:
                return
            room = self.room() - (0 if padding is None else padding + 1)
            machine.send_data(self.id, bytes(rest[:room]), end_stream=is_last and len(rest) <= room, pad_length=padding)
            rest = rest[room:]
            await self.connection.flush()

    def room(self) -> int:
        """How much may be sent now."""
        if self.reset_code is not None:
            return 0
        return min(self.connection.h2.local_flow_control_window(self.id), self.connection.h2.max_outbound_frame_size)

    async def answer(self, content: bytes = b"ok", status: int = 200) -> None:
        """Answer whole."""
        await self.head(status, [(b"content-length", str(len(content)).encode())], is_all=not content)
        await self.data(content, is_last=True)

    async def reset(self, code: ErrorCodes) -> None:
        """Give the stream up."""
        self.connection.h2.reset_stream(self.id, code)
        await self.connection.flush()

    async def until_reset(self) -> None:
        """Wait until the client gives it up, or the connection ends."""
        await self.connection.until(lambda: self.reset_code is not None)


class Connection:
    """One connection; `streams` by id."""

    def __init__(self, upstream: "H2Upstream", stream: trio.abc.Stream) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None, validate_inbound_headers=True))
        self.streams: dict[int, Stream] = {}
        self.is_closed = False
        self._upstream = upstream
        self._stream = stream
        self._changed = trio.Event()
        self._sending = trio.Lock()

    async def serve(self) -> None:
        """Serve until the client goes or the connection is closed here."""
        wanted = {SettingCodes.MAX_CONCURRENT_STREAMS: self._upstream.max_streams}
        wanted[SettingCodes.INITIAL_WINDOW_SIZE] = self._upstream.window_bytes
        self.h2.local_settings = Settings(client=False, initial_values=wanted)
        self.h2.initiate_connection()
        async with trio.open_nursery() as nursery:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, ProtocolError):
                await self.flush()
                while received := await self._stream.receive_some(65536):
                    for event in self.h2.receive_data(bytes(received)):
                        self._take(event, nursery)
                    await self.flush()
                    self._tell()
            self.is_closed = True
            self._tell()
            nursery.cancel_scope.cancel()

    async def flush(self) -> None:
        """Send what h2 has ready."""
        await self.send(b"")

    async def send(self, data: bytes) -> None:
        """Send bytes as they are, behind what h2 has ready."""
        async with self._sending:
            data = self.h2.data_to_send() + data
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.send_all(data)

    async def goaway(self, last_id: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Say which stream is the last to be answered; h2 itself would refuse to go on."""
        await self.send(GoAwayFrame(0, last_stream_id=last_id, error_code=int(code), additional_data=b"enough").serialize())

    async def close(self) -> None:
        """Close without a word."""
        await trio.aclose_forcefully(self._stream)

    async def until(self, is_met: Callable[[], bool]) -> None:
        """Wait until something has come about."""
        while not is_met():
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self._upstream.tell()

    def _take(self, event: h2.events.Event, nursery: trio.Nursery) -> None:
        match event:
            case h2.events.RequestReceived():
                stream = Stream(self, event.stream_id or 0, [(bytes(name), bytes(value)) for name, value in event.headers or ()])
                self.streams[stream.id] = stream
                if self._upstream.is_eager:
                    nursery.start_soon(self._handle, stream)
            case h2.events.DataReceived():
                self.streams[event.stream_id or 0].body += event.data or b""
                if self._upstream.is_reading:
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
            case h2.events.StreamEnded():
                self.streams[event.stream_id or 0].is_complete = True
                if not self._upstream.is_eager:
                    nursery.start_soon(self._handle, self.streams[event.stream_id or 0])
            case h2.events.StreamReset():
                self.streams[event.stream_id or 0].reset_code = int(event.error_code or 0)
            case _:
                pass

    async def _handle(self, stream: Stream) -> None:
        with contextlib.suppress(ProtocolError):
            await self._upstream.handler(stream)


class H2Upstream:
    """The server. `handler` answers; `is_eager`: as soon as the head is there, else when the request is complete."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.port = 0
        self.is_eager = False
        self.is_reading = True
        self.max_streams = 100
        self.window_bytes = 65535
        self.connections: list[Connection] = []
        self._changed = trio.Event()

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return sum(not connection.is_closed for connection in self.connections)

    @property
    def streams(self) -> list[Stream]:
        """All requests, in order of arrival on each connection."""
        return [stream for connection in self.connections for stream in connection.streams.values()]

    async def until(self, is_met: Callable[[], bool]) -> None:
        """Wait until something has come about."""
        while not is_met():
            await self._changed.wait()

    def tell(self) -> None:
        """Something has come about."""
        self._changed.set()
        self._changed = trio.Event()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve a connection."""
        connection = Connection(self, stream)
        self.connections.append(connection)
        await connection.serve()


@contextlib.asynccontextmanager
async def open_h2_upstream(authority: trustme.CA, handler: Handler) -> AsyncIterator[H2Upstream]:
    """An upstream `localhost` that speaks nothing but HTTP/2 over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    upstream = H2Upstream(handler)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, upstream.serve, 0, context, host="127.0.0.1", https_compatible=True)
        listeners = await nursery.start(serve)
        upstream.port = listeners[0].transport_listener.socket.getsockname()[1]
        yield upstream
        nursery.cancel_scope.cancel()
