"""Mutated answers for the HTTP/1.1 transport's parser: nothing may escape it, and how the bytes are cut must not matter.

`run(cases, seed)` and `AnswerTarget` are the entries. h11, which shares no code with it, is asked too: where both call an answer whole
they must agree on it.
"""

import random
from dataclasses import dataclass, field

import h11

from gomodel_trio.upstream.h1_parser import AnswerParser
from gomodel_trio.upstream.transport import Headers, TransportFault
from support.http_fuzz import Finding

SEEDS = [
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"id": "ab"}',
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nkeep-alive: timeout=5\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.0 502 Bad Gateway\r\nServer: x\r\n\r\n<html>gone</html>",
    b"HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
]
PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b";", b",", b"\xff", b"0", b"f" * 17, b"HTTP/1.1 ", b"HTTP/2.0", b"\r\n\r\n",
    b"content-length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: identity\r\n", b" folded\r\n", b"0\r\n\r\n",
    b"upgrade: x\r\nconnection: upgrade\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
]  # fmt: skip


@dataclass
class Report:
    """What came of it. `complaints`: one line each, with the bytes; empty is good."""

    cases: int = 0
    whole: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    complaints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reading:
    """All that a parser says of the bytes of one connection up to its end."""

    status: int
    headers: Headers
    body: bytes
    is_complete: bool
    keeps_alive: bool
    fault: TransportFault | None


def read(pieces: list[bytes]) -> Reading:
    """Feed the pieces and the end of the connection."""
    parser = AnswerParser()
    body = b""
    for piece in pieces:
        if piece:
            parser.feed(piece)
            body += parser.take()
    parser.feed_end()
    keeps_alive = parser.is_complete and parser.keeps_alive and not parser.has_extra
    headers = parser.headers if parser.has_head else []
    return Reading(parser.status, headers, body, parser.is_complete, keeps_alive, parser.fault)


def cut(answer: bytes, chance: random.Random) -> list[bytes]:
    """The answer in pieces at random."""
    places = sorted(chance.randrange(len(answer) + 1) for _ in range(chance.choice((0, 1, 3, 20))))
    return [answer[begin:end] for begin, end in zip([0, *places], [*places, len(answer)], strict=True)]


def mutate(answer: bytes, chance: random.Random) -> bytes:
    """Some bytes replaced, removed, doubled or put in."""
    changed = bytearray(answer)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del changed[at : at + chance.choice((1, 1, 2, 9))]
            case 2:
                changed[at:at] = changed[at : at + chance.choice((1, 5, 30))]
            case _:
                changed[at:at] = chance.choice(PIECES)
    return bytes(changed)


def by_h11(answer: bytes) -> tuple[int, bytes] | None:
    """Status and body as h11 reads them; None where it finds a fault."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        connection.receive_data(answer)
        is_ended = False
        while True:
            event = connection.next_event()
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    return status, body
                case h11.NEED_DATA if not is_ended:
                    is_ended = True
                    connection.receive_data(b"")
                case h11.InformationalResponse():
                    pass
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None


def run(cases: int, seed: int) -> Report:
    """Try `cases` mutated answers; the same seed tries the same ones."""
    chance = random.Random(seed)
    report = Report(cases)
    for _ in range(cases):
        _try(mutate(chance.choice(SEEDS), chance), chance, report)
    return report


class AnswerTarget:
    """The same for `http_fuzz`, whose mutations come on top."""

    corpus = SEEDS

    def __init__(self) -> None:
        self.whole = self.compared = 0

    async def run(self, case: bytes, chance: random.Random) -> None:
        """Read one answer whole and in pieces, and have h11 read it."""
        report = Report(1)
        _try(mutate(case, chance), chance, report)
        if report.complaints:
            raise Finding(report.complaints[0])
        self.whole += report.whole
        self.compared += report.compared

    def check(self) -> None:
        """Nothing gathers here."""


def _try(answer: bytes, chance: random.Random, report: Report) -> None:
    try:
        whole = read([answer])
        pieces = cut(answer, chance)
        again = read(pieces)
    except Exception as error:
        report.complaints.append(f"raised {error!r}: {answer!r}")
        return
    if whole != again:
        report.complaints.append(f"depends on how it is cut: {pieces!r}: {whole} or {again}")
    if not whole.is_complete:
        name = whole.fault.value if whole.fault is not None else "none"
        report.faults[name] = report.faults.get(name, 0) + 1
        if whole.fault is None:
            report.complaints.append(f"neither complete nor at fault: {answer!r}")
        return
    report.whole += 1
    theirs = by_h11(answer)
    if theirs is not None:
        report.compared += 1
        if theirs != (whole.status, whole.body):
            report.complaints.append(f"h11 reads {theirs}, we {whole}: {answer!r}")
