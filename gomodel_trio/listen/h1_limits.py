"""What a client of the HTTP/1.1 front door may take: sizes, counts and times, each with its default.

Layer: listen. Source: RFC 9112 §3, §5 (bounds are the server's choice); behaviour.md §1.2 (the body's own limit is the handler's).
"""

import msgspec


class H1Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes.

    `head_s` bounds a request's head from its first byte to its last; `body_idle_s` a pause within a body and `body_total_s` the whole
    body, from the moment the handler asks for it; `write_s` one write to a client that does not read; `keep_alive_s` a connection
    without a request (above the 60 s after which common load balancers drop idle connections, so that it is they who close).
    """

    head_bytes: int = 65536
    header_count: int = 128
    handshake_s: float = 10.0
    head_s: float = 30.0
    body_idle_s: float = 30.0
    body_total_s: float = 600.0
    write_s: float = 300.0
    keep_alive_s: float = 75.0
    connections: int = 10_000
