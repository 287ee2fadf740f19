"""Change a request's model and keep every other byte: white space, key order, number spelling, unknown fields.

Layer: wire. Source: behaviour.md §3 (Body), §7 (a string `provider` is read and removed; an object is the provider's own).

msgspec splits the object into its top-level values (fast, in C) but tells no offsets. They are recovered by walking the text: behind each
key must stand exactly the next value, which also proves the place. Where that fails (a key that occurs twice, strings that msgspec
refuses, very deep nesting) the exact scanner does the same more slowly. Readers differ on which copy of a key counts, so every copy of
`model` is changed.
"""

import json
import re
from typing import Final

import msgspec

from gomodel_trio.wire.scan import SHORT_STRING, SPACE, members

_KEY = re.compile(SPACE + rb"[{,]" + SPACE + rb"(" + SHORT_STRING + rb")" + SPACE + rb":" + SPACE, re.DOTALL)
_CLOSE = re.compile(SPACE + rb"\}" + SPACE + rb"\Z")
_PLAIN_KEYS: Final = {b'"model"': "model", b'"provider"': "provider"}
_SHORT_BODY_BYTES: Final = 8192
"""Up to here looking through the whole body costs less than walking its members."""
_MODEL_KEY: Final = b'"model"'
_COLON = re.compile(SPACE + rb":" + SPACE)
_values = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Model(msgspec.Struct):
    model: msgspec.Raw = msgspec.Raw()


_model = msgspec.json.Decoder(_Model)

_Place = tuple[str, int, int, int]
"""A member: its name, the offsets of its key and value, and behind its value."""


def swap_model(body: bytes, model: str) -> bytes:
    """Replace the value of the top-level `model`, in every copy and however the key is escaped.

    Raises:
        ValueError: the body is no object or has no `model`; nothing is ever inserted.
    """
    return rewrite(body, model=model)


def remove_provider(body: bytes) -> bytes:
    """Remove the top-level members `provider` whose value is a string, each with its comma and the white space behind that.

    Raises:
        ValueError: the body is no object.
    """
    return rewrite(body, drop_provider=True)


def rewrite(body: bytes, *, model: str | None = None, drop_provider: bool = False, was: bytes | msgspec.Raw = b"") -> bytes:
    """Do what `swap_model` (unless `model` is None) and `remove_provider` (if `drop_provider`) do, in one pass.

    `was`: the value of the top-level `model` as it stands in the body, where the caller has read it already: the body is not read again.

    Raises:
        ValueError: the body is no object, or a model is given and there is no `model` to replace.
    """
    only = _only_model(body, was) if model is not None and not drop_provider and len(body) <= _SHORT_BODY_BYTES else None
    if only is not None and model is not None:
        return b"%b%b%b" % (body[: only[0]], _encode(model), body[only[1] :])
    places = _walk(body)
    if places is None:
        places = _scan(body)
    edits: list[tuple[int, int, bytes]] = []
    if model is not None:
        value = _encode(model)
        edits = [(at, end, value) for name, _, at, end in places if name == "model"]
        if not edits:
            raise ValueError("the body has no model")
    if drop_provider:
        cuts = _cuts(places, [name == "provider" and body[at] == 0x22 for name, _, at, _ in places])
        if cuts:
            edits = sorted([*edits, *cuts])
    return _apply(body, edits)


def _only_model(body: bytes, was: bytes | msgspec.Raw) -> tuple[int, int] | None:
    """Find the value of `model` where the word stands in the body but once and no key can be spelled with escapes; None elsewhere.

    Quotes inside strings are escaped, so the one place is a whole string; and as the object has a `model`, it is that key.
    """
    key_at = body.find(_MODEL_KEY)
    if key_at < 0 or body.find(_MODEL_KEY, key_at + 1) >= 0 or b"\\u006" in body:
        return None
    try:
        value = was or _model.decode(body).model
    except (msgspec.DecodeError, RecursionError):
        return None
    colon = _COLON.match(body, key_at + len(_MODEL_KEY))
    if not value or colon is None or not body.startswith(value, colon.end()):
        return None
    return colon.end(), colon.end() + len(value)


def _apply(body: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Put the replacements (offset, end, bytes) into place; they are sorted and do not overlap."""
    pieces: list[bytes] = []
    kept_to = 0
    for at, end, replacement in edits:
        pieces += (body[kept_to:at], replacement)
        kept_to = end
    pieces.append(body[kept_to:])
    return b"".join(pieces)


def _cuts(places: list[_Place], is_dropped: list[bool]) -> list[tuple[int, int, bytes]]:
    """Say which bytes go with the dropped members: up to the next key, or, at the end, from behind the last member that is kept."""
    cuts = []
    kept_end = None
    for index, (place, dropped) in enumerate(zip(places, is_dropped, strict=True)):
        if not dropped:
            kept_end = place[3]
        elif not all(is_dropped[index:]):
            cuts.append((place[1], places[index + 1][1], b""))
        else:
            return [*cuts, (place[1] if kept_end is None else kept_end, places[-1][3], b"")]
    return cuts


def _walk(body: bytes) -> list[_Place] | None:
    """Find the members of an object whose keys differ; None if this way cannot."""
    try:
        values = _values.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    places = []
    end = 0
    for name, raw in values.items():
        key = _KEY.match(body, end)
        if key is None:
            return None
        at = key.end()
        if not body.startswith(raw, at):
            return None
        end = at + len(raw)
        places.append((name, key.start(1), at, end))
    return places if places and _CLOSE.match(body, end) is not None else None


def _scan(body: bytes) -> list[_Place]:
    return [(_name(body[member.key_at : member.key_end]), member.key_at, member.value_at, member.value_end) for member in members(body)]


def _name(key: bytes) -> str:
    """Decode a key if it may be one of ours; "" otherwise."""
    if b"\\" in key and len(key) <= 6 * len("provider") + 2:
        try:
            return msgspec.json.decode(key, type=str)
        except msgspec.DecodeError:
            return ""
    return _PLAIN_KEYS.get(key, "")


def _encode(model: str) -> bytes:
    try:
        return msgspec.json.encode(model)
    except UnicodeEncodeError:  # a lone surrogate goes out as it came: escaped
        return json.dumps(model).encode()
