"""The admin API: its paths, and what answers there.

Layer: admin. Source: behaviour.md §1, §5, §10. Who may ask was settled before (`gateway.admin_door`).

    GET  routing                    the state of every target
    POST routing/{target}/reset     forget a target's cooldown and estimates
    POST explain?api=NAME           what would be done with this request, now; nothing is called and nothing changes

`explain` is sent what the endpoint itself would be sent: the same headers, the same body. So nothing has to be wrapped, and even a body
that is no JSON is explained as it would be answered.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, overload
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from gomodel_trio.admin.documents import ResetDocument, routing_document
from gomodel_trio.errors import ClientFault, MethodNotAllowed, NotFound, shortened
from gomodel_trio.route.names import TargetId
from gomodel_trio.state.commands import Inspect, Inspection, ResetTarget
from gomodel_trio.wire.dialect import API_NAMES, Api, named_api

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

ReadBody = Callable[[], Awaitable[bytes]]
Explainer = Callable[[Api, Headers, bytes], Awaitable[msgspec.Struct]]
"""Tells what would be done with a request to the endpoint, ready for JSON."""

_RESET: Final = b"/reset"
_TARGETS: Final = b"routing/"


class Ask(Protocol):
    """The way to the task that owns the routing state."""

    @overload
    async def __call__(self, command: Inspect) -> Inspection: ...
    @overload
    async def __call__(self, command: ResetTarget) -> bool: ...
    async def __call__(self, command: Inspect | ResetTarget) -> Inspection | bool:
        """Have a command carried out and tell its reply."""
        ...


class AdminApi:
    """Answers under `/admin/`. `ask` reaches the routing state, `explain` tells of one request."""

    def __init__(self, ask: Ask, explain: Explainer) -> None:
        self._ask = ask
        self._explain = explain

    async def answer(self, method: str, rest: bytes, query: bytes, headers: Headers, read_body: ReadBody) -> bytes:
        """Answer in JSON; `rest` is the path behind `/admin/`, still percent-encoded.

        Raises:
            NotFound: no such path, or no such target.
            MethodNotAllowed: the path takes another method.
            ClientFault: what `read_body` raises; an endpoint that there is not.
        """
        if rest == b"routing":
            _allow(method, "GET", "HEAD")
            return _json(routing_document(await self._ask(Inspect())))
        if rest == b"explain":
            _allow(method, "POST")
            api = _asked_api(query)
            return _json(await self._explain(api, headers, await read_body()))
        if rest.startswith(_TARGETS) and rest.endswith(_RESET) and len(rest) > len(_TARGETS) + len(_RESET):
            _allow(method, "POST")
            return _json(await self._reset(rest[len(_TARGETS) : -len(_RESET)]))
        raise NotFound(f"There is no route {method} '/admin/{shortened(_text(rest))}'.", code="unknown_url")

    async def _reset(self, encoded: bytes) -> ResetDocument:
        target = TargetId(_text(encoded))
        if not await self._ask(ResetTarget(target)):
            raise NotFound(
                f"The target {shortened(target)!r} is not known here; GET /admin/routing lists those that are.", code="unknown_target"
            )
        return ResetDocument(target)


def _asked_api(query: bytes) -> Api:
    """The endpoint that a request is explained for; chat if the query names none."""
    named = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)).get("api", "chat")
    api = named_api(named)
    if api is None:
        raise ClientFault(
            f"{shortened(named)!r} is no endpoint; use one of {', '.join(API_NAMES)}, or its path.", code="unknown_api", param="api"
        )
    return api


def _allow(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise MethodNotAllowed(method, *allowed)


def _text(encoded: bytes) -> str:
    return unquote_to_bytes(encoded).decode("utf-8", "replace")


def _json(document: Any) -> bytes:
    return msgspec.json.encode(document)
