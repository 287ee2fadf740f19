"""Content codings of answers: read for observation, never changed on the way.

Layer: upstream. Source: RFC 9110 §8.4.1. gzip and deflate are what the gateway lets clients ask upstreams for.
"""

import zlib
from typing import Protocol


class Decoder(Protocol):
    """Feeds on coded bytes, gives plain ones; never raises: what cannot be decoded gives nothing more."""

    def feed(self, chunk: bytes, limit_bytes: int = 1 << 26) -> bytes: ...


class Identity:
    """No coding."""

    def feed(self, chunk: bytes, limit_bytes: int = 1 << 26) -> bytes:  # noqa: ARG002 - the shape of Decoder
        return chunk


class Inflate:
    """gzip and deflate (zlib, or raw as some servers send it). At most `limit_bytes` a feed: the rest follows with the next one."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if is_gzip else None
        self._head = b""
        self._is_broken = False

    def feed(self, chunk: bytes, limit_bytes: int = 1 << 26) -> bytes:
        if self._inflate is None:
            self._head += chunk
            if len(self._head) < 2:
                return b""
            chunk = self._head
            # zlib's two-byte header is a multiple of 31 (RFC 1950 §2.2); raw deflate has none.
            is_zlib = chunk[0] & 0x0F == 8 and int.from_bytes(chunk[:2]) % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        if self._is_broken:
            return b""
        try:
            return self._inflate.decompress(self._inflate.unconsumed_tail + chunk, limit_bytes)
        except zlib.error:
            self._is_broken = True
            return b""


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
