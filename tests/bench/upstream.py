"""A fast fake provider for benchmarks: one epoll loop, no framework. `python upstream.py PORT`.

A request whose body asks to stream gets CHUNKS server-sent events, GAP_S apart, each with the monotonic time of its sending; any other gets
one fixed answer. It answers OpenAI chat only and checks nothing: tests have a fake of their own that does.
"""

import heapq
import itertools
import json
import re
import select
import socket
import sys
import time

CHUNKS = 50
GAP_S = 0.02
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


def event(number: int) -> bytes:
    """One chunk of a stream, framed."""
    finish = '"stop"' if number == CHUNKS - 1 else "null"
    data = (
        f'data: {{"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","t":{time.monotonic_ns()},'
        f'"choices":[{{"index":0,"delta":{{"content":"word {number} "}},"finish_reason":{finish}}}]}}\n\n'
    ).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


class Upstream:
    """The loop and its connections."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._open: dict[int, socket.socket] = {}
        self._received: dict[int, bytes] = {}
        self._due: list[tuple[float, int, int, int]] = []
        self._order = itertools.count()

    def run(self) -> None:
        """Serve until killed."""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else -1
            for descriptor, _ in self._poll.poll(wait_s):
                if descriptor == self._listener.fileno():
                    self._accept()
                else:
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
            self._open[connection.fileno()] = connection
            self._received[connection.fileno()] = b""
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def _read(self, descriptor: int) -> None:
        connection = self._open.get(descriptor)
        if connection is None:
            return
        try:
            data = connection.recv(1 << 18)
        except BlockingIOError:
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
            heapq.heappush(self._due, (time.monotonic() + GAP_S, next(self._order), descriptor, 0))
        else:
            self._send(descriptor, connection, _UNARY)

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            due_s, _, descriptor, number = heapq.heappop(self._due)
            connection = self._open.get(descriptor)
            if connection is None:
                continue
            is_last = number == CHUNKS - 1
            self._send(descriptor, connection, event(number) + (b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" if is_last else b""))
            if not is_last:
                heapq.heappush(self._due, (due_s + GAP_S, next(self._order), descriptor, number + 1))

    def _send(self, descriptor: int, connection: socket.socket, data: bytes) -> None:
        # What is sent fits a socket's buffer; a peer that lets it fill up has given up on the benchmark.
        try:
            connection.send(data)
        except OSError:
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        connection = self._open.pop(descriptor, None)
        if connection is not None:
            self._received.pop(descriptor, None)
            connection.close()


def _request_end(received: bytes) -> int | None:
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return None
    length = _LENGTH.search(received, 0, head)
    end = head + 4 + (int(length[1]) if length else 0)
    return end if len(received) >= end else None


if __name__ == "__main__":
    Upstream(int(sys.argv[1])).run()
