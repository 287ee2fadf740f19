"""The Transport for ordinary HTTP/1.1 upstreams: trio, raw sockets and llhttp.

Layer: upstream. Source: performance.md ("the data path is ours"); behaviour.md §6 (timeouts, the silent re-send, hang-up), §7 (headers).
`h1_request` writes the head, `h1_pool` hands out places and kept connections, `dial` and `tls` make new ones, `h1_connection` sends and
receives through `h1_parser`, `h1_response` is what the caller gets. No cookies, no redirects, no retries, no headers of its own.
"""

import socket
import ssl

import trio

from gomodel_trio.upstream.dial import Dial, Dialer, exhausted, is_local, why_not_connected
from gomodel_trio.upstream.h1_connection import RECEIVE_BYTES, H1Connection
from gomodel_trio.upstream.h1_pool import Pool, Slot
from gomodel_trio.upstream.h1_request import Message, Origin, compose
from gomodel_trio.upstream.h1_response import H1Response
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.tls import secure, system_trust
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest

_STALE_S = 5.0
"""A kept connection that dies this soon after the request was already dead; later it is the upstream that died over the request."""


class H1Transport:
    """Sends requests to any origin, directly. `reap` runs beside it in a nursery of the caller's and closes what idles too long.

    `max_per_origin` None: as many as in total. `ssl_context` None: `tls.system_trust()`, made when first needed. `own`: where no
    request may lead.
    """

    def __init__(
        self,
        *,
        max_connections: int = 10_000,
        max_per_origin: int | None = None,
        keep_alive_s: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        dial: Dial | None = None,
        own: OwnListeners | None = None,
    ) -> None:
        self.pool = Pool(max_connections=max_connections, max_per_origin=max_per_origin, keep_alive_s=keep_alive_s)
        self._ssl_context = ssl_context
        self._dial = dial if dial is not None else Dialer()
        self._own = own if own is not None else OwnListeners()
        self._sessions: dict[Origin, ssl.SSLSession] = {}
        self._buffer = bytearray(RECEIVE_BYTES)

    async def send(self, request: UpstreamRequest) -> H1Response:
        """Send and wait for the head; a kept connection that turns out dead is replaced once, silently, by a new one."""
        message = compose(request)
        now_s = trio.current_time()
        slot = self.pool.try_take(message.key, now_s)
        is_connected = slot is not None and slot.connection is not None
        patience_s = request.header_timeout_s if is_connected else request.connect_timeout_s
        try:
            with trio.CancelScope(deadline=now_s + patience_s) as scope:
                if slot is None:
                    slot = await self.pool.take(message.key)
                    is_connected = slot.connection is not None
                    scope.deadline = trio.current_time() + (request.header_timeout_s if is_connected else request.connect_timeout_s)
                if not is_connected or not await self._ask_kept(slot, message):
                    is_connected = False
                    scope.deadline = trio.current_time() + request.connect_timeout_s
                    slot.connection = await self._connect(message)
                    is_connected = True
                    scope.deadline = trio.current_time() + request.header_timeout_s
                    await slot.connection.ask(message)
                return self._answer(slot, message.key.origin, request.idle_timeout_s)
        except BaseException:
            if slot is not None:
                slot.end()
            raise
        if slot is None:
            raise TransportError(
                TransportFault.CONNECT_TIMEOUT, "The upstream could not be asked: no connection to it became free in time."
            )
        slot.end()
        if is_connected:
            raise TransportError(TransportFault.HEADER_TIMEOUT, "The upstream did not begin to answer in time.")
        raise TransportError(TransportFault.CONNECT_TIMEOUT, "The upstream could not be connected to in time.")

    async def reap(self) -> None:
        """Close idle connections that have expired or that their server has closed, for ever."""
        await self.pool.reap()

    async def aclose(self) -> None:
        """Close the idle connections."""
        self.pool.close()

    async def _connect(self, message: Message) -> H1Connection:
        """Open a new connection, to be bounded by the caller's scope."""
        self.pool.make_room(message.key)
        origin = message.key.origin
        try:
            connected = await self._dial(origin.host, origin.port)
        except (OSError, UnicodeError, ValueError) as error:
            failure = exhausted() if is_local(error) else None
            problem = why_not_connected(error)
        else:
            session = self._sessions.get(origin)
            return H1Connection(await self._secured(connected, origin, session), self._buffer, offered_session=session)
        raise failure or TransportError(TransportFault.CONNECT, f"The upstream could not be reached: {problem}.")

    async def _secured(self, connected: socket.socket, origin: Origin, session: ssl.SSLSession | None) -> socket.socket:
        """The connected socket, with TLS on it where the origin wants that; it is closed if this fails."""
        try:
            self._own.check(connected)
            if origin.scheme != "https":
                return connected
            if self._ssl_context is None:
                self._ssl_context = system_trust()
        except TransportError:
            connected.close()
            raise
        except OSError:
            connected.close()
        else:
            return await secure(connected, self._ssl_context, origin.host, session)
        raise exhausted()

    async def _ask_kept(self, slot: Slot, message: Message) -> bool:
        """Ask over a kept connection; False if it was dead before anything of an answer came, and is closed."""
        connection = slot.connection
        assert connection is not None
        began_s = trio.current_time()
        await connection.ask(message)
        parser = connection.parser
        if parser.has_head or parser.fault is not TransportFault.RESET or parser.has_received:
            return True
        if trio.current_time() - began_s >= _STALE_S:
            return True
        slot.drop()
        return False

    def _answer(self, slot: Slot, origin: Origin, idle_timeout_s: float | None) -> H1Response:
        """Hand over what came.

        Raises:
            TransportError: it is no answer.
        """
        connection = slot.connection
        assert connection is not None
        parser = connection.parser
        if not parser.has_head:
            if parser.fault is TransportFault.PROTOCOL:
                raise TransportError(TransportFault.PROTOCOL, "The upstream's answer is not valid HTTP.")
            raise TransportError(TransportFault.RESET, "The upstream closed the connection before it answered.")
        if connection.is_tls and not connection.has_shown_session:
            connection.has_shown_session = True
            # Under TLS 1.3 it comes with the first answer. Taking one out costs half a handshake: of a burst of connections the first
            # one's serves them all, until the server declines it.
            if self._sessions.get(origin) is connection.offered_session and not connection.is_resumed:
                session = connection.session
                if session is not None:
                    self._sessions[origin] = session
        return H1Response(slot, idle_timeout_s)
