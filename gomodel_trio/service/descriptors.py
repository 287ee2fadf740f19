"""File descriptors: as many as the process may have, and not all of them for clients who say nothing.

Layer: service. Source: getrlimit(2); behaviour.md §9 (limits).
"""

import contextlib
import os
from typing import Final

_OWN: Final = 32
"""Listening sockets, epolls, standard streams, files that are read now and then."""
_PER_CLIENT: Final = 2
"""A client's connection, and the one to the provider that serves it."""


def raise_limit() -> int | None:
    """Raise the soft limit to the hard one, as far as the system lets us; the limit, None where there is none that is known."""
    try:
        import resource
    except ImportError:  # no POSIX
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # such as macOS, where "unlimited" is more than is allowed
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else soft


def fitting_connections(wanted: int, limit: int | None, *, doors: int = 1) -> int:
    """How many client connections each of the doors may hold: as configured, if each finds a descriptor for its provider; at least one."""
    return wanted if limit is None else max(1, min(wanted, (limit - _OWN) // (_PER_CLIENT * doors)))


def fill_standard_streams() -> None:
    """Open the null device where a standard stream is closed, or the next socket would take its number, and the log would go there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
