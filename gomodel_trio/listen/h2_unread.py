"""Bodies that still come behind an answer that did not wait for them.

Layer: listen. Source: RFC 9113 §8.1 (an answer may come before its request is complete); nginx's lingering_close.

A reset right behind an early answer is allowed, but not every client stops at the answer or survives the reset (httpx then waits until
its time is over). So such a body is dropped as it comes, for a while.
"""

from gomodel_trio.listen.h2_limits import Http2Limits


class UnreadBodies:
    """The streams of one connection that are answered while their body still comes. Instants are the caller's."""

    def __init__(self, limits: Http2Limits) -> None:
        self._limits = limits
        self._until_s: dict[int, float] = {}
        self._left_bytes: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._until_s)

    @property
    def until_s(self) -> float | None:
        """When the first of them has come for too long; None if there are none."""
        return next(iter(self._until_s.values()), None)

    def add(self, stream_id: int, now_s: float) -> None:
        """From now on a stream's body is dropped."""
        self._until_s[stream_id] = now_s + self._limits.unread_s
        self._left_bytes[stream_id] = self._limits.unread_bytes

    def take(self, stream_id: int, size: int) -> bool:
        """Drop what came; True where that is too much by now."""
        if stream_id not in self._left_bytes:
            return False
        self._left_bytes[stream_id] -= size
        return self._left_bytes[stream_id] < 0

    def end(self, stream_id: int) -> None:
        """Forget a stream."""
        self._until_s.pop(stream_id, None)
        self._left_bytes.pop(stream_id, None)

    def due(self, now_s: float) -> list[int]:
        """Those that have come for too long."""
        return [stream_id for stream_id, until_s in self._until_s.items() if until_s <= now_s]
