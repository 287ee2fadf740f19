"""The Transport over httpx's request model and httpcore's connections: exactly the headers given, bodies as they come, faults named.

Layer: upstream. Source: behaviour.md §6 (timeouts, the silent re-send), §7 (headers); architecture.md rule 8 (foreign exceptions are mapped
here and nowhere else). No cookies, no redirects, no retries, no default headers: none of httpx's client is in the way.
"""

import contextlib
import math
import os
import ssl
from collections.abc import AsyncIterable
from typing import Self, cast

import certifi
import h11
import httpcore
import httpx
import trio

from gomodel_trio.upstream.link import OpenTcp, Phase
from gomodel_trio.upstream.pool import Pool, Slot
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault, UpstreamRequest

_FOREIGN = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
    h11.ProtocolError,
)
_STALE_S = 5.0
"""A kept connection that dies this soon after the request was already dead; later it is the upstream that died over the request."""
_CLOSE_S = 1.0
"""The bound of a close, which waits for nobody but runs shielded."""
_CUT = "peer closed connection without sending complete message body"
"""h11's words for a body that ends before its length or its last chunk."""


class _Stale(Exception):
    """A kept connection had died before it was used again."""


class _Body:
    """The request's body for httpcore; no generator, which a cancelled send would leave suspended."""

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


class HttpxTransport:
    """Sends requests to any origin. `reap` runs beside it in a nursery of the caller's and closes what idles too long."""

    def __init__(
        self,
        *,
        max_connections: int = 10_000,
        keep_alive_s: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        trust_env: bool = True,
        open_tcp: OpenTcp | None = None,
    ) -> None:
        self.pool = Pool(
            max_connections=max_connections,
            keep_alive_s=keep_alive_s,
            ssl_context=ssl_context if ssl_context is not None else system_trust(),
            trust_env=trust_env,
            open_tcp=open_tcp if open_tcp is not None else trio.open_tcp_stream,
        )

    async def send(self, request: UpstreamRequest) -> "HttpxResponse":
        """Send and wait for the head; a kept connection that turns out dead is replaced once, silently, by a new one."""
        message = _message(request)
        try:
            return await self._exchange(request, message, must_be_fresh=False)
        except _Stale:
            return await self._exchange(request, message, must_be_fresh=True)

    async def reap(self) -> None:
        """Close idle connections that have expired or that their server has closed, for ever."""
        await self.pool.reap()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self.pool.aclose()

    async def _exchange(self, request: UpstreamRequest, message: httpcore.Request, *, must_be_fresh: bool) -> "HttpxResponse":
        slot = await self._take(request, message, must_be_fresh=must_be_fresh)
        began = trio.current_time()
        failure: Exception | None = None
        try:
            with trio.CancelScope() as scope:
                slot.link.begin(scope, connect_timeout_s=request.connect_timeout_s, header_timeout_s=request.header_timeout_s)
                answer = await slot.connection.handle_async_request(message)
                slot.link.end_head()
                return HttpxResponse(answer, slot, request.idle_timeout_s)
        except _FOREIGN as error:
            is_dead = slot.is_reused and not slot.link.has_received and trio.current_time() - began < _STALE_S
            failure = _Stale() if is_dead else _fault_before_head(error, slot)
        except BaseException:
            await slot.discard()
            raise
        await slot.discard()
        raise failure if failure is not None else _timeout(slot)

    async def _take(self, request: UpstreamRequest, message: httpcore.Request, *, must_be_fresh: bool) -> Slot:
        problem = "no connection to it became free in time"
        fault = TransportFault.CONNECT_TIMEOUT
        try:
            with trio.CancelScope(deadline=trio.current_time() + request.connect_timeout_s):
                return await self.pool.take(message.url, must_be_fresh=must_be_fresh)
        except (ValueError, ImportError, httpx.InvalidURL):
            problem, fault = "the proxy that the environment names cannot be used", TransportFault.CONNECT
        raise TransportError(fault, f"The upstream could not be asked: {problem}.")


class HttpxResponse:
    """`transport.UpstreamResponse`: the head at once, the body by `read`."""

    def __init__(self, answer: httpcore.Response, slot: Slot, idle_timeout_s: float | None) -> None:
        self.status = answer.status
        self.headers: Headers = [(name.lower(), value) for name, value in answer.headers]
        self._answer = answer
        self._chunks = cast(AsyncIterable[bytes], answer.stream).__aiter__()
        self._slot = slot
        self._idle_timeout_s = math.inf if idle_timeout_s is None else idle_timeout_s
        self._is_begun = False
        self._is_over = False

    async def read(self) -> bytes:
        """The next chunk; b"" at the proper end, and ever after."""
        if self._is_over:
            return b""
        self._is_begun = True
        failure = TransportError(TransportFault.IDLE_TIMEOUT, "The upstream stopped sending in the middle of its answer.")
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._idle_timeout_s):
                while True:
                    chunk = await self._chunks.__anext__()
                    if chunk:
                        return chunk
        except StopAsyncIteration:
            await self._finish()
            return b""
        except _FOREIGN as error:
            failure = _fault_in_body(error)
        except BaseException:
            await self._abandon()
            raise
        await self._abandon()
        raise failure

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end."""
        if self._is_over:
            return
        with trio.CancelScope(deadline=trio.current_time() + _CLOSE_S, shield=True):
            if self._is_begun:
                await self._unwind()
        await self._abandon()

    async def _finish(self) -> None:
        """The body is complete: the connection goes back."""
        self._is_over = True
        with trio.CancelScope(deadline=trio.current_time() + _CLOSE_S, shield=True):
            await self._answer.aclose()
        if not self._slot.give_back():
            await self._slot.discard()

    async def _abandon(self) -> None:
        self._is_over = True
        await self._slot.discard()

    async def _unwind(self) -> None:
        """End httpcore's suspended generators by a cancelled read: dropped as they are, they would end at some later time."""
        with trio.CancelScope() as cancelled, contextlib.suppress(StopAsyncIteration, RuntimeError, *_FOREIGN):
            cancelled.cancel()
            while True:
                await self._chunks.__anext__()


def system_trust() -> ssl.SSLContext:
    """Trust the system's certificate authorities (or SSL_CERT_FILE, SSL_CERT_DIR); where there are none, those of certifi."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and (paths.capath is None or not os.listdir(paths.capath)):
        context.load_verify_locations(certifi.where())
    return context


def _message(request: UpstreamRequest) -> httpcore.Request:
    """The request in httpcore's terms: the headers given, with host and content-length before them.

    Raises:
        TransportError: the URL is none.
    """
    with contextlib.suppress(httpx.InvalidURL, ValueError, TypeError):
        message = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        if message.url.scheme in ("http", "https") and message.url.host:
            return httpcore.Request(
                method=message.method,
                url=httpcore.URL(
                    scheme=message.url.raw_scheme, host=message.url.raw_host, port=message.url.port, target=message.url.raw_path
                ),
                headers=message.headers.raw,
                content=_Body(request.body),
            )
    raise TransportError(TransportFault.CONNECT, "The upstream could not be asked: its base URL is none.")


def _fault_before_head(error: Exception, slot: Slot) -> TransportError:
    link = slot.link
    match error:
        case httpcore.ConnectError() if link.phase is Phase.SECURING:
            return TransportError(TransportFault.TLS, f"The upstream could not be reached safely: {link.problem}.")
        case httpcore.ConnectError():
            return TransportError(TransportFault.CONNECT, f"The upstream could not be reached: {link.problem}.")
        case httpcore.ProxyError():
            return TransportError(TransportFault.CONNECT, "The upstream could not be reached: the proxy refused.")
        case httpcore.LocalProtocolError() | h11.LocalProtocolError():
            return TransportError(TransportFault.PROTOCOL, "The request could not be sent: a header of it is not valid HTTP.")
        case httpcore.RemoteProtocolError() if "disconnected" not in str(error):
            return TransportError(TransportFault.PROTOCOL, "The upstream's answer is not valid HTTP.")
        case _:
            return TransportError(TransportFault.RESET, "The upstream closed the connection before it answered.")


def _fault_in_body(error: Exception) -> TransportError:
    match error:
        case httpcore.RemoteProtocolError() if _CUT in str(error):
            return TransportError(TransportFault.SHORT_BODY, "The upstream closed the connection in the middle of its answer.")
        case httpcore.ProtocolError() | h11.ProtocolError():
            return TransportError(TransportFault.PROTOCOL, "The body of the upstream's answer is not valid HTTP.")
        case _:
            return TransportError(TransportFault.RESET, "The upstream reset the connection in the middle of its answer.")


def _timeout(slot: Slot) -> TransportError:
    if slot.link.phase is Phase.SENT:
        return TransportError(TransportFault.HEADER_TIMEOUT, "The upstream did not begin to answer in time.")
    return TransportError(TransportFault.CONNECT_TIMEOUT, "The upstream could not be connected to in time.")
