"""What a client of the HTTP/2 front door may take: sizes, counts, rates and times, each with its default.

Layer: listen. Source: RFC 9113 §6.5.2, §10.5 (denial of service); CVE-2019-9511…9518, CVE-2023-44487, CVE-2024-27316, CVE-2025-8671;
behaviour.md §1.2 (the body's own limit is the handler's).
"""

import msgspec


class Http2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes.

    `streams` bounds the requests that run at once on one connection. `head_bytes` is the decoded size of a request's headers as RFC 9113
    §6.5.2 counts it (32 bytes are added for each field), and also what their compressed form may take. `stream_window_bytes` bounds what
    is held of a body that no handler reads yet, `connection_window_bytes` that of all bodies of a connection (at least 65 535).
    `resets_per_s` bounds streams that end by a reset of the client's or for a fault of its own; `control_per_s` the frames that carry
    nothing (SETTINGS, PING, PRIORITY, WINDOW_UPDATE beyond need, nearly empty DATA, CONTINUATION); of each a few seconds' worth may come
    at once.
    `handshake_s` bounds TLS's handshake and, once more, the preface with the first SETTINGS; `head_s` one frame or one header block from
    its first byte to its last; `body_idle_s` a pause within a body and `body_total_s` the whole body, from the moment the handler asks
    for it; `unread_s` and `unread_bytes` how long, and how much, a client may go on sending behind an answer that did not wait for its
    body; `write_s` a write, or 64 KB of it, to a client that does not read; `keep_alive_s` a connection without a request.
    """

    streams: int = 250
    head_bytes: int = 65536
    header_count: int = 128
    stream_window_bytes: int = 262144
    connection_window_bytes: int = 4 << 20
    resets_per_s: float = 100.0
    control_per_s: float = 250.0
    handshake_s: float = 10.0
    head_s: float = 30.0
    body_idle_s: float = 30.0
    body_total_s: float = 600.0
    unread_s: float = 10.0
    unread_bytes: int = 64 << 20
    write_s: float = 300.0
    keep_alive_s: float = 75.0
    connections: int = 10_000
