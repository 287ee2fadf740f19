"""JSON in and out: a field of a client's body or the name of the one that has a wrong shape; strings that UTF-8 can carry.

Layer: translate; pure. Source: behaviour.md §7.
"""

import re
from typing import Any, Final, TypeVar

import msgspec

from gomodel_trio.translate.canonical import Malformed
from gomodel_trio.wire.canonical_json import well_formed
from gomodel_trio.wire.json_limits import without_lone_surrogates

T = TypeVar("T")

NULL: Final = msgspec.Raw(b"null")
"""A field that is absent, or null, which means the same. (msgspec reads no optional Raw.)"""


def sound(body: bytes) -> bytes:
    """The body as strict readers take it: U+FFFD for lone surrogates and for what is no UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return well_formed(body)
    return without_lone_surrogates(body)


def decoded(decoder: "msgspec.json.Decoder[T]", raw: bytes | msgspec.Raw, field: str) -> T:
    """Decode to the decoder's type.

    Raises:
        Malformed: it is of another shape; names the innermost path, which begins with `field`.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PATH.search(text)
        what, path = (text[: found.start()], field + found[1]) if found else (text, field)
        missing = _MISSING.search(what)
        raise malformed((f"{path}.{missing[1]}" if missing else path).removeprefix("."), "it is missing" if missing else what) from None
    except (ValueError, RecursionError):
        raise malformed(field, "it is no JSON that can be read") from None


def malformed(field: str, what: str) -> Malformed:
    """The error for a field that cannot be read."""
    return Malformed(field, f"{field or 'the body'}: {what[:1].lower()}{what[1:]}")


def is_null(raw: msgspec.Raw) -> bool:
    """Whether a field is absent or null."""
    return bytes(raw).strip() == b"null"


def given(raw: msgspec.Raw) -> msgspec.Raw | None:
    """A field's JSON, None if it is absent or null. A copy: the body need not live on."""
    return None if is_null(raw) else raw.copy()


def text_of(raw: Any) -> str:
    """A string that UTF-8 can carry; "" for anything else."""
    if not isinstance(raw, str):
        return ""
    try:
        raw.encode()
    except UnicodeEncodeError:
        return raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return raw


def encoded(tree: Any) -> bytes:
    """JSON of a tree, whatever its strings hold."""
    try:
        return msgspec.json.encode(tree)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(tree))


def _clean(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {text_of(name): _clean(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_clean(value) for value in tree]
    return text_of(tree) if isinstance(tree, str) else tree


_MISSING = re.compile(r"missing required field `([^`]*)`")
_PATH = re.compile(r" - at `\$([^`]*)`\Z")
