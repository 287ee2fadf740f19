"""The gateway's own listeners: a connection that leads back to one of them would ask the gateway for ever.

Layer: upstream. Source: behaviour.md §7 (a base_url that is our own listener is an error). Configuration finds the spellings that show it;
here it is known where a name has led.
"""

import socket
from typing import Any

from gomodel_trio.config.local_address import address_of, is_loopback, is_this_machine, plain_host
from gomodel_trio.upstream.transport import TransportError, TransportFault


class OwnListeners:
    """Where this gateway listens: `ports`, empty until its doors are open, on `host` (empty: every interface)."""

    def __init__(self) -> None:
        self.ports: set[int] = set()
        self.host = ""

    def check(self, connected: Any) -> None:
        """Look where a connected socket leads to.

        Raises:
            TransportError: LOOP; to one of these listeners. The socket stays the caller's to close.
        """
        if not self.ports:
            return
        try:
            peer = connected.getpeername()
        except OSError:
            return  # whoever sends will find out
        if connected.family in (socket.AF_INET, socket.AF_INET6) and peer[1] in self.ports and self._is_ours(peer[0].partition("%")[0]):
            raise TransportError(TransportFault.LOOP, "The upstream could not be asked: the way to it leads back to this gateway.")

    def _is_ours(self, peer: str) -> bool:
        host = plain_host(self.host)
        ours, theirs = address_of(host), address_of(peer)
        if not host or (ours is not None and ours.is_unspecified):
            return is_this_machine(peer)
        if ours is None:
            return is_loopback(peer) if is_loopback(host) else is_this_machine(peer)
        return ours == theirs
