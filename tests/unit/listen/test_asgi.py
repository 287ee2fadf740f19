"""The ASGI application alone, under a server that behaves as hypercorn's own does."""

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.http import Handler, Request, Responder
from gomodel_trio.listen.asgi import AsgiApp, Message


class Server:
    """Gives the messages one by one, then waits, and records what is sent."""

    def __init__(self, handler: Handler, messages: Iterable[Message] = (), **scope: Any) -> None:
        self.sent: list[Message] = []
        self.errors: list[BaseException] = []
        self.messages = list(messages)
        self.scope = {"type": "http", "method": "POST", "path": "/", "headers": [], **scope}
        self.app = AsgiApp(handler, self.errors.append)

    async def run(self) -> list[Message]:
        await self.app(self.scope, self.receive, self.send)
        return self.sent

    async def receive(self) -> Message:
        await trio.lowlevel.checkpoint()
        if not self.messages:
            await trio.sleep_forever()
        return self.messages.pop(0)

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)


def part(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


GONE: Message = {"type": "http.disconnect"}
CHUNKED = [(b"Transfer-Encoding", b"chunked")]


async def unused(request: Request, responder: Responder) -> None:
    raise AssertionError


async def echo(request: Request, responder: Responder) -> None:
    await responder.send(200, [(b"X-Peer", request.peer.encode())], await request.read_body(5))


async def test_a_body_in_parts_is_joined_and_the_answer_measured() -> None:
    sent = await Server(echo, [part(b"ab", True), part(b"", True), part(b"c")], headers=CHUNKED, client=("::ffff:10.0.0.1", 5)).run()
    assert sent[0] == {"type": "http.response.start", "status": 200, "headers": [(b"x-peer", b"10.0.0.1"), (b"content-length", b"3")]}
    assert sent[1:] == [
        {"type": "http.response.body", "body": b"abc", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]


@pytest.mark.parametrize(("client", "peer"), [(None, b""), (("::1", 1), b"::1"), (("10.1.2.3", 1), b"10.1.2.3")])
async def test_the_peer_is_the_address_alone(client: object, peer: bytes) -> None:
    sent = await Server(echo, client=client).run()
    assert (b"x-peer", peer) in sent[0]["headers"]


async def test_too_large_a_body_is_refused_without_being_read_where_it_is_declared() -> None:
    async def refuse(request: Request, responder: Responder) -> None:
        with pytest.raises(BodyTooLarge) as caught:
            await request.read_body(5)
        assert (caught.value.status, caught.value.message) == (413, "The request body is larger than the limit of 5 bytes.")
        await responder.send(413, [], b"")

    declared = Server(refuse, [part(b"abcdef")], headers=[(b"content-length", b"6")])
    assert (await declared.run())[0]["status"] == 413
    counted = Server(refuse, [part(b"abc", True), part(b"def", True)], headers=CHUNKED)
    assert (await counted.run())[0]["status"] == 413
    assert declared.errors == counted.errors == []


async def test_a_client_that_leaves_within_its_body_is_gone_and_nothing_is_sent() -> None:
    async def read(request: Request, responder: Responder) -> None:
        with pytest.raises(ClientGone):
            await request.read_body(5)
        assert request.is_disconnected
        raise ClientGone

    server = Server(read, [part(b"a", True), GONE], headers=CHUNKED)
    assert await server.run() == []
    assert server.errors == []


async def test_a_body_is_read_once_and_not_after_the_answer_began() -> None:
    async def twice(request: Request, responder: Responder) -> None:
        await request.read_body(5)
        with pytest.raises(RuntimeError):
            await request.read_body(5)
        await responder.send(200, [], b"")
        with pytest.raises(RuntimeError):
            await responder.start(200, [])

    server = Server(twice, [part(b"a")], headers=CHUNKED)
    await server.run()
    assert server.errors == []


async def test_a_hang_up_after_the_body_cancels_the_handler() -> None:
    seen: list[bool] = []

    async def wait(request: Request, responder: Responder) -> None:
        await request.read_body(5)
        try:
            await trio.sleep_forever()
        finally:
            seen.append(request.is_disconnected)

    server = Server(wait, [part(b"a"), GONE], headers=CHUNKED)
    assert await server.run() == []
    assert (seen, server.errors) == ([True], [])


async def test_a_cancellation_from_outside_passes_through_and_is_no_hang_up() -> None:
    seen: list[bool] = []

    async def wait(request: Request, responder: Responder) -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append(request.is_disconnected)

    server = Server(wait)
    with trio.CancelScope() as scope:
        scope.cancel()
        await server.run()
    assert scope.cancelled_caught
    assert (seen, server.sent, server.errors) == ([False], [], [])


async def test_a_failure_beside_a_cancellation_is_told_and_the_cancellation_goes_on() -> None:
    async def fail(request: Request, responder: Responder) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

    server = Server(fail)
    with trio.CancelScope() as scope:
        scope.cancel()
        await server.run()
    assert [type(error).__name__ for error in server.errors] in (["ExceptionGroup"], ["ZeroDivisionError"])


async def test_a_failure_in_a_handlers_nursery_is_told_without_its_group() -> None:
    async def fail(request: Request, responder: Responder) -> None:
        async with trio.open_nursery():
            raise ZeroDivisionError

    server = Server(fail)
    assert (await server.run())[0]["status"] == 500
    assert [type(error) for error in server.errors] == [ZeroDivisionError]


async def test_a_departure_in_a_handlers_nursery_is_no_failure() -> None:
    async def leave(request: Request, responder: Responder) -> None:
        async with trio.open_nursery():
            raise ClientGone

    server = Server(leave)
    assert (await server.run(), server.errors) == ([], [])


async def test_a_failure_after_the_start_aborts() -> None:
    async def fail(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        assert responder.has_started
        raise ZeroDivisionError

    server = Server(fail)
    assert [message["type"] for message in await server.run()] == ["http.response.start"]
    assert len(server.errors) == 1


async def test_a_handler_that_forgets_to_answer_is_a_failure() -> None:
    async def forget(request: Request, responder: Responder) -> None:
        pass

    server = Server(forget)
    assert (await server.run())[0]["status"] == 500
    assert isinstance(server.errors[0], RuntimeError)


@pytest.mark.parametrize(("method", "status", "length"), [("HEAD", 200, True), ("GET", 204, False), ("GET", 304, False)])
async def test_no_body_is_sent_where_there_is_none(method: str, status: int, length: bool) -> None:
    async def answer(request: Request, responder: Responder) -> None:
        await responder.send(status, [], b"abc")

    sent = await Server(answer, method=method).run()
    assert [message.get("body") for message in sent] == [None, b""]
    assert ((b"content-length", b"3") in sent[0]["headers"]) == length


async def test_headers_of_the_connection_are_the_servers_and_none_can_break_a_line() -> None:
    async def answer(request: Request, responder: Responder) -> None:
        await responder.send(200, [(b"Connection", b"x"), (b"Date", b"x"), (b"Content-Length", b"99"), (b"X-A", b"1\r\nx-b: 2\x00")], b"")

    sent = await Server(answer).run()
    assert sent[0]["headers"] == [(b"x-a", b"1  x-b: 2 "), (b"content-length", b"0")]


async def test_the_lifespan_is_acknowledged() -> None:
    server = Server(unused, [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}], type="lifespan")
    assert await server.run() == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]


async def test_a_websocket_is_closed_before_it_opens() -> None:
    server = Server(unused, [{"type": "websocket.connect"}], type="websocket")
    assert await server.run() == [{"type": "websocket.close", "code": 1000, "reason": ""}]


async def test_an_unknown_scope_is_an_error_of_the_server() -> None:
    with pytest.raises(ValueError, match="telegraph"):
        await Server(unused, type="telegraph").run()
