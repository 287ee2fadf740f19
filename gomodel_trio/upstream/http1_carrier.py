"""One exchange over httpcore's HTTP/1.1 connection: bodies as they come, faults named, nothing left suspended.

Layer: upstream. Source: behaviour.md §6, §7; architecture.md rule 8 (httpcore's and h11's exceptions are mapped here and nowhere else).
"""

import contextlib
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final, Self, cast

import h11
import httpcore
import trio

from gomodel_trio.upstream.carrier import (
    STALE_S,
    NotProcessedError,
    Question,
    body_not_http,
    not_http,
    reset_before_head,
    reset_in_body,
    short_body,
)
from gomodel_trio.upstream.h1_parser import MAX_HEAD_BYTES
from gomodel_trio.upstream.h1_request import Origin
from gomodel_trio.upstream.link import close_now, is_readable
from gomodel_trio.upstream.proxy import Proxy
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault

_FOREIGN = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.ConnectionNotAvailable, h11.ProtocolError)
_CLOSE_S: Final = 1.0
"""The bound of a close, which waits for nobody but runs shielded."""
_CUT: Final = "peer closed connection without sending complete message body"
"""h11's words for a body that ends before its length or its last chunk."""
_SLICE_BYTES: Final = 64 << 10
"""So much of a body is written at once; a longer one is sent while watching for an answer that does not wait for it."""
_PATIENCE_S: Final = 1.0
"""So long a server that has begun to answer well may take nothing of the body before the answer is handed on without the rest."""
_FINAL: Final = re.compile(
    rb"(?:HTTP/1\.[01] 1\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)*"
    rb"HTTP/1\.[01] ([2-9])\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n"
)
"""An answer's whole head, with informational ones before it."""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")


class Http1Connection:
    """httpcore's connection on a stream. `proxy`: requests go to this one, which forwards them, instead of to the origin itself."""

    def __init__(self, stream: trio.abc.Stream, origin: Origin, proxy: Proxy | None, keep_alive_s: float) -> None:
        scheme, host, port = origin if proxy is None else proxy[:3]
        self._origin = httpcore.Origin(scheme.encode("ascii"), host.encode("ascii"), port)
        self._prefix = b"" if proxy is None else _absolute(origin)
        self._headers = [] if proxy is None else proxy.headers
        self._stream = stream
        self._link = _LinkStream(stream)
        self._http = httpcore.AsyncHTTP11Connection(self._origin, self._link, keepalive_expiry=keep_alive_s)
        self.is_used = False

    @property
    def has_received(self) -> bool:
        """Whether any byte came since the exchange began."""
        return self._link.has_received

    @property
    def can_serve(self) -> bool:
        """Whether it waits for an exchange and the server has neither closed it nor spoken."""
        return self.is_idle() and not self._http.has_expired()

    async def send(self, message: httpcore.Request) -> httpcore.Response:
        """Begin an exchange."""
        self._link.has_received = False
        origin, target = self._origin, self._prefix + message.url.target
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        content = cast(AsyncIterable[bytes], message.stream)
        return await self._http.handle_async_request(
            httpcore.Request(message.method, url, headers=[*self._headers, *message.headers], content=content)
        )

    def is_idle(self) -> bool:
        """Whether the last exchange is complete, both sides keep the connection, and nothing came behind the answer.

        What came behind it would be taken for the answer to the next request, which may be another client's.
        """
        return self._http.is_idle() and not self._http._h11_state.trailing_data[0]

    async def close(self) -> None:
        """Close at once."""
        await close_now(self._stream)
        with trio.CancelScope(shield=True):
            await self._http.aclose()


class Http1Carrier:
    """`carrier.Carrier` over a connection of its own."""

    def __init__(self, connection: Http1Connection) -> None:
        self.connection = connection
        self._is_reused = connection.is_used
        self._answer: httpcore.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._is_complete = False

    async def ask(self, question: Question) -> tuple[int, Headers]:
        """Send and wait for the head."""
        began_s = trio.current_time()
        self.connection.is_used = True
        try:
            self._answer = answer = await self.connection.send(question.message)
        except _FOREIGN as error:
            fault = _fault_before_head(error)
            is_dead = self._is_reused and not self.connection.has_received and trio.current_time() - began_s < STALE_S
            raise (NotProcessedError(fault) if is_dead else fault) from None
        return answer.status, [(name.lower(), value) for name, value in answer.headers]

    async def read(self) -> bytes:
        """The next chunk; b"" at the proper end."""
        assert self._answer is not None
        if self._chunks is None:
            self._chunks = cast(AsyncIterable[bytes], self._answer.stream).__aiter__()
        try:
            while True:
                chunk = await self._chunks.__anext__()
                if chunk:
                    return chunk
        except StopAsyncIteration:
            self._is_complete = True
            return b""
        except _FOREIGN as error:
            raise _fault_in_body(error) from None

    async def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        with trio.CancelScope(deadline=trio.current_time() + _CLOSE_S, shield=True):
            if self._chunks is not None and not self._is_complete:
                await self._unwind(self._chunks)
            elif self._answer is not None:
                await self._answer.aclose()
        if not self.connection.is_idle():
            await self.connection.close()

    async def _unwind(self, chunks: AsyncIterator[bytes]) -> None:
        """End httpcore's suspended generators by a cancelled read: dropped as they are, they would end at some later time."""
        with trio.CancelScope() as cancelled, contextlib.suppress(StopAsyncIteration, RuntimeError, *_FOREIGN):
            cancelled.cancel()
            while True:
                await chunks.__anext__()


class Body:
    """A request's body for httpcore; no generator, which a cancelled send would leave suspended."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._is_due = False

    def __aiter__(self) -> Self:
        self._is_due = bool(self._content)
        return self

    async def __anext__(self) -> bytes:
        if not self._is_due:
            raise StopAsyncIteration
        self._is_due = False
        return self._content


class _LinkStream(httpcore.AsyncNetworkStream):
    """A trio stream in httpcore's terms. Time is bounded by the caller's scopes, not by the timeouts passed."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.has_received = False
        self._stream = stream
        self._early = bytearray()
        """What came while a body was being written."""
        self._written_at_s = 0.0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes; b"" at the end."""
        del timeout
        if self._early:
            early = bytes(self._early[:max_bytes])
            del self._early[:max_bytes]
            return early
        try:
            received = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise httpcore.ReadError from None
        self.has_received = self.has_received or bool(received)
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write everything; where an answer comes before that, WriteError, after which httpcore reads it and gives the connection up."""
        del timeout
        if len(buffer) > _SLICE_BYTES:
            await self._write_watching(memoryview(buffer))
        elif buffer:
            try:
                await self._stream.send_all(buffer)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise httpcore.WriteError from None

    async def _write_watching(self, rest: memoryview) -> None:
        self._written_at_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while rest:
                    await self._stream.send_all(rest[:_SLICE_BYTES])
                    rest = rest[_SLICE_BYTES:]
                    self._written_at_s = trio.current_time()
            nursery.cancel_scope.cancel()
        if rest:
            raise httpcore.WriteError

    async def _watch(self, writing: trio.CancelScope) -> None:
        """End the writing when an answer has begun that refuses the body, or does not take it, or when none can come any more."""
        head = None
        while head is None and len(self._early) <= MAX_HEAD_BYTES:
            try:
                received = await self._stream.receive_some(_SLICE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                received = b""
            if not received:
                break
            self.has_received = True
            self._early += received
            if _BLANK_LINE.search(self._early, max(0, len(self._early) - len(received) - 2)) is not None:
                head = _FINAL.match(self._early)
        while head is not None and head[1] == b"2" and trio.current_time() < self._written_at_s + _PATIENCE_S:  # noqa: ASYNC110  # each write moves it
            await trio.sleep_until(self._written_at_s + _PATIENCE_S)
        writing.cancel()

    async def aclose(self) -> None:
        """Close without waiting for the peer."""
        await close_now(self._stream)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks about: whether the peer has sent something, or hung up, on an idle connection."""
        return (bool(self._early) or is_readable(self._stream)) if info == "is_readable" else None


def _absolute(origin: Origin) -> bytes:
    """What comes before the path in a request to a proxy that forwards."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"{origin.scheme}://{host}{'' if origin.port == 80 else f':{origin.port}'}".encode("ascii")


def _fault_before_head(error: Exception) -> TransportError:
    match error:
        case httpcore.LocalProtocolError() | h11.LocalProtocolError():
            return TransportError(TransportFault.PROTOCOL, "The request could not be sent: a header of it is not valid HTTP.")
        case httpcore.RemoteProtocolError() if "disconnected" not in str(error):
            return not_http()
        case _:
            return reset_before_head()


def _fault_in_body(error: Exception) -> TransportError:
    match error:
        case httpcore.RemoteProtocolError() if _CUT in str(error):
            return short_body()
        case httpcore.ProtocolError() | h11.ProtocolError():
            return body_not_http()
        case _:
            return reset_in_body()
