"""HTTP/1.1 by hand on a blocking socket, plain or TLS: sends any bytes, and tells exactly what came back and how it ended.

Independent of every HTTP library of the project, so that it cannot share a fault with them.
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

Headers = list[tuple[str, str]]


@dataclass
class Head:
    """Status line and headers, names as sent."""

    version: str
    status: int
    reason: str
    headers: Headers

    def get(self, name: str) -> str | None:
        """The first value of a header, any case; None if absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def get_all(self, name: str) -> list[str]:
        """Every value of a header, any case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Answer(Head):
    """A whole answer. `is_complete`: its framing ended properly. `chunks` with the seconds since the request was sent."""

    body: bytes = b""
    is_complete: bool = True
    chunks: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ConnectionEnded(Exception):
    """The peer closed or reset where more was due. `received` is what had come."""

    def __init__(self, received: bytes, *, was_reset: bool) -> None:
        super().__init__(f"{'reset' if was_reset else 'closed'} after {len(received)} bytes")
        self.received = received
        self.was_reset = was_reset


class Connection:
    """One client connection; every read ends after `timeout_s` with TimeoutError. With `tls` the server must be `server_name`."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
        server_name: str = "localhost",
    ) -> None:
        plain = socket.create_connection((host, port), timeout=timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=server_name)
        except BaseException:
            plain.close()
            raise
        self._host = f"{host}:{port}"
        self._buffer = bytearray()
        self._sent_at = time.monotonic()
        self._method = "GET"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- sending ----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._sent_at = time.monotonic()
        self._socket.sendall(data)

    def request(self, method: str, target: str, *, headers: Headers | dict[str, str] | None = None, body: bytes | Any = None) -> None:
        """Send a request with host and content-length; a body that is not bytes goes as JSON."""
        self._method = method
        self.send(request_bytes(method, target, host=self._host, headers=headers, body=body))

    def set_timeout(self, timeout_s: float) -> None:
        """Let the reads from now on end after so long."""
        self._socket.settimeout(timeout_s)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close; unread bytes make it a reset, as for any program."""
        self._socket.close()

    def reset(self) -> None:
        """Close with a reset."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # ---- receiving --------------------------------------------------------------------------------------------------

    def read_head(self) -> Head:
        """Read status line and headers; interim answers (1xx but 101) are skipped.

        Raises:
            ConnectionEnded: before the head was complete.
        """
        while True:
            head = parse_head(self._read_until(b"\r\n\r\n"))
            if not (100 <= head.status < 200 and head.status != 101):
                return head

    def read_answer(self) -> Answer:
        """Read a whole answer, however it is framed; never raises for a body that is cut: see `is_complete`."""
        head = self.read_head()
        answer = Answer(head.version, head.status, head.reason, head.headers)
        if self._method == "HEAD" or head.status in (204, 304):
            return answer
        try:
            if "chunked" in (head.get("transfer-encoding") or "").lower():
                while chunk := self.read_chunk():
                    answer.chunks.append((time.monotonic() - self._sent_at, chunk))
            elif (length := head.get("content-length")) is not None:
                answer.chunks.append((time.monotonic() - self._sent_at, self._read_exactly(int(length))))
            else:
                answer.chunks.append((time.monotonic() - self._sent_at, self.read_rest()))
        except ConnectionEnded as ended:
            answer.is_complete = False
            answer.chunks.append((time.monotonic() - self._sent_at, ended.received))
        answer.body = b"".join(chunk for _, chunk in answer.chunks)
        return answer

    def read_chunk(self) -> bytes:
        """Read one chunk of a chunked body; b"" is its proper end, trailers skipped.

        Raises:
            ConnectionEnded: in place of the next chunk.
        """
        size = int(self._read_until(b"\r\n")[:-2].split(b";")[0], 16)
        if size == 0:
            while self._read_until(b"\r\n") != b"\r\n":
                pass
            return b""
        chunk = self._read_exactly(size)
        self._read_exactly(2)
        return chunk

    def read_rest(self) -> bytes:
        """Read until the peer closes.

        Raises:
            ConnectionEnded: it reset.
        """
        while self._receive():
            pass
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def is_closed_by_peer(self) -> bool:
        """Wait for the end of the connection: True if it comes (or came) within the time-out without another byte."""
        try:
            return not self._buffer and not self._receive()
        except ConnectionEnded:
            return True
        except TimeoutError:
            return False

    def _read_until(self, mark: bytes) -> bytes:
        start = 0
        while (at := self._buffer.find(mark, start)) < 0:
            start = max(0, len(self._buffer) - len(mark))
            self._receive_or_end()
        return self._take(at + len(mark))

    def _read_exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive_or_end()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _receive_or_end(self) -> None:
        if not self._receive():
            raise ConnectionEnded(bytes(self._buffer), was_reset=False)

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError):  # over TLS an end without close_notify is no end
            raise ConnectionEnded(bytes(self._buffer), was_reset=True) from None
        self._buffer += data
        return bool(data)


def request_bytes(
    method: str, target: str, *, host: str = "test", headers: Headers | dict[str, str] | None = None, body: bytes | Any = None
) -> bytes:
    """A request with host and, for a body, content-length; a body that is not bytes goes as JSON."""
    given = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
    names = {name.lower() for name, _ in given}
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if "host" not in names:
        given.insert(0, ("Host", host))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        given.append(("Content-Length", str(len(content))))
    if body is not None and not isinstance(body, bytes) and "content-type" not in names:
        given.append(("Content-Type", "application/json"))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content


def parse_head(data: bytes) -> Head:
    """Status line and headers from the bytes up to the empty line."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, status, *reason = first.split(" ", 2)
    headers = [(name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines if line)]
    return Head(version, int(status), reason[0] if reason else "", headers)


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
        connection.request(method, target, headers=headers, body=body)
        return connection.read_answer()


def sse_data(body: bytes) -> list[str]:
    """The data of every event of a complete SSE body, in order (our streams: one `data:` line an event)."""
    return [line.removeprefix("data:").strip() for line in body.decode().splitlines() if line.startswith("data:")]
