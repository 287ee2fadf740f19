"""Listening sockets: where they listen, and what is said where they cannot."""

import socket

import pytest

from gomodel_trio.errors import ConfigurationError
from gomodel_trio.listen.sockets import open_listeners, port_of


@pytest.mark.parametrize("host", ["", "*", "::"])
async def test_all_interfaces_are_ipv4_and_ipv6_on_one_port(host: str) -> None:
    listeners = await open_listeners(host, 0)
    try:
        assert listeners[0].socket.getsockname()[0] == "0.0.0.0"
        assert {listener.socket.getsockname()[1] for listener in listeners} == {port_of(listeners)}
        if socket.has_ipv6 and len(listeners) > 1:
            assert listeners[1].socket.getsockname()[0] == "::"
    finally:
        for listener in listeners:
            await listener.aclose()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_small_writes_are_not_held_back(host: str) -> None:
    listeners = await open_listeners(host, 0)
    client = socket.create_connection(("127.0.0.1", port_of(listeners)))
    stream = await listeners[0].accept()
    assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    client.close()
    await stream.aclose()
    for listener in listeners:
        await listener.aclose()


async def test_a_port_in_use_is_said_with_its_variable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ConfigurationError) as caught:
            await open_listeners("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigurationError) as everywhere:
            await open_listeners("", taken.getsockname()[1])
    assert [fault.place for fault in caught.value.faults + everywhere.value.faults] == ["PORT", "PORT"]
    assert "in use" in str(caught.value)


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b", "999.1.1.1.invalid", "x" * 300, "[::ffff"])
async def test_an_address_that_is_not_ours_is_said_with_its_variable(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_listeners(host, 0)
    assert caught.value.faults[0].place == "HOST"
