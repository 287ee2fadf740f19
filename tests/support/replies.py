"""What the fake upstream says: a reply as a value, the request it answers, and the way replies are put on the wire.

Pure: `fake_upstream` does the I/O.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Literal, Self

FOREVER = math.inf

Headers = tuple[tuple[str, str], ...]
Step = bytes | float
"""Bytes to send, or seconds to wait."""


@dataclass(frozen=True)
class Request:
    """A request exactly as it came. `headers` raw, in order, names as sent; `body` after chunked decoding only."""

    number: int
    connection: int
    method: str
    target: str
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body as JSON; an empty object if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    def header(self, name: str) -> str | None:
        """The first value of a header, any case; None if absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), None)


@dataclass(frozen=True)
class Reply:
    """One answer.

    `pieces`: the body, in the parts in which it is sent; a number in it is a wait in seconds. `framing`: content-length, chunked (each
    piece a chunk), or until the connection closes. `declared_length` replaces the true content-length. `hold_s`: before the head is sent.
    `ending` after the last piece: proper, or closed without the body's end (`fin`), reset, or silence for ever (`stall`). `raw`: bytes
    in the place of head and body.
    """

    status: int = 200
    headers: Headers = ()
    pieces: tuple[Step, ...] = ()
    framing: Literal["length", "chunked", "close"] = "length"
    declared_length: int | None = None
    hold_s: float = 0.0
    ending: Literal["proper", "fin", "reset", "stall"] = "proper"
    is_gzip: bool = False
    is_head_sent: bool = True
    raw: bytes | None = None

    @property
    def body(self) -> bytes:
        """The whole body, before compression."""
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    def slowed(self, gap_s: float) -> Self:
        """The same with a wait before each piece but the first."""
        steps: list[Step] = []
        for piece in self.pieces:
            steps += [gap_s, piece] if steps else [piece]
        return replace(self, pieces=tuple(steps))

    def cut_after(self, pieces: int, ending: Literal["fin", "reset", "stall"] = "fin") -> Self:
        """The same, ended after so many pieces."""
        return replace(self, pieces=self.pieces[:pieces], ending=ending, declared_length=self.declared_length or len(self.body))

    def held(self, seconds: float = FOREVER) -> Self:
        """The same with silence before its head."""
        return replace(self, hold_s=seconds)

    def with_headers(self, *headers: tuple[str, str]) -> Self:
        """The same with further headers."""
        return replace(self, headers=(*self.headers, *headers))

    def gzipped(self) -> Self:
        """The same, compressed."""
        return replace(self, is_gzip=True)


def json_reply(content: Any, status: int = 200, headers: Headers = ()) -> Reply:
    """A JSON body in one piece."""
    return Reply(status=status, headers=(("content-type", "application/json"), *headers), pieces=(json.dumps(content).encode(),))


def sse_reply(events: Iterable[bytes], headers: Headers = ()) -> Reply:
    """A stream, one piece an event."""
    base = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
    return Reply(headers=(*base, *headers), pieces=tuple(events), framing="chunked")


def openai_error(status: int, message: str = "refused", code: str | None = None, kind: str = "api_error", headers: Headers = ()) -> Reply:
    """An error of the OpenAI dialect."""
    return json_reply({"error": {"message": message, "type": kind, "param": None, "code": code}}, status, headers)


def anthropic_error(status: int, kind: str = "api_error", message: str = "refused", headers: Headers = ()) -> Reply:
    """An error of the Anthropic dialect."""
    return json_reply({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}, status, headers)


def reset_before_head() -> Reply:
    """The connection is reset in place of an answer."""
    return Reply(is_head_sent=False, ending="reset")


def close_before_head() -> Reply:
    """The connection is closed in place of an answer."""
    return Reply(is_head_sent=False, ending="fin")


def garbage(data: bytes = b"\x16\x03\x01 this is no HTTP\r\n\r\n") -> Reply:
    """Bytes that are no HTTP answer, then the end of the connection."""
    return Reply(raw=data, ending="fin")


def wire_steps(reply: Reply, method: str) -> Iterator[Step]:
    """The reply as bytes and waits, from the hold to the end of its body (the ending is the caller's)."""
    if reply.hold_s:
        yield reply.hold_s
    if reply.raw is not None:
        yield reply.raw
    if reply.raw is not None or not reply.is_head_sent:
        return
    encoded = list(_compressed(reply.pieces)) if reply.is_gzip else list(reply.pieces)
    yield _head(reply, sum(len(piece) for piece in encoded if isinstance(piece, bytes)))
    if method == "HEAD" or reply.status in (204, 304):
        return
    for piece in encoded:
        if isinstance(piece, bytes) and reply.framing == "chunked":
            if piece:
                yield b"%x\r\n%s\r\n" % (len(piece), piece)
        else:
            yield piece
    if reply.framing == "chunked" and reply.ending == "proper":
        yield b"0\r\n\r\n"


def _head(reply: Reply, length: int) -> bytes:
    try:
        reason = HTTPStatus(reply.status).phrase
    except ValueError:
        reason = "Unassigned"
    headers = list(reply.headers)
    if reply.is_gzip:
        headers.append(("content-encoding", "gzip"))
    if reply.framing == "chunked":
        headers.append(("transfer-encoding", "chunked"))
    elif reply.framing == "close":
        headers.append(("connection", "close"))
    else:
        headers.append(("content-length", str(length if reply.declared_length is None else reply.declared_length)))
    lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def _compressed(pieces: tuple[Step, ...]) -> Iterator[Step]:
    """Each piece compressed and flushed for itself, so that a stream stays one."""
    if len(pieces) == 1 and isinstance(pieces[0], bytes):
        yield gzip.compress(pieces[0])
        return
    packer = zlib.compressobj(wbits=31)
    for piece in pieces:
        yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) if isinstance(piece, bytes) else piece
    yield packer.flush()
