"""The Transport over httpx's request model: HTTP/1.1 by httpcore's connections, HTTP/2 by h2, through proxies or not.

Layer: upstream. Source: behaviour.md §6 (timeouts, the silent re-send), §7 (headers). No cookies, no redirects, no retries, no default
headers: none of httpx's client is in the way. `pool` gives an exchange its connection, `carrier` says what that is, `link` connects.
"""

import contextlib
import math
import os
import ssl
from collections.abc import Mapping

import httpcore
import httpx
import trio

from gomodel_trio.upstream.carrier import NotProcessedError, Question
from gomodel_trio.upstream.dial import exhausted
from gomodel_trio.upstream.h1_request import Origin, compose
from gomodel_trio.upstream.http1_carrier import Body
from gomodel_trio.upstream.link import OpenTcp
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.pool import Pool, Slot
from gomodel_trio.upstream.proxy import Proxy, parse_proxy
from gomodel_trio.upstream.routes import proxy_for
from gomodel_trio.upstream.tls import system_trust
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault, UpstreamRequest


class HttpxTransport:
    """Sends requests to any origin. `reap` runs beside it in a nursery of the caller's and closes what idles too long.

    `http2`: offered to TLS upstreams, which choose. `proxy_url`: all requests go through it; None: what `environ` says of proxies, the
    process's environment by default. `ssl_context` None: `tls.system_trust()`, made when first needed. `own`: where no request
    may lead.
    """

    def __init__(
        self,
        *,
        http2: bool = False,
        proxy_url: str | None = None,
        environ: Mapping[str, str] | None = None,
        max_connections: int = 10_000,
        keep_alive_s: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        open_tcp: OpenTcp | None = None,
        own: OwnListeners | None = None,
    ) -> None:
        self._proxy_url = proxy_url
        self._environ = dict(os.environ if environ is None else environ)
        self._ssl_context = ssl_context
        self.pool = Pool(
            max_connections=max_connections,
            keep_alive_s=keep_alive_s,
            offers_http2=http2,
            trust=self._trust,
            proxy_for=self._proxy_for,
            open_tcp=open_tcp if open_tcp is not None else trio.open_tcp_stream,
            own=own,
        )

    async def send(self, request: UpstreamRequest) -> "HttpxResponse":
        """Send and wait for the head; what a kept connection did not bring to the upstream is sent once more, silently, on a new one."""
        question = _question(request)
        began_s = trio.current_time()
        with contextlib.suppress(NotProcessedError):
            return await self._exchange(request, question, newer_than_s=None)
        try:
            return await self._exchange(request, question, newer_than_s=began_s)
        except NotProcessedError as error:
            raise error.error from None

    async def reap(self) -> None:
        """Close idle connections that have expired or that their server has closed, for ever."""
        await self.pool.reap()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self.pool.aclose()

    async def _exchange(self, request: UpstreamRequest, question: Question, *, newer_than_s: float | None) -> "HttpxResponse":
        slot = await self._take(request, question, newer_than_s)
        try:
            with trio.CancelScope(deadline=trio.current_time() + request.header_timeout_s):
                status, headers = await slot.carrier.ask(question)
                return HttpxResponse(status, headers, slot, request.idle_timeout_s)
        except BaseException:
            await slot.end()
            raise
        await slot.end()
        raise TransportError(TransportFault.HEADER_TIMEOUT, "The upstream did not begin to answer in time.")

    async def _take(self, request: UpstreamRequest, question: Question, newer_than_s: float | None) -> Slot:
        """A place and a connection, each within the connect timeout."""
        is_inside = False
        with trio.CancelScope(deadline=trio.current_time() + request.connect_timeout_s):
            await self.pool.enter()
            is_inside = True
        if not is_inside:
            raise TransportError(
                TransportFault.CONNECT_TIMEOUT, "The upstream could not be asked: no connection to it became free in time."
            )
        try:
            with trio.CancelScope(deadline=trio.current_time() + request.connect_timeout_s):
                return await self.pool.take(question.key, newer_than_s=newer_than_s)
        except BaseException:
            self.pool.leave()
            raise
        self.pool.leave()
        raise TransportError(TransportFault.CONNECT_TIMEOUT, "The upstream could not be connected to in time.")

    def _trust(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            try:
                self._ssl_context = system_trust()
            except OSError:
                raise exhausted() from None
        return self._ssl_context

    def _proxy_for(self, origin: Origin) -> Proxy | None:
        """How to get to an origin.

        Raises:
            ValueError: by a proxy that cannot be used.
        """
        text = self._proxy_url
        if text is None:
            text = proxy_for(origin.scheme, origin.host, origin.port, self._environ)
        return parse_proxy(text) if text else None


class HttpxResponse:
    """`transport.UpstreamResponse`: the head at once, the body by `read`."""

    def __init__(self, status: int, headers: Headers, slot: Slot, idle_timeout_s: float | None) -> None:
        self.status = status
        self.headers = headers
        self._slot = slot
        self._idle_timeout_s = math.inf if idle_timeout_s is None else idle_timeout_s
        self._is_over = False

    async def read(self) -> bytes:
        """The next chunk; b"" at the proper end, and ever after."""
        if self._is_over:
            return b""
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._idle_timeout_s):
                chunk = await self._slot.carrier.read()
                if not chunk:
                    await self.aclose()
                return chunk
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise TransportError(TransportFault.IDLE_TIMEOUT, "The upstream stopped sending in the middle of its answer.")

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it, or cancel its stream."""
        if not self._is_over:
            self._is_over = True
            await self._slot.end()


def _question(request: UpstreamRequest) -> Question:
    """The request in httpcore's terms: the headers given, with host and content-length before them.

    Raises:
        TransportError: the URL is none, or a header would not stay one.
    """
    key = compose(request).key
    with contextlib.suppress(httpx.InvalidURL, ValueError, TypeError):
        message = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        if message.url.scheme in ("http", "https") and message.url.host:
            url = httpcore.URL(scheme=message.url.raw_scheme, host=message.url.raw_host, port=message.url.port, target=message.url.raw_path)
            return Question(
                key,
                httpcore.Request(method=message.method, url=url, headers=message.headers.raw, content=Body(request.body)),
                request.body,
            )
    raise TransportError(TransportFault.CONNECT, "The upstream could not be asked: its base URL is none.")
