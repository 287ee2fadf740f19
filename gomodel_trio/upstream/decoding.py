"""Content codings of answers: read for observation, never changed on the way.

Layer: upstream. Source: RFC 9110 §8.4.1. gzip and deflate are what the gateway lets clients ask upstreams for.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

STEP_BYTES: Final = 64 << 10
"""So much is inflated at once: whoever reads beside a relay lets the other tasks have their turn after each step."""
MAX_PLAIN_BYTES: Final = 64 << 20
"""More plain bytes than any real answer has: what goes on beyond is not worth being read."""
MAX_RATIO: Final = 200
"""Text of events and of JSON shrinks to a tenth, at the very most to a hundredth; more is a bomb."""
RATIO_FREE_BYTES: Final = 1 << 20
"""Up to here any ratio goes: it costs nothing, and short answers may repeat themselves."""
_MAX_MEMBERS: Final = 1024
"""A gzip body may be several members one after another (RFC 1952 §2.2); servers that flush so make some dozens."""
_INPUT_BYTES: Final = 16 << 10
"""zlib copies what it leaves over of its input at each step."""
_GZIP: Final = b"\x1f\x8b"


class Decoder(Protocol):
    """Feeds on coded bytes, gives plain ones; never raises: what cannot be decoded gives nothing more.

    `is_given_up`: the plain bytes are absurdly many, so the rest is not read, which says nothing about the answer itself.
    """

    @property
    def is_given_up(self) -> bool: ...

    def pieces(self, chunk: bytes) -> Iterable[bytes]:
        """What a chunk gives, in pieces that each cost little time; to be taken before the next chunk is fed."""
        ...


class Identity:
    """No coding."""

    is_given_up = False

    def pieces(self, chunk: bytes) -> Iterable[bytes]:
        """The chunk itself."""
        return (chunk,)


class Inflate:
    """gzip, of one member or several, and deflate (zlib, or raw as some servers send it). What follows behind the end is not looked at."""

    def __init__(self, *, is_gzip: bool) -> None:
        self.is_given_up = False
        self._is_gzip = is_gzip
        self._machine = zlib.decompressobj(zlib.MAX_WBITS | 16) if is_gzip else None
        self._head = b""
        self._member_count = 1
        self._coded_bytes = self._plain_bytes = 0
        self._is_over = False

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """At most STEP_BYTES a piece."""
        for at in range(0, len(chunk), _INPUT_BYTES):
            if self._is_over:
                return
            coded = chunk[at : at + _INPUT_BYTES]
            self._coded_bytes += len(coded)
            try:
                yield from self._inflated(coded)
            except zlib.error:
                self._is_over = True

    def _inflated(self, coded: bytes) -> Iterator[bytes]:
        while coded and not self._is_over:
            machine = self._machine or self._begun(coded)
            if machine is None:
                return
            coded, self._head = self._head + coded, b""
            while True:
                plain = machine.decompress(coded, STEP_BYTES)
                coded = machine.unconsumed_tail
                self._weigh(len(plain))
                if plain:
                    yield plain
                if self._is_over:
                    return
                if machine.eof or len(plain) < STEP_BYTES:
                    break
            # It must not be fed behind its end: it would keep all that comes, and copy it each time.
            coded = machine.unused_data
            if machine.eof:
                self._machine = None
                self._is_over = not self._is_gzip

    def _begun(self, coded: bytes) -> "zlib._Decompress | None":
        """What reads the next member, or a body of deflate; None while its first two bytes are not here, and where there is none."""
        head = self._head + coded[:2]
        if len(head) < 2:
            self._head = head
            return None
        if not self._is_gzip:
            # zlib's two-byte header is a multiple of 31 (RFC 1950 §2.2); raw deflate has none.
            is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2]) % 31 == 0
            self._machine = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
            return self._machine
        self._member_count += 1
        self._is_over = head[:2] != _GZIP
        self._weigh(0)
        if not self._is_over:
            self._machine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return self._machine

    def _weigh(self, plain_bytes: int) -> None:
        self._plain_bytes += plain_bytes
        total = self._plain_bytes
        is_bomb = total > RATIO_FREE_BYTES and total > MAX_RATIO * self._coded_bytes
        if is_bomb or total > MAX_PLAIN_BYTES or self._member_count > _MAX_MEMBERS:
            self.is_given_up = self._is_over = True


def decoder_for(content_encoding: str | None) -> Decoder | None:
    """A decoder for a Content-Encoding; None where the gateway cannot read it (the bytes are then handed on unseen)."""
    match (content_encoding or "identity").strip().lower():
        case "identity" | "":
            return Identity()
        case "gzip" | "x-gzip":
            return Inflate(is_gzip=True)
        case "deflate":
            return Inflate(is_gzip=False)
        case _:
            return None


def inflate_whole(body: bytes, content_encoding: str, limit_bytes: int) -> bytes | None:
    """A whole body decoded; None if it is damaged, unfinished or over `limit_bytes`.

    Raises:
        KeyError: the coding is unknown.
    """
    decoder = decoder_for(content_encoding)
    if decoder is None:
        raise KeyError(content_encoding)
    if isinstance(decoder, Identity):
        return body if len(body) <= limit_bytes else None
    return _inflate_whole(body, is_gzip="gzip" in content_encoding.lower(), limit_bytes=limit_bytes)


def _inflate_whole(body: bytes, *, is_gzip: bool, limit_bytes: int) -> bytes | None:
    for bits in (zlib.MAX_WBITS | 16,) if is_gzip else (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        inflate = zlib.decompressobj(bits)
        try:
            plain = inflate.decompress(body, limit_bytes + 1)
        except zlib.error:
            continue
        return plain if inflate.eof and not inflate.unused_data and len(plain) <= limit_bytes else None
    return None
