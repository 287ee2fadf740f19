"""One request as the handler sees it, and its body as it comes off the connection.

Layer: listen. Implements `gateway.http.Request`. Source: RFC 9112 §6, §7; RFC 9110 §10.1.1 (100-continue).
"""

import io
from typing import Protocol

from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h1_chunks import ChunkedDecoder
from gomodel_trio.listen.h1_parser import Head, Refusal

_READ_BYTES = 262144
_CHUNKED_READ_BYTES = 65536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Source(Protocol):
    """The connection, as a request knows it. `buffer` is what was read beyond the last thing that was wanted."""

    buffer: bytes
    is_gone: bool

    def begin_body(self) -> None:
        """The client now owes a body, and no longer counts as waiting."""
        ...

    def end_body(self) -> None:
        """The body has come, or is given up."""
        ...

    async def receive_body(self, most_bytes: int) -> bytes:
        """Read what there is; raises ClientGone at its end."""
        ...

    async def write(self, data: bytes) -> None: ...

    def refuse(self, refusal: Refusal) -> None:
        """Take the client for gone, and answer in the handler's place unless it has begun."""
        ...


class H1Request:
    """`gateway.http.Request` over one connection."""

    __slots__ = ("_expects_continue", "_is_begun", "_remaining", "_source", "headers", "method", "path", "peer", "query", "raw_path")

    def __init__(self, head: Head, source: Source, peer: str) -> None:
        self.method = head.method
        self.path = head.path
        self.raw_path = head.raw_path
        self.query = head.query
        self.headers: Headers = head.headers
        self.peer = peer
        self._source = source
        self._remaining = head.body_bytes
        """Of the body, what is yet to be read; None while that is not known."""
        self._expects_continue = head.expects_continue
        self._is_begun = False

    @property
    def is_disconnected(self) -> bool:
        return self._source.is_gone

    async def read_body(self, limit_bytes: int) -> bytes:
        """Read the whole body; at most once."""
        declared = self._remaining
        if declared == 0 and not self._is_begun:
            return b""
        if self._is_begun:
            raise RuntimeError("the body has been read or given up already")
        if declared is not None and declared > limit_bytes:
            raise _too_large(limit_bytes)
        self._is_begun = True
        source = self._source
        if declared is not None and len(source.buffer) >= declared:
            return self._take(declared)
        source.begin_body()
        try:
            if self._expects_continue and not source.buffer:
                await source.write(_CONTINUE)
            return await (self._read_chunked(limit_bytes) if declared is None else self._read_declared(declared))
        except Refusal as refusal:
            source.refuse(refusal)
            raise ClientGone from None
        finally:
            source.end_body()

    def discard(self) -> bool:
        """Drop a body that nobody has read, if all of it is here already; whether nothing of it is outstanding."""
        if self._remaining and not self._is_begun and len(self._source.buffer) >= self._remaining:
            self._take(self._remaining)
        return self._remaining == 0

    def _take(self, size: int) -> bytes:
        buffer = self._source.buffer
        self._source.buffer = buffer[size:]
        self._is_begun = True
        self._remaining = 0
        return buffer[:size]

    async def _read_declared(self, size: int) -> bytes:
        # Not a bytearray: taking the bytes out of that would copy them all again.
        body = io.BytesIO()
        received = body.write(self._source.buffer)
        self._source.buffer = b""
        while received < size:
            received += body.write(await self._source.receive_body(min(size - received, _READ_BYTES)))
        self._remaining = 0
        return body.getvalue()

    async def _read_chunked(self, limit_bytes: int) -> bytes:
        decoder = ChunkedDecoder()
        data, self._source.buffer = self._source.buffer, b""
        body = bytearray()
        while True:
            body += decoder.feed(data)
            if len(body) > limit_bytes:
                raise _too_large(limit_bytes)
            if decoder.is_complete:
                self._source.buffer = decoder.rest
                self._remaining = 0
                return bytes(body)
            data = await self._source.receive_body(_CHUNKED_READ_BYTES)


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than the limit of {limit_bytes} bytes.")
