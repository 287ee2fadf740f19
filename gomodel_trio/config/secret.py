"""A secret that does not show itself: not in a repr, a log line or a traceback.

Layer: config.
"""


class Secret:
    """Text that only `reveal()` gives away. Equal secrets are equal; the hash is that of the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for a header about to be sent, or a constant-time comparison."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
