"""One HTTP/1.1 connection: its requests one after the other, in one task and one cancel scope.

Layer: listen. Source: RFC 9112 §9; performance.md (hang-ups, deadlines, optimistic I/O); behaviour.md §6 (hang-up, drain).

The theory. Whatever ends a connection from outside — the client's departure, a deadline, the drain — cancels the one scope, and what is
left to say (a 408) is said after it. So a request needs no scope, task or watcher of its own. The phase tells what a departure means:

    handshake -> idle -> head -> running <-> body -> answered -> idle …

In `idle`, `head` and `body` the reader meets the end by itself, behind all that was sent before; in `running` it cancels the handler; in
`answered` it means nothing. While a handler runs nobody reads: pipelined requests wait in the kernel's buffer, which bounds them.
A request whose sender has already closed its side is cancelled like any other, so it gets an answer only if that needs no waiting.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import Final

import trio

from gomodel_trio.errors import ClientGone
from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.deadlines import Deadlines
from gomodel_trio.listen.h1_head import encode_error
from gomodel_trio.listen.h1_limits import H1Limits
from gomodel_trio.listen.h1_parser import Refusal, check_partial, parse_head
from gomodel_trio.listen.h1_request import H1Request
from gomodel_trio.listen.h1_response import H1Responder, Stage
from gomodel_trio.listen.h1_socket import H1Socket
from gomodel_trio.listen.hang_up import HangUps

OnError = Callable[[BaseException], None]
"""Told of every exception that no handler caught, once each. Must not raise."""

_READ_BYTES: Final = 65536
_LINGER_S: Final = 10.0
_LINGER_IDLE_S: Final = 2.0
_LINGER_BYTES: Final = 64 << 20
"""How long, and how much, a client may go on sending after its answer (nginx: lingering_close)."""
_TOO_LATE: Final = "The request did not arrive in time."


class Phase(Enum):
    """What the connection's task is doing."""

    HANDSHAKE = 0
    IDLE = 1
    HEAD = 2
    RUNNING = 3
    BODY = 4
    ANSWERED = 5


class Door:
    """What all connections of one front door share."""

    __slots__ = ("deadlines", "handler", "hang_ups", "is_draining", "limits", "on_error")

    def __init__(self, handler: Handler, limits: H1Limits, on_error: OnError) -> None:
        self.handler = handler
        self.limits = limits
        self.on_error = on_error
        self.hang_ups = HangUps()
        self.deadlines = Deadlines()
        self.is_draining = False


class H1Connection:
    """One client connection. `peer` is the client's address."""

    __slots__ = (
        "_body_until_s",
        "_door",
        "_has_unread",
        "_is_broken",
        "_is_eof",
        "_phase",
        "_refusal",
        "_request",
        "_responder",
        "_scope",
        "_sock",
        "buffer",
        "closes",
        "deadline_s",
        "is_gone",
        "peer",
        "slot",
    )

    def __init__(self, door: Door, sock: H1Socket, peer: str) -> None:
        self._door = door
        self._sock = sock
        self.peer = peer
        self.buffer = b""
        self.is_gone = False
        self.closes = False
        self._request: H1Request | None = None
        self._responder: H1Responder | None = None
        self.deadline_s = math.inf
        self.slot: int | None = None
        self._scope = trio.CancelScope()
        self._phase = Phase.HANDSHAKE
        self._is_eof = False
        self._is_broken = False
        self._has_unread = False
        self._refusal: Refusal | None = None
        self._body_until_s = math.inf

    async def run(self) -> None:
        """Serve until the connection ends, and close it. Raises nothing but cancellations."""
        try:
            if self._watch():
                with self._scope:
                    await self._serve()
                await self._part()
        except (OSError, ClientGone):
            self._is_broken = True
        except Exception as error:
            self._is_broken = True
            self._door.on_error(error)
        finally:
            self._door.hang_ups.forget(self._sock.fd)
            self._door.deadlines.forget(self)
            self._sock.close(resets=self._is_broken or (self._responder is not None and self._responder.is_cut_silently))
            self._request = self._responder = None  # they know the connection: no cycles

    # ---- from outside of the task ------------------------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """The client sends no more."""
        self._is_eof = True
        if self._phase is Phase.RUNNING:
            self._lose()

    def expire(self) -> None:
        """The deadline has passed."""
        if self._phase is Phase.HEAD:
            self._refusal = Refusal(408, _TOO_LATE)
            self._scope.cancel()
        elif self._phase is Phase.BODY and not self._sock.unsent:
            self.refuse(Refusal(408, _TOO_LATE))
        else:
            self._is_broken = self._phase is not Phase.IDLE
            self._lose()

    def begin_drain(self) -> None:
        """Close now unless a request runs or is just coming; else with its answer."""
        is_waiting = self._phase is Phase.IDLE and not self._sock.has_bytes()
        if is_waiting or self._phase is Phase.HEAD or self._phase is Phase.HANDSHAKE:
            self._scope.cancel()

    def sever(self) -> None:
        """Break a connection that outstayed the drain."""
        self._is_broken = True
        self.is_gone = True
        self._sock.sever()

    def _lose(self) -> None:
        self.is_gone = True
        self._scope.cancel()

    def _watch(self) -> bool:
        try:
            self._door.hang_ups.watch(self._sock.fd, self)
        except OSError as error:  # the kernel's limit of watches: an operator has to know
            self._door.on_error(error)
            return False
        return True

    # ---- requests ----------------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        if self._sock.is_tls:
            self._set_deadline(self._door.limits.handshake_s)
            await self._sock.handshake()
        try:
            while not self.closes and not self.is_gone and await self._serve_one():
                if self._sock.is_turn_over():
                    await trio.lowlevel.checkpoint()
        except Refusal as refusal:
            self._refusal = refusal

    async def _serve_one(self) -> bool:
        """Have one request answered; False where the client has closed the connection."""
        self._phase = Phase.IDLE
        block = self._take_head() if self.buffer else None
        if block is None:
            block = await self._read_head()
            if block is None:
                return False
        self.deadline_s = math.inf
        head = parse_head(block, header_count=self._door.limits.header_count)
        request = self._request = H1Request(head, self, self.peer)
        responder = self._responder = H1Responder(self, is_head=head.method == "HEAD", is_http_1_0=head.is_http_1_0)
        self.closes = not head.keeps_alive
        self._phase = Phase.RUNNING
        if self._is_eof:
            self._lose()
        await self._answer(request, responder)
        if not request.discard():
            self._has_unread = True
            self.closes = True
        if responder.stage is Stage.ENDED:
            self._request = self._responder = None
        else:
            self.closes = True
        return not self._door.is_draining

    def _take_head(self) -> bytes | None:
        """Cut a complete head off the buffer; one empty line ahead of it is skipped (RFC 9112 §2.2)."""
        buffer = self.buffer
        if buffer.startswith(b"\r\n"):
            buffer = self.buffer = buffer[2:]
        end = buffer.find(b"\r\n\r\n", 0, self._door.limits.head_bytes) + 4
        if end < 4:
            return None
        self.buffer = buffer[end:]
        return buffer[:end]

    async def _read_head(self) -> bytes | None:
        """Wait for a head. Nearly always it comes in one piece; what comes in many is gathered in linear time."""
        limits = self._door.limits
        if not self.buffer:
            self._set_deadline(limits.keep_alive_s)
            self.buffer = await self._sock.receive(_READ_BYTES, waits_first=True)
            if not self.buffer:
                return None
            block = self._take_head()
            if block is not None:
                return block
        self._phase = Phase.HEAD
        self._set_deadline(limits.head_s)
        gathered = bytearray(self.buffer)
        self.buffer = b""
        seen = 0
        has_line = False
        while True:
            has_line = check_partial(gathered, seen, has_line=has_line)
            if len(gathered) > limits.head_bytes:
                raise Refusal(431, "The request's headers are too large.")
            seen = len(gathered)
            data = await self._sock.receive(_READ_BYTES)
            if not data:
                return None
            gathered += data
            end = gathered.find(b"\r\n\r\n", max(0, seen - 3)) + 4
            if 4 <= end <= limits.head_bytes:
                self.buffer = bytes(gathered[end:])
                return bytes(gathered[:end])

    async def _answer(self, request: H1Request, responder: H1Responder) -> None:
        failure: Exception | None = None
        try:
            await self._door.handler(request, responder)
            if not responder.is_finished and not self.is_gone:
                failure = RuntimeError("the handler returned before it had answered")
        except ClientGone:
            pass
        except Exception as error:
            failure = _unwrapped(error)
        except BaseExceptionGroup as group:
            raise self._without_failures(group) from None
        if failure is not None:
            self._door.on_error(failure)
            await responder.fail()

    def _without_failures(self, group: BaseExceptionGroup[BaseException]) -> BaseException:
        """Tell of the failures in a group that also holds cancellations; what is left is for the scope that asked for them."""
        cancelled, others = group.split(trio.Cancelled)
        failures = others.split(ClientGone)[1] if others is not None else None
        if cancelled is None or not isinstance(failures, Exception | None):
            return group
        if failures is not None:
            self._door.on_error(_unwrapped(failures) or failures)
        return cancelled

    # ---- for the request ---------------------------------------------------------------------------------------------------------

    def begin_body(self) -> None:
        """The client now owes a body."""
        self._phase = Phase.BODY
        self._body_until_s = trio.current_time() + self._door.limits.body_total_s
        self._set_deadline(self._door.limits.body_idle_s)

    def end_body(self) -> None:
        """The body has come, or is given up."""
        self._phase = Phase.RUNNING
        self.deadline_s = math.inf
        if self._is_eof:
            self._lose()

    async def receive_body(self, most_bytes: int) -> bytes:
        """Read what there is."""
        data = await self._sock.receive(most_bytes)
        if not data:
            self._lose()
            raise ClientGone
        self._door.deadlines.set(self, min(trio.current_time() + self._door.limits.body_idle_s, self._body_until_s))
        return data

    def refuse(self, refusal: Refusal) -> None:
        """Take the client for gone, and answer in the handler's place unless it has begun."""
        self._refusal = refusal
        self._lose()

    # ---- for the answer ----------------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Send; waits only while the client does not read."""
        if self._sock.is_turn_over():
            await trio.lowlevel.checkpoint()
        try:
            # A client that only closed its sending side still gets what needs no waiting.
            if not self._is_broken and self._sock.send_now(data):
                return
            if not self.is_gone:
                await self._flush()
                return
        except OSError:
            self._is_broken = True
            self._lose()
        await trio.lowlevel.checkpoint()
        raise ClientGone

    async def _flush(self) -> None:
        before_s = self.deadline_s
        self._set_deadline(self._door.limits.write_s)
        try:
            await self._sock.flush()
        finally:
            self._door.deadlines.set(self, before_s)

    def close_after(self) -> bool:
        """Whether the connection has to end with an answer whose head is written now."""
        return self.closes or self._door.is_draining or (self._request is not None and not self._request.discard())

    def note_answered(self) -> None:
        """The answer is over."""
        self._phase = Phase.ANSWERED

    # ---- parting -----------------------------------------------------------------------------------------------------------------

    async def _part(self) -> None:
        """Say what is left to say, and let the client read it before it meets a reset."""
        responder = self._responder
        refusal = self._refusal
        if refusal is not None and (responder is None or not responder.has_started):
            self._has_unread = True
            self._sock.send_now(encode_error(refusal.status, refusal.message))
        elif self._is_broken or self.is_gone or (responder is not None and responder.is_cut_silently):
            return
        self._sock.end_sending(is_complete=not self._sock.unsent and (responder is None or not responder.is_incomplete))
        if self._has_unread or self._sock.has_bytes():
            await self._linger()

    async def _linger(self) -> None:
        size = 0
        with trio.move_on_after(_LINGER_S):
            while size < _LINGER_BYTES:
                count = 0
                with trio.move_on_after(_LINGER_IDLE_S):
                    count = await self._sock.discard()
                if not count:
                    return
                size += count

    def _set_deadline(self, after_s: float) -> None:
        self._door.deadlines.set(self, trio.current_time() + after_s)


def _unwrapped(error: Exception) -> Exception | None:
    """The one exception in a group of one; None where a group holds nothing but the client's departure."""
    if isinstance(error, ExceptionGroup):
        others = error.split(ClientGone)[1]
        if others is None:
            return None
        error = others
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
    return error
