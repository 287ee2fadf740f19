"""Who holds which HTTP/1.1 connection: kept ones per origin and credential, last in first out, and places for those in use.

Layer: upstream. Source: behaviour.md §6; performance.md (no polling of idle connections on the request path). Everything but waiting for a
place is synchronous, so that no cancellation can lose a place or a connection.
"""

from collections import Counter, OrderedDict
from itertools import count

import trio

from gomodel_trio.upstream.h1_connection import H1Connection
from gomodel_trio.upstream.h1_request import Key, Origin

REAP_S = 2.0
"""How often idle connections are looked over: one that its server closed must not linger half-open."""
MARGIN_S = 1.0
"""A connection is given up this much before its server would: the next request must not cross its close on the way."""


class Slot:
    """One exchange's place and its connection, if it has one."""

    __slots__ = ("_key", "_pool", "connection")

    def __init__(self, pool: "Pool", key: Key) -> None:
        self.connection: H1Connection | None = None
        self._key = key
        self._pool: Pool | None = pool

    def drop(self) -> None:
        """Close the connection; the place is kept for another one."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def end(self) -> None:
        """Free the place; the connection is kept if it can serve again, else closed. Idempotent."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        connection, self.connection = self.connection, None
        if connection is not None:
            if connection.can_serve_again:
                pool.keep(self._key, connection)
            else:
                connection.close()
        pool.release(self._key.origin)


class Pool:
    """All connections of a transport: at most `max_connections`, at most `max_per_origin` of them to one origin."""

    def __init__(self, *, max_connections: int, max_per_origin: int | None, keep_alive_s: float) -> None:
        self._max_connections = max_connections
        self._max_per_origin = max_per_origin if max_per_origin is not None else max_connections
        self._keep_alive_s = keep_alive_s
        self._idle: dict[Key, list[H1Connection]] = {}
        self._in_use: Counter[Origin] = Counter()
        self._waiting: dict[Origin, OrderedDict[int, trio.Event]] = {}
        """Who waits, by number: the first to come is the next, and whoever gives up leaves at once."""
        self._numbers = count()
        self.idle_count = 0
        """How many connections wait for an exchange."""
        self.in_use_count = 0
        """How many places are taken."""

    def try_take(self, key: Key, now_s: float) -> Slot | None:
        """A place, if one is free; with a kept connection if there is a live one at `now_s`, by trio's clock."""
        # `release` hands a place on at once: one that is free is one that nobody who waits could have.
        if not self._has_room(key.origin):
            return None
        self._occupy(key.origin)
        return self._slot(key, now_s)

    async def take(self, key: Key) -> Slot:
        """A place, in the order of asking; with a kept connection if there is a live one."""
        if self._has_room(key.origin):
            self._occupy(key.origin)
        else:
            await self._wait(key.origin)
        return self._slot(key, trio.current_time())

    def keep(self, key: Key, connection: H1Connection) -> None:
        """Take back a connection that can serve again."""
        told_s = connection.parser.timeout_s
        keep_s = self._keep_alive_s if told_s is None else min(self._keep_alive_s, told_s - MARGIN_S)
        if keep_s <= 0:
            connection.close()
            return
        connection.idle_until_s = trio.current_time() + keep_s
        idle = self._idle.get(key)
        if idle is None:
            self._idle[key] = [connection]
        else:
            idle.append(connection)
        self.idle_count += 1

    def release(self, origin: Origin) -> None:
        """One exchange less: whoever has waited longest and may have its place is told."""
        self.in_use_count -= 1
        self._in_use[origin] -= 1
        if not self._in_use[origin]:
            del self._in_use[origin]
        while self._waiting:
            able = [(next(iter(waiting)), name) for name, waiting in self._waiting.items() if self._has_room(name)]
            if not able:
                return
            first = min(able)[1]
            self._occupy(first)
            self._next(first).set()

    def make_room(self, key: Key) -> None:
        """Close the longest idle connections until one more may be opened to the origin."""
        while self.in_use_count + self.idle_count > self._max_connections and self._close_oldest(list(self._idle)):
            pass
        if self._max_per_origin < self._max_connections:
            siblings = [other for other in self._idle if other.origin == key.origin]
            while self._in_use[key.origin] + sum(len(self._idle[other]) for other in siblings) > self._max_per_origin:
                if not self._close_oldest(siblings):
                    break

    async def reap(self) -> None:
        """Look over the idle connections every few seconds, for ever."""
        while True:
            await trio.sleep(REAP_S)
            self.close_expired()

    def close_expired(self) -> None:
        """Close idle connections that have waited too long or that their server has closed."""
        now_s = trio.current_time()
        for key, idle in list(self._idle.items()):
            kept = []
            for connection in idle:
                if connection.idle_until_s > now_s and connection.is_alive():
                    kept.append(connection)
                else:
                    connection.close()
            self.idle_count -= len(idle) - len(kept)
            if kept:
                idle[:] = kept
            else:
                del self._idle[key]

    def close(self) -> None:
        """Close the idle connections; those in use are closed by their exchanges."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()
        self.idle_count = 0

    # ---- kept connections -----------------------------------------------------------------------------------------------------------

    def _slot(self, key: Key, now_s: float) -> Slot:
        slot = Slot(self, key)
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            self.idle_count -= 1
            if connection.idle_until_s > now_s and connection.is_alive():
                slot.connection = connection
                break
            connection.close()
        return slot

    def _close_oldest(self, keys: list[Key]) -> bool:
        """Close what has been idle longest under these keys; False if nothing is."""
        filled = [key for key in keys if self._idle.get(key)]
        if not filled:
            return False
        idle = self._idle[min(filled, key=lambda key: self._idle[key][0].idle_until_s)]
        idle.pop(0).close()
        self.idle_count -= 1
        return True

    # ---- places ---------------------------------------------------------------------------------------------------------------------

    def _has_room(self, origin: Origin) -> bool:
        return self.in_use_count < self._max_connections and self._in_use[origin] < self._max_per_origin

    def _occupy(self, origin: Origin) -> None:
        self.in_use_count += 1
        self._in_use[origin] += 1

    async def _wait(self, origin: Origin) -> None:
        """Wait for a place, which is then occupied."""
        number, granted = next(self._numbers), trio.Event()
        waiting = self._waiting.setdefault(origin, OrderedDict())
        waiting[number] = granted
        try:
            await granted.wait()
        except BaseException:
            if granted.is_set():
                self.release(origin)
            else:
                del waiting[number]
                if not waiting:
                    self._waiting.pop(origin, None)
            raise

    def _next(self, origin: Origin) -> trio.Event:
        waiting = self._waiting[origin]
        _, granted = waiting.popitem(last=False)
        if not waiting:
            del self._waiting[origin]
        return granted
