"""The gateway's front hall: which path leads where, who may pass, and what is told when something failed.

Layer: gateway. Source: behaviour.md §1 (endpoints), §9. Every request leaves here with one log line and one count.
"""

from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec
import trio

from gomodel_trio import __version__
from gomodel_trio.errors import ClientGone, GatewayError, MethodNotAllowed, NotFound, shortened
from gomodel_trio.gateway import answers
from gomodel_trio.gateway.admin_door import Admin, admit
from gomodel_trio.gateway.deployment import Deployment, Tools
from gomodel_trio.gateway.exchange import Exchange
from gomodel_trio.gateway.http import Request, Responder
from gomodel_trio.gateway.ingress import read_plain_body, request_id_of
from gomodel_trio.gateway.log_line import write_log_line
from gomodel_trio.gateway.models_list import list_models, one_model
from gomodel_trio.gateway.passthrough import pass_through
from gomodel_trio.gateway.record import RequestRecord
from gomodel_trio.metrics.catalogue import CONTENT_TYPE as METRICS_CONTENT_TYPE
from gomodel_trio.route.directives import header, user_path_of
from gomodel_trio.route.names import split_target
from gomodel_trio.translate.translation import StreamTranslation
from gomodel_trio.wire.dialect import API_BY_PATH, Dialect
from gomodel_trio.wire.faults import stream_error_event

_OPEN_PATHS: Final = frozenset({"/health", "/health/live", "/health/ready", "/version", "/metrics", "/", "/api/hello"})
_LAST_WORDS_S: Final = 1.0
"""How long a client may take to read that the gateway is stopping."""


class Gateway:
    """The handler behind every front door. `deployment` is replaced as a whole on reload; `admin` None: there is no admin API."""

    def __init__(self, tools: Tools, deployment: Deployment) -> None:
        self.tools = tools
        self.deployment = deployment
        self.admin: Admin | None = None
        self.is_draining = False

    async def handle(self, request: Request, responder: Responder) -> None:
        """Serve one request to its end; raises nothing but what its task must see (cancellation).

        Cancelled by anything but the client's departure, the drain is over: streams end with an error event then, the others with a 503.
        """
        record = RequestRecord(
            request_id=request_id_of(request.headers),
            method=request.method,
            path=_path_of(request),
            started_s=self.tools.clock.now_s(),
            user_path=user_path_of(request.headers),
        )
        is_counted = not _is_probe(record.path, self.deployment.settings.server.base_path)
        if is_counted:
            self.tools.metrics.request_started()
        try:
            await self._answer(self.deployment, request, responder, record)
        except BaseException:
            # Only what ends the task gets here: a cancellation, by itself or in the group of a nursery on its way.
            if request.is_disconnected:
                record.note_departure()
            else:
                await self._stop(request, responder, record)
            raise
        finally:
            self._account(record, is_counted=is_counted)

    # ---- answering --------------------------------------------------------------------------------------------------

    async def _answer(self, deployment: Deployment, request: Request, responder: Responder, record: RequestRecord) -> None:
        try:
            await self._route(deployment, request, responder, record)
        except GatewayError as error:
            await self._refuse(error, _dialect_of(deployment, request), responder, record)
        except ClientGone:
            record.note_departure()
        except Exception as error:
            # The last line of defence: a fault of ours must not show itself to a client, nor take the listener down.
            self.tools.log.error("internal_error", request_id=record.request_id, path=record.path, error=repr(error), exc_info=error)
            record.outcome = "internal_error"
            failure = GatewayError("The gateway failed; the operator's log has the details.")
            await self._refuse(failure, _dialect_of(deployment, request), responder, record)

    async def _route(self, deployment: Deployment, request: Request, responder: Responder, record: RequestRecord) -> None:
        base_path = deployment.settings.server.base_path
        path = _without_base(record.path, base_path)
        if path is None:
            raise NotFound(f"This gateway serves under {base_path!r}.", code="unknown_url")
        record.path = path
        if path in _OPEN_PATHS:
            return await self._probe(path, request, responder, record)
        deployment.master_key.check(request.headers)
        api = API_BY_PATH.get(path)
        if api is not None:
            _allow(request.method, "POST")
            record.api = api
            return await Exchange(self.tools, lambda: self.deployment, request, responder, record=record, api=api).run()
        if path == "/v1/models" or path.startswith("/v1/models/"):
            _allow(request.method, "GET", "HEAD")
            return await self._models(deployment, request, responder, record)
        if path.startswith("/p/"):
            rest = _raw_path_behind(base_path.count("/") + 2, request.raw_path)
            return await pass_through(self.tools, deployment, request, responder, record=record, rest=rest)
        if path.startswith("/admin/") and self.admin is not None:
            admit(request, deployment.master_key)
            rest = _raw_path_behind(base_path.count("/") + 2, request.raw_path)
            read_body = partial(read_plain_body, request, deployment.settings.server.body_size_limit_bytes)
            body = await self.admin(request.method, rest, request.query, request.headers, read_body)
            return await self._send(responder, record, 200, "application/json", body)
        raise NotFound(f"There is no route {request.method} {shortened(path)!r}.", code="unknown_url")

    async def _probe(self, path: str, request: Request, responder: Responder, record: RequestRecord) -> None:
        _allow(request.method, "GET", "HEAD")
        match path:
            case "/metrics":
                if not self.deployment.settings.metrics_enabled:
                    raise NotFound("Metrics are switched off (METRICS_ENABLED).", code="unknown_url")
                return await self._send(responder, record, 200, METRICS_CONTENT_TYPE, self.tools.metrics.render())
            case "/version":
                return await self._send_json(responder, record, 200, {"name": "gomodel_trio", "version": __version__})
            case "/health/ready":
                if self.is_draining:
                    return await self._send_json(responder, record, 503, {"status": "not_ready", "reason": "draining"})
                return await self._send_json(responder, record, 200, {"status": "ready"})
            case "/health" | "/health/live":
                return await self._send_json(responder, record, 200, {"status": "ok"})
            case _:
                # Claude Code asks HEAD / and HEAD /api/hello whether somebody is there; a person's GET gets a word, too.
                return await self._send_json(responder, record, 200, {"name": "gomodel_trio", "status": "ok"})

    async def _models(self, deployment: Deployment, request: Request, responder: Responder, record: RequestRecord) -> None:
        dialect = _dialect_of(deployment, request)
        name = request.path.removeprefix(deployment.settings.server.base_path + "/v1/models").removeprefix("/")
        user_path = record.user_path
        body = one_model(deployment, user_path, dialect, name) if name else list_models(deployment, user_path, dialect)
        await self._send(responder, record, 200, "application/json", body)

    async def _send_json(self, responder: Responder, record: RequestRecord, status: int, value: dict[str, str]) -> None:
        await self._send(responder, record, status, "application/json", msgspec.json.encode(value))

    async def _send(self, responder: Responder, record: RequestRecord, status: int, content_type: str, body: bytes) -> None:
        record.status = status
        await responder.send(status, [(b"content-type", content_type.encode()), *answers.own_headers(record)], body)

    async def _refuse(self, error: GatewayError, dialect: Dialect, responder: Responder, record: RequestRecord) -> None:
        record.error_code = error.code
        if record.outcome == "ok":
            record.outcome = "refused" if error.status < 500 else "failed"
        if responder.has_started:
            responder.abort()
            return
        answer = answers.of_error(error, dialect, record.request_id)
        record.status = answer.status
        with suppress(ClientGone):
            await responder.send(answer.status, [*answer.headers, *answers.own_headers(record)], answer.body)

    async def _stop(self, request: Request, responder: Responder, record: RequestRecord) -> None:
        """The drain is over and this request was not: say so, briefly."""
        record.outcome, record.status = "stopped", 503
        message = "The gateway is shutting down."
        with trio.move_on_after(_LAST_WORDS_S, shield=True), suppress(ClientGone):
            if not responder.has_started:
                error = GatewayError(message, status=503, code="shutting_down", retry_after_s=1.0)
                await self._refuse(error, _dialect_of(self.deployment, request), responder, record)
                return
            stream = record.open_stream
            if stream is not None and stream.has_ended:
                record.outcome = "ok"
                await responder.end()
            elif isinstance(stream, StreamTranslation):
                await responder.write(stream.fail(status=503, message=message, code="shutting_down"))
            elif stream is not None and record.api is not None:
                event = stream_error_event(
                    record.api,
                    status=503,
                    message=message,
                    code="shutting_down",
                    sequence_number=stream.sequence_number + 1,
                    is_mid_event=stream.is_mid_event,
                )
                await responder.write(event)
        responder.abort()

    # ---- accounting -------------------------------------------------------------------------------------------------

    def _account(self, record: RequestRecord, *, is_counted: bool) -> None:
        ended_s = self.tools.clock.now_s()
        write_log_line(self.tools.log, record, ended_s, is_quiet=not is_counted)
        if not is_counted:
            return
        provider, model = split_target(record.target) if record.target is not None else (None, None)
        self.tools.metrics.request_finished(
            provider=provider,
            model=model,
            endpoint=_endpoint_of(record),
            status=record.status,
            is_stream=record.is_stream,
            duration_s=(record.first_byte_s if record.is_stream and record.first_byte_s else ended_s) - record.started_s,
        )


def _path_of(request: Request) -> str:
    """The decoded path in which every slash was sent as one: an encoded slash is part of a segment, and stays encoded."""
    raw_path = request.raw_path
    if b"%2f" not in raw_path and b"%2F" not in raw_path:
        return request.path
    return "/".join(unquote_to_bytes(part).decode("utf-8", "replace").replace("/", "%2F") for part in raw_path.split(b"/"))


def _is_probe(path: str, base_path: str) -> bool:
    return _without_base(path, base_path) in _OPEN_PATHS


def _without_base(path: str, base_path: str) -> str | None:
    """The path under the base path; None where it is not under it."""
    if path == base_path:
        return "/"
    return path.removeprefix(base_path) if path.startswith(base_path + "/") else None


def _raw_path_behind(segments: int, raw_path: bytes) -> bytes:
    """What follows so many segments of a path, still percent-encoded: `%2F` inside a segment is no slash."""
    return raw_path.split(b"/", segments)[-1]


def _allow(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise MethodNotAllowed(method, *allowed)


def _dialect_of(deployment: Deployment, request: Request) -> Dialect:
    """The dialect that whoever sent the request reads: its path's; elsewhere Anthropic's clients are known by their version header."""
    path = _path_of(request).removeprefix(deployment.settings.server.base_path)
    api = API_BY_PATH.get(path)
    if api is not None:
        return api.dialect
    if path.startswith("/p/"):
        provider = deployment.settings.providers.get(path.removeprefix("/p/").partition("/")[0])
        if provider is not None:
            return provider.dialect
    if path.startswith("/v1/messages/") or header(request.headers, b"anthropic-version") is not None:
        return Dialect.ANTHROPIC
    return Dialect.OPENAI


def _endpoint_of(record: RequestRecord) -> str:
    if record.api is not None:
        return record.api.path
    if record.path.startswith("/v1/models"):
        return "/models"
    return "/p" if record.path.startswith("/p/") else "other"
