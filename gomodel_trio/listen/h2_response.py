"""One answer on its way to an HTTP/2 client.

Layer: listen. Implements `gateway.http.Responder`. Source: RFC 9113 §8.1, §8.6; RFC 9110 §6.4.1, §9.3.2 (HEAD), §15.3.6.
"""

from enum import Enum
from typing import Final, Protocol

import trio

from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h1_head import declared_bytes, error_body
from gomodel_trio.listen.h2_head import answer_fields

_LENGTHLESS: Final = frozenset({204, 304})
_BODYLESS: Final = frozenset({204, 205, 304})


class Sink(Protocol):
    """The connection, as an answer knows it. Both writes wait while the client does not read, and raise ClientGone."""

    async def write_head(self, stream_id: int, fields: Headers, *, ends: bool, flushes: bool) -> None:
        """Send a head; `ends`: it is all; not `flushes`: a `write` follows at once."""
        ...

    async def write(self, stream_id: int, data: bytes, *, ends: bool) -> None:
        """Send part of a body; `ends`: it is the last."""
        ...

    def abort(self, stream_id: int) -> None:
        """Tell the client that no more of the answer comes."""
        ...


class Stage(Enum):
    """How far an answer has come."""

    NEW = 0
    STARTED = 1
    ENDED = 2
    ABORTED = 3


class Http2Responder:
    """`gateway.http.Responder` over one stream. What comes after `end` or `abort` is ignored."""

    __slots__ = ("_declared", "_has_body", "_is_head", "_sink", "_stream_id", "stage")

    def __init__(self, sink: Sink, stream_id: int, *, is_head: bool) -> None:
        self._sink = sink
        self._stream_id = stream_id
        self._is_head = is_head
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

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, head and body at once."""
        self._require_new()
        length = None if status in _LENGTHLESS else 0 if status in _BODYLESS else len(body)
        fields = answer_fields(status, headers, length)
        data = b"" if self._is_head or status in _BODYLESS else body
        self.stage = Stage.STARTED
        await self._sink.write_head(self._stream_id, fields, ends=not data, flushes=not data)
        if data:
            await self._sink.write(self._stream_id, data, ends=True)
        self.stage = Stage.ENDED

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head; a declared length is kept."""
        self._require_new()
        self._has_body = not self._is_head and status not in _BODYLESS
        length = None if status in _LENGTHLESS else declared_bytes(headers)
        self._declared = length if self._has_body else None
        fields = answer_fields(status, headers, length)
        self.stage = Stage.STARTED
        await self._sink.write_head(self._stream_id, fields, ends=False, flushes=True)

    async def write(self, chunk: bytes) -> None:
        """Send one chunk.

        Raises:
            RuntimeError: the answer grows beyond its declared length.
        """
        if not chunk or not self._has_body or self.stage is not Stage.STARTED:
            await trio.lowlevel.checkpoint()  # a handler that only writes must still meet its cancellation
            return
        if self._declared is not None:
            if len(chunk) > self._declared:
                raise RuntimeError("the answer is longer than it declared")
            self._declared -= len(chunk)
        await self._sink.write(self._stream_id, chunk, ends=False)

    async def end(self) -> None:
        """End the answer properly; one that is shorter than declared is aborted."""
        if self.stage is not Stage.STARTED:
            return
        if self._declared:
            self.abort()
            return
        await self._sink.write(self._stream_id, b"", ends=True)
        self.stage = Stage.ENDED

    def abort(self) -> None:
        """Reset the stream: the client sees that the answer is incomplete."""
        if not self.is_finished:
            self.stage = Stage.ABORTED
            self._sink.abort(self._stream_id)

    async def fail(self) -> None:
        """Tell the client that its request failed here, as far as that can still be told."""
        if self.stage is Stage.NEW:
            await self.send(500, [(b"content-type", b"application/json")], error_body(500, "The gateway failed."))
        else:
            self.abort()

    def _require_new(self) -> None:
        if self.stage is not Stage.NEW:
            raise RuntimeError("the answer has begun already")
