"""The gateway's own Request and Responder: the seam to the front doors.

Layer: gateway. A front door (`listen/*`) builds a Request and a Responder for each HTTP request and calls the `Handler`. When the client is
gone it sets `request.is_disconnected`, then cancels the handler's scope. Source: architecture.md; behaviour.md §6 (hang-up).
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, values as sent, in order."""


class Request(Protocol):
    """One request as a front door received it. `path` is percent-decoded without the query; `query` is raw, without "?"."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def raw_path(self) -> bytes: ...
    @property
    def query(self) -> bytes: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def peer(self) -> str:
        """The client's address, without the port; "" if unknown (a Unix socket)."""
        ...

    @property
    def is_disconnected(self) -> bool: ...

    async def read_body(self, limit_bytes: int) -> bytes:
        """Read the whole body, still encoded as sent.

        Raises:
            BodyTooLarge: more than `limit_bytes` are declared or come; what was read is dropped and no more is kept.
            ClientGone: the client left before its body was complete.
        """
        ...


class Responder(Protocol):
    """Where the answer goes. Use `send` for a whole answer, or `start`, any number of `write`, and `end` (or `abort`)."""

    @property
    def has_started(self) -> bool: ...

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer; content-length is added. For HEAD the front door drops the body."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of an answer of unknown length."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send one chunk at once; waits while the client does not read (back-pressure)."""
        ...

    async def end(self) -> None:
        """End the answer properly."""
        ...

    def abort(self) -> None:
        """End the answer so that the client sees it is incomplete (no terminating chunk, connection closed)."""
        ...


Handler = Callable[[Request, Responder], Awaitable[None]]
