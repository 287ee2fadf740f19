"""The same call of an SDK made twice, straight at the fake upstream and through a gateway: the upstream must not see the difference.

`sync` and `async` clients are called alike: `done`, `each` and `opened` take what either returns.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from support.fake_upstream import FakeUpstream
from support.replies import Request

CREDENTIALS: Final = frozenset({"authorization", "x-api-key"})
"""The client's own ends at the gateway; the provider's takes its place."""

HOP_BY_HOP: Final = frozenset({"connection"})
"""Between the client and the gateway only; the gateway's connection to the upstream is its own."""

READABLE_CODINGS: Final = frozenset({"gzip", "deflate"})
"""Of `accept-encoding` the gateway passes on what it can read itself: an SDK offers more where brotli or zstandard is installed."""

Call = Callable[[Any, str], Awaitable[Any]]
"""A call on a client (of either kind) for a model's name."""


@dataclass(frozen=True)
class Way:
    """A client and the name under which it asks for the model."""

    client: Any
    model: str


async def made_both_ways(call: Call, upstream: FakeUpstream, straight: Way, through: Way) -> tuple[Any, Any]:
    """Make the call either way and hold the upstream's records against each other; what either call returned, in plain values."""
    first = len(upstream.requests)
    direct = plain(await call(straight.client, straight.model))
    second = len(upstream.requests)
    relayed = plain(await call(through.client, through.model))
    asked, passed = upstream.requests[first:second], upstream.requests[second:]
    assert len(asked) == len(passed) > 0
    for ours, theirs in zip(passed, asked, strict=True):
        assert_same_request(ours, theirs)
    return direct, relayed


def assert_same_request(passed: Request, direct: Request) -> None:
    """The two differ in credentials and hop-by-hop headers only, order and query included; nothing is added, the body is the same bytes."""
    assert (passed.method, passed.target, passed.version) == (direct.method, direct.target, direct.version)
    assert passed.body == direct.body
    assert _comparable(passed, has_readable_codings=False) == _comparable(direct, has_readable_codings=True)


def credentials_of(request: Request) -> dict[str, str]:
    """The credentials that a request carried."""
    return {name: value for name, value in _headers(request) if name in CREDENTIALS}


def _comparable(request: Request, *, has_readable_codings: bool) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in _headers(request) if name not in CREDENTIALS | HOP_BY_HOP]
    if not has_readable_codings:
        return kept
    return [(name, _readable(value) if name == "accept-encoding" else value) for name, value in kept]


def _readable(codings: str) -> str:
    return ", ".join(coding for coding in codings.split(", ") if coding in READABLE_CODINGS)


def _headers(request: Request) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers]


# ---- either kind of client ------------------------------------------------------------------------------------------


async def done(value: Any) -> Any:
    """What a call returns, awaited where it must be."""
    return await value if inspect.isawaitable(value) else value


async def each(items: Any) -> AsyncIterator[Any]:
    """The items of a stream or page of either kind."""
    if hasattr(items, "__aiter__"):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


@asynccontextmanager
async def opened(manager: Any) -> AsyncIterator[Any]:
    """Enter a context manager of either kind."""
    if hasattr(manager, "__aenter__"):
        async with manager as entered:
            yield entered
    else:
        with manager as entered:
            yield entered


async def all_of(items: Any) -> list[Any]:
    """Every item of a stream or page of either kind, closed afterwards."""
    async with opened(items) if hasattr(items, "__exit__") or hasattr(items, "__aexit__") else _as_it_is(items) as entered:
        return [item async for item in each(entered)]


@asynccontextmanager
async def _as_it_is(items: Any) -> AsyncIterator[Any]:
    yield items


def plain(value: Any) -> Any:
    """SDK objects as dictionaries, in whatever holds them, so that they compare by content."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.model_dump(mode="json", warnings=False) if hasattr(value, "model_dump") else value
