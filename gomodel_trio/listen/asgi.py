"""The gateway as an ASGI application: one Handler behind the scopes http, lifespan and websocket.

Layer: listen. Adapts ASGI to `gateway.http`'s Request and Responder. Source: the ASGI specification (HTTP & WebSocket 2.x, lifespan 2.0);
architecture.md (facts found by trying).

After a hang-up `send()` still succeeds silently: only `receive()` tells. So a watcher beside the handler drains `receive()` once nobody
else reads from it: at once for a request without a body, when the body is read, or when the answer has begun. It says so and cancels the
handler. A handler that answers without reading the body therefore never asks for it, and `Expect: 100-continue` is not answered.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from enum import Enum
from typing import Any
from urllib.parse import unquote_to_bytes

import trio

from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.http import Handler, Headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
OnError = Callable[[BaseException], None]
"""Told of every exception that no handler caught, once each."""

_INTERNAL_ERROR = b'{"type":"error","error":{"message":"The gateway failed.","type":"api_error","param":null,"code":"internal_error"}}'
"""A body that clients of either dialect can read: nothing is known here of the path's dialect."""
_FRAMING = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"date"})
"""Headers that belong to the server and its connection."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODYLESS = frozenset({204, 205, 304})


class AsgiApp:
    """The ASGI application. `on_error` gets what the handler failed to handle."""

    def __init__(self, handler: Handler, on_error: OnError) -> None:
        self._handler = handler
        self._on_error = on_error

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, send)
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000, "reason": ""})
            case other:
                raise ValueError(f"no such ASGI scope here: {other}")

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            hang_up = _HangUp(nursery, receive)
            request = AsgiRequest(scope, receive, hang_up)
            responder = AsgiResponder(send, hang_up, is_head=request.method == "HEAD")
            with hang_up.scope:
                if not request.has_body:
                    hang_up.watch()
                failure = await self._handle(request, responder)
                if failure is not None:
                    self._on_error(failure)
                    await responder.fail()
            nursery.cancel_scope.cancel()

    async def _handle(self, request: "AsgiRequest", responder: "AsgiResponder") -> Exception | None:
        """Run the handler; what it failed with, or None where it answered, aborted or lost its client."""
        try:
            await self._handler(request, responder)
        except ClientGone:
            return None
        except Exception as error:
            return _unwrap(error)
        except BaseExceptionGroup as group:
            others = group.split(trio.Cancelled)[1]
            if isinstance(others, Exception):
                self._on_error(others)
                raise _cancellations(group) from None
            raise
        if responder.is_finished or request.is_disconnected:
            return None
        return RuntimeError("the handler returned before it had answered")


class _HangUp:
    """Watches for the client's departure beside the handler."""

    def __init__(self, nursery: trio.Nursery, receive: Receive) -> None:
        self.scope = trio.CancelScope()
        self.is_disconnected = False
        self.is_answered = False
        """From here on http.disconnect only means that the exchange is over."""
        self.is_watching = False
        self._nursery = nursery
        self._receive = receive

    def watch(self) -> None:
        if not self.is_watching:
            self.is_watching = True
            self._nursery.start_soon(self._drain)

    async def _drain(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.is_answered:
            self.is_disconnected = True
            self.scope.cancel()


class AsgiRequest:
    """`gateway.http.Request` over one ASGI http scope."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, hang_up: _HangUp) -> None:
        self.method: str = scope["method"]
        self.raw_path = _origin_form(scope.get("raw_path") or str(scope["path"]).encode("utf-8"))
        self.path = unquote_to_bytes(self.raw_path).decode("utf-8", "replace")
        self.query: bytes = scope.get("query_string") or b""
        self.headers: Headers = [(name.lower(), value) for name, value in scope["headers"]]
        self.peer = _peer(scope.get("client"))
        self._receive = receive
        self._hang_up = hang_up
        self._is_read = False

    @property
    def is_disconnected(self) -> bool:
        return self._hang_up.is_disconnected

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        return self._declared_bytes() != 0

    async def read_body(self, limit_bytes: int) -> bytes:
        """Read the whole body; at most once, and before the answer begins."""
        declared = self._declared_bytes()
        if declared == 0:
            return b""
        if self._is_read or self._hang_up.is_watching:
            raise RuntimeError("the body has been read or given up already")
        self._is_read = True
        if declared is not None and declared > limit_bytes:
            raise _too_large(limit_bytes)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._hang_up.is_disconnected = True
                raise ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            chunks.append(chunk)
            if not message.get("more_body", False):
                self._hang_up.watch()
                return b"".join(chunks)

    def _declared_bytes(self) -> int | None:
        """The length of the body as announced; None where it is only known at its end."""
        declared: bytes | None = None
        for name, value in self.headers:
            if name == b"transfer-encoding":
                return None
            if name == b"content-length":
                declared = value
        if declared is None:
            return 0
        return int(declared) if declared.isdigit() and len(declared) <= 18 else None


class _Stage(Enum):
    NEW = 0
    STARTED = 1
    ENDED = 2
    ABORTED = 3


class AsgiResponder:
    """`gateway.http.Responder` over ASGI's send. What comes after `end` or `abort` is ignored."""

    def __init__(self, send: Send, hang_up: _HangUp, *, is_head: bool) -> None:
        self._send = send
        self._hang_up = hang_up
        self._is_head = is_head
        self._has_body = True
        self._stage = _Stage.NEW

    @property
    def has_started(self) -> bool:
        return self._stage is not _Stage.NEW

    @property
    def is_finished(self) -> bool:
        return self._stage in (_Stage.ENDED, _Stage.ABORTED)

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer; the body goes out before the end is marked, so that a hang-up is still seen while the client reads."""
        complete = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        if status not in _BODYLESS:
            complete.append((b"content-length", b"%d" % len(body)))
        await self.start(status, complete)
        await self.write(body)
        await self.end()

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head."""
        if self._stage is not _Stage.NEW:
            raise RuntimeError("the answer has begun already")
        clean = [(name.lower(), _CONTROL.sub(b" ", value)) for name, value in headers if name.lower() not in _FRAMING]
        self._has_body = not self._is_head and status not in _BODYLESS
        self._stage = _Stage.STARTED
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": clean})
        except Exception:
            self._stage = _Stage.NEW
            raise
        self._hang_up.watch()

    async def write(self, chunk: bytes) -> None:
        """Send one chunk."""
        if chunk and self._has_body and self._stage is _Stage.STARTED:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        else:
            await trio.lowlevel.checkpoint()

    async def end(self) -> None:
        """End the answer properly."""
        if self._stage is _Stage.STARTED:
            self._stage = _Stage.ENDED
            self._hang_up.is_answered = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """End without the final body message: the server then closes the connection without the terminating chunk."""
        if self._stage is not _Stage.ENDED:
            self._stage = _Stage.ABORTED
            self._hang_up.is_answered = True

    async def fail(self) -> None:
        """Tell the client that its request failed here, as far as that can still be told."""
        if self._stage is _Stage.NEW:
            await self.send(500, [(b"content-type", b"application/json")], _INTERNAL_ERROR)
        else:
            self.abort()


async def _live(receive: Receive, send: Send) -> None:
    """Answer the lifespan protocol: what it is for is done by the nurseries around the server."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


def _unwrap(error: Exception) -> Exception | None:
    """The one exception in a group of one; None where a group holds nothing but the client's departure."""
    if isinstance(error, ExceptionGroup):
        _, others = error.split(ClientGone)
        if others is None:
            return None
        error = others
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
    return error


def _cancellations(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The cancellations alone of a group that also held failures, so that the scope which asked for them ends quietly."""
    return group.split(trio.Cancelled)[0] or group


def _origin_form(target: bytes) -> bytes:
    """The path of a request target, whose absolute form proxies send (RFC 9112 §3.2.2); what is neither stays as it is."""
    path = target.partition(b"?")[0]
    if path[:7].lower() == b"http://" or path[:8].lower() == b"https://":
        return b"/" + path.split(b"//", 1)[1].partition(b"/")[2]
    return path


def _peer(client: Any) -> str:
    """The client's address; an IPv4 address seen through an IPv6 socket is written as IPv4."""
    if not client:
        return ""
    address = str(client[0])
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than the limit of {limit_bytes} bytes.")
