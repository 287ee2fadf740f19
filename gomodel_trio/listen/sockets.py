"""Listening sockets: on one address, or on all of them over IPv4 and IPv6, with errors that name the variable to change.

Layer: listen. Source: behaviour.md §9 (HOST, PORT).
"""

import errno
import socket
from typing import Any

import trio

from gomodel_trio.errors import AddressUnavailable, ConfigFault

BACKLOG = 1024
"""Connections that may wait to be accepted: a burst of clients must not meet refusals (the kernel caps it at somaxconn)."""
_EVERYWHERE = frozenset({"", "*", "::"})
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


async def open_listeners(host: str, port: int, *, port_variable: str = "PORT") -> list[trio.SocketListener]:
    """Listen on every address that `host` stands for: "", "*" and "::" are all interfaces. With port 0 all share one free port.

    Raises:
        AddressUnavailable: the address cannot be bound; it names HOST or `port_variable`.
    """
    listeners: list[trio.SocketListener] = []
    failure: OSError | None = None
    try:
        for family, address in await _addresses(host, port):
            shared = listeners[0].socket.getsockname()[1] if listeners and port == 0 else port
            try:
                listeners.append(_listen(family, (address[0], shared, *address[2:])))
            except OSError as error:
                failure = error
                if error.errno not in _NO_IPV6:
                    break
        if listeners and (failure is None or failure.errno in _NO_IPV6):
            return listeners
    except OSError as error:
        failure = error
    for listener in listeners:
        listener.socket.close()
    raise AddressUnavailable([_fault(host, port, failure, port_variable)])


def port_of(listeners: list[trio.SocketListener]) -> int:
    """The port that they are bound to."""
    return int(listeners[0].socket.getsockname()[1])


async def _addresses(host: str, port: int) -> list[_Address]:
    if host in _EVERYWHERE:
        return [(socket.AF_INET, ("0.0.0.0", port)), (socket.AF_INET6, ("::", port, 0, 0))]
    try:
        found = await trio.socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise OSError(errno.EINVAL, "it is no host name") from None
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _listen(family: socket.AddressFamily, address: tuple[Any, ...]) -> trio.SocketListener:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit these: small writes go out at once, and a client that vanished without a word is noticed.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        return trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    except BaseException:
        sock.close()
        raise


def _fault(host: str, port: int, error: OSError | None, port_variable: str) -> ConfigFault:
    where = f"{host or 'all interfaces'}, port {port}"
    match error.errno if error is not None else None:
        case errno.EADDRINUSE:
            return ConfigFault(port_variable, f"port {port} is in use already ({where}): stop the other process or choose another port")
        case errno.EACCES | errno.EPERM:
            return ConfigFault(port_variable, f"no permission to listen on {where}: ports below 1024 need privileges")
        case errno.EADDRNOTAVAIL:
            return ConfigFault("HOST", f"{host!r} is no address of this machine")
        case _:
            reason = (error.strerror if error is not None else None) or "it stands for no address"
            return ConfigFault("HOST", f"cannot listen on {where}: {reason}")
