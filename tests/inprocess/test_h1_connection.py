"""One connection of the HTTP/1.1 transport where its socket does what real ones seldom do."""

import socket
import ssl
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.h1_connection import H1Connection
from gomodel_trio.upstream.h1_request import Message, compose
from gomodel_trio.upstream.transport import TransportFault, UpstreamRequest

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def message(body: bytes = b"{}") -> Message:
    return compose(UpstreamRequest("POST", "http://up.test/", [], body, 1.0, 1.0))


class Scripted(socket.socket):
    """Raises what it is told to, in turn, before it works as a socket."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.setblocking(False)
        self.at_receive: list[OSError] = []
        self.at_send: list[OSError] = []

    def recv_into(self, *arguments: Any) -> int:
        if self.at_receive:
            raise self.at_receive.pop(0)
        return super().recv_into(*arguments)

    def send(self, *arguments: Any) -> int:
        if self.at_send:
            raise self.at_send.pop(0)
        return super().send(*arguments)

    def sendmsg(self, *arguments: Any) -> int:
        if self.at_send:
            raise self.at_send.pop(0)
        return super().sendmsg(*arguments)


def pair() -> tuple[Scripted, socket.socket]:
    ours, theirs = socket.socketpair()
    return Scripted(ours.detach()), theirs


async def test_tls_may_want_to_write_before_it_can_read_and_to_read_before_it_can_write() -> None:
    ours, theirs = pair()
    ours.at_receive = [ssl.SSLWantWriteError(), ssl.SSLWantReadError()]
    ours.at_send = [ssl.SSLWantReadError(), ssl.SSLWantWriteError()]
    connection = H1Connection(ours, bytearray(1000))
    with theirs:
        theirs.sendall(OK)
        await connection.ask(message())
        await connection.receive_some()
        assert connection.parser.take() == b"ok"
        assert b"\r\n\r\n{}" in theirs.recv(1000)
        connection.close()


@pytest.mark.parametrize("body", [b"{}", b"x" * 100_000])
@pytest.mark.parametrize(("left", "fault"), [(b"", TransportFault.RESET), (OK, None)])
async def test_what_the_server_said_before_it_closed_is_read_though_nothing_can_be_sent(
    body: bytes, left: bytes, fault: TransportFault | None
) -> None:
    ours, theirs = pair()
    theirs.sendall(left)
    theirs.close()
    connection = H1Connection(ours, bytearray(1000))
    await connection.ask(message(body))
    assert (connection.parser.fault, connection.parser.take(), connection.can_serve_again) == (fault, left[-2:], False)
    connection.close()


@pytest.mark.parametrize("sent", [0, 30, 90_000])
async def test_a_long_request_goes_on_where_it_stopped(sent: int) -> None:
    ours, theirs = pair()
    theirs.setblocking(False)
    connection = H1Connection(ours, bytearray(1000))
    asked = message(b"x" * 400_000)
    if not sent:
        ours.at_send = [BlockingIOError()]
    elif sent < 100:
        ours.sendmsg = lambda parts: ours.send(parts[0][:sent])  # type: ignore[method-assign, assignment]
    received = bytearray()

    async def serve() -> None:
        while len(received) < len(asked.head) + 400_000:
            await trio.lowlevel.wait_readable(theirs)
            received.extend(theirs.recv(65536))
        theirs.sendall(OK)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await connection.ask(asked)
    assert bytes(received) == asked.head + asked.body
    assert connection.can_serve_again
    connection.close()
    theirs.close()


async def test_a_connection_is_alive_while_nothing_can_be_read_from_it() -> None:
    ours, theirs = pair()
    connection = H1Connection(ours, bytearray(1000))
    assert connection.is_alive()
    assert connection.session is None
    theirs.sendall(b"x")
    assert not connection.is_alive()
    theirs.close()
    assert not connection.is_alive()
    connection.close()
    connection.close()
    assert not connection.is_alive()
    with pytest.raises(trio.ClosedResourceError):
        await connection.wait()


@pytest.mark.parametrize(
    ("error", "is_alive"), [(ssl.SSLWantReadError(), True), (ssl.SSLError(), False), (None, False)], ids=["ticket", "alert", "data"]
)
async def test_under_tls_a_session_ticket_on_an_idle_connection_is_no_data(error: OSError | None, is_alive: bool) -> None:
    ours, theirs = pair()
    connection = H1Connection(ours, bytearray(1000))
    connection.is_tls = True
    ours.at_receive = [error] if error is not None else []
    theirs.sendall(b"record")
    assert connection.is_alive() is is_alive
    connection.close()
    theirs.close()
