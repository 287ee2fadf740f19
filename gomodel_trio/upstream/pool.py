"""Connections for HttpxTransport: HTTP/1.1 ones kept for one exchange at a time, HTTP/2 ones shared; per origin and credential.

Layer: upstream. Source: behaviour.md §6; field experience with httpcore's own pool, which polls every idle connection on each request and
loses a slot where a request is cancelled at the wrong moment. A place is held by exactly one exchange and freed in one synchronous step, so
no cancellation can lose it. While a connection that may turn out to be HTTP/2 is opened, others to the same origin wait to share it.
"""

from collections.abc import Callable
from typing import Final

import trio

from gomodel_trio.upstream.carrier import Carrier
from gomodel_trio.upstream.h1_request import Key, Origin
from gomodel_trio.upstream.http1_carrier import Http1Carrier, Http1Connection
from gomodel_trio.upstream.http2_carrier import Http2Carrier
from gomodel_trio.upstream.http2_connection import Http2Connection
from gomodel_trio.upstream.link import OpenTcp, Trust, close_now, connect
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.proxy import Proxy
from gomodel_trio.upstream.transport import TransportError, TransportFault

_REAP_S: Final = 2.0
"""How often connections are looked over: one that its server closed must not linger half-open, a ping not go unanswered."""


class Slot:
    """One exchange's place, with what carries it."""

    def __init__(self, pool: "Pool", key: Key, carrier: Http1Carrier | Http2Carrier) -> None:
        self._pool: Pool | None = pool
        self._key = key
        self._carrier = carrier

    @property
    def carrier(self) -> Carrier:
        """The exchange itself."""
        return self._carrier

    async def end(self) -> None:
        """End the exchange: its connection is kept if it can serve again, else closed; the place is free. Idempotent."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            with trio.CancelScope(shield=True):
                await self._carrier.close()
                await pool.settle(self._key, self._carrier)
        finally:
            pool.leave()


class Pool:
    """At most `max_connections` exchanges at once and, together with these, idle connections. `proxy_for` says how to get to an origin."""

    def __init__(
        self,
        *,
        max_connections: int,
        keep_alive_s: float,
        offers_http2: bool,
        trust: Trust,
        proxy_for: Callable[[Origin], Proxy | None],
        open_tcp: OpenTcp,
        own: OwnListeners | None = None,
    ) -> None:
        self._max_connections = max_connections
        self._places = trio.Semaphore(max_connections)
        self._keep_alive_s = keep_alive_s
        self._offers_http2 = offers_http2
        self._trust = trust
        self._proxy_for = proxy_for
        self._open_tcp = open_tcp
        self._own = own
        self._idle: dict[Key, list[Http1Connection]] = {}
        self._shared: dict[Key, list[Http2Connection]] = {}
        self._opening: dict[Key, trio.Event] = {}
        self._without_http2: set[Origin] = set()
        """Who chose HTTP/1.1 the last time."""
        self._is_closed = False

    @property
    def idle_count(self) -> int:
        """How many connections wait for an exchange."""
        return sum(map(len, self._idle.values())) + sum(connection.is_idle for _, connection in self._all_shared())

    @property
    def in_use_count(self) -> int:
        """How many exchanges there are."""
        return self._max_connections - self._places.value

    async def enter(self) -> None:
        """Wait for a place, to be given up by `leave` or by the end of the slot taken for it."""
        await self._places.acquire()

    def leave(self) -> None:
        """One exchange less."""
        self._places.release()

    async def take(self, key: Key, *, newer_than_s: float | None = None) -> Slot:
        """An exchange on a kept connection or a new one, for a place that is held; kept ones only if opened after `newer_than_s`, if given.

        Raises:
            TransportError
        """
        while True:
            kept = await self._reuse(key, newer_than_s)
            if kept is not None:
                return Slot(self, key, kept)
            opening = self._opening.get(key)
            if not self._may_share(key.origin):
                return Slot(self, key, await self._open(key))
            if opening is None:
                return Slot(self, key, await self._open_for_all(key))
            await opening.wait()

    async def settle(self, key: Key, carrier: Http1Carrier | Http2Carrier) -> None:
        """Take back the connection of an exchange that has ended."""
        connection = carrier.connection
        if isinstance(connection, Http1Connection):
            if connection.is_idle() and not self._is_closed:
                self._idle.setdefault(key, []).append(connection)
            else:
                await connection.close()
        elif connection.is_finished or (self._is_closed and connection.is_idle):
            await self._drop(key, connection)

    async def reap(self) -> None:
        """Look over the connections every few seconds, for ever."""
        while True:
            await trio.sleep(_REAP_S)
            await self.close_expired()

    async def close_expired(self) -> None:
        """Close what has been idle too long or what its server has closed; answer what servers ask on shared connections."""
        for key, idle in list(self._idle.items()):
            expired = [connection for connection in idle if not connection.can_serve]
            idle[:] = [connection for connection in idle if connection not in expired]
            if not idle:
                del self._idle[key]
            for connection in expired:
                await connection.close()
        for key, shared in self._all_shared():
            await shared.tend()
            if shared.is_finished:
                await self._drop(key, shared)

    async def aclose(self) -> None:
        """Close the idle connections; those in use are closed by their exchanges."""
        self._is_closed = True
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await connection.close()
        for key, shared in self._all_shared():
            if shared.is_idle:
                await self._drop(key, shared)

    # ---- kept connections -----------------------------------------------------------------------------------------------------------

    def _all_shared(self) -> list[tuple[Key, Http2Connection]]:
        return [(key, connection) for key, connections in self._shared.items() for connection in connections]

    async def _reuse(self, key: Key, newer_than_s: float | None) -> Http1Carrier | Http2Carrier | None:
        for shared in self._shared.get(key, ()):
            if shared.can_serve and (newer_than_s is None or shared.opened_at_s >= newer_than_s):
                return Http2Carrier(shared)
        idle = self._idle.get(key)
        while idle and newer_than_s is None:
            connection = idle.pop()
            if connection.can_serve:
                return Http1Carrier(connection)
            await connection.close()
        return None

    async def _drop(self, key: Key, connection: Http2Connection) -> None:
        """Close a shared connection and forget it."""
        connections = self._shared.get(key, [])
        if connection in connections:
            connections.remove(connection)
            if not connections:
                del self._shared[key]
        await connection.close()

    async def _make_room(self) -> None:
        """Close the longest idle connections, of whatever origin, until one more may be opened."""
        while self.idle_count and self.in_use_count + self.idle_count > self._max_connections:
            idle = next((connections for connections in self._idle.values() if connections), None)
            if idle is not None:
                await idle.pop(0).close()
            else:
                await self._drop(*next((key, shared) for key, shared in self._all_shared() if shared.is_idle))

    # ---- new connections ------------------------------------------------------------------------------------------------------------

    def _may_share(self, origin: Origin) -> bool:
        return self._offers_http2 and origin.scheme == "https" and origin not in self._without_http2

    async def _open_for_all(self, key: Key) -> Http1Carrier | Http2Carrier:
        """Open a connection while others wait whether they can share it."""
        self._opening[key] = opened = trio.Event()
        try:
            return await self._open(key)
        finally:
            del self._opening[key]
            opened.set()

    async def _open(self, key: Key) -> Http1Carrier | Http2Carrier:
        await self._make_room()
        origin = key.origin
        try:
            proxy = self._proxy_for(origin)
        except ValueError:
            raise TransportError(TransportFault.CONNECT, "The upstream could not be asked: its proxy cannot be used.") from None
        link = await connect(origin, proxy, open_tcp=self._open_tcp, trust=self._trust, offers_http2=self._offers_http2, own=self._own)
        if not link.is_http2:
            self._without_http2.add(origin)
            forwarding = proxy if origin.scheme == "http" else None
            return Http1Carrier(Http1Connection(link.stream, origin, forwarding, self._keep_alive_s))
        self._without_http2.discard(origin)
        return Http2Carrier(await self._greet(key, link.stream))

    async def _greet(self, key: Key, stream: trio.abc.Stream) -> Http2Connection:
        connection = Http2Connection(stream, self._keep_alive_s)
        try:
            await connection.open()
        except trio.BrokenResourceError:
            raise TransportError(TransportFault.PROTOCOL, "The upstream chose HTTP/2 and does not speak it.") from None
        except BaseException:
            await close_now(stream)
            raise
        self._shared.setdefault(key, []).append(connection)
        return connection
