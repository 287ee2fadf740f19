"""A load of concurrent streams: one epoll loop; prints one JSON line. `python stream_load.py URL BODY_FILE STREAMS SECONDS [WARM_UP]`.

Every stream that ends is followed by a new one on its connection until the time is up. The delay of a chunk is from the upstream's sending
(its field `t`, the same monotonic clock) to its arrival here.
"""

import json
import re
import select
import socket
import sys
import time
from urllib.parse import urlsplit

_SENT = re.compile(rb'"t":(\d+)')


class Stream:
    """One connection and the answer that comes on it."""

    __slots__ = ("has_begun", "socket", "started_s", "tail")

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.tail = b""
        self.started_s = 0.0
        self.has_begun = False


class Load:
    """The loop and its counts."""

    def __init__(self, url: str, body: bytes, streams: int) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
        self._request = f"{head}authorization: Bearer bench\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        self._poll = select.epoll()
        self._streams: dict[int, Stream] = {}
        self.wanted = streams
        self.first_s: list[float] = []
        self.delays_s: list[float] = []
        self.chunks = self.done = self.errors = 0

    def run(self, seconds: float, warm_up_s: float) -> float:
        """Run for so long; the seconds that were counted."""
        began = time.monotonic()
        for _ in range(self.wanted):
            self._open()
        if warm_up_s:
            self._read_until(began + warm_up_s, began + warm_up_s + seconds)
            self.chunks = self.done = self.errors = 0
            self.first_s, self.delays_s = [], []
            began = time.monotonic()
        self._read_until(began + seconds, began + seconds)
        return time.monotonic() - began

    def _read_until(self, until_s: float, last_s: float) -> None:
        while (left_s := until_s - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(min(left_s, 0.2)):
                self._read(self._streams[descriptor], time.monotonic() < last_s)

    def _open(self) -> None:
        opened = socket.create_connection(self._address)
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = Stream(opened)
        self._streams[opened.fileno()] = stream
        self._poll.register(opened.fileno(), select.EPOLLIN)
        self._begin(stream)

    def _begin(self, stream: Stream) -> None:
        stream.tail, stream.has_begun, stream.started_s = b"", False, time.monotonic()
        stream.socket.send(self._request)

    def _read(self, stream: Stream, may_go_on: bool) -> None:
        try:
            data = stream.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now_ns = time.monotonic_ns()
        if not data:
            self.errors += 1
            self._poll.unregister(stream.socket.fileno())
            del self._streams[stream.socket.fileno()]
            stream.socket.close()
            if may_go_on:
                self._open()
            return
        text = stream.tail + data
        cut = text.rfind(b"\n") + 1
        for sent in _SENT.finditer(text, 0, cut):
            self.chunks += 1
            self.delays_s.append((now_ns - int(sent[1])) / 1e9)
            if not stream.has_begun:
                stream.has_begun = True
                self.first_s.append(now_ns / 1e9 - stream.started_s)
        stream.tail = text[cut:]
        if text.endswith(b"0\r\n\r\n"):
            self.done += 1
            if may_go_on:
                self._begin(stream)


def percentile_ms(values: list[float], share: float) -> float | None:
    """The value below which `share` of them lie, in ms."""
    if not values:
        return None
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000, 2)


def main() -> None:
    url, body_file, streams, seconds, *warm_up_s = sys.argv[1:]
    with open(body_file, "rb") as file:
        load = Load(url, file.read(), int(streams))
    took_s = load.run(float(seconds), float(warm_up_s[0]) if warm_up_s else 0.0)
    line = {
        "streams": load.wanted,
        "chunks_per_s": round(load.chunks / took_s, 1),
        "done": load.done,
        "errors": load.errors,
        "first_p50_ms": percentile_ms(load.first_s, 0.5),
        "first_p99_ms": percentile_ms(load.first_s, 0.99),
        "delay_p50_ms": percentile_ms(load.delays_s, 0.5),
        "delay_p99_ms": percentile_ms(load.delays_s, 0.99),
    }
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
