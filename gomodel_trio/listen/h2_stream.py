"""One running HTTP/2 request: what belongs to it, and the handler's call with every failure told of and answered.

Layer: listen. Source: RFC 9113 §5.1; architecture.md rule 8 (groups).
"""

import contextlib
from collections.abc import Callable
from typing import Final

import trio

from gomodel_trio.errors import ClientGone
from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.h1_parser import Refusal
from gomodel_trio.listen.h2_request import Http2Request
from gomodel_trio.listen.h2_response import Http2Responder, Stage

OnError = Callable[[BaseException], None]
"""Told of every exception that no handler caught, once each. Must not raise."""
TOO_LATE: Final = Refusal(408, "The request did not arrive in time.")


class Http2Stream:
    """A request, its answer, and the scope of its handler. `room` is set while its answer waits for the client to read."""

    __slots__ = ("id", "is_gone", "refusal", "request", "responder", "room", "scope")

    def __init__(self, stream_id: int, request: Http2Request, responder: Http2Responder) -> None:
        self.id = stream_id
        self.request = request
        self.responder = responder
        self.scope = trio.CancelScope()
        self.is_gone = False
        """Whether nobody waits for the answer."""
        self.refusal: Refusal | None = None
        """What is to be answered in the handler's place."""
        self.room: trio.Event | None = None

    def lose(self) -> None:
        """The client is gone: end the handler, unless it has said all: then the client went because it has its answer."""
        self.is_gone = True
        if self.responder.stage is Stage.ENDED:
            return
        self.request.lose()
        self.scope.cancel()
        self.wake()

    def wake(self) -> None:
        """Let a waiting write look again."""
        if self.room is not None:
            self.room.set()

    async def run(self, handler: Handler, on_error: OnError) -> None:
        """Have the request answered."""
        with self.scope:
            failure = await self._handle(handler, on_error)
            if failure is not None:
                on_error(failure)
                with contextlib.suppress(ClientGone):
                    await self.responder.fail()

    async def _handle(self, handler: Handler, on_error: OnError) -> Exception | None:
        """Run the handler; what it failed with, or None where it answered, aborted or lost its client."""
        try:
            await handler(self.request, self.responder)
        except ClientGone:
            return None
        except Exception as error:
            return unwrapped(error) if _is_failure(error) else None
        except BaseExceptionGroup as group:
            cancelled, others = group.split(trio.Cancelled)
            failures = others.split(ClientGone)[1] if others is not None else None
            if cancelled is None or not isinstance(failures, Exception | None):
                raise
            if failures is not None:
                on_error(unwrapped(failures))
            raise cancelled from None
        if self.responder.is_finished or self.is_gone:
            return None
        return RuntimeError("the handler returned before it had answered")


def unwrapped(error: Exception) -> Exception:
    """The one exception in a group of one, without the client's departures beside it."""
    if isinstance(error, ExceptionGroup):
        error = error.split(ClientGone)[1] or error
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _is_failure(error: Exception) -> bool:
    """Whether it is more than the client's departure."""
    return not isinstance(error, ExceptionGroup) or error.split(ClientGone)[1] is not None
