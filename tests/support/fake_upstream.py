"""A provider that does as it is told: raw HTTP/1.1 on trio sockets, recording every request exactly.

Untold, it answers all endpoints of both dialects as the official SDKs expect (tests/integration/test_fake_upstream.py proves it). Tell
it what to answer with `answer` (the next ones), `always` (from now on) or `rule` (by request). Runs in the test's own loop (`open_here`)
or on a thread with a loop of its own (`open_on_thread`), for synchronous tests and processes.
"""

import contextlib
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import trio

from support import anthropic_replies, openai_replies
from support.replies import Reply, Request, openai_error, wire_steps

Ending = Literal["running", "answered", "cut", "client_closed"]
_MAX_HEAD_BYTES = 1 << 20


@dataclass
class Exchange:
    """A request and how its answer ended; `sent_bytes` of it were sent, head and framing included."""

    request: Request
    ending: Ending = "running"
    sent_bytes: int = 0


class FakeUpstream:
    """The fake and its record. May be read from any thread; replies may be told from any thread."""

    def __init__(self) -> None:
        self.port = 0
        self.exchanges: list[Exchange] = []
        self.open_connections = 0
        self.accepted_connections = 0
        self.rule: Callable[[Request], Reply | None] | None = None
        self._queue: deque[tuple[Reply, str | None]] = deque()
        self._always: Reply | None = None
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """The base URL, without a version."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in order of arrival."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def running(self) -> int:
        """How many answers are being given now."""
        return sum(exchange.ending == "running" for exchange in self.exchanges)

    @property
    def client_closes(self) -> int:
        """How many answers the client did not wait for."""
        return sum(exchange.ending == "client_closed" for exchange in self.exchanges)

    def answer(self, *replies: Reply, path: str | None = None) -> None:
        """Answer the next requests (with `path`: those whose path ends so) with these, in order."""
        self._queue.extend((reply, path) for reply in replies)

    def always(self, reply: Reply | None) -> None:
        """Answer everything with this, after what is queued; None: by default again."""
        self._always = reply

    def forget(self) -> None:
        """Answer as untold again; `rule` stays."""
        self._queue.clear()
        self._always = None

    def wait_until(self, is_so: Callable[["FakeUpstream"], bool], timeout_s: float = 5.0) -> None:
        """Block this thread until it is so; asked after every change. Not for the fake's own thread.

        Raises:
            TimeoutError
        """
        with self._changed:
            if not self._changed.wait_for(lambda: is_so(self), timeout_s):
                raise TimeoutError(f"not within {timeout_s} s; exchanges: {[(e.request.target, e.ending) for e in self.exchanges]}")

    async def until(self, is_so: Callable[["FakeUpstream"], bool], timeout_s: float = 5.0) -> None:
        """Wait until it is so, in any loop; asked every 2 ms.

        Raises:
            trio.TooSlowError
        """
        with trio.fail_after(timeout_s):
            while not is_so(self):  # noqa: ASYNC110  # what is asked for may change on another thread
                await trio.sleep(0.002)

    # ---- serving ----------------------------------------------------------------------------------------------------

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started when it listens on a free port of loopback."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self._serve_connection, listeners)
            task_status.started()

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        self.accepted_connections += 1
        connection = _Connection(self, stream, self.accepted_connections)
        self._count_connection(1)
        try:
            await connection.run()
        finally:
            self._count_connection(-1)

    def _count_connection(self, change: int) -> None:
        with self._changed:
            self.open_connections += change
            self._changed.notify_all()

    def begin(self, request: Request) -> Exchange:
        """Record a request."""
        exchange = Exchange(request)
        with self._changed:
            self.exchanges.append(exchange)
            self._changed.notify_all()
        return exchange

    def end(self, exchange: Exchange, ending: Ending) -> None:
        """Record how its answer ended, once."""
        with self._changed:
            if exchange.ending == "running":
                exchange.ending = ending
            self._changed.notify_all()

    def reply_to(self, request: Request) -> Reply:
        """What was told for this request, else the default."""
        for entry in list(self._queue):
            if entry[1] is None or request.path.endswith(entry[1]):
                self._queue.remove(entry)
                return entry[0]
        ruled = self.rule(request) if self.rule is not None else None
        return ruled or self._always or default_reply(request)


class _Connection:
    """One client's connection: a pump reads on while answers are sent, so that the client's leaving is seen at once."""

    def __init__(self, upstream: FakeUpstream, stream: trio.SocketStream, number: int) -> None:
        self._upstream = upstream
        self._stream = stream
        self._number = number
        self._buffer = bytearray()
        self._more = trio.Event()
        self._is_ended = False
        self._answering: trio.CancelScope | None = None

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump)
                while (request := await self._read_request()) is not None:
                    if not await self._answer(request):
                        break
                nursery.cancel_scope.cancel()
        finally:
            self._stream.socket.close()

    async def _pump(self) -> None:
        while not self._is_ended:
            try:
                data = await self._stream.receive_some(65536)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self._buffer += data
            self._is_ended = not data
            self._more.set()
            self._more = trio.Event()
        if self._answering is not None:
            self._answering.cancel()

    async def _read_request(self) -> Request | None:
        """The next request; None if the client has no more."""
        head = await self._take_until(b"\r\n\r\n")
        if head is None:
            return None
        first, *lines = head[:-4].split(b"\r\n")
        method, target, version = first.decode("latin-1").split(" ", 2)
        headers = tuple((name, value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines))
        lowered = {name.lower(): value for name, value in headers}
        if lowered.get(b"expect", b"").lower() == b"100-continue":
            with contextlib.suppress(trio.BrokenResourceError):
                await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        if b"chunked" in lowered.get(b"transfer-encoding", b"").lower():
            body = await self._take_chunked()
        else:
            body = await self._take(int(lowered.get(b"content-length", b"0")))
        if body is None:
            return None
        return Request(len(self._upstream.exchanges) + 1, self._number, method, target, version, headers, body)

    async def _answer(self, request: Request) -> bool:
        """Answer; whether the connection stays open."""
        exchange = self._upstream.begin(request)
        reply = self._upstream.reply_to(request)
        with trio.CancelScope() as self._answering:
            if self._is_ended:
                self._answering.cancel()
            try:
                for step in wire_steps(reply, request.method):
                    if isinstance(step, bytes):
                        await self._stream.send_all(step)
                        exchange.sent_bytes += len(step)
                    else:
                        await trio.sleep(step)
                if reply.ending == "stall":
                    await trio.sleep_forever()
            except trio.BrokenResourceError:
                self._answering.cancel()
        has_left = self._answering.cancelled_caught or self._answering.cancel_called
        self._answering = None
        self._upstream.end(exchange, "client_closed" if has_left else "answered" if reply.ending == "proper" else "cut")
        if reply.ending == "reset":
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wants_close = (request.header("connection") or "").lower() == "close"
        return not has_left and reply.ending == "proper" and reply.framing != "close" and not wants_close

    async def _take_until(self, mark: bytes) -> bytes | None:
        start = 0
        while (at := self._buffer.find(mark, start)) < 0:
            start = max(0, len(self._buffer) - len(mark))
            if self._is_ended or len(self._buffer) > _MAX_HEAD_BYTES:
                return None
            await self._more.wait()
        return await self._take(at + len(mark))

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if self._is_ended:
                return None
            await self._more.wait()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _take_chunked(self) -> bytes | None:
        body = b""
        while (line := await self._take_until(b"\r\n")) is not None:
            size = int(line[:-2].split(b";")[0], 16)
            if size == 0:
                while (trailer := await self._take_until(b"\r\n")) is not None and trailer != b"\r\n":
                    pass
                return None if trailer is None else body
            chunk = await self._take(size + 2)
            if chunk is None:
                return None
            body += chunk[:-2]
        return None


def default_reply(request: Request) -> Reply:
    """What an ordinary provider answers."""
    path, body = request.path, request.json if isinstance(request.json, dict) else {}
    is_anthropic = request.header("anthropic-version") is not None
    named = re.search(r"/models/(.+)$", path)
    if request.method == "GET" and (named or path.endswith("/models")):
        model = named[1] if named else None
        return anthropic_replies.models(model) if is_anthropic else openai_replies.models(model)
    if "/messages" in path and not is_anthropic:
        return anthropic_replies.version_missing()
    for ending, answer in (
        ("/chat/completions", openai_replies.chat),
        ("/responses", openai_replies.responses),
        ("/embeddings", openai_replies.embeddings),
        ("/messages", anthropic_replies.messages),
    ):
        if request.method == "POST" and path.endswith(ending):
            return answer(body)
    if request.method == "POST" and path.endswith("/messages/count_tokens"):
        return anthropic_replies.count_tokens(request.body)
    return openai_error(404, f"Unknown request URL: {request.method} {path}.", "unknown_url", "invalid_request_error")


@contextlib.asynccontextmanager
async def open_here() -> AsyncIterator[FakeUpstream]:
    """Serve in a nursery of the calling task."""
    upstream = FakeUpstream()
    async with trio.open_nursery() as nursery:
        await nursery.start(upstream.serve)
        yield upstream
        nursery.cancel_scope.cancel()


@contextlib.contextmanager
def open_on_thread() -> Iterator[FakeUpstream]:
    """Serve on a thread of its own."""
    upstream = FakeUpstream()
    is_ready = threading.Event()
    stop: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(upstream.serve)
            stop.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
            is_ready.set()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            failures.append(error)
        finally:
            is_ready.set()

    thread = threading.Thread(target=run, name="fake-upstream", daemon=True)
    thread.start()
    is_ready.wait()
    try:
        yield upstream
    finally:
        for each in stop:
            with contextlib.suppress(trio.RunFinishedError):
                each()
        thread.join(10.0)
    for failure in failures:
        raise failure
