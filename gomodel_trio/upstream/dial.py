"""Connecting: a name's addresses, tried one after another without waiting long for a dead one.

Layer: upstream. Source: RFC 8305 (happy eyeballs). Addresses are remembered for some seconds and looked up by one task a name at a time,
so that a burst of new connections costs one lookup.
"""

import errno
import math
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from gomodel_trio.upstream.transport import TransportError, TransportFault

Dial = Callable[[str, int], Awaitable[socket.socket]]
"""Connects to host and port and gives a non-blocking socket. Raises OSError, or UnicodeError or ValueError for what cannot be a name."""

Address = tuple[int, tuple[Any, ...]]
"""Family, and what `socket.connect` takes for it."""

ATTEMPT_S: Final = 0.25
"""How long an address is waited for before the next one is tried beside it (RFC 8305 §5)."""
REMEMBERED_S: Final = 5.0
"""Long enough for a burst, short enough to follow a name that moves."""
MAX_NAMES: Final = 256


LOCAL_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Files, memory or ports of this machine are used up; whoever was to be reached has no part in it."""


class _Lookup:
    """A name being looked up, by whoever asked first; `is_done` also where that one was cancelled, and then neither result is there."""

    def __init__(self) -> None:
        self.is_done = trio.Event()
        self.addresses: list[Address] | None = None
        self.error: OSError | None = None


class Dialer:
    """`Dial` over the system's resolver."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[list[Address], float]] = {}
        self._lookups: dict[tuple[str, int], _Lookup] = {}

    async def __call__(self, host: str, port: int) -> socket.socket:
        """Connect to the first of the name's addresses that answers.

        Raises:
            OSError: none does; its cause is the group of what went wrong with each.
        """
        addresses = await self._addresses(host, port)
        try:
            return await connect_any(addresses)
        except OSError:
            self._known.pop((host, port), None)
            raise

    async def _addresses(self, host: str, port: int) -> list[Address]:
        name = (host, port)
        while True:
            addresses, until_s = self._known.get(name, ([], -math.inf))
            if until_s > trio.current_time():
                return addresses
            lookup = self._lookups.get(name)
            if lookup is None:
                return await self._look_up(name)
            await lookup.is_done.wait()
            if lookup.addresses is not None:
                return lookup.addresses
            if lookup.error is not None:
                raise type(lookup.error)(*lookup.error.args)

    async def _look_up(self, name: tuple[str, int]) -> list[Address]:
        lookup = self._lookups[name] = _Lookup()
        try:
            found = await trio.socket.getaddrinfo(*name, type=socket.SOCK_STREAM)
            lookup.addresses = _interleaved([(entry[0], entry[4]) for entry in found])
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            self._known[name] = (lookup.addresses, trio.current_time() + REMEMBERED_S)
            return lookup.addresses
        except OSError as error:
            lookup.error = error
            raise
        finally:
            del self._lookups[name]
            lookup.is_done.set()


async def connect_any(addresses: list[Address]) -> socket.socket:
    """Connect to the first address that answers; the others are tried beside it as time goes on.

    Raises:
        OSError: none answers.
    """
    if len(addresses) == 1:
        return await _connect(addresses[0])
    winners: list[socket.socket] = []
    failures: list[OSError] = []

    async def attempt(address: Address, failed: trio.Event) -> None:
        try:
            winners.append(await _connect(address))
        except OSError as error:
            failures.append(error)
            failed.set()
        else:
            nursery.cancel_scope.cancel()

    is_done = False
    try:
        async with trio.open_nursery() as nursery:
            for address in addresses:
                failed = trio.Event()
                nursery.start_soon(attempt, address, failed)
                with trio.move_on_after(ATTEMPT_S):
                    await failed.wait()
        is_done = True
    finally:
        for late in winners[1 if is_done else 0 :]:
            late.close()
    if winners:
        return winners[0]
    message = "all attempts to connect failed"
    raise OSError(message) from (ExceptionGroup(message, failures) if failures else None)


def why_not_connected(error: BaseException) -> str:
    """The reason without the address, which is the operator's business."""
    causes = [error, *_leaves(error.__cause__)]
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "its name could not be resolved"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "it refused the connection"
    return "it could not be reached"


def is_local(error: BaseException) -> bool:
    """Whether connecting failed for want of files, ports or memory of our own: with every address, for else one of them was to blame."""
    causes = _leaves(error.__cause__) or [error]
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        # The resolver does not say that it could not open its files: it knows no such name then.
        return is_out_of_files()
    return all(isinstance(cause, OSError) and cause.errno in LOCAL_ERRNOS for cause in causes)


def is_out_of_files() -> bool:
    """Whether this process, or the machine, can open nothing more now."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in LOCAL_ERRNOS
    return False


def exhausted() -> TransportError:
    """The fault of the gateway itself, in words fit for a client."""
    return TransportError(TransportFault.LOCAL, "The gateway has no files, ports or memory left to ask an upstream with; try again soon.")


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [] if error is None else [error]


def _interleaved(addresses: list[Address]) -> list[Address]:
    """Families in turn, beginning with the resolver's favourite, so that one broken family costs one attempt (RFC 8305 §4)."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    ordered: list[Address] = []
    for index in range(max(len(first), len(other))):
        ordered += first[index : index + 1] + other[index : index + 1]
    return ordered


async def _connect(address: Address) -> socket.socket:
    family, where = address
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            connecting.connect(where)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(connecting)
            number = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                raise OSError(number, os.strerror(number)) from None
        except OSError as error:
            if family == socket.AF_INET6 and error.errno == errno.EADDRNOTAVAIL:
                # Where there is no IPv6 that is said of every such address; ports are not the matter.
                raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)) from None
            raise
    except BaseException:
        connecting.close()
        raise
    return connecting
