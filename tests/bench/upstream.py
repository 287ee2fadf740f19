"""A fast fake provider for benchmarks: one epoll loop, no framework. `python upstream.py PORT`, `--help` for its options.

A request whose body asks to stream gets so many server-sent events, so far apart, each with the monotonic time of its sending; any other
gets one fixed answer. A peer that does not read gets its next events later: no more than a socket's buffer and one event wait for it.
It answers OpenAI chat only and checks nothing: tests have a fake of their own that does.
"""

import argparse
import heapq
import itertools
import json
import re
import select
import socket
import ssl
import time
from dataclasses import dataclass

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAMS = re.compile(rb'"stream": *true')
_TEXT = "x" * 200
_ANSWER = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": _TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
).encode()
_UNARY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(_ANSWER), _ANSWER)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Shape:
    """What a stream is like: how many events, how far apart, and how many bytes each says beyond its one word."""

    chunks: int = 50
    gap_s: float = 0.02
    padding: int = 0


def event(number: int, shape: Shape) -> bytes:
    """One chunk of a stream, framed."""
    finish = '"stop"' if number == shape.chunks - 1 else "null"
    data = (
        f'data: {{"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","t":{time.monotonic_ns()},'
        f'"choices":[{{"index":0,"delta":{{"content":"word {number} {"x" * shape.padding}"}},"finish_reason":{finish}}}]}}\n\n'
    ).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


class Upstream:
    """The loop and its connections."""

    def __init__(self, port: int, shape: Shape, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        self._shape, self._tls = shape, tls
        self._poll = select.epoll()
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._open: dict[int, socket.socket] = {}
        self._received: dict[int, bytes] = {}
        self._unsent: dict[int, bytearray] = {}
        self._due: list[tuple[float, int, int, socket.socket, int]] = []
        self._order = itertools.count()

    def run(self) -> None:
        """Serve until killed."""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else -1
            for descriptor, happened in self._poll.poll(wait_s):
                if descriptor == self._listener.fileno():
                    self._accept()
                    continue
                if happened & select.EPOLLOUT:
                    self._send_rest(descriptor)
                if happened & ~select.EPOLLOUT:
                    self._read(descriptor)
            self._send_due()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:  # the first read shakes hands
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            self._open[connection.fileno()] = connection
            self._received[connection.fileno()] = b""
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def _read(self, descriptor: int) -> None:
        connection = self._open.get(descriptor)
        if connection is None:
            return
        try:
            data = connection.recv(1 << 18)
            while isinstance(connection, ssl.SSLSocket) and connection.pending():  # epoll does not know what OpenSSL has read already
                data += connection.recv(1 << 18)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            data = b""
        if not data:
            self._close(descriptor)
            return
        received = self._received[descriptor] + data
        while (end := _request_end(received)) is not None:
            self._answer(descriptor, connection, received[:end])
            received = received[end:]
        self._received[descriptor] = received

    def _answer(self, descriptor: int, connection: socket.socket, request: bytes) -> None:
        if _STREAMS.search(request):
            self._send(descriptor, connection, _STREAM_HEAD)
            self._plan(time.monotonic() + self._shape.gap_s, descriptor, connection, 0)
        else:
            self._send(descriptor, connection, _UNARY)

    def _plan(self, due_s: float, descriptor: int, connection: socket.socket, number: int) -> None:
        heapq.heappush(self._due, (due_s, next(self._order), descriptor, connection, number))

    def _send_due(self) -> None:
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            due_s, _, descriptor, connection, number = heapq.heappop(self._due)
            if self._open.get(descriptor) is not connection:
                continue
            if descriptor in self._unsent:
                self._plan(now_s + max(self._shape.gap_s, 0.001), descriptor, connection, number)
                continue
            is_last = number == self._shape.chunks - 1
            self._send(descriptor, connection, event(number, self._shape) + (b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" if is_last else b""))
            if not is_last:
                self._plan(due_s + self._shape.gap_s, descriptor, connection, number + 1)

    def _send(self, descriptor: int, connection: socket.socket, data: bytes) -> None:
        if descriptor in self._unsent:
            self._unsent[descriptor] += data
            return
        sent = self._sent(descriptor, connection, data)
        if sent < len(data):
            self._unsent[descriptor] = bytearray(data[sent:])
            self._poll.modify(descriptor, select.EPOLLIN | select.EPOLLOUT)

    def _send_rest(self, descriptor: int) -> None:
        connection, rest = self._open.get(descriptor), self._unsent.get(descriptor)
        if connection is None or rest is None:
            return
        del rest[: self._sent(descriptor, connection, rest)]
        if not rest and self._unsent.pop(descriptor, None) is not None:
            self._poll.modify(descriptor, select.EPOLLIN)

    def _sent(self, descriptor: int, connection: socket.socket, data: bytes | bytearray) -> int:
        """Send what goes without waiting; how many bytes went, all of them where the connection turned out to be lost."""
        try:
            return connection.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            self._close(descriptor)
            return len(data)

    def _close(self, descriptor: int) -> None:
        connection = self._open.pop(descriptor, None)
        if connection is not None:
            self._received.pop(descriptor, None)
            self._unsent.pop(descriptor, None)
            connection.close()


def _request_end(received: bytes) -> int | None:
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return None
    length = _LENGTH.search(received, 0, head)
    end = head + 4 + (int(length[1]) if length else 0)
    return end if len(received) >= end else None


def main() -> None:
    parser = argparse.ArgumentParser(description="A fast fake provider for benchmarks.")
    parser.add_argument("port", type=int)
    parser.add_argument("--chunks", type=int, default=Shape.chunks, help="events of a stream (default %(default)s)")
    parser.add_argument("--gap", type=float, default=Shape.gap_s, metavar="SECONDS", help="between them (default %(default)s)")
    parser.add_argument("--padding", type=int, default=Shape.padding, metavar="BYTES", help="more in each (default %(default)s)")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="serve HTTPS; two PEM files")
    options = parser.parse_args()
    tls = None
    if options.tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*options.tls)
    Upstream(options.port, Shape(options.chunks, options.gap, options.padding), tls).run()


if __name__ == "__main__":
    main()
