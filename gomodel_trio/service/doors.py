"""The front doors of one gateway, as configured: HTTP/1.1 on PORT, and HTTP/2 on HTTP2_PORT if that is set.

Layer: service. Source: behaviour.md §9; performance.md. Certificates are read when the doors open, and again on HUP.
hypercorn and h2 are imported only where the configuration wants them: they cost memory and time to start.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio

from gomodel_trio.config.settings import Settings
from gomodel_trio.gateway.http import Handler
from gomodel_trio.listen.h1 import serve_h1
from gomodel_trio.listen.h1_limits import H1Limits
from gomodel_trio.listen.tls import TlsFiles

if TYPE_CHECKING:
    from gomodel_trio.listen.http2_door import Http2TlsFiles

Door = Callable[..., Awaitable[object]]


_Limits = TypeVar("_Limits", bound=msgspec.Struct)


class Ports(msgspec.Struct, frozen=True):
    """Where the doors are open; `http2` None: there is none."""

    http: int
    http2: int | None


class Doors:
    """The doors to `handler`; `shutdown_trigger` returns when they are to be closed, `drain_timeout_s` is what runs may
    take then; each takes `connections` clients.

    Raises:
        ConfigurationError: a certificate cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        handler: Handler,
        *,
        shutdown_trigger: Callable[[], Awaitable[object]],
        drain_timeout_s: float,
        on_error: Callable[[BaseException], None],
        connections: int,
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._handler = handler
        listen = settings.listen
        files = (listen.tls_cert_file, listen.tls_key_file)
        self._tls = TlsFiles(files[0], files[1]) if files[0] and files[1] else None
        self._tls2 = _http2_files(files[0], files[1]) if files[0] and files[1] and listen.http2_port is not None else None
        self._common: dict[str, Any] = {
            "host": settings.server.host,
            "shutdown_trigger": shutdown_trigger,
            "drain_timeout_s": drain_timeout_s,
            "on_error": on_error,
        }

    async def serve(self, task_status: trio.TaskStatus[Ports] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until drained; reports the ports once clients can connect.

        Raises:
            ConfigurationError: an address cannot be bound.
        """
        async with trio.open_nursery() as nursery:
            http = await nursery.start(self._http_door())
            http2_port = self._settings.listen.http2_port
            http2 = None if http2_port is None else await nursery.start(self._http2_door(http2_port))
            task_status.started(Ports(http, http2))

    def reload_certificates(self) -> None:
        """Read the certificate files again; new connections use what is good.

        Raises:
            ConfigurationError: they are not, and nothing has changed.
        """
        for files in (self._tls, self._tls2):
            if files is not None:
                files.reload()

    def _http_door(self) -> Door:
        port = self._settings.server.port
        if self._settings.listen.front_door == "hypercorn":
            return self._hypercorn_door(port)
        limits = self._limits(H1Limits)
        return partial(serve_h1, self._handler, port=port, limits=limits, tls=self._tls, **self._common)

    def _limits(self, kind: type[_Limits]) -> _Limits:
        """A door's limits: those of the settings that bear the names of its fields, and its share of the connections."""
        listen = self._settings.listen
        named = {name: getattr(listen, name) for name in kind.__struct_fields__ if hasattr(listen, name)}
        return kind(**{**named, "connections": self._connections})

    def _hypercorn_door(self, port: int) -> Door:
        from gomodel_trio.listen.asgi import AsgiApp
        from gomodel_trio.listen.h11_connection import ConnectionLimits
        from gomodel_trio.listen.hypercorn_door import serve_hypercorn

        limits = self._limits(ConnectionLimits)
        app = AsgiApp(self._handler, self._common["on_error"])
        return partial(serve_hypercorn, app, port=port, limits=limits, **self._common)

    def _http2_door(self, port: int) -> Door:
        from gomodel_trio.listen.h2_limits import Http2Limits
        from gomodel_trio.listen.http2_door import serve_http2

        limits = self._limits(Http2Limits)
        return partial(serve_http2, self._handler, port=port, limits=limits, tls=self._tls2, **self._common)


def _http2_files(cert_file: str, key_file: str) -> "Http2TlsFiles":
    from gomodel_trio.listen.http2_door import Http2TlsFiles

    return Http2TlsFiles(cert_file, key_file)
