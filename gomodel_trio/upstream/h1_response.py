"""An answer of the HTTP/1.1 transport: the head at once, the body by `read`.

Layer: upstream. Source: `transport.UpstreamResponse`; behaviour.md §6 (idle timeout, hang-up).
"""

import trio

from gomodel_trio.upstream.h1_pool import Slot
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault


class H1Response:
    """`transport.UpstreamResponse`. The connection goes back as soon as the last byte of the body is here, read or not."""

    __slots__ = ("_idle_timeout_s", "_rest", "_slot", "headers", "status")

    def __init__(self, slot: Slot, idle_timeout_s: float | None) -> None:
        assert slot.connection is not None
        parser = slot.connection.parser
        self.status = parser.status
        self.headers: Headers = parser.headers
        self._idle_timeout_s = idle_timeout_s
        self._rest = b""
        self._slot: Slot | None = slot
        if parser.is_complete:
            self._rest = parser.take()
            self._end()

    async def read(self) -> bytes:
        """The next chunk; b"" at the proper end, and ever after."""
        slot = self._slot
        if slot is None:
            rest, self._rest = self._rest, b""
            return rest
        assert slot.connection is not None
        connection, parser = slot.connection, slot.connection.parser
        try:
            if self._idle_timeout_s is None:
                await connection.receive_some()
            elif not parser.parts:
                with trio.CancelScope(deadline=trio.current_time() + self._idle_timeout_s) as scope:
                    await connection.receive_some()
                if scope.cancelled_caught and not parser.parts and not parser.is_complete:
                    parser.fault = TransportFault.IDLE_TIMEOUT
        except trio.ClosedResourceError:
            parser.feed_reset()
        except BaseException:
            self._end()
            raise
        if parser.parts:
            chunk = parser.take()
            if parser.is_complete:
                self._end()
            return chunk
        self._end()
        if parser.is_complete:
            return b""
        raise _fault_in_body(parser.fault)

    async def aclose(self) -> None:
        """Close the connection, unless the body has come to its end."""
        self._rest = b""
        self._end()

    def _end(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.end()


def _fault_in_body(fault: TransportFault | None) -> TransportError:
    match fault:
        case TransportFault.IDLE_TIMEOUT:
            return TransportError(TransportFault.IDLE_TIMEOUT, "The upstream stopped sending in the middle of its answer.")
        case TransportFault.SHORT_BODY:
            return TransportError(TransportFault.SHORT_BODY, "The upstream closed the connection in the middle of its answer.")
        case TransportFault.PROTOCOL:
            return TransportError(TransportFault.PROTOCOL, "The body of the upstream's answer is not valid HTTP.")
        case _:
            return TransportError(TransportFault.RESET, "The upstream reset the connection in the middle of its answer.")
