"""The Transport protocol: one HTTP exchange with an upstream, head first, then chunks.

Layer: upstream. Behind it: `httpx_transport` (and `echo`). Knows nothing of models, dialects or retries.
Source: architecture.md; behaviour.md §6 (timeouts), §7 (headers).
"""

from enum import StrEnum
from typing import Protocol

import msgspec

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, values as sent, in order."""


class UpstreamRequest(msgspec.Struct, frozen=True):
    """What to send. `headers` are complete but for host, content-length and connection, which the transport adds."""

    method: str
    url: str
    headers: Headers
    body: bytes
    connect_timeout_s: float
    header_timeout_s: float
    idle_timeout_s: float | None = None


class TransportFault(StrEnum):
    """What went wrong below HTTP."""

    CONNECT = "connect"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS = "tls"
    HEADER_TIMEOUT = "header_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    RESET = "reset"
    SHORT_BODY = "short_body"
    PROTOCOL = "protocol"
    LOOP = "loop"
    """The way to the upstream leads back to one of the gateway's own listeners."""
    LOCAL = "local"
    """The gateway itself has no files, ports or memory left to ask with: nobody else's fault."""


class TransportError(Exception):
    """An exchange failed. `is_stale`: a pooled connection had died before anything of the answer came and the transport's one silent
    re-send is used up or impossible. The message never holds a URL or a credential.
    """

    def __init__(self, fault: TransportFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message

    @property
    def is_timeout(self) -> bool:
        """Whether it is told to clients as 504 rather than 502."""
        return self.fault in (TransportFault.CONNECT_TIMEOUT, TransportFault.HEADER_TIMEOUT, TransportFault.IDLE_TIMEOUT)


class UpstreamResponse(Protocol):
    """The answer: head at once, body by `read`. Must be closed; closing is synchronous, immediate and idempotent."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...

    async def read(self) -> bytes:
        """The next chunk as it came (still content-encoded), never empty; b"" at the proper end.

        Raises:
            TransportError: the body was cut, reset or, with `idle_timeout_s`, nothing came for that long.
        """
        ...

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it at once; never raises, never waits for the upstream."""
        ...


class Transport(Protocol):
    """Sends requests. One silent re-send happens inside where a pooled connection turned out stale (§6)."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send and wait for the head. Cancelling closes the connection and frees its slot.

        Raises:
            TransportError
        """
        ...

    async def aclose(self) -> None: ...
