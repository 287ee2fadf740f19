"""From a request's bytes to what routing needs: body, names, session.

Layer: gateway. Source: behaviour.md §1, §2, §9.
"""

import os
import re
from functools import partial
from typing import Final

import trio

from gomodel_trio.errors import ClientFault
from gomodel_trio.gateway.http import Headers, Request
from gomodel_trio.route.directives import header
from gomodel_trio.upstream.decoding import inflate_whole
from gomodel_trio.wire.view import Envelope, decode_envelope, require_model

LONG_BODY_BYTES: Final = 1 << 18
"""Above this a body is read and scored in a thread: it would hold up every other request for milliseconds."""

_MOST_INFLATION: Final = 1032
"""So many bytes one byte of deflate can become."""

_VARIANTS: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""What a random digit becomes where a UUID names its variant."""
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")


def request_id_of(headers: Headers) -> str:
    """The client's X-Request-ID if it is short and printable, else a new one."""
    given = header(headers, b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return _new_id()


def _new_id() -> str:
    """A random UUID (version 4, RFC 9562 §5.4), without the object that `uuid.uuid4` makes first."""
    bits = os.urandom(16).hex()
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{_VARIANTS[bits[16]]}{bits[17:20]}-{bits[20:]}"


async def read_plain_body(request: Request, limit_bytes: int) -> bytes:
    """The body, decoded if it was sent compressed; the limit holds for both.

    Raises:
        BodyTooLarge, ClientGone: see `Request.read_body`.
        ClientFault: 415 for a coding that is unknown, damaged or inflates beyond the limit.
    """
    codings = _codings(request.headers)
    if len(codings) > 1 or (codings and codings[0] not in ("gzip", "x-gzip", "deflate")):
        raise ClientFault(
            f"Content-Encoding {', '.join(codings)[:100]!r} is not supported here: send gzip, deflate or no coding.",
            status=415,
            code="unsupported_content_encoding",
        )
    body = await request.read_body(limit_bytes)
    if not codings:
        return body
    inflate = partial(inflate_whole, body, codings[0], limit_bytes)
    plain = inflate() if len(body) * _MOST_INFLATION <= LONG_BODY_BYTES else await trio.to_thread.run_sync(inflate)
    if plain is None:
        raise ClientFault(
            f"The {codings[0]} body is damaged, unfinished, or inflates to more than {limit_bytes} bytes (BODY_SIZE_LIMIT).",
            status=415,
            code="unsupported_content_encoding",
        )
    return plain


def _codings(headers: Headers) -> list[str]:
    """The codings a body was sent in, in order; several header lines are one list."""
    values = [value for name, value in headers if name == b"content-encoding"]
    if not values:
        return []
    codings = [coding.strip().lower() for coding in b",".join(values).decode("latin-1").split(",")]
    return [coding for coding in codings if coding not in ("", "identity")]


async def open_envelope(body: bytes) -> Envelope:
    """The members that name model, provider and stream.

    Raises:
        ClientFault: the body is no JSON object that can be read; or it names no model.
    """
    envelope = decode_envelope(body) if len(body) <= LONG_BODY_BYTES else await trio.to_thread.run_sync(decode_envelope, body)
    require_model(envelope)
    return envelope
