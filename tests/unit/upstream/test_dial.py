"""Whose fault a failed connection is, and how names are looked up."""

import contextlib
import errno
import os
import resource
import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.dial import LOCAL_ERRNOS, Dialer, connect_any, is_local, is_out_of_files
from gomodel_trio.upstream.h1 import H1Transport
from gomodel_trio.upstream.tls import system_trust
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def of_all(*errors: OSError) -> OSError:
    error = OSError("all attempts to connect failed")
    error.__cause__ = ExceptionGroup("all attempts to connect failed", errors)
    return error


@pytest.mark.parametrize("number", sorted(LOCAL_ERRNOS))
def test_what_the_machine_has_run_out_of_is_nobody_elses_fault(number: int) -> None:
    assert is_local(os_error(number))
    assert is_local(of_all(os_error(number), os_error(errno.EMFILE)))


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EACCES])
def test_what_an_address_says_is_the_upstreams(number: int) -> None:
    assert not is_local(os_error(number))
    assert not is_local(of_all(os_error(errno.EADDRNOTAVAIL), os_error(number)))


@pytest.mark.parametrize("error", [ValueError("no name"), UnicodeError(), socket.gaierror(-2, "unknown"), OSError("no reason")])
def test_other_failures_are_the_upstreams(error: Exception) -> None:
    assert not is_local(error)


async def test_an_ipv6_address_that_cannot_be_had_is_not_a_want_of_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def connect(self, address: object) -> None:
            raise os_error(errno.EADDRNOTAVAIL)

    monkeypatch.setattr("gomodel_trio.upstream.dial.socket.socket", Refusing)
    with pytest.raises(OSError, match="unreachable"):
        await connect_any([(socket.AF_INET6, ("::1", 1, 0, 0))])
    with pytest.raises(OSError, match="assign") as caught:
        await connect_any([(socket.AF_INET, ("127.0.0.1", 1))])
    assert is_local(caught.value)


# ---- out of files ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_files() -> Iterator[None]:
    """Nothing can be opened: the limit is below what is open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_unknown_name_may_be_want_of_files() -> None:
    with no_files():
        assert is_out_of_files()
        assert is_local(socket.gaierror(-2, "Name or service not known"))
    assert not is_out_of_files()


def test_without_files_nobody_is_trusted_for_good() -> None:
    with no_files(), pytest.raises(OSError, match="open files"):
        system_trust()


async def test_without_files_the_gateway_is_to_blame() -> None:
    transport, message = H1Transport(), UpstreamRequest("POST", "http://127.0.0.1:1/", [], b"{}", 5.0, 5.0)
    with no_files(), pytest.raises(TransportError) as caught:
        await transport.send(message)
    assert (caught.value.fault, transport.pool.in_use_count) == (TransportFault.LOCAL, 0)


# ---- names ----------------------------------------------------------------------------------------------------------


class Resolver(trio.abc.HostnameResolver):
    """Answers each lookup a second after it was asked, or fails."""

    def __init__(self, error: OSError | None = None) -> None:
        self.lookups = 0
        self._error = error

    async def getaddrinfo(self, host: object, port: object, *_: object) -> list[tuple[object, ...]]:  # type: ignore[override]
        self.lookups += 1
        await trio.sleep(1)
        if self._error is not None:
            raise self._error
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


def resolving(error: OSError | None = None) -> Resolver:
    resolver = Resolver(error)
    trio.socket.set_custom_hostname_resolver(resolver)
    return resolver


async def test_those_who_ask_together_share_one_lookup(autojump_clock: trio.testing.MockClock) -> None:
    resolver, dialer = resolving(), Dialer()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(dialer._addresses, "up.test", 80)
    assert (resolver.lookups, dialer._lookups) == (1, {})


async def test_they_share_its_failure_too(autojump_clock: trio.testing.MockClock) -> None:
    resolver, dialer, failures = resolving(socket.gaierror(-2, "unknown")), Dialer(), []

    async def ask() -> None:
        try:
            await dialer._addresses("up.test", 80)
        except socket.gaierror as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert (resolver.lookups, len(set(map(id, failures))), {error.args for error in failures}) == (1, 3, {(-2, "unknown")})


async def test_where_the_first_is_cancelled_another_looks_the_name_up(autojump_clock: trio.testing.MockClock) -> None:
    resolver, dialer, found = resolving(), Dialer(), []

    async def first() -> None:
        with trio.move_on_after(0.5):
            await dialer._addresses("up.test", 80)

    async def other() -> None:
        await trio.sleep(0.1)
        found.extend(await dialer._addresses("up.test", 80))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        nursery.start_soon(other)
        nursery.start_soon(other)
    assert (resolver.lookups, len(found)) == (2, 2)
