"""Whether an address or a name is this machine's own.

Layer: config. Source: behaviour.md §7 (a base_url that is our own listener is an error). Asks the system, never the network: an address is
ours if a socket can be bound to it, and names are compared with the machine's.
"""

import ipaddress
import socket

_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback")


def plain_host(host: str) -> str:
    """A host as it is compared: lower case, without brackets and without the dot at its end."""
    return host.strip("[]").rstrip(".").lower()


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `host` spells, old forms such as `127.1` too, and an IPv4 one wrapped in IPv6; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, UnicodeEncodeError, ValueError):
            return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether connecting to `host` stays on this machine's loopback; the unspecified address does on Linux."""
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    address = address_of(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_this_machine(host: str) -> bool:
    """Whether `host` leads to this machine: by loopback, by an address of one of its interfaces, or by the machine's own name."""
    if is_loopback(host):
        return True
    address = address_of(host)
    return host in machine_names() if address is None else _can_be_bound(address)


def machine_names() -> frozenset[str]:
    """What this machine calls itself: its name, and that without its domain."""
    name = plain_host(socket.gethostname())
    short = name.partition(".")[0]
    return frozenset((name, short, f"{short}.local")) if short else frozenset()


def _can_be_bound(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if address.is_multicast:  # which anybody may bind
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.bind((str(address), 0))
    except OSError:
        return False
    return True
