"""Another provider's signature of its thoughts, inside a Responses item's `encrypted_content`.

Layer: translate; pure. A client of the Responses form hands the items of a turn back as they came, and has one opaque place for what a
provider knows its thoughts by. What Anthropic wants back in a turn with tool calls travels there under a mark that names its origin.
"""

from typing import Final

from gomodel_trio.translate.canonical import Form, Reasoning

_MARK: Final = "gomodel"


def sealed(part: Reasoning) -> str | None:
    """The `encrypted_content` for a part; None if it carries nothing opaque."""
    if part.origin == Form.RESPONSES or part.origin is None:
        return part.signature or part.redacted
    if part.signature:
        return f"{_MARK}:{part.origin}:signature:{part.signature}"
    return f"{_MARK}:{part.origin}:redacted:{part.redacted}" if part.redacted else None


def unsealed(text: str, encrypted_content: str | None, item_id: str | None) -> Reasoning:
    """The part that an item stands for."""
    mark, _, rest = (encrypted_content or "").partition(":")
    pieces = rest.split(":", 2)
    if mark != _MARK or len(pieces) != 3 or pieces[1] not in ("signature", "redacted"):
        return Reasoning(text, signature=encrypted_content or None, id=item_id, origin=Form.RESPONSES)
    origin, kind, value = pieces
    if kind == "signature":
        return Reasoning(text, signature=value or None, id=item_id, origin=origin)
    return Reasoning(text, redacted=value or None, id=item_id, origin=origin)
