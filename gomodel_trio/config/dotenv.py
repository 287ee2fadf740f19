"""`.env` files: `NAME=value` lines as docker, systemd and shells write them, quotes and comments included.

Layer: config. Source: behaviour.md §10. Nothing is expanded here: `$` is an ordinary character. A message never shows a value.
"""

import re
from pathlib import Path

from gomodel_trio.config.findings import Findings

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_COMMENT = re.compile(r"\s#")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}
_LARGEST_BYTES = 1 << 20


def read_dotenv(path: Path, label: str, findings: Findings) -> dict[str, str]:
    """Read a `.env` file; what is wrong with it becomes faults that name `label` and the line."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        findings.fault(label, f"cannot be read: {error.strerror}")
        return {}
    if len(content) > _LARGEST_BYTES:
        findings.fault(label, "is larger than 1 MiB")
        return {}
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        findings.fault(f"{label} line {line}", "is not UTF-8")
        return {}
    return parse_dotenv(text, label, findings)


def parse_dotenv(text: str, label: str, findings: Findings) -> dict[str, str]:
    """Parse the text of a `.env` file. Of two lines with one name the last counts, with a warning."""
    lines = text.replace("\r\n", "\n").split("\n")
    values: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line_number, line = at + 1, lines[at].lstrip()
        at += 1
        if not line or line.startswith("#"):
            continue
        place = f"{label} line {line_number}"
        name, equals, rest = line.partition("=")
        name = re.sub(r"^export\s+", "", name).strip()
        if not equals or not _NAME.fullmatch(name):
            findings.fault(place, "is no NAME=value line")
            continue
        rest = rest.lstrip()
        if rest[:1] in ("'", '"'):
            value, at = _quoted(rest, lines, at, f"{place} ({name})", findings)
        else:
            value = _bare(rest.rstrip())
        if name in values and value is not None:
            findings.warn(place, f"{name} is set a second time; this line counts")
        if value is not None:
            values[name] = value
    return values


def _bare(rest: str) -> str:
    """An unquoted value ends at ` #`; one that is JSON goes to the end of the line."""
    if rest[:1] in ("{", "["):
        return rest
    comment = _COMMENT.search(rest)
    return "" if rest.startswith("#") else rest[: comment.start()].rstrip() if comment else rest


def _quoted(rest: str, lines: list[str], at: int, place: str, findings: Findings) -> tuple[str | None, int]:
    """A quoted value, which may go on over the next lines; returns it and the next line's index, None after a fault."""
    quote, piece, parts, first = rest[0], rest[1:], [], at
    while True:
        end = _closing_quote(piece, quote)
        if end is not None:
            parts.append(piece[:end])
            break
        parts.append(piece)
        if at >= len(lines):
            findings.fault(place, f"the opening {quote} is never closed")
            return None, first
        piece, at = lines[at], at + 1
    after = piece[end + 1 :].strip()
    if after and not after.startswith("#"):
        findings.fault(place, "text follows the closing quote; around JSON use single quotes: NAME='{\"a\":…}'")
        return None, at
    value = "\n".join(parts)
    return (_unescape(value) if quote == '"' else value), at


def _closing_quote(piece: str, quote: str) -> int | None:
    """Where the quote closes in this line; in double quotes a backslash protects the next character."""
    index = 0
    while index < len(piece):
        if piece[index] == "\\" and quote == '"':
            index += 2
            continue
        if piece[index] == quote:
            return index
        index += 1
    return None


def _unescape(value: str) -> str:
    """Resolve the backslash escapes of a double-quoted value; unknown ones stay as they are."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), value, flags=re.DOTALL)
