"""Which headers may pass the gateway, in either direction.

Layer: gateway; pure. Source: behaviour.md §7 (what never goes upstream), §3 (ours), field experience with leaked credentials.
"""

import re
from functools import lru_cache
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
        b"www-authenticate",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-azure-clientip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"client-ip",
        b"x-original-url",
        b"x-original-host",
        b"x-rewrite-url",
        b"x-http-method-override",
        b"x-method-override",
        b"openai-organization",
        b"openai-project",
        b"origin",
        b"referer",
    }
)
_NEVER_UPSTREAM_FAMILIES: Final = (b"x-gomodel-", b"x-forwarded", b"x-envoy-", b"cf-access-", b"proxy-", b":", b"sec-")

_FORWARDING: Final = re.compile(rb"(?:^|-)(?:forwarded|client-?ip|user-?ip|remote-(?:ip|addr)|external-address)(?:$|-)")
"""Words that say where a request came from, whoever put them there."""

_SECRET_WORDS: Final = (
    "authorization|authentication|auth|apikey|secret|cookie|credential|password|passwd|passphrase|passcode|signature|jwt"
    "|sessid|sessionkey|accesskey|authkey|privatekey|secretkey|masterkey|clientkey|subscriptionkey"
)
"""What the last part of a word may be: `x-userauth`, `phpsessid`, `accesstoken`. "key" alone must be a word: nobody's monkey is secret."""
_CREDENTIAL: Final = re.compile(
    rf"(?:^|[-.])(?:[a-z0-9]*?(?:{_SECRET_WORDS}|token)s?|keys?|jsessionid|bearer|csrf|xsrf|pat|principal)[0-9]*(?:$|[-.])".encode()
)
_NO_CREDENTIAL: Final = frozenset({b"idempotency-key", b"x-idempotency-key", b"sec-websocket-key"})
_CREDENTIAL_PARAMETER: Final = re.compile(
    rf"(?:^|[-.])(?:[a-z0-9]*?(?:(?:{_SECRET_WORDS})s?|token)|keys?|jsessionid|bearer|csrf|xsrf|pat|sig)[-.]?[0-9]*$"
)
"""In a query the name's end decides, and `max_tokens` counts."""
_CASE_CHANGE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_MOST_NAMES: Final = 1024
_LONGEST_NAME: Final = 64
"""Verdicts that are kept, and on names up to which length: clients invent names."""

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
        b"x-sendfile",
        b"x-reproxy-url",
        b"clear-site-data",
        b"refresh",
        b"service-worker-allowed",
        b"public-key-pins",
        b"public-key-pins-report-only",
    }
)
"""Answers for the gateway as a client, or telling whose account it is; orders to a proxy before the gateway, or to a browser about the
gateway's own site. None is for the gateway's client."""
_NEVER_DOWNSTREAM_FAMILIES: Final = (b"x-gomodel-", b"proxy-", b"x-accel-", b"access-control-")

_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_DECODABLE: Final = frozenset({b"gzip", b"deflate", b"identity", b"x-gzip"})


def is_credential(name: bytes) -> bool:
    """Whether a header's name (lower case) says that its value is somebody's credential; `_` counts as `-`, as many servers have it."""
    plain = name.replace(b"_", b"-")
    return plain not in _NO_CREDENTIAL and _CREDENTIAL.search(plain) is not None


def for_upstream(headers: Headers) -> Headers:
    """The client's headers that may go to a provider, in order; accept-encoding is cut to what the gateway can read."""
    listed = _connection_options(headers)
    passed: Headers = []
    for name, value in headers:
        if name in listed or (_stays_here(name) if len(name) <= _LONGEST_NAME else _stays_here.__wrapped__(name)):
            continue
        if name == b"accept-encoding":
            kept = readable_codings(value)
            if kept:
                passed.append((name, kept))
            continue
        passed.append((name, value))
    return passed


@lru_cache(_MOST_NAMES)
def _stays_here(name: bytes) -> bool:
    plain = name.replace(b"_", b"-")
    if plain in HOP_BY_HOP or plain in _NEVER_UPSTREAM or plain.startswith(_NEVER_UPSTREAM_FAMILIES):
        return True
    return is_credential(plain) or _FORWARDING.search(plain) is not None


def readable_codings(value: bytes) -> bytes:
    """The part of an Accept-Encoding that names codings the gateway can decode; as sent if that is all of it."""
    parts = [part.strip() for part in value.split(b",")]
    kept = [part for part in parts if part.split(b";")[0].strip().lower() in _DECODABLE]
    return value if len(kept) == len(parts) else b", ".join(kept)


def for_client(headers: Headers) -> Headers:
    """The upstream's headers that may go to the client, in order, without length and framing."""
    listed = _connection_options(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in listed and not (_is_for_us(name) if len(name) <= _LONGEST_NAME else _is_for_us.__wrapped__(name))
    ]


@lru_cache(_MOST_NAMES)
def _is_for_us(name: bytes) -> bool:
    plain = name.replace(b"_", b"-")
    if plain == b"x-accel-buffering":
        return False
    return plain in HOP_BY_HOP or plain in _NEVER_DOWNSTREAM or plain.startswith(_NEVER_DOWNSTREAM_FAMILIES)


def query_for_upstream(query: bytes) -> bytes:
    """The query without parameters that carry credentials; the others byte for byte."""
    if not query:
        return query
    return b"&".join(pair for pair in query.split(b"&") if not _CREDENTIAL_PARAMETER.search(_parameter_name(pair)))


def _parameter_name(pair: bytes) -> str:
    """A parameter's name, decoded, its words in lower case and set apart by hyphens: `accessToken` and `access_token` → `access-token`."""
    name = unquote_plus(pair.split(b"=", 1)[0].decode("latin-1"))
    return _CASE_CHANGE.sub("-", name).lower().replace("_", "-")


def _connection_options(headers: Headers) -> frozenset[bytes]:
    values = [value for name, value in headers if name == b"connection"]
    if not values:
        return _NO_OPTIONS
    return frozenset([option.strip().lower() for option in b",".join(values).split(b",")]) - {b"close", b"keep-alive", b""}
