"""Who has hung up: one epoll for all connections, awaited by one task, silent while everybody stays.

Layer: listen. Source: epoll(7), epoll_ctl(2) (EPOLLRDHUP, EPOLLET); performance.md (hang-ups).

A connection is registered once, edge-triggered and without EPOLLIN, so that requests and bodies wake nobody here. EPOLLRDHUP is seen even
behind bytes that nobody has read. It cannot tell a client that left from one that only closed its sending side: both count as gone.
"""

import select
from typing import Final, Protocol

import trio

_EVENTS: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR | select.EPOLLET


class Watched(Protocol):
    """The connection whose client is watched."""

    def hang_up(self) -> None:
        """The client sends no more, or the connection is broken. Must not raise."""


class HangUps:
    """The shared epoll. Register before the first wait, forget before the socket is closed."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Watched] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, fd: int, watched: Watched) -> None:
        """Watch a socket.

        Raises:
            OSError: the kernel's limit of watches is reached.
        """
        self._epoll.register(fd, _EVENTS)
        self._watched[fd] = watched

    def forget(self, fd: int) -> None:
        """End watching; a socket that was not watched is ignored."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def run(self) -> None:
        """Tell each connection of its client's departure, for ever."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0, 1024):
                watched = self._watched.get(fd)
                if watched is not None:
                    watched.hang_up()

    def close(self) -> None:
        """Close the epoll, when neither the task nor a connection is left: connections outlive the task if all are cancelled at once."""
        self._epoll.close()
