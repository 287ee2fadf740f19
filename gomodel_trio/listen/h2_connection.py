"""One HTTP/2 connection: a reader, a flusher, and a task for each request that runs.

Layer: listen. Source: RFC 9113; performance.md (hang-ups); behaviour.md §6 (hang-up, drain).

The theory. The reader waits for nothing but the client: bodies go into their requests (whose windows bound them) and what has to be sent
goes to the socket, or, where that is full, to the flusher. So a reset or a hang-up is always seen at once, and one stream that stalls
stalls no other. Whatever ends the connection ends the reading first:

    handshake -> preface -> frames -> (the client is gone | a breach | nothing more to do) ; then the streams end, then the socket
"""

import math
import ssl
from typing import Final

import h2.events
import trio
from h2.errors import ErrorCodes
from h2.exceptions import H2Error
from hyperframe.frame import GoAwayFrame

from gomodel_trio.errors import ClientGone
from gomodel_trio.gateway.http import Handler, Headers
from gomodel_trio.listen.deadlines import Deadlines
from gomodel_trio.listen.h1_head import encode_error, error_body
from gomodel_trio.listen.h1_parser import Refusal
from gomodel_trio.listen.h1_socket import H1Socket
from gomodel_trio.listen.h2_gate import Breach, Gate, NotHttp2
from gomodel_trio.listen.h2_head import Malformed, answer_fields, parse_head
from gomodel_trio.listen.h2_limits import Http2Limits
from gomodel_trio.listen.h2_machine import new_machine, revealed
from gomodel_trio.listen.h2_outbox import Outbox
from gomodel_trio.listen.h2_request import Http2Request
from gomodel_trio.listen.h2_response import Http2Responder, Stage
from gomodel_trio.listen.h2_stream import TOO_LATE, Http2Stream, OnError, unwrapped
from gomodel_trio.listen.h2_unread import UnreadBodies

ALPN: Final = "h2"
_READ_BYTES: Final = 32768
"""Small reads: what one of them may hold is parsed without letting others run."""
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 16 << 20
"""How long, and how much, a client may go on sending after it was told why its connection ends."""


class Http2Shared:
    """What all connections of one front door share."""

    __slots__ = ("deadlines", "handler", "is_draining", "limits", "on_error")

    def __init__(self, handler: Handler, limits: Http2Limits, on_error: OnError) -> None:
        self.handler = handler
        self.limits = limits
        self.on_error = on_error
        self.deadlines = Deadlines()
        self.is_draining = False


class Http2Connection:
    """One client connection. `peer` is the client's address; `tls` the socket under `sock`, if it is TLS."""

    def __init__(self, shared: Http2Shared, sock: H1Socket, peer: str, tls: ssl.SSLSocket | None) -> None:
        self.limits = shared.limits
        self.deadline_s = math.inf
        self.slot: int | None = None
        self._shared = shared
        self._sock = sock
        self._peer = peer
        self._tls = tls
        self._is_secured = tls is None
        self._machine = new_machine(shared.limits)
        self._gate = Gate(shared.limits, trio.current_time())
        self._out = Outbox(self._machine, sock, self.limits.write_s, on_data=self._note_data, on_broken=self._part_streams)
        self._streams: dict[int, Http2Stream] = {}
        self._unread = UnreadBodies(shared.limits)
        self._idle_since_s = trio.current_time()
        self._reading = trio.CancelScope()
        self._nursery: trio.Nursery
        self._is_answering = False
        """Whether the client has shown that it understands frames."""
        self._has_unread = False
        """Whether the client may be sending what nobody will read."""

    async def run(self) -> None:
        """Serve until the connection ends, and close it. Raises nothing but cancellations."""
        try:
            self._refresh()
            with self._reading:
                await self._secure()
            if not self._reading.cancel_called:
                self._reading = trio.CancelScope()
                await self._serve()
            await self._part()
        except* (OSError, trio.BusyResourceError):  # the latter: TLS wants both directions for one (a key update while we owe bytes)
            self._out.is_broken = True
        except* Exception as group:
            self._out.is_broken = True
            self._shared.on_error(unwrapped(group))
        finally:
            self._shared.deadlines.forget(self)
            self._sock.close(resets=self._out.is_broken)

    # ---- from outside of the task ------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """The deadline has passed."""
        due = self._unread.due(trio.current_time())
        for stream_id in due:
            self._stop_unread(stream_id)
        if due:
            self._refresh()
        elif not self._is_secured:
            self._out.fail()
        elif self._gate.pending_since_s is None:
            self._say_goodbye(ErrorCodes.NO_ERROR)
            self._reading.cancel()
        else:
            self._has_unread = True
            self._say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM, "a frame did not arrive in time")
            self._part_streams()

    def begin_drain(self) -> None:
        """Take no more requests; close at once if none runs, else with the last answer."""
        self._say_goodbye(ErrorCodes.NO_ERROR)
        if not self._streams:
            self._reading.cancel()

    def cut(self) -> None:
        """End the requests that outstayed the drain; their handlers may shield a short last write."""
        for stream in self._streams.values():
            stream.scope.cancel()
        self._reading.cancel()

    def sever(self) -> None:
        """Break the connection."""
        self._out.fail()
        self._sock.sever()

    # ---- reading -----------------------------------------------------------------------------------------------------------------

    async def _secure(self) -> None:
        if self._tls is None:
            return
        await self._sock.handshake()
        self._is_secured = True
        self._gate = Gate(self.limits, trio.current_time())
        if self._tls.selected_alpn_protocol() != ALPN:
            self._refuse_other()
            self._reading.cancel()

    async def _serve(self) -> None:
        async with trio.open_nursery() as flushing:
            flushing.start_soon(self._out.flush_forever)
            async with trio.open_nursery() as self._nursery:
                with self._reading:
                    await self._read()
            flushing.cancel_scope.cancel()
        await self._out.settle(_LINGER_S if self._has_unread else self.limits.write_s)

    async def _read(self) -> None:
        while not self._is_over():
            self._refresh()
            if self._sock.is_tls:
                await trio.lowlevel.checkpoint()
            data = await self._sock.receive(_READ_BYTES, waits_first=True)
            if not data:
                self._out.fail()
                return
            try:
                self._take(data)
            except NotHttp2:
                self._refuse_other()
                return
            except Breach as breach:
                self._say_goodbye(breach.code, breach.message)
                break
            except H2Error:  # the machine has its GOAWAY ready
                self._out.flush()
                break
        else:
            return
        self._has_unread = True
        self._part_streams()

    def _take(self, data: bytes) -> None:
        try:
            passed = self._gate.take(data, trio.current_time())
        finally:
            self._is_answering = self._gate.is_http2
        for event in self._machine.receive_data(passed) if passed else ():
            self._handle(event)
        if self._is_answering:
            self._out.flush()
            self._out.share_room()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._open(event)
            case h2.events.DataReceived():
                stream = self._streams.get(event.stream_id)
                if stream is None or stream.is_gone:
                    self.acknowledge(event.stream_id, event.flow_controlled_length)
                    if self._unread.take(event.stream_id, event.flow_controlled_length):
                        self._stop_unread(event.stream_id)
                elif not stream.request.feed(event.data, event.flow_controlled_length):
                    self._fault(event.stream_id)
            case h2.events.StreamEnded():
                self._unread.end(event.stream_id)
                stream = self._streams.get(event.stream_id)
                if stream is not None and not stream.is_gone and not stream.request.end():
                    self._fault(event.stream_id)
            case h2.events.StreamReset():
                if not event.remote_reset:  # the gate has counted the others
                    self._gate.charge_reset(trio.current_time())
                self._lose(event.stream_id)
            case h2.events.WindowUpdated():
                stream = self._streams.get(event.stream_id)
                if stream is not None:
                    stream.wake()
            case h2.events.RemoteSettingsChanged():
                self._machine.bound_table()
                for stream in self._streams.values():
                    stream.wake()
            case _:
                pass

    # ---- streams -----------------------------------------------------------------------------------------------------------------

    def _open(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id
        is_complete = event.stream_ended is not None
        if self._shared.is_draining or len(self._streams) + len(self._unread) >= self.limits.streams:
            self._fault(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        fields = revealed(event.headers or ())
        try:
            head = parse_head(fields, is_complete=is_complete, header_count=self.limits.header_count, head_bytes=self.limits.head_bytes)
        except Malformed:
            self._fault(stream_id)
            return
        except Refusal as refusal:
            self._gate.charge_reset(trio.current_time())
            self._answer_refused(stream_id, refusal, is_complete=is_complete, is_head=(b":method", b"HEAD") in fields)
            return
        request = Http2Request(head, self, stream_id, self._peer, is_complete=is_complete)
        stream = Http2Stream(stream_id, request, Http2Responder(self, stream_id, is_head=head.method == "HEAD"))
        self._streams[stream_id] = stream
        self._nursery.start_soon(self._run, stream)

    async def _run(self, stream: Http2Stream) -> None:
        try:
            await stream.run(self._shared.handler, self._shared.on_error)
        finally:
            self._close(stream)

    def _close(self, stream: Http2Stream) -> None:
        """The handler is done: end what is left of the stream."""
        request, responder = stream.request, stream.responder
        request.drop()
        del self._streams[stream.id]
        if stream.refusal is not None and not responder.has_started:
            self._answer_refused(stream.id, stream.refusal, is_complete=False, is_head=request.method == "HEAD")
        elif stream.is_gone and stream.refusal is None:
            pass
        elif not responder.is_finished:
            self.abort(stream.id)
        elif responder.stage is Stage.ENDED and not request.is_complete:
            self._unread.add(stream.id, trio.current_time())
        if not self._streams:
            self._idle_since_s = trio.current_time()
        self._refresh()
        if self._is_over():
            self._reading.cancel()

    def _stop_unread(self, stream_id: int) -> None:
        self._unread.end(stream_id)
        self._out.reset(stream_id, ErrorCodes.NO_ERROR)  # the answer is whole

    def _answer_refused(self, stream_id: int, refusal: Refusal, *, is_complete: bool, is_head: bool) -> None:
        """Answer in the handler's place, if that needs no waiting."""
        body = error_body(refusal.status, refusal.message)
        fields = answer_fields(refusal.status, [(b"content-type", b"application/json")], len(body))
        try:
            if self._machine.local_flow_control_window(stream_id) < len(body):
                self._out.reset(stream_id, ErrorCodes.ENHANCE_YOUR_CALM)
                return
            self._machine.send_headers(stream_id, fields, end_stream=is_head)
            if not is_head:
                self._machine.send_data(stream_id, body, end_stream=True)
        except H2Error:
            return
        self._out.flush()
        if not is_complete:
            self._unread.add(stream_id, trio.current_time())

    def _fault(self, stream_id: int, code: ErrorCodes = ErrorCodes.PROTOCOL_ERROR) -> None:
        """End a stream for the client's own fault."""
        self._out.reset(stream_id, code)
        self._lose(stream_id)
        self._gate.charge_reset(trio.current_time())

    def _lose(self, stream_id: int) -> None:
        self._unread.end(stream_id)
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.lose()

    # ---- for requests and answers ------------------------------------------------------------------------------------------------

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send so many bytes more."""
        try:
            self._machine.acknowledge_received_data(size, stream_id)
        except H2Error:
            return
        self._out.flush()

    def say_continue(self, stream_id: int) -> None:
        """Ask for the body that the client holds back."""
        try:
            self._machine.send_headers(stream_id, [(b":status", b"100")])
        except H2Error:
            return
        self._out.flush()

    def time_out(self, stream_id: int) -> None:
        """The body did not arrive in time."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.refusal = TOO_LATE
            stream.lose()

    def abort(self, stream_id: int) -> None:
        """Tell the client that no more of the answer comes."""
        self._out.reset(stream_id, ErrorCodes.INTERNAL_ERROR)

    async def write_head(self, stream_id: int, fields: Headers, *, ends: bool, flushes: bool) -> None:
        """Send a head; raises ClientGone."""
        await self._out.write_head(self._stream(stream_id), fields, ends=ends, flushes=flushes)

    async def write(self, stream_id: int, data: bytes, *, ends: bool) -> None:
        """Send part of a body; raises ClientGone."""
        await self._out.write(self._stream(stream_id), data, ends=ends)

    def _stream(self, stream_id: int) -> Http2Stream:
        stream = self._streams.get(stream_id)
        if stream is None:
            raise ClientGone
        return stream

    def _note_data(self) -> None:
        self._gate.note_data_sent()

    # ---- parting -----------------------------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Whether nothing more will be asked on this connection."""
        return not self._streams and (self._shared.is_draining or self._gate.is_leaving)

    def _say_goodbye(self, code: ErrorCodes, message: str = "") -> None:
        """Send GOAWAY past the machine, which would take it for the end of the running streams too."""
        if self._is_answering:
            frame = GoAwayFrame(0, last_stream_id=self._machine.highest_inbound_stream_id, error_code=code)
            frame.additional_data = message.encode("ascii")
            self._out.flush()
            self._out.send_raw(frame.serialize())

    def _refuse_other(self) -> None:
        """Tell a client that speaks something else; most likely it is HTTP/1.1."""
        self._has_unread = True
        self._out.send_raw(encode_error(505, "This port speaks HTTP/2."))

    def _part_streams(self) -> None:
        """Nothing more comes of this connection: end its handlers and its reading."""
        for stream in tuple(self._streams.values()):
            stream.lose()
        self._reading.cancel()

    def _refresh(self) -> None:
        """Set the deadline by what is waited for."""
        at_s = math.inf if self._streams else self._idle_since_s + self.limits.keep_alive_s
        at_s = min(at_s, self._unread.until_s or math.inf)
        pending_since_s = self._gate.pending_since_s
        if pending_since_s is not None:
            at_s = min(at_s, pending_since_s + (self.limits.head_s if self._gate.is_begun else self.limits.handshake_s))
        self._shared.deadlines.set(self, at_s)

    async def _part(self) -> None:
        """End the connection so that the client can read what it was told before it meets a reset."""
        if self._out.is_broken:
            return
        self._sock.end_sending(is_complete=not self._sock.unsent)
        if self._has_unread or self._sock.has_bytes():
            size = 0
            with trio.move_on_after(_LINGER_S):
                while size < _LINGER_BYTES and (count := await self._sock.discard()):
                    size += count
