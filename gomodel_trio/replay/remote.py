"""`explain --url`: have a running gateway explain a request, by its admin API.

Layer: replay. Source: behaviour.md §10. One request over a blocking connection of its own, to the address that was given and nowhere else:
no proxy, no redirect, for it bears the master key.
"""

import http.client
import json
from contextlib import closing
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from gomodel_trio.route.directives import Headers
from gomodel_trio.wire.dialect import Api

_TIMEOUT_S: Final = 30.0
"""How long the gateway may be silent."""
_LARGEST_ANSWER_BYTES: Final = 64 << 20
"""Thousands of candidates take some megabytes; more is nobody's explanation."""
_LONGEST_SHOWN: Final = 300

_NOT_PASSED: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"expect", b"te", b"trailer", b"upgrade"}
    | {b"authorization", b"x-api-key", b"proxy-authorization", b"origin"}
)
"""Headers of the connection and of whoever asks: those of the explained request have no say in routing, and would be taken for ours."""


_HOW: Final = "is no base URL of a gateway; write it as http://127.0.0.1:8080, with the base path if there is one"


class WrongUrl(ValueError):
    """The URL is not a gateway's base URL."""


class NotExplained(Exception):
    """The gateway could not be asked, or refused; the message says which, and never holds the key."""


def explain_at(url: str, api: Api, headers: Headers, body: bytes, *, key: str | None) -> dict[str, Any]:
    """Have the gateway at `url` (its base URL, base path included) explain a request; the document as `explain` writes it.

    Raises:
        WrongUrl, NotExplained
    """
    parts = _parts(url)
    sent = [(name, value) for name, value in headers if name not in _NOT_PASSED]
    if key is not None:
        sent.append((b"authorization", b"Bearer " + key.encode("utf-8", "surrogateescape")))
    try:
        with closing(_connection(parts)) as connection:
            status, answer = _ask(connection, f"{parts.path.rstrip('/')}/admin/explain?api={api.name.lower()}", sent, body)
    except ValueError:
        # The library's words repeat the value, which may be the key.
        raise NotExplained("A header, or the key, holds what HTTP does not allow in a header.") from None
    except TimeoutError:
        raise NotExplained(f"{url} did not answer within {_TIMEOUT_S:g} s.") from None
    except (OSError, http.client.HTTPException) as error:
        raise NotExplained(f"{url} cannot be asked: {_line(str(error)) or type(error).__name__}") from None
    return _document(url, status, answer)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise WrongUrl(_HOW) from None
    if not is_right:
        raise WrongUrl(_HOW)
    if "@" in parts.netloc:
        raise WrongUrl("holds credentials; the key is read from the environment or --env-file")
    if parts.query or parts.fragment or not parts.path.isascii() or not parts.path.isprintable() or " " in parts.path:
        raise WrongUrl(_HOW)
    return parts


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
    from gomodel_trio.upstream.tls import system_trust

    return http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=system_trust())


def _ask(connection: http.client.HTTPConnection, target: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
    connection.putrequest("POST", target, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    return response.status, response.read(_LARGEST_ANSWER_BYTES)


def _document(url: str, status: int, answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if status == http.client.OK and isinstance(found, dict) and ("resolution" in found or "error" in found):
        return found
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    told = _line(str(message)) if message else "that is no answer of this gateway's admin API"
    raise NotExplained(f"{url} answered {status}: {told}")


def _line(text: str) -> str:
    """Somebody else's words, fit for a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:_LONGEST_SHOWN]).strip()
