"""Detect the session, the conversation that a request belongs to, from the client's own headers and body.

Layer: route. Source: behaviour.md §2; The first usable signal wins:
the operator's headers, the built-in headers, the built-in body members, then the hash of how the conversation opens.

The operator's headers come first: whoever names one knows the clients, the built-in list only guesses. A header that occurs several times
is tried value by value. Values are read as UTF-8, what clients put there, or else as latin-1, so that no value is unreadable. A body that
is no JSON object holds no signal. Unpaired surrogates and bytes that are no UTF-8 count as U+FFFD.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Raw

from gomodel_trio.route.names import SessionId
from gomodel_trio.wire.canonical_json import canonical, parse, well_formed, write
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.scan import items
from gomodel_trio.wire.view import MEMBERS, Members

Transform = Literal["", "session-uuid"]
"""What is done to a value before it is used: nothing, or taking the session's id out of a Claude Code user id."""

BUILTIN_HEADERS: Final = (
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-litellm-session-id",
    "helicone-session-id",
    "agent-session-id",
)

_LONGEST = 200
_OPENING_ITEMS = 8
_SHORT_BYTES = 8192
"""Up to here finding all items of a conversation costs less than finding the first ones by hand."""
_GROUPED = frozenset({Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.COUNT_TOKENS})
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's; str.strip() would also take the control characters 0x1c–0x1f, which have to disqualify a value."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SESSION_UUID = re.compile(r"session_([0-9a-fA-F-]{36})")


class ExtraHeader(msgspec.Struct, frozen=True):
    """A session header of the operator's; `name` in lower case."""

    name: str
    transform: Transform = ""


class SessionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What may tell a session; without `keeping_enabled` nothing. `builtin_rules` are both the headers and the body members."""

    keeping_enabled: bool = True
    auto_detect: bool = True
    builtin_rules: bool = True
    extra_headers: tuple[ExtraHeader, ...] = ()


_ABSENT: Final = Raw()


class _Inner(msgspec.Struct):
    """What is looked for inside `metadata`, `conversation` and a user id that is JSON."""

    user_id: Raw = _ABSENT
    id: Raw = _ABSENT
    session_id: Raw = _ABSENT


_inner_decoder = msgspec.json.Decoder(_Inner)
_item_decoder = msgspec.json.Decoder(list[Raw])
_Decoded = TypeVar("_Decoded", Members, _Inner)


class SessionDetector:
    """The rules, ready to be applied. Immutable; one serves all requests."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        names = [(extra.name.lower(), extra.transform) for extra in rules.extra_headers]
        if rules.builtin_rules:
            names += [(name, "") for name in BUILTIN_HEADERS]
        self._headers: dict[bytes, list[tuple[int, Transform]]] = {}
        if rules.keeping_enabled:
            for rank, (name, transform) in enumerate(names):
                self._headers.setdefault(name.encode(), []).append((rank, transform))

    def detect(self, headers: Sequence[tuple[bytes, bytes]], body: bytes | Members, api: Api | None, user_path: str) -> SessionId | None:
        """Tell the session; None if nothing does.

        `headers` have lower-case names. `api` is None where no model is named (native passthrough): there, and for embeddings, no session
        is made up. `body` is as the client sent it, decompressed, or its members where they are known; it is looked at only if no header
        tells the session. Never raises.
        """
        if not user_path.isascii():
            user_path = user_path.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        explicit = self._from_headers(headers)
        if explicit is not None:
            return _scoped(explicit, user_path)
        is_grouped = self._rules.auto_detect and api in _GROUPED
        if not self._rules.keeping_enabled or not (self._rules.builtin_rules or is_grouped):
            return None
        members = body if isinstance(body, Members) else _decode(MEMBERS, body)
        if members is None:
            return None
        if self._rules.builtin_rules and (explicit := _from_body(members)) is not None:
            return _scoped(explicit, user_path)
        return _automatic(members, user_path) if is_grouped else None

    def _from_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Find the usable value of the foremost rule; among those of one rule the first sent."""
        best: tuple[int, str] | None = None
        for name, value in headers:
            for rank, transform in self._headers.get(name, ()):
                if best is None or rank < best[0]:
                    usable = _usable(_text_of_header(value), transform)
                    if usable is not None:
                        best = (rank, usable)
        return best[1] if best is not None else None


def detect_session(
    headers: Sequence[tuple[bytes, bytes]], body: bytes, api: Api | None, user_path: str, rules: SessionRules
) -> SessionId | None:
    """Tell the session of one request: `SessionDetector(rules).detect(…)`, for callers that do it once."""
    return SessionDetector(rules).detect(headers, body, api, user_path)


def _usable(value: str, transform: Transform = "") -> str | None:
    """Trim and transform a value; None if what is left is no session id."""
    value = value.strip(_WHITE_SPACE)
    if transform == "session-uuid":
        value = _session_uuid(value)
    if not value or len(value) > _LONGEST or _CONTROL.search(value) is not None:
        return None
    return value


def _session_uuid(value: str) -> str:
    """Take the session out of a user id of Claude Code, JSON or `…_session_<uuid>`; "" if there is none: a user is not a session."""
    if value.startswith("{"):
        session = _string(_inside(value.encode()).session_id).strip(_WHITE_SPACE)
        if session:
            return session
    match = _SESSION_UUID.search(value)
    return match[1] if match is not None else ""


def _from_body(body: Members) -> str | None:
    """Find the usable value of the foremost rule."""
    candidates: list[tuple[Raw, Transform]] = []
    if body.metadata:
        candidates.append((_inside(body.metadata).user_id, "session-uuid"))
    for raw in (body.session_id, body.litellm_session_id, body.prompt_cache_key, body.conversation):
        if raw:
            candidates.append((raw, ""))
    if body.conversation:
        candidates.append((_inside(body.conversation).id, ""))
    for raw, transform in candidates:
        usable = _usable(_string(raw), transform)
        if usable is not None:
            return usable
    return None


def _scoped(explicit: str, user_path: str) -> SessionId:
    """Keep the ids of different user paths apart, whatever clients choose."""
    if not user_path:
        return SessionId(explicit)
    return SessionId("scoped-" + _digest(f"{user_path}\0{explicit}".encode()))


def _automatic(body: Members, user_path: str) -> SessionId | None:
    """Hash what every turn of a conversation repeats: model, system context, tools and the items through the first user turn."""
    try:
        opening = _opening(body)
        if not opening:
            return None
        parts = [b'"user_path":' + write(user_path)] if user_path else []
        for name, raw in (("model", body.model), ("system", body.system), ("instructions", body.instructions)):
            if raw:
                parts.append(b'"%b":%b' % (name.encode(), canonical(bytes(raw))))
        parts.append(b'"opening":[%b]' % b",".join(opening))
        if body.tools:
            parts.append(b'"tools":' + canonical(bytes(body.tools)))
    except ValueError:  # deeper, or an integer longer, than the gateway accepts
        return None
    return SessionId("auto-" + _digest(b"{%b}" % b",".join(parts)))


def _opening(body: Members) -> list[bytes]:
    """Write the items up to and including the first user turn canonically; empty if there are none."""
    conversation = bytes(body.messages)
    if conversation in (b"", b"null"):
        conversation = bytes(body.input)
    if conversation[:1] == b'"':
        return [canonical(conversation)]
    opening: list[bytes] = []
    if conversation[:1] == b"[":
        for item in _item_decoder.decode(conversation) if len(conversation) <= _SHORT_BYTES else items(conversation):
            tree: Any = parse(bytes(item))
            opening.append(write(tree))
            if len(opening) == _OPENING_ITEMS or (isinstance(tree, dict) and tree.get("role") == "user"):
                break
    return opening


def _inside(raw: bytes) -> _Inner:
    """Read the members that are looked for; all absent unless `raw` is an object."""
    return (_decode(_inner_decoder, raw) if raw else None) or _Inner()


def _decode(decoder: msgspec.json.Decoder[_Decoded], raw: bytes) -> _Decoded | None:
    """Decode an object, its strings repaired if need be; None if it is no JSON, no object, or nested too deeply."""
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError:  # JSON of another type
            return None
        except msgspec.DecodeError:
            return decoder.decode(well_formed(bytes(raw)))
    except (msgspec.DecodeError, RecursionError):
        return None


def _string(raw: Raw) -> str:
    """Decode a string; "" for anything else."""
    text = bytes(raw)
    if text[:1] != b'"':
        return ""
    value: str = parse(text)
    return value


def _text_of_header(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _digest(preimage: bytes) -> str:
    return hashlib.sha256(preimage).hexdigest()[:32]
