"""Which headers may pass the gateway, in either direction.

Layer: gateway; pure. Source: behaviour.md §7 (what never goes upstream), §3 (ours), field experience with leaked credentials.
"""

import re
from typing import Final
from urllib.parse import unquote_plus

from gomodel_trio.gateway.http import Headers

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
"""RFC 9110 §7.6.1 and the old spellings; whatever `Connection` lists comes on top."""

_NEVER_UPSTREAM: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"content-encoding",
        b"expect",
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"fly-client-ip",
        b"client-ip",
        b"openai-organization",
        b"openai-project",
        b"origin",
        b"referer",
    }
)
_CREDENTIAL_WORD: Final = re.compile(
    rb"(?:^|[-_])(?:authorization|authentication|auth|api[-_]?keys?|apikey|keys?|tokens?|secrets?|cookies?2?|credentials?|passwords?|passwd|signature|jwt)(?:$|[-_])"
)
_NO_CREDENTIAL: Final = frozenset({b"idempotency-key", b"x-idempotency-key", b"sec-websocket-key"})
_CREDENTIAL_PARAMETER: Final = re.compile(
    r"(?:^|[-_.])(?:authorization|auth|api[-_]?key|apikey|key|token|secret|cookie|credentials?|password|signature|sig)$", re.IGNORECASE
)

_NEVER_DOWNSTREAM: Final = frozenset(
    {
        b"content-length",
        b"set-cookie",
        b"set-cookie2",
        b"server",
        b"date",
        b"alt-svc",
        b"strict-transport-security",
        b"nel",
        b"report-to",
        b"location",
        b"content-location",
        b"x-request-id",
        b"openai-organization",
        b"openai-project",
        b"anthropic-organization-id",
        b"www-authenticate",
        b"proxy-authenticate",
    }
)
"""Answers for the gateway as a client, or telling whose account it is; none is for the gateway's own client."""

_DECODABLE: Final = frozenset({b"gzip", b"deflate", b"identity", b"x-gzip"})


def is_credential(name: bytes) -> bool:
    """Whether a header's name (lower case) says that its value is somebody's credential."""
    return name not in _NO_CREDENTIAL and _CREDENTIAL_WORD.search(name) is not None


def for_upstream(headers: Headers) -> Headers:
    """The client's headers that may go to a provider, in order; accept-encoding is cut to what the gateway can read."""
    listed = _connection_options(headers)
    passed: Headers = []
    for name, value in headers:
        if name in HOP_BY_HOP or name in listed or name in _NEVER_UPSTREAM or is_credential(name):
            continue
        if name.startswith((b"x-gomodel-", b"x-forwarded-", b"proxy-", b":", b"sec-")):
            continue
        if name == b"accept-encoding":
            kept = readable_codings(value)
            if kept:
                passed.append((name, kept))
            continue
        passed.append((name, value))
    return passed


def readable_codings(value: bytes) -> bytes:
    """The part of an Accept-Encoding that names codings the gateway can decode; as sent if that is all of it."""
    parts = [part.strip() for part in value.split(b",")]
    kept = [part for part in parts if part.split(b";")[0].strip().lower() in _DECODABLE]
    return value if len(kept) == len(parts) else b", ".join(kept)


def for_client(headers: Headers) -> Headers:
    """The upstream's headers that may go to the client, in order, without length and framing."""
    listed = _connection_options(headers)
    dropped = HOP_BY_HOP | _NEVER_DOWNSTREAM | listed
    return [(name, value) for name, value in headers if name not in dropped and not name.startswith((b"x-gomodel-", b"proxy-"))]


def query_for_upstream(query: bytes) -> bytes:
    """The query without parameters that carry credentials; the others byte for byte."""
    if not query:
        return query
    return b"&".join(pair for pair in query.split(b"&") if not _CREDENTIAL_PARAMETER.search(_parameter_name(pair)))


def _parameter_name(pair: bytes) -> str:
    return unquote_plus(pair.split(b"=", 1)[0].decode("latin-1"))


def _connection_options(headers: Headers) -> frozenset[bytes]:
    options = [option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")]
    return frozenset(options) - {b"close", b"keep-alive", b""}
