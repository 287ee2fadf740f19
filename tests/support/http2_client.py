"""HTTP/2 on a blocking socket, by h2: cleartext by prior knowledge or TLS by ALPN; tells exactly what came back and how it ended.

Shaped as `raw_http`, whose `Answer` it gives.
"""

import contextlib
import json
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import h2.events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from support.raw_http import Answer, ConnectionEnded, Headers

_HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
_GOAWAY = 7


@dataclass
class Exchange:
    """One stream as far as it has come. `reset_code` is None unless the server reset it."""

    sent_at: float
    status: int = 0
    headers: Headers = field(default_factory=list)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)
    is_ended: bool = False
    reset_code: int | None = None


class Connection:
    """One client connection; every read ends after `timeout_s` with TimeoutError.

    `acknowledges`: whether what was read makes room for more; `is_reading`-less clients stall by not calling a read method.
    """

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
        server_name: str = "localhost",
        acknowledges: bool = True,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(timeout_s)
        try:
            sock.connect((host, port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = tls.wrap_socket(sock, server_hostname=server_name) if tls is not None else sock
        except BaseException:
            sock.close()
            raise
        self._scheme = "https" if tls is not None else "http"
        self._authority = f"{host}:{port}"
        self._acknowledges = acknowledges
        self._pending = b""
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1", validate_outbound_headers=False))
        self.streams: dict[int, Exchange] = {}
        self.goaway: tuple[int, int, bytes] | None = None
        """Error code, last stream and message of the first GOAWAY that came."""
        self.is_closed = False
        self.h2.initiate_connection()
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- sending ----------------------------------------------------------------------------------------------------

    def request(self, method: str, target: str, *, headers: Headers | dict[str, str] | None = None, body: bytes | Any = None) -> int:
        """Send a request with content-length, and its body as far as it may go; a body that is not bytes goes as JSON.

        The result is the stream. Headers that HTTP/2 does not have are left out; "host" becomes the authority.
        """
        given = [(name.lower(), value) for name, value in (headers.items() if isinstance(headers, dict) else headers or [])]
        names = {name for name, _ in given}
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        authority = next((value for name, value in given if name == "host"), self._authority)
        fields = [(":method", method), (":scheme", self._scheme), (":authority", authority), (":path", target)]
        fields += [(name, value) for name, value in given if name not in _HOP_BY_HOP]
        if body is not None and "content-length" not in names:
            fields.append(("content-length", str(len(content))))
        if body is not None and not isinstance(body, bytes) and "content-type" not in names:
            fields.append(("content-type", "application/json"))
        stream = self.open(fields, ends=body is None)
        if body is not None:
            self.send_body(stream, content, ends=True)
        return stream

    def open(self, fields: Headers, *, ends: bool = True) -> int:
        """Send a request's head of exactly these fields."""
        stream = self.h2.get_next_available_stream_id()
        self.streams[stream] = Exchange(time.monotonic())
        self.h2.send_headers(stream, fields, end_stream=ends)
        self.flush()
        return stream

    def send_body(self, stream: int, data: bytes, *, ends: bool) -> None:
        """Send a part of a body as the windows allow; gives up where the server has answered or reset the stream."""
        exchange = self.streams[stream]
        at = 0
        while at < len(data):
            size = min(len(data) - at, self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if size > 0:
                self.h2.send_data(stream, data[at : at + size])
                at += size
                self.flush()
            elif exchange.is_ended or exchange.reset_code is not None or not self.receive():
                return
            if exchange.reset_code is not None:
                return
        if ends:
            self.h2.end_stream(stream)
            self.flush()

    def reset(self, stream: int, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Give a stream up."""
        self.h2.reset_stream(stream, code)
        self.flush()

    def flush(self) -> None:
        """Send what h2 has ready."""
        data = self.h2.data_to_send()
        if data:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(data)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def set_timeout(self, timeout_s: float) -> None:
        """Let the reads from now on end after so long."""
        self._socket.settimeout(timeout_s)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close, without a word."""
        self._socket.close()

    def abandon(self) -> None:
        """Close with a reset."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # ---- receiving --------------------------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Read once and take what came; False where the connection has ended."""
        try:
            data = self._socket.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError):
            data = b""
        if not data:
            self.is_closed = True
            return False
        for event in self.h2.receive_data(self._without_goaway(data)):
            self._take(event)
        self.flush()
        return True

    def read_head(self, stream: int) -> Exchange:
        """Read until a stream's head is here.

        Raises:
            ConnectionEnded: before it was; also where the stream was reset.
        """
        exchange = self.streams[stream]
        while not exchange.status:
            if exchange.reset_code is not None or not self.receive():
                raise ConnectionEnded(b"", was_reset=exchange.reset_code is not None)
        return exchange

    def read_chunk(self, stream: int) -> bytes:
        """Read the next DATA of a stream, as it was framed; b"" is its proper end.

        Raises:
            ConnectionEnded: in its place.
        """
        exchange = self.streams[stream]
        while not exchange.chunks:
            if exchange.is_ended:
                return b""
            if exchange.reset_code is not None or not self.receive():
                raise ConnectionEnded(b"", was_reset=exchange.reset_code is not None)
        return exchange.chunks.pop(0)[1]

    def read_answer(self, stream: int) -> Answer:
        """Read a whole answer; never raises for a body that is cut: see `is_complete`.

        Raises:
            ConnectionEnded: before its head was complete.
        """
        exchange = self.read_head(stream)
        while not exchange.is_ended and exchange.reset_code is None and self.receive():
            pass
        answer = Answer("HTTP/2", exchange.status, "", exchange.headers)
        answer.chunks = exchange.chunks
        answer.body = b"".join(chunk for _, chunk in exchange.chunks)
        answer.is_complete = exchange.is_ended
        return answer

    def read_to_end(self) -> None:
        """Read until the server closes the connection."""
        while self.receive():
            pass

    def _take(self, event: h2.events.Event) -> None:
        exchange = self.streams.get(getattr(event, "stream_id", 0) or 0)
        if exchange is None:
            return
        match event:
            case h2.events.InformationalResponseReceived():
                exchange.interim.append(int(dict(event.headers)[":status"]))  # type: ignore[index]
            case h2.events.ResponseReceived():
                fields = [(str(name), str(value)) for name, value in event.headers]
                exchange.status = int(dict(fields)[":status"])
                exchange.headers = [(name, value) for name, value in fields if name != ":status"]
            case h2.events.DataReceived():
                if event.data:
                    exchange.chunks.append((time.monotonic() - exchange.sent_at, event.data))
                if self._acknowledges:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                exchange.is_ended = True
            case h2.events.StreamReset():
                if not exchange.is_ended:
                    exchange.reset_code = int(event.error_code)
            case _:
                pass

    def _without_goaway(self, data: bytes) -> bytes:
        """Take GOAWAY out: h2 would take it for the end of the running streams too."""
        data = self._pending + data
        passed = bytearray()
        at = 0
        while len(data) - at >= 9 and len(data) - at >= (end := 9 + int.from_bytes(data[at : at + 3], "big")):
            frame = data[at : at + end]
            if frame[3] != _GOAWAY:
                passed += frame
            elif self.goaway is None:
                goaway = GoAwayFrame(0)
                goaway.parse_body(memoryview(frame[9:]))
                self.goaway = (goaway.error_code, goaway.last_stream_id, bytes(goaway.additional_data))
            at += end
        self._pending = data[at:]
        return bytes(passed)


def exchange(
    port: int,
    method: str,
    target: str,
    *,
    headers: Headers | dict[str, str] | None = None,
    body: bytes | Any = None,
    timeout_s: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One request on a connection of its own."""
    with Connection(port, timeout_s=timeout_s, tls=tls) as connection:
        return connection.read_answer(connection.request(method, target, headers=headers, body=body))
