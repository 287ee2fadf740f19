"""References in values: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${file:/absolute/path}`; `$${` is a literal `${`.

Layer: config. Source: behaviour.md §7. What a reference brought in is never scanned again, so that a secret may hold anything.
"""

import re
from collections.abc import Callable
from pathlib import Path

from gomodel_trio.config.findings import shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DEEPEST = 8
"""Defaults within defaults: more is a typing mistake."""
_LARGEST_FILE_BYTES = 1 << 20

Lookup = Callable[[str], str | None]
"""A variable's value, None if it is unset or blank."""


class ReferenceFault(Exception):
    """A reference that cannot be followed; the message names it and never a value."""


class UnsetReference(ReferenceFault):
    """A plain `${VAR}` whose variable is unset and that has no default."""


def expand(text: str, lookup: Lookup, *, plain: bool = True) -> str:
    """Follow the references in `text`; with `plain` false only the `env:` and `file:` schemes.

    Raises:
        UnsetReference: a plain reference to an unset variable.
        ReferenceFault: any other one that leads nowhere.
    """
    return _expand(text, lookup, plain, 0) if "${" in text else text


def read_secret_file(path: Path) -> str:
    """Read a small file that holds one value; white space and a byte order mark around it are dropped.

    Raises:
        ReferenceFault: it is missing, unreadable, too large, not UTF-8 or empty.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid path"
        raise ReferenceFault(f"cannot read {_name(path)}: {reason}") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise ReferenceFault(f"{shown(str(path))} is larger than 1 MiB")
    try:
        value = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ReferenceFault(f"{shown(str(path))} is not UTF-8") from None
    if not value:
        raise ReferenceFault(f"{shown(str(path))} is empty")
    return value


def _name(path: Path) -> str:
    """What to call a file: one that does not exist may be the secret itself, given in the place of its file's path."""
    try:
        return shown(str(path)) if path.exists() else "the file it names"
    except (OSError, ValueError):
        return "the file it names"


def _expand(text: str, lookup: Lookup, plain: bool, depth: int) -> str:
    if depth > _DEEPEST:
        raise ReferenceFault("defaults are nested too deeply")
    out: list[str] = []
    at = 0
    while (start := text.find("${", at)) >= 0:
        if start > at and text[start - 1] == "$":
            out += [text[at : start - 1], "${"]
            at = start + 2
            continue
        end = _closing(text, start)
        out += [text[at:start], _follow(text[start + 2 : end], lookup, plain, depth)]
        at = end + 1
    out.append(text[at:])
    return "".join(out)


def _closing(text: str, start: int) -> int:
    """The index of the brace that closes the reference at `start`, inner references skipped."""
    level, at = 0, start
    while at < len(text):
        if text.startswith("${", at):
            level, at = level + 1, at + 2
            continue
        if text[at] == "}":
            level -= 1
            if level == 0:
                return at
        at += 1
    raise ReferenceFault("a '${' has no closing '}' (write '$${' for a literal one)")


def _follow(inner: str, lookup: Lookup, plain: bool, depth: int) -> str:
    """The value of the reference whose braces hold `inner`."""
    if inner.startswith("file:"):
        path = Path(inner.removeprefix("file:"))
        if not path.is_absolute():
            raise ReferenceFault(f"'${{{inner}}}' needs an absolute path")
        return read_secret_file(path)
    if inner.startswith("env:"):
        value = lookup(inner.removeprefix("env:"))
        if value is None:
            raise ReferenceFault(f"'${{{inner}}}': the variable is not set")
        return value
    if not plain:
        return "${" + inner + "}"
    name = _NAME.match(inner)
    rest = inner[name.end() :] if name else inner
    if name is None or (rest and not rest.startswith((":-", "-"))):
        raise ReferenceFault(f"'${{{inner[:40]}}}' is no reference: write ${{VAR}}, ${{VAR:-default}} or ${{file:/path}}")
    value = lookup(name[0])
    if value is not None:
        return value
    if not rest:
        raise UnsetReference(f"${{{name[0]}}} is not set and has no default")
    return _expand(rest.removeprefix(":").removeprefix("-"), lookup, plain, depth + 1)
