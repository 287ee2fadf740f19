"""A virtual model's `slowdown`: an answer that takes f times its own time longer, chunk by chunk.

Layer: gateway. Source: behaviour.md §4. A task reads the upstream at its own pace and notes when each chunk came; the relay gets it at
`sent + (came - sent) * (1 + f)`. Without a slowdown the answer is handed through untouched.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from gomodel_trio.upstream.attempt import Opened
from gomodel_trio.upstream.transport import Headers, TransportError, UpstreamResponse

_WAITING_CHUNKS: Final = 1024
"""How far the upstream may run ahead; beyond it is held back."""


@asynccontextmanager
async def retimed(opened: Opened, slowdown: float | None, sent_at_s: float) -> AsyncIterator[Opened]:
    """Own the open answer: re-timed if `slowdown` says so, closed at the end in any case."""
    raised: Exception | None = None
    try:
        if not slowdown:
            yield opened
            return
        send, receive = trio.open_memory_channel[tuple[float, bytes | TransportError]](_WAITING_CHUNKS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_all, opened.response, send)
            slowed = _Slowed(opened.response, receive, sent_at_s, 1.0 + slowdown)
            try:
                yield Opened(slowed, opened.is_event_stream, opened.held)
            except Exception as error:
                raised = error  # past the nursery it would be a group
            nursery.cancel_scope.cancel()
        if raised is not None:
            raise raised
    finally:
        await opened.response.aclose()


async def _read_all(response: UpstreamResponse, send: "trio.MemorySendChannel[tuple[float, bytes | TransportError]]") -> None:
    async with send:
        while True:
            try:
                item: bytes | TransportError = await response.read()
            except TransportError as error:
                item = error
            await send.send((trio.current_time(), item))
            if not item or isinstance(item, TransportError):
                return


class _Slowed:
    def __init__(
        self,
        response: UpstreamResponse,
        receive: "trio.MemoryReceiveChannel[tuple[float, bytes | TransportError]]",
        sent_at_s: float,
        factor: float,
    ) -> None:
        self._response = response
        self._receive = receive
        self._sent_at_s = sent_at_s
        self._factor = factor

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    async def read(self) -> bytes:
        came_at_s, item = await self._receive.receive()
        await trio.sleep_until(self._sent_at_s + (came_at_s - self._sent_at_s) * self._factor)
        if isinstance(item, TransportError):
            raise item
        return item

    async def aclose(self) -> None:
        await self._response.aclose()
