"""One exchange on a shared HTTP/2 connection.

Layer: upstream. Source: RFC 9113 §8 (requests and answers as HTTP/2 carries them), §8.7 (what was not processed); behaviour.md §6, §7.
"""

import re
from collections import deque
from typing import Final

import trio
from h2.errors import ErrorCodes
from hpack import NeverIndexedHeaderTuple

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
from gomodel_trio.upstream.h1_parser import MAX_FIELDS, MAX_INFORMATIONAL
from gomodel_trio.upstream.http2_connection import WINDOW_BYTES, Http2Connection
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault

_OF_THE_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te", b"host"})
"""Headers that HTTP/2 does not carry (§8.2.2); host is `:authority`."""
_CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie"})
"""Never to be put into a table of the compression (RFC 7541 §7.1.3)."""
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_UNFIT: Final = re.compile(rb"[\r\n\x00]")
_STATUS: Final = re.compile(rb"[1-9][0-9]{2}")
_REFUSES_BODY: Final = 300
"""From this status on an answer does not wait for the rest of the request."""
_BURST_BYTES: Final = 64 << 10
"""So much of a body is framed before it is sent."""
_CLOSE_S: Final = 1.0


class Http2Carrier:
    """`carrier.Carrier` over a connection that others use too. Exists only while it counts as one of the connection's exchanges."""

    def __init__(self, connection: Http2Connection) -> None:
        self.connection = connection
        self._is_reused = connection.is_used
        connection.join(self)
        self._id = 0
        self._asked_at_s = 0.0
        self._received_before = 0
        self._status = 0
        self._headers: Headers = []
        self._chunks: deque[bytes] = deque()
        self._unread_bytes = 0
        """What of the stream's window the chunks take."""
        self._unreturned_bytes = 0
        self._informational_count = 0
        self._rest = memoryview(b"")
        """What of the request's body has not gone out."""
        self._is_ended = False
        self._failure: TransportError | NotProcessedError | None = None

    async def ask(self, question: Question) -> tuple[int, Headers]:
        """Send and wait for the head."""
        connection = self.connection
        self._asked_at_s = trio.current_time()
        self._received_before = connection.received_count
        self._id = connection.begin(self, _head(question), is_all=not question.body)
        if not self._id and self._failure is None:
            self.on_refusal()
        if self._id:
            await connection.flush()
            self._rest = memoryview(question.body)
            await self._send()
            await connection.until(self, self._has_head)
        if self._failure is not None and not self._status:
            raise self._failure
        return self._status, self._headers

    async def read(self) -> bytes:
        """What has come since; b"" at the proper end."""
        while not self._has_something():
            # An early answer does not end the body: who answers while he reads must get it.
            if not await self._send_some():
                await self.connection.until(self, lambda: self._has_something() or self._can_send())
        if self._chunks:
            content = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            self._return_window()
            await self.connection.flush()
            return content
        if self._failure is not None:
            raise self._failure
        return b""

    async def close(self) -> None:
        """End the exchange; a stream that is not complete is cancelled, the connection stays."""
        with trio.CancelScope(deadline=trio.current_time() + _CLOSE_S, shield=True):
            await self.connection.leave(self, self._id, is_complete=not self._rest and self._is_ended)

    async def _send(self) -> None:
        """Send the body as the windows allow until the answer begins: then the time for its head is over."""
        while self._rest and not self._has_head() and not self._is_body_unwanted():
            if not await self._send_some():
                await self.connection.until(self, lambda: self._has_head() or self._is_body_unwanted() or self._room() > 0)

    async def _send_some(self) -> bool:
        """Send a burst of the body, if it is wanted and there is room for it."""
        burst, h2 = _BURST_BYTES, self.connection.h2
        while burst > 0 and self._can_send():
            room = self._room()
            piece, self._rest = self._rest[:room], self._rest[room:]
            h2.send_data(self._id, bytes(piece), end_stream=not self._rest)
            burst -= room
        if burst == _BURST_BYTES:
            return False
        await self.connection.flush()
        return True

    def _can_send(self) -> bool:
        return bool(self._rest) and not self._is_body_unwanted() and self._room() > 0

    def _room(self) -> int:
        """How large a piece of the body may be now; not above 0: none."""
        h2 = self.connection.h2
        return min(h2.local_flow_control_window(self._id), h2.max_outbound_frame_size)

    def _is_body_unwanted(self) -> bool:
        return self._is_ended or self._failure is not None or self._status >= _REFUSES_BODY

    def _has_head(self) -> bool:
        return bool(self._status) or self._failure is not None

    def _has_something(self) -> bool:
        return bool(self._chunks) or self._is_ended or self._failure is not None

    def _return_window(self) -> None:
        """Let the server send as much more as was read, in a few large steps."""
        self._unreturned_bytes += self._unread_bytes
        self._unread_bytes = 0
        if self._unreturned_bytes < WINDOW_BYTES // 2 or self._is_ended or self._failure is not None:
            return
        self.connection.h2.increment_flow_control_window(self._unreturned_bytes, self._id)
        self._unreturned_bytes = 0

    # ---- what the connection tells --------------------------------------------------------------------------------------------------

    def on_head(self, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer's head."""
        status = dict(headers).get(b":status", b"")
        fields = [(name.lower(), value.strip(b" \t")) for name, value in headers if not name.startswith(b":")]
        is_well_formed = all(_NAME.fullmatch(name) and not _UNFIT.search(value) for name, value in fields)
        if not _STATUS.fullmatch(status) or not is_well_formed or len(fields) > MAX_FIELDS:
            self._failure = not_http()
            return
        self._headers = [(name, value) for name, value in fields if name not in _OF_THE_CONNECTION]
        self._status = int(status)

    def on_informational(self) -> None:
        """An answer of status 1xx, which is passed over."""
        self._informational_count += 1
        if self._informational_count > MAX_INFORMATIONAL:
            self._failure = self._failure or not_http()

    def on_data(self, content: bytes, size: int) -> None:
        """A piece of the body; `size` is what it takes of the window, padding included."""
        if not content:
            self._unreturned_bytes += size
            return
        self._chunks.append(content)
        self._unread_bytes += size

    def on_end(self) -> None:
        """The answer is complete."""
        self._is_ended = True

    def on_reset(self, code: int) -> None:
        """The server has reset the stream; after the answer's end that only says that the request's rest is not wanted."""
        if self._is_ended or self._failure is not None:
            return
        if self._status:
            self._failure = reset_in_body()
        elif code == ErrorCodes.REFUSED_STREAM:
            self.on_refusal()
        else:
            self._failure = TransportError(TransportFault.RESET, "The upstream reset the request before it answered.")

    def on_refusal(self) -> None:
        """The server has not looked at the request and will not."""
        if self._failure is None and not self._is_ended:
            self._failure = NotProcessedError(TransportError(TransportFault.RESET, "The upstream refused to take the request."))

    def on_loss(self, fault: TransportFault) -> None:
        """The connection is gone."""
        if self._is_ended or self._failure is not None:
            return
        if self._status:
            self._failure = {TransportFault.SHORT_BODY: short_body, TransportFault.PROTOCOL: body_not_http}.get(fault, reset_in_body)()
        elif fault is TransportFault.PROTOCOL:
            self._failure = not_http()
        elif self._is_stale():
            self._failure = NotProcessedError(reset_before_head())
        else:
            self._failure = reset_before_head()

    def _is_stale(self) -> bool:
        """Whether the connection was dead before the request: only its end came since."""
        if not self._id:
            return True
        is_soon = trio.current_time() - self._asked_at_s < STALE_S
        return self._is_reused and is_soon and self.connection.received_count == self._received_before


def _head(question: Question) -> list[tuple[bytes, bytes]]:
    """The request's head in HTTP/2's terms; its headers were checked before."""
    message = question.message
    authority = next((value for name, value in message.headers if name.lower() == b"host"), b"")
    fields = [(b":method", message.method), (b":scheme", message.url.scheme), (b":authority", authority), (b":path", message.url.target)]
    for name, value in message.headers:
        lowered = name.lower()
        if lowered not in _OF_THE_CONNECTION:
            fields.append(NeverIndexedHeaderTuple(lowered, value) if lowered in _CREDENTIALS else (lowered, value))
    return fields
