"""Which transport serves which provider, and that it is kept."""

import subprocess
import sys
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.upstream.h1 import H1Transport
from gomodel_trio.upstream.httpx_transport import HttpxTransport
from gomodel_trio.upstream.transport import UpstreamRequest, UpstreamResponse
from gomodel_trio.upstream.transports import Transports
from gomodel_trio.wire.dialect import Dialect


class Fake:
    def __init__(self, name: str) -> None:
        self.name = name
        self.reapers = 0
        self.is_closed = False

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        raise NotImplementedError

    async def reap(self) -> None:
        self.reapers += 1
        await trio.sleep_forever()

    async def aclose(self) -> None:
        self.is_closed = True


def provider(base_url: str = "https://api.up.test/v1", **changes: Any) -> ProviderSettings:
    return ProviderSettings(name="p", type="openai", dialect=Dialect.OPENAI, base_url=base_url, **changes)


def faked(environ: dict[str, str] | None = None) -> Transports:
    return Transports(environ or {}, make_h1=lambda: Fake("h1"), make_httpx=lambda http2, proxy_url: Fake(f"httpx {http2} {proxy_url}"))


def name_of(transports: Transports, of: ProviderSettings, **options: Any) -> str:
    transport = transports.transport_for(of, **options)
    assert isinstance(transport, Fake)
    assert transports.transport_for(of, **options) is transport
    return transport.name


def test_a_provider_gets_what_it_needs() -> None:
    transports = faked()
    proxy = Secret("http://u:p@proxy")
    assert name_of(transports, provider()) == "h1"
    assert transports.transport_for(provider()) is transports.transport_for(provider("http://other/v1"))
    assert name_of(transports, provider(http2=True)) == "httpx True None"
    assert name_of(transports, provider(proxy_url=proxy)) == "httpx False http://u:p@proxy"
    assert name_of(transports, provider(http2=True, proxy_url=proxy)) == "httpx True http://u:p@proxy"
    assert name_of(transports, provider(), preferred="httpx") == "httpx False None"


def test_the_environments_proxies_and_exceptions_count() -> None:
    transports = faked({"HTTPS_PROXY": "http://proxy", "NO_PROXY": "near.test"})
    assert name_of(transports, provider()) == "httpx False None"
    assert name_of(transports, provider("https://near.test/v1")) == "h1"
    assert name_of(transports, provider("http://api.up.test/v1")) == "h1"


async def test_every_transport_is_reaped_once_whenever_it_was_made_and_closed_at_the_end() -> None:
    transports = faked()
    first = transports.transport_for(provider())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transports.run)
        await trio.testing.wait_all_tasks_blocked()
        later = [transports.transport_for(provider(http2=True)), transports.transport_for(provider(), preferred="httpx")]
        transports.transport_for(provider())
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await transports.aclose()
    for transport in [first, *later]:
        assert isinstance(transport, Fake)
        assert (transport.reapers, transport.is_closed) == (1, True)


async def test_the_real_transports_are_made_by_default() -> None:
    transports = Transports({})
    assert isinstance(transports.transport_for(provider()), H1Transport)
    assert isinstance(transports.transport_for(provider(http2=True)), HttpxTransport)
    await transports.aclose()


@pytest.mark.e2e
def test_httpx_is_not_imported_before_it_is_wanted() -> None:
    code = "import sys, gomodel_trio.upstream.transports; print(sorted({'httpx', 'httpcore', 'h11', 'h2'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
