"""hypercorn's HTTP/1.1 machine with what it leaves open closed: no upgrades, no ambiguous framing, no body before it is wanted.

Layer: listen. Source: RFC 9112; RFC 9110 §7.8 (an upgrade may be ignored), §10.1.1 (Expect); performance.md.

It never waits for a pipelined request's turn: it returns, and its owner feeds it again, so that the reader can see a hang-up meanwhile.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event
from hypercorn.protocol import events as http_events
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ConnectionState, H11SendableEvent, TaskGroup

_QUEUED_MESSAGES = 10
"""Body messages between reader and application; beyond that the client waits."""
_LINE_BYTES = len("  HTTP/1.1\r\n\r\n")
_FIELD_BYTES = len(": \r\n")
"""What a request's line, with the head's end, and each header take beside their words."""
_REASONS = {
    405: "This is no forward proxy.",
    408: "The request did not arrive in time.",
    431: "The request's headers are too large.",
    501: "The request's transfer coding is not known here.",
    505: "This port speaks HTTP/1.1.",
}


class Owner(TaskGroup, Protocol):
    """The connection, as the protocol knows it: where applications are started and bytes go."""

    app: Any

    async def transmit(self, event: Event) -> None:
        """Write, or close."""

    def note_request(self) -> None:
        """A head is complete."""

    def note_end(self, *, is_more_held: bool) -> None:
        """A request is over and the connection free for the next."""

    def refresh(self) -> None:
        """The answer has begun: deadlines may have changed."""


class Inbox:
    """ASGI's receive for one request: bounded, never blocked by an application that has ended, and always able to tell of a hang-up."""

    def __init__(self, allow_body: Callable[[], Awaitable[None]]) -> None:
        self._send, self._receive = trio.open_memory_channel[ASGIReceiveEvent](_QUEUED_MESSAGES)
        self._allow_body = allow_body

    async def put(self, message: ASGIReceiveEvent) -> None:
        if message["type"] == "http.disconnect":
            self._send.close()
            return
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._send.send(message)

    async def receive(self) -> ASGIReceiveEvent:
        await self._allow_body()
        try:
            return await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return {"type": "http.disconnect"}

    def close(self) -> None:
        self._receive.close()


class Http1Protocol(H11Protocol):
    """hypercorn's HTTP/1.1 machine, driven by `Connection`."""

    connection: h11.Connection

    def __init__(
        self,
        owner: Owner,
        config: Config,
        context: WorkerContext,
        client: tuple[str, int] | None,
        *,
        head_bytes: int,
        header_count: int,
    ) -> None:
        super().__init__(cast(AppWrapper, owner.app), config, context, owner, ConnectionState({}), False, client, None, owner.transmit)
        self._owner = owner
        self._head_bytes = head_bytes
        self._header_count = header_count
        self._is_over = False
        self._version = b"1.1"

    @property
    def is_between_requests(self) -> bool:
        return self.connection.our_state is h11.IDLE

    @property
    def is_awaiting_body(self) -> bool:
        return self.connection.our_state is h11.SEND_RESPONSE and self.connection.their_state is h11.SEND_BODY

    @property
    def held_bytes(self) -> int:
        return len(self.connection.trailing_data[0])

    @property
    def is_client_sending(self) -> bool:
        """Whether more may be under way than was read."""
        return self.connection.their_state in (h11.SEND_BODY, h11.ERROR) or self.held_bytes > 0

    @property
    def is_cut_silently(self) -> bool:
        """Whether closing now would look like a proper end: an HTTP/1.0 answer ends with its connection."""
        return self._version < b"1.1" and self.connection.our_state is h11.SEND_BODY

    async def feed(self, data: bytes) -> None:
        """Take what was read, or (nothing) go on with what was held back."""
        if data:
            self.connection.receive_data(data)
        await self._handle_events()

    async def allow_body(self) -> None:
        """Say "100 Continue" to a client that waits for it, now that the application asks for the body."""
        if self.connection.they_are_waiting_for_100_continue and not self._is_over:
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def refuse(self, status_code: int) -> None:
        """Answer in the application's place, where it has not begun, and close."""
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._is_over:
            await self._send_error_response(status_code)
        self._is_over = True
        await self.send(Closed())

    async def stream_send(self, event: http_events.Event) -> None:
        if isinstance(event, http_events.Response) and (self.context.terminated.is_set() or self.connection.their_state is h11.SEND_BODY):
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)
        if isinstance(event, http_events.Response):
            self._owner.refresh()

    async def _handle_events(self) -> None:
        while not self._is_over:
            try:
                event = self.connection.next_event()
            except h11.RemoteProtocolError as error:
                await self.refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                status_code = _fault_of(event) or self._excess_of(event)
                if status_code is not None:
                    await self.refuse(status_code)
                    return
                self._version = event.http_version
                self._owner.note_request()
                await self._create_stream(event)
            elif self.stream is None or event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return
            elif isinstance(event, h11.Data):
                await self.stream.handle(http_events.Body(stream_id=STREAM_ID, data=bytes(event.data)))
            elif isinstance(event, h11.EndOfMessage):
                await self.stream.handle(http_events.EndBody(stream_id=STREAM_ID))

    def _excess_of(self, request: h11.Request) -> int | None:
        """431 for a head that is over a limit: h11 itself stops only what it has not got whole."""
        fields = sum(len(name) + len(value) + _FIELD_BYTES for name, value in request.headers)
        size = len(request.method) + len(request.target) + _LINE_BYTES + fields
        return 431 if len(request.headers) > self._header_count or size > self._head_bytes else None

    async def _create_stream(self, request: h11.Request) -> None:
        self.stream = HTTPStream(
            self.app, self.config, self.context, self.task_group, self.ssl, self.client, self.server, self.stream_send, STREAM_ID
        )
        await self.stream.handle(
            http_events.Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii"),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    async def _maybe_recycle(self) -> None:
        await self._close_stream()
        ours, theirs = self.connection.our_state, self.connection.their_state
        if ours is h11.DONE and theirs is h11.DONE and not self.context.terminated.is_set():
            self.connection.start_next_cycle()
            self._owner.note_end(is_more_held=self.held_bytes > 0)
        else:
            await self.send(Closed())

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        if not self._is_over:
            await super()._send_h11_event(event)

    async def _send_error_response(self, status_code: int) -> None:
        reason = _REASONS.get(status_code, "The request is not valid HTTP/1.1.")
        body = b'{"type":"error","error":{"message":"%s","type":"invalid_request_error","param":null,"code":null}}' % reason.encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers + self.config.response_headers("h11")))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())
        self._is_over = True


def _fault_of(request: h11.Request) -> int | None:
    """Why a well-formed request is not taken, as a status; None if it is."""
    names = {name for name, _ in request.headers}
    if request.http_version > b"1.1":
        return 505
    if request.method == b"CONNECT":
        return 405
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        return 400
    return None
