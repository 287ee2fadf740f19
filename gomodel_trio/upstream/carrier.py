"""What HttpxTransport needs of a connection, whichever HTTP it speaks: one exchange on it, from the question to the end of the answer.

Layer: upstream. Behind it: `http1_carrier` (httpcore) and `http2_carrier` (h2). Source: behaviour.md §6 (the silent re-send).
"""

from typing import Protocol

import httpcore
import msgspec

from gomodel_trio.upstream.h1_request import Key
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault

STALE_S = 5.0
"""A kept connection that dies this soon after the request was already dead; later it is the upstream that died over the request."""


class Question(msgspec.Struct, frozen=True):
    """A request, checked: `message` in httpcore's terms, host and content-length among its headers. `key`: which connections may serve."""

    key: Key
    message: httpcore.Request
    body: bytes


class NotProcessedError(Exception):
    """The upstream has not touched the request: it may be sent once more. `error` is what to tell where that is used up."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(error.message)
        self.error = error


class Carrier(Protocol):
    """One exchange. `ask` once, `read` to the end or not, `close` in any case."""

    async def ask(self, question: Question) -> tuple[int, Headers]:
        """Send, and wait for the head: status and headers, names in lower case.

        Raises:
            TransportError, NotProcessedError
        """
        ...

    async def read(self) -> bytes:
        """The next bytes of the body, never empty; b"" at its proper end.

        Raises:
            TransportError: the body was cut or is none.
        """
        ...

    async def close(self) -> None:
        """End the exchange; what is not complete is cancelled. Waits for nobody for long."""
        ...


def reset_before_head() -> TransportError:
    """The connection ended before the answer began."""
    return TransportError(TransportFault.RESET, "The upstream closed the connection before it answered.")


def reset_in_body() -> TransportError:
    """The connection, or the stream, was reset within the answer."""
    return TransportError(TransportFault.RESET, "The upstream reset the connection in the middle of its answer.")


def short_body() -> TransportError:
    """The connection ended within the answer."""
    return TransportError(TransportFault.SHORT_BODY, "The upstream closed the connection in the middle of its answer.")


def not_http() -> TransportError:
    """The answer's head breaks the protocol."""
    return TransportError(TransportFault.PROTOCOL, "The upstream's answer is not valid HTTP.")


def body_not_http() -> TransportError:
    """The answer's body breaks the protocol."""
    return TransportError(TransportFault.PROTOCOL, "The body of the upstream's answer is not valid HTTP.")
