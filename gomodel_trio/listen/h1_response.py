"""One answer on its way to the client: whole, chunked, of declared length, or ended by the connection's end.

Layer: listen. Implements `gateway.http.Responder`. Source: RFC 9112 §6.3, §7.1, §9.3; RFC 9110 §6.4.1, §9.3.2 (HEAD), §15.3.6.

No task, lock or scope for an answer or a chunk: what the socket takes at once costs one system call, and only what it does not take is
waited for.
"""

from enum import Enum
from typing import Final, Protocol

import trio

from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h1_head import declared_bytes, encode_head, error_body

_LENGTHLESS: Final = frozenset({204, 304})
_BODYLESS: Final = frozenset({204, 205, 304})
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_CLOSE: Final = b"connection: close\r\n"
_KEEP_ALIVE: Final = b"connection: keep-alive\r\n"


class Sink(Protocol):
    """The connection, as an answer knows it."""

    closes: bool
    """Whether the connection ends with this answer."""

    async def write(self, data: bytes) -> None:
        """Send; waits only while the client does not read. Raises ClientGone."""
        ...

    def close_after(self) -> bool:
        """Whether the connection has to end with an answer whose head is written now."""
        ...

    def note_answered(self) -> None:
        """The answer is over: a hang-up means nothing to it any more."""
        ...


class Stage(Enum):
    """How far an answer has come."""

    NEW = 0
    STARTED = 1
    ENDED = 2
    ABORTED = 3


class H1Responder:
    """`gateway.http.Responder` over one connection. What comes after `end` or `abort` is ignored."""

    __slots__ = ("_declared", "_ends_with_connection", "_has_body", "_is_chunked", "_is_head", "_is_http_1_0", "_sink", "stage")

    def __init__(self, sink: Sink, *, is_head: bool, is_http_1_0: bool) -> None:
        self._sink = sink
        self._is_head = is_head
        self._is_http_1_0 = is_http_1_0
        self._is_chunked = False
        self._ends_with_connection = False
        self._has_body = True
        self._declared: int | None = None
        """Of an answer of declared length, what is yet to be written."""
        self.stage = Stage.NEW

    @property
    def has_started(self) -> bool:
        return self.stage is not Stage.NEW

    @property
    def is_finished(self) -> bool:
        """Whether the handler has said how the answer ends."""
        return self.stage is Stage.ENDED or self.stage is Stage.ABORTED

    @property
    def is_incomplete(self) -> bool:
        """Whether an answer has begun and not come to its proper end."""
        return self.stage is Stage.STARTED or self.stage is Stage.ABORTED

    @property
    def is_cut_silently(self) -> bool:
        """Whether closing now would look like a proper end though it is none: the connection's end is all that ends this body."""
        return self._ends_with_connection and self.is_incomplete

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, head and body at once."""
        self._require_new()
        framing = self._persistence(closes=self._sink.close_after())
        if status not in _LENGTHLESS:
            framing += b"content-length: %d\r\n" % (0 if status in _BODYLESS else len(body))
        data = encode_head(status, headers, framing)
        if not self._is_head and status not in _BODYLESS:
            data += body
        self.stage = Stage.STARTED
        await self._sink.write(data)
        self._finish(Stage.ENDED)

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head; a declared length is kept, else the body is chunked, or for HTTP/1.0 ends with the connection."""
        self._require_new()
        self._has_body = not self._is_head and status not in _BODYLESS
        self._declared = declared_bytes(headers)
        framing = b""
        closes = self._sink.close_after()
        if status in _LENGTHLESS:
            pass
        elif status in _BODYLESS:
            framing = b"content-length: 0\r\n"
        elif self._declared is not None:
            framing = b"content-length: %d\r\n" % self._declared
        elif self._is_http_1_0:
            closes = True
            self._ends_with_connection = self._has_body
        else:
            self._is_chunked = True
            framing = _CHUNKED
        data = encode_head(status, headers, framing + self._persistence(closes=closes))
        self.stage = Stage.STARTED
        await self._sink.write(data)

    async def write(self, chunk: bytes) -> None:
        """Send one chunk.

        Raises:
            RuntimeError: the answer grows beyond its declared length.
        """
        if not chunk or not self._has_body or self.stage is not Stage.STARTED:
            await trio.lowlevel.checkpoint()  # a handler that only writes must still meet its cancellation
        elif self._is_chunked:
            await self._sink.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            if self._declared is not None:
                if len(chunk) > self._declared:
                    raise RuntimeError("the answer is longer than it declared")
                self._declared -= len(chunk)
            await self._sink.write(chunk)

    async def end(self) -> None:
        """End the answer properly; one that is shorter than declared is aborted."""
        if self.stage is not Stage.STARTED:
            return
        if self._has_body:
            if self._declared:
                self._finish(Stage.ABORTED)
                return
            if self._is_chunked:
                await self._sink.write(b"0\r\n\r\n")
        self._finish(Stage.ENDED)

    def abort(self) -> None:
        """End without the terminating chunk: the connection is closed, or reset where its end alone would look proper."""
        if self.stage is not Stage.ENDED:
            self._finish(Stage.ABORTED)

    async def fail(self) -> None:
        """Tell the client that its request failed here, as far as that can still be told."""
        if self.stage is Stage.NEW:
            await self.send(500, [(b"content-type", b"application/json")], error_body(500, "The gateway failed."))
        else:
            self.abort()

    def _require_new(self) -> None:
        if self.stage is not Stage.NEW:
            raise RuntimeError("the answer has begun already")

    def _persistence(self, *, closes: bool) -> bytes:
        if closes:
            self._sink.closes = True
            return _CLOSE
        return _KEEP_ALIVE if self._is_http_1_0 else b""

    def _finish(self, stage: Stage) -> None:
        self.stage = stage
        self._sink.note_answered()
