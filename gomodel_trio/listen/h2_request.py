"""One HTTP/2 request as the handler sees it, and its body as the connection's reader delivers it.

Layer: listen. Implements `gateway.http.Request`. Source: RFC 9113 §6.9 (flow control), §8.1.1 (lengths); RFC 9110 §10.1.1 (100-continue).

The reader never waits for a handler: it puts what came into the request. Until the handler asks for the body nothing of it is
acknowledged, so that a stream's window bounds what is held here; from then on `read_body`'s own limit does.
"""

from typing import Protocol

import trio

from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h2_head import Head
from gomodel_trio.listen.h2_limits import Http2Limits


class Source(Protocol):
    """The connection, as a request knows it."""

    @property
    def limits(self) -> Http2Limits: ...

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send so many bytes more."""
        ...

    def say_continue(self, stream_id: int) -> None:
        """Ask for the body that the client holds back."""
        ...

    def time_out(self, stream_id: int) -> None:
        """The body did not arrive in time: take the client for gone, and answer in the handler's place unless it has begun."""
        ...


class Http2Request:
    """`gateway.http.Request` over one stream."""

    __slots__ = (
        "_body",
        "_changed",
        "_declared",
        "_expects_continue",
        "_is_asked",
        "_is_dropped",
        "_is_ended",
        "_received",
        "_received_at_s",
        "_source",
        "_stream_id",
        "_unacknowledged",
        "headers",
        "is_disconnected",
        "method",
        "path",
        "peer",
        "query",
        "raw_path",
    )

    def __init__(self, head: Head, source: Source, stream_id: int, peer: str, *, is_complete: bool) -> None:
        self.method = head.method
        self.path = head.path
        self.raw_path = head.raw_path
        self.query = head.query
        self.headers: Headers = head.headers
        self.peer = peer
        self.is_disconnected = False
        self._source = source
        self._stream_id = stream_id
        self._declared = head.body_bytes
        self._expects_continue = head.expects_continue
        self._is_ended = is_complete
        self._is_asked = False
        self._is_dropped = False
        """Whether nobody wants (the rest of) the body."""
        self._body = bytearray()
        self._received = 0
        self._received_at_s = 0.0
        self._unacknowledged = 0
        self._changed = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Whether the client has sent all of it."""
        return self._is_ended

    async def read_body(self, limit_bytes: int) -> bytes:
        """Read the whole body; at most once."""
        if self._declared == 0 and not self._is_asked:
            return b""
        if self._is_asked or self._is_dropped:
            raise RuntimeError("the body has been read or given up already")
        self._is_asked = True
        try:
            if (self._declared or 0) > limit_bytes or self._received > limit_bytes:
                raise _too_large(limit_bytes)
            if self._expects_continue and not self._received and not self._is_ended:
                self._source.say_continue(self._stream_id)
            self._acknowledge()
            await self._wait_for_end(limit_bytes)
            return bytes(self._body)
        finally:
            self.drop()

    def feed(self, data: bytes, size: int) -> bool:
        """Take what came, `size` bytes on the wire; False where it is more than was declared."""
        self._unacknowledged += size
        self._received += len(data)
        if self._declared is not None and self._received > self._declared:
            return False
        if data and not self._is_dropped:
            self._body += data
            self._received_at_s = trio.current_time()
        if self._is_asked or self._is_dropped:
            self._acknowledge()
            self._changed.set()
        return True

    def end(self) -> bool:
        """Take the body's end; False where less has come than was declared."""
        self._is_ended = True
        self._changed.set()
        return self._declared is None or self._received == self._declared

    def lose(self) -> None:
        """The client is gone."""
        self.is_disconnected = True
        self._changed.set()

    def drop(self) -> None:
        """Keep nothing of the body from now on; what comes is acknowledged, so that it takes nothing from the other streams."""
        self._is_dropped = True
        self._body = bytearray()
        self._acknowledge()

    async def _wait_for_end(self, limit_bytes: int) -> None:
        limits = self._source.limits
        self._received_at_s = begun_at_s = trio.current_time()
        while not self._is_ended:
            if self.is_disconnected:
                raise ClientGone
            until_s = min(self._received_at_s + limits.body_idle_s, begun_at_s + limits.body_total_s)
            self._changed = trio.Event()
            with trio.move_on_at(until_s) as waiting:
                await self._changed.wait()
            if self._received > limit_bytes:
                raise _too_large(limit_bytes)
            if waiting.cancelled_caught:
                self._source.time_out(self._stream_id)
                raise ClientGone

    def _acknowledge(self) -> None:
        if self._unacknowledged:
            self._source.acknowledge(self._stream_id, self._unacknowledged)
            self._unacknowledged = 0


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than the limit of {limit_bytes} bytes.")
