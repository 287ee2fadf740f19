"""Which transport serves which provider: one HTTP/1.1 transport for most, an httpx one for each set of options that wants it.

Layer: upstream. Source: performance.md (the data path is ours; httpx for HTTP/2 and proxies). Made when first wanted and kept across
reloads, so that connections outlive a change of configuration; httpx itself is imported only then.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Protocol

import trio

from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.h1 import H1Transport
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.routes import needs_httpx
from gomodel_trio.upstream.transport import Transport


class PooledTransport(Transport, Protocol):
    """A transport that keeps connections, to be looked over by `reap`, which runs for ever."""

    async def reap(self) -> None: ...


MakeHttpx = Callable[[bool, str | None], PooledTransport]
"""Makes the transport for `http2` and `proxy_url`; without the latter, the environment says how to get to an origin."""


class Transports:
    """Hands out transports. `environ` is the process's, for its proxies; `make_h1` and `make_httpx` are for tests.

    `own` is to be told where the gateway listens once its doors are open, so that no transport leads back there.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        make_h1: Callable[[], PooledTransport] | None = None,
        make_httpx: MakeHttpx | None = None,
    ) -> None:
        self.own = OwnListeners()
        self._environ = dict(environ)
        self._make_h1 = make_h1 if make_h1 is not None else partial(H1Transport, own=self.own)
        self._make_httpx = make_httpx if make_httpx is not None else self._httpx
        self._h1: PooledTransport | None = None
        self._by_options: dict[tuple[bool, str | None], PooledTransport] = {}
        self._unreaped: list[PooledTransport] = []
        self._is_new = trio.Event()

    def transport_for(self, provider: ProviderSettings, *, preferred: Literal["h1", "httpx"] = "h1") -> Transport:
        """The transport for a provider, the same one for the same options. `preferred` serves where the provider needs nothing special."""
        proxy_url = provider.proxy_url.reveal() if provider.proxy_url is not None else None
        options = {"http2": provider.http2, "proxy_url": proxy_url}
        if preferred == "h1" and not needs_httpx(provider.base_url, self._environ, options):
            if self._h1 is None:
                self._h1 = self._made(self._make_h1())
            return self._h1
        key = (provider.http2, proxy_url)
        if key not in self._by_options:
            self._by_options[key] = self._made(self._make_httpx(*key))
        return self._by_options[key]

    async def run(self) -> None:
        """Reap the connections of all transports, of later ones too, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                for transport in self._unreaped:
                    nursery.start_soon(transport.reap)
                self._unreaped.clear()
                self._is_new = trio.Event()
                await self._is_new.wait()

    async def aclose(self) -> None:
        """Close the idle connections; those in use are closed by their exchanges."""
        for transport in [*([self._h1] if self._h1 is not None else []), *self._by_options.values()]:
            await transport.aclose()

    def _made(self, transport: PooledTransport) -> PooledTransport:
        self._unreaped.append(transport)
        self._is_new.set()
        return transport

    def _httpx(self, http2: bool, proxy_url: str | None) -> PooledTransport:
        from gomodel_trio.upstream.httpx_transport import HttpxTransport

        return HttpxTransport(http2=http2, proxy_url=proxy_url, environ=self._environ, own=self.own)
