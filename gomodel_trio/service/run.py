"""The nursery tree: the only place where parts are wired and tasks of the process are started.

Layer: service. Source: architecture.md rule 7; behaviour.md §6 (drain), §10 (HUP).

    upstream transport
      └ routing: actor, expiry, the pool's reaper
          └ edge: signals, front doors

Nurseries nest, so stopping runs from the inside out: the door closes, what runs is finished, then the state, then the pool.
"""

import gc
import os
import random
from collections.abc import Callable
from functools import partial

import trio
from trio_util import AsyncBool

from gomodel_trio.admin.api import AdminApi
from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.confidential import confidential_texts
from gomodel_trio.config.describe import idle_hint
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import ConfigFault, ConfigurationError
from gomodel_trio.gateway.app import Gateway
from gomodel_trio.gateway.deployment import Tools, deploy, known_names
from gomodel_trio.metrics.catalogue import Metrics
from gomodel_trio.replay.explain import Document, Ground, explain_live
from gomodel_trio.route.directives import Headers
from gomodel_trio.service.clock import Clock
from gomodel_trio.service.descriptors import fitting_connections, raise_limit
from gomodel_trio.service.doors import Doors
from gomodel_trio.service.early_signals import EARLY
from gomodel_trio.service.facts import facts_sink
from gomodel_trio.service.logging import Log, is_text
from gomodel_trio.service.signals import watch_signals
from gomodel_trio.state.actor import Actor
from gomodel_trio.state.commands import ReplacePolicy
from gomodel_trio.state.expiry import run_expiry
from gomodel_trio.upstream.transports import Transports
from gomodel_trio.wire.dialect import Api

CLOSE_S = 1.5
"""How long closing the upstream connections may take at the end."""

_GC_YOUNG = 20_000
"""Objects made before the young ones are looked at; the default of 700 means several times in a request."""
_HEAP_BYTES = 4 << 20
"""Once a block of this size was freed, glibc keeps up to twice as much at the heap's end (mallopt(3), M_TRIM_THRESHOLD)."""
_TAKEN_BY_RELOAD = frozenset({"base_path", "master_key", "body_size_limit_bytes"})
"""Of `settings.server`; the rest of it, and all of `settings.listen`, are used when the doors open, which they do once."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Service:
    """One running gateway. `load` reads the configuration anew; `source` of chance is seeded by the system."""

    def __init__(self, settings: Settings, log: Log, *, load: Callable[[], Settings]) -> None:
        self._settings = settings
        self._log = log
        self._load = load
        self._chance = random.Random()
        self._is_draining = AsyncBool(False)

    async def run(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until told to stop; reports the bound port.

        Raises:
            ConfigurationError: the address cannot be bound.
        """
        clock = Clock()
        self._transports = transports = Transports(os.environ)
        policy = compile_policy(self._settings)
        metrics = Metrics(known_names(policy))
        draw = self._chance.random
        actor = Actor(policy, draws=lambda: (draw(), draw()), on_facts=facts_sink(metrics, self._log))
        tools = Tools(actor=actor, metrics=metrics, log=self._log, clock=clock, draw=draw, transport_for=transports.transport_for)
        self._gateway = with_admin(Gateway(tools, deploy(self._settings, tools)))
        try:
            async with trio.open_nursery() as routing:
                await routing.start(actor.run)
                await routing.start(run_expiry, actor)
                routing.start_soon(transports.run)
                await self._edge(task_status)
                routing.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_S):
                await transports.aclose()

    async def _edge(self, task_status: trio.TaskStatus[int]) -> None:
        self._doors = Doors(
            self._settings,
            self._gateway.handle,
            shutdown_trigger=partial(self._is_draining.wait_value, True),
            drain_timeout_s=self._settings.server.shutdown_drain_timeout_s,
            on_error=self._handler_failed,
            connections=self._connections(),
        )
        async with trio.open_nursery() as edge:
            await edge.start(partial(watch_signals, on_drain=self._drain, on_force=edge.cancel_scope.cancel, on_reload=self._reload))
            await self._open(task_status)
            edge.cancel_scope.cancel()
        self._log.info("stopped")

    async def _open(self, task_status: trio.TaskStatus[int]) -> None:
        async with trio.open_nursery() as nursery:
            ports = await nursery.start(self._doors.serve)
            self._transports.own.host = self._settings.server.host
            self._transports.own.ports = {port for port in (ports.http, ports.http2) if port is not None}
            host = self._settings.server.host or "all interfaces"
            is_tls = self._settings.listen.tls_cert_file is not None or None
            hint = _exposure(self._settings)
            self._log.info("listening", host=host, port=ports.http, http2_port=ports.http2, tls=is_tls, hint=hint)
            _settle_memory()
            task_status.started(ports.http)
            if EARLY.hand_over():
                self._reload()

    def _connections(self) -> int:
        """How many clients each door may have: as configured, as far as there are descriptors."""
        listen, limit = self._settings.listen, raise_limit()
        fitting = fitting_connections(listen.connections, limit, doors=1 if listen.http2_port is None else 2)
        if fitting < listen.connections:
            message = "Fewer client connections than SERVER_MAX_CONNECTIONS: each needs two descriptors (ulimit -n, LimitNOFILE)."
            self._log.warning("few_descriptors", message=message, connections=fitting, configured=listen.connections, descriptors=limit)
        return fitting

    # ---- stopping ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        self._log.info("draining", timeout_s=self._settings.server.shutdown_drain_timeout_s)
        self._gateway.is_draining = True
        self._is_draining.value = True

    def _handler_failed(self, error: BaseException) -> None:
        self._log.error("connection_failed", exc_info=error)

    # ---- reloading --------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Take the configuration as it is now; a bad one changes nothing and says so."""
        try:
            settings = self._load()
            _refuse_exposure(self._settings, settings)
            deployment = deploy(settings, self._gateway.tools)
            self._doors.reload_certificates()
        except ConfigurationError as error:
            self._log.error("reload_failed", faults=[str(fault) for fault in error.faults])
            return
        except Exception as error:
            self._log.error("reload_failed", faults=[repr(error)])
            return
        self._log.set_manner(level=settings.log.level, as_text=is_text(settings.log))
        self._log.keep_secret(confidential_texts(settings, os.environ))
        self._gateway.tools.actor.tell(ReplacePolicy(deployment.policy))
        self._gateway.tools.metrics.replace_names(known_names(deployment.policy))
        self._gateway.deployment = deployment
        announce(settings, self._log)
        self._log.info("reloaded", needs_restart=_not_taken(self._settings, settings) or None)


def with_admin(gateway: Gateway) -> Gateway:
    """Give a gateway its admin API, which tells of the deployment that serves at the time; the gateway itself."""
    ask = gateway.tools.actor.ask

    async def explain(api: Api, headers: Headers, body: bytes) -> Document:
        now = gateway.deployment
        return await explain_live(Ground(now.policy, now.matcher, now.sessions), api, headers, body, ask=ask)

    gateway.admin = AdminApi(ask, explain).answer
    return gateway


def _not_taken(running: Settings, new: Settings) -> list[str]:
    """What differs and takes a restart, by its name in the settings."""
    return [
        name
        for was, now in ((running.server, new.server), (running.listen, new.listen))
        for name in was.__struct_fields__
        if name not in _TAKEN_BY_RELOAD and getattr(was, name) != getattr(now, name)
    ]


def _refuse_exposure(running: Settings, new: Settings) -> None:
    """Without a master key the default is to listen on this machine only, and the addresses cannot be changed any more.

    Raises:
        ConfigurationError: the gateway would be open where the new configuration does not want it to listen.
    """
    where = running.server.host
    if new.server.master_key is None and where != new.server.host and where not in _LOOPBACK:
        message = f"is gone, and the gateway listens on {where or 'all interfaces'}: restart it, or set HOST to have it open there"
        raise ConfigurationError([ConfigFault("GOMODEL_MASTER_KEY", message)])


def _settle_memory() -> None:
    """Keep the garbage collector from looking again and again at what lives as long as the process; requests leave no cycles behind.

    And keep the heap from being given back and faulted in again with each long body.
    """
    bytes(_HEAP_BYTES)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_YOUNG, 20, 50)


def announce(settings: Settings, log: Log) -> None:
    """Say once what an operator should know of this configuration."""
    for warning in settings.warnings:
        log.warning("configuration", message=warning)
    if settings.server.master_key is None:
        log.warning("open_gateway", message="GOMODEL_MASTER_KEY is not set: whoever can reach the gateway may use it.")
    hint = idle_hint(settings)
    if hint is not None:
        log.info("smart_routing_idle", message=hint)


def _exposure(settings: Settings) -> str | None:
    if settings.server.master_key is None and settings.server.host in _LOOPBACK:
        return "Only this machine can reach it: set GOMODEL_MASTER_KEY to listen on all interfaces, or HOST to choose one."
    return None
