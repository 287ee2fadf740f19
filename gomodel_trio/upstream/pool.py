"""Upstream connections: one per exchange, kept for the next one to the same origin, last in first out.

Layer: upstream. Source: behaviour.md §6; field experience with httpcore's own pool, which polls every idle connection on each request and
loses a slot where a request is cancelled at the wrong moment. httpcore's connections are used as they are; only who holds them is ours.
A slot is held by exactly one exchange and given up in one synchronous step, so no cancellation can lose it.
"""

import ssl
import urllib.request

import httpcore
import httpx
import trio

from gomodel_trio.upstream.link import Link, OpenTcp

_REAP_S = 5.0
"""How often idle connections are looked over: one that its server closed must not linger half-open."""


class Slot:
    """One connection in use."""

    def __init__(self, pool: "Pool", origin: str, connection: httpcore.AsyncConnectionInterface, link: Link) -> None:
        self.connection = connection
        self.link = link
        self.is_reused = False
        self._pool = pool
        self._origin = origin
        self._is_held = True

    def give_back(self) -> bool:
        """Keep the connection for the next exchange, if it can serve one; False: it has to be discarded."""
        if not self._is_held or not self.connection.is_idle():
            return False
        self._is_held = False
        self._pool.keep(self._origin, self)
        return True

    async def discard(self) -> None:
        """Close the connection at once and free its place."""
        if self._is_held:
            self._is_held = False
            self._pool.free()
        await self.close()

    async def close(self) -> None:
        """Close the connection at once."""
        with trio.CancelScope(shield=True):
            await self.link.close()
            await self.connection.aclose()

    def hold(self) -> None:
        """Take it for another exchange."""
        self._is_held = True
        self.is_reused = True


class Pool:
    """All connections of a transport, at most `max_connections` of them. Proxies come from the environment with `trust_env`."""

    def __init__(
        self, *, max_connections: int, keep_alive_s: float, ssl_context: ssl.SSLContext, trust_env: bool, open_tcp: OpenTcp
    ) -> None:
        self._max_connections = max_connections
        self._places = trio.Semaphore(max_connections)
        self._idle: dict[str, list[Slot]] = {}
        self._keep_alive_s = keep_alive_s
        self._ssl_context = ssl_context
        self._proxies = urllib.request.getproxies() if trust_env else {}
        self._open_tcp = open_tcp

    @property
    def idle_count(self) -> int:
        """How many connections wait for an exchange."""
        return sum(map(len, self._idle.values()))

    @property
    def in_use_count(self) -> int:
        """How many connections serve an exchange."""
        return self._max_connections - self._places.value

    async def take(self, url: httpcore.URL, *, must_be_fresh: bool) -> Slot:
        """A connection to the URL's origin, kept or new (not connected yet); waits while all places are taken.

        Raises:
            ValueError, ImportError: the proxy that the environment names cannot be used.
        """
        await self._places.acquire()
        try:
            origin = str(url.origin)
            while not must_be_fresh and self._idle.get(origin):
                slot = self._idle[origin].pop()
                if not slot.connection.has_expired():
                    slot.hold()
                    return slot
                await slot.close()
            await self._make_room()
            return self._create(url.origin)
        except BaseException:
            self.free()
            raise

    def keep(self, origin: str, slot: Slot) -> None:
        """Take back a connection that can serve again."""
        self._idle.setdefault(origin, []).append(slot)
        self.free()

    def free(self) -> None:
        """One exchange less."""
        self._places.release()

    async def reap(self) -> None:
        """Look over the idle connections every few seconds, for ever."""
        while True:
            await trio.sleep(_REAP_S)
            await self.close_expired()

    async def close_expired(self) -> None:
        """Close idle connections that have waited too long or that their server has closed."""
        for origin, slots in list(self._idle.items()):
            expired = [slot for slot in slots if slot.connection.has_expired()]
            slots[:] = [slot for slot in slots if slot not in expired]
            if not slots:
                del self._idle[origin]
            for slot in expired:
                await slot.close()

    async def aclose(self) -> None:
        """Close the idle connections; those in use are closed by their exchanges."""
        idle, self._idle = self._idle, {}
        for slots in idle.values():
            for slot in slots:
                await slot.close()

    async def _make_room(self) -> None:
        """Close the longest idle connections, of whatever origin, until one more may be opened."""
        while self.idle_count and self.in_use_count + self.idle_count > self._max_connections:
            await next(slots for slots in self._idle.values() if slots).pop(0).close()

    def _create(self, origin: httpcore.Origin) -> Slot:
        proxy = self._proxy_for(origin)
        is_secure = origin.scheme == b"https"
        link = Link(self._open_tcp, tls_layers=is_secure + (proxy is not None and proxy.url.scheme == b"https"))
        factory = httpcore.AsyncConnectionPool(
            ssl_context=self._ssl_context, proxy=proxy, keepalive_expiry=self._keep_alive_s, network_backend=link
        )
        return Slot(self, str(origin), factory.create_connection(origin), link)

    def _proxy_for(self, origin: httpcore.Origin) -> httpcore.Proxy | None:
        host = origin.host.decode("ascii")
        address = self._proxies.get(origin.scheme.decode("ascii")) or self._proxies.get("all")
        if not address or urllib.request.proxy_bypass(f"{host}:{origin.port}"):
            return None
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
        url = httpcore.URL(scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=proxy.url.raw_path)
        return httpcore.Proxy(
            url=url, auth=proxy.raw_auth, headers=proxy.headers.raw, ssl_context=self._ssl_context if url.scheme == b"https" else None
        )
