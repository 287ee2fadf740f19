"""What of the fast front door is fuzzed: the reading of heads against a second opinion, and whole connections over socket pairs."""

import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import h11
import trio

from gomodel_trio.errors import BodyTooLarge
from gomodel_trio.gateway.http import Request, Responder
from gomodel_trio.listen.h1_chunks import ChunkedDecoder
from gomodel_trio.listen.h1_connection import Door, H1Connection
from gomodel_trio.listen.h1_limits import H1Limits
from gomodel_trio.listen.h1_parser import Head, Refusal, parse_head
from gomodel_trio.listen.h1_socket import H1Socket
from support.http_fuzz import Finding

CORPUS = [
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /stream?a=b HTTP/1.1\r\nHost: x.y:80\r\nAccept: */*\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"HEAD /stream HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST /a%20b HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nt: v\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /abort HTTP/1.1\r\nhost: x\r\ncontent-length: 2000\r\n\r\n" + b"a" * 2000,
    b"POST /fail HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"10\r\n0123456789abcdef\r\n" * 80 + b"0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET http://a.b:1/c?d HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /ws HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-key: AAAA\r\n\r\n\x81\x05hello",
    b"\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n",
]
_GOOD = frozenset(case for case in CORPUS if b"content-length: 5\r\ntransfer-encoding" not in case)
_NEXT = b"GET /next HTTP/1.1\r\nhost: n\r\n\r\n"


class HeadTarget:
    """Heads and chunked bodies: what is well-formed is read; all that is read, h11 reads too, and reads the same."""

    corpus = CORPUS

    def __init__(self) -> None:
        self.accepted = self.compared = 0

    async def run(self, case: bytes, chance: random.Random) -> None:
        """Read one head, and its body in pieces of chance size."""
        end = case.find(b"\r\n\r\n") + 4
        block, rest = (case[:end], case[end:]) if end >= 4 else (case, b"")
        try:
            head = parse_head(block, header_count=128)
            body = _body(head, rest, chance)
        except Refusal as refusal:
            if refusal.status not in (400, 405, 431, 501, 505):
                raise Finding(f"refused with {refusal.status}") from refusal
            if case in _GOOD and case.startswith((b"GET", b"HEAD", b"POST", b"OPTIONS")):
                raise Finding("a well-formed request is refused") from refusal
            return
        self.accepted += 1
        if body is not None:
            self._compare(block, head, *body)

    def check(self) -> None:
        """Nothing gathers here."""

    def _compare(self, block: bytes, head: Head, body: bytes, wire: bytes) -> None:
        """A proxy that reads as h11 does must not see another request, another body, or another next request."""
        other = h11.Connection(h11.SERVER)
        try:
            other.receive_data(block + wire + _NEXT)
            event = other.next_event()
            if not isinstance(event, h11.Request):
                raise Finding(f"h11 sees {event!r}")
            data = b""
            while isinstance(part := other.next_event(), h11.Data):
                data += part.data
        except h11.RemoteProtocolError as error:
            raise Finding("h11 refuses it") from error
        self.compared += 1
        # h11 writes the coding in lower case; the handler is to see it as sent.
        ours = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in head.headers]
        if (event.method.decode(), list(event.headers)) != (head.method, ours):
            raise Finding(f"h11 sees {event!r}, we {head!r}")
        if not isinstance(part, h11.EndOfMessage) or data != body or other.trailing_data[0] != _NEXT:
            raise Finding(f"h11 sees the body {data!r} and {part!r}, we {body!r}")


def _body(head: Head, rest: bytes, chance: random.Random) -> tuple[bytes, bytes] | None:
    """The body and what it was on the wire; None where it is not complete."""
    if head.body_bytes is not None:
        return (rest[: head.body_bytes],) * 2 if len(rest) >= head.body_bytes else None
    decoder = ChunkedDecoder()
    body = b""
    at = 0
    while at < len(rest) and not decoder.is_complete:
        step = chance.choice((1, 2, 3, 16, 8192))
        body += decoder.feed(rest[at : at + step])
        at += step
    if not decoder.is_complete:
        return None
    return body, rest[: min(at, len(rest)) - len(decoder.rest)]


class ConnectionTarget:
    """Whole connections: each ends by itself once the client has, answers in whole heads, and leaves nothing behind."""

    corpus = CORPUS

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.calls = 0
        self.answers = 0
        self.door = Door(self._handle, H1Limits(head_bytes=2048), self.errors.append)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the door's tasks running."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.door.hang_ups.run)
            nursery.start_soon(self.door.deadlines.run)
            yield
            nursery.cancel_scope.cancel()
        self.door.hang_ups.close()

    async def run(self, case: bytes, chance: random.Random) -> None:
        """Send one case in pieces, close the sending side, and read to the end."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        calls = self.calls
        most = case.count(b" HTTP/1.")
        with ours:
            connection = H1Connection(self.door, H1Socket(theirs), "")
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.run)
                    await _send(ours, case, chance)
            answer = _read(ours)
        if self.calls - calls > most:
            raise Finding(f"{self.calls - calls} requests are served of {most}")
        self._judge(answer, self.calls - calls)

    def check(self) -> None:
        """Nobody is watched or timed any more."""
        if len(self.door.hang_ups) or len(self.door.deadlines):
            raise Finding("a closed connection is still watched or timed")

    def _judge(self, answer: bytes, calls: int) -> None:
        failures = [error for error in self.errors if not (isinstance(error, RuntimeError) and str(error) == "asked to fail")]
        self.errors.clear()
        if failures:
            raise Finding("the connection failed") from failures[0]
        if answer and not answer.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 4", b"HTTP/1.1 5")):
            raise Finding(f"an answer begins with {answer[:80]!r}")
        finals = answer.count(b"\r\ndate: ")
        if finals > calls + 1:
            raise Finding(f"{finals} answers to {calls} requests")
        self.answers += finals

    async def _handle(self, request: Request, responder: Responder) -> None:
        self.calls += 1
        if not request.path.startswith("/unread"):
            try:
                await request.read_body(1000)
            except BodyTooLarge:
                await responder.send(413, [], b"too large")
                return
        if request.path.startswith("/fail"):
            raise RuntimeError("asked to fail")
        if not request.path.startswith(("/stream", "/abort")):
            await responder.send(200, [], b"whole")
            return
        await responder.start(200, [])
        await responder.write(b"part")
        if request.path.startswith("/abort"):
            responder.abort()
        else:
            await responder.end()


async def _send(sock: socket.socket, case: bytes, chance: random.Random) -> None:
    pieces = chance.choice((1, 1, 2, 3))
    cuts = sorted(chance.randrange(len(case) + 1) for _ in range(pieces - 1))
    for begin, end in zip([0, *cuts], [*cuts, len(case)], strict=True):
        try:
            sock.send(case[begin:end])
        except OSError:  # it has been refused and closed
            break
        for _ in range(chance.choice((0, 3))):
            await trio.lowlevel.checkpoint()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def _read(sock: socket.socket) -> bytes:
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received
