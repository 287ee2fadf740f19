"""The log: one line an event on stdout, as JSON or, on a terminal, as text; never a secret, never an exception.

Layer: service. Source: behaviour.md §8 (what is redacted); style.md (logging); sd-daemon(3) for the level before a line in the journal.

A line is a line: everything outside printable ASCII is escaped, so no field can forge another line or drive a terminal.
"""

import contextlib
import json
import logging
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gomodel_trio.config.settings import LogSettings
from gomodel_trio.service.log_pipe import Out, open_out

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_JOURNAL = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>"}
"""sd-daemon's prefixes."""
_COLOURS = {"debug": "\x1b[2m", "info": "", "warning": "\x1b[33m", "error": "\x1b[31m"}
_REDACTED = "[REDACTED]"
_REDACTED_BYTES = _REDACTED.encode()
_SECRET_NAME = re.compile(r"auth|key|secret|token|cookie|credential|password", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{6,}|\bsk-[\w-]{6,}", re.IGNORECASE)
"""Credentials that give themselves away inside other text, such as an exception's."""
_BARE = re.compile(r"[\w./:@+*%,()-]+", re.ASCII)
_DEEPEST = 6
_LONGEST = 4000
_FRAMES = 6
"""Of a traceback, only places: no source lines, no values."""

_ENCODER = msgspec.json.Encoder()

Write = Callable[[bytes], object]


class Log:
    """Writes events with named fields; fields that are None are left out. Safe to call from any thread."""

    def __init__(
        self,
        write: Write,
        *,
        level: str = "info",
        as_text: bool = False,
        has_colours: bool = False,
        is_journal: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._least = _LEVELS[level]
        self._as_text = as_text
        self._has_colours = has_colours
        self._is_journal = is_journal
        self._wall = wall
        self._stamped = (-1, "")
        self._secrets: tuple[bytes, ...] = ()
        self._out: Out | None = None

    def set_manner(self, *, level: str, as_text: bool) -> None:
        """Go on at another level or in another form."""
        self._least, self._as_text = _LEVELS[level], as_text

    def keep_secret(self, texts: Iterable[str]) -> None:
        """From now on, never show these texts, wherever they come from: clients put keys into all sorts of fields."""
        forms = {form for text in texts for form in (text, json.dumps(text)[1:-1])}
        self._secrets = tuple(sorted((form.encode("ascii", "backslashreplace") for form in forms if form), key=len, reverse=True))

    def close(self) -> None:
        """Write what is still to be written, within a second."""
        if self._out is not None:
            self._out.close()

    def debug(self, event: str, **fields: Any) -> None:
        """Say what helps to find a fault."""
        self._tell("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Say what happened."""
        self._tell("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Say what the operator should look at."""
        self._tell("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Say what failed."""
        self._tell("error", event, fields)

    def line(self, event: str, fields: dict[str, Any]) -> None:
        """Say what happened, at info, with fields that JSON can hold and whose names are known to be harmless.

        The quick way for the one line of a request. What needs a closer look (text, characters beyond ASCII, something that looks like a
        credential) takes the same way as all other events.
        """
        if self._least > _LEVELS["info"]:
            return
        if not self._as_text:
            with contextlib.suppress(Exception):
                line = _ENCODER.encode({"ts": self._stamp(), "level": "info", "event": event, **fields})
                if line.isascii() and len(line) < _LONGEST and not _may_hold_secret(line):
                    for secret in self._secrets:
                        if secret in line:
                            line = line.replace(secret, _REDACTED_BYTES)
                    self._write((b"<6>" if self._is_journal else b"") + line + b"\n")
                    return
        self._tell("info", event, fields)

    def _tell(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        if _LEVELS[level] < self._least:
            return
        # Whatever goes wrong with a line (a broken pipe, a full disk, a __repr__ that raises) must not reach the request it is about.
        with contextlib.suppress(Exception):
            self._write(self._rendered(level, event, fields))

    def _rendered(self, level: str, event: str, fields: Mapping[str, Any]) -> bytes:
        shown = {name: _plain(name, value, 0) for name, value in fields.items() if value is not None}
        text = self._text(level, event, shown) if self._as_text else self._json(level, event, shown)
        prefix = _JOURNAL[level] if self._is_journal else ""
        line = f"{prefix}{text}\n".encode("ascii", "backslashreplace")
        for secret in self._secrets:
            line = line.replace(secret, _REDACTED_BYTES)
        return line

    def _json(self, level: str, event: str, fields: dict[str, Any]) -> str:
        return json.dumps({"ts": self._stamp(), "level": level, "event": event, **fields}, default=str)

    def _text(self, level: str, event: str, fields: dict[str, Any]) -> str:
        words = [f"{level.upper():7}", event if _BARE.fullmatch(event) else json.dumps(event)]
        words += [f"{name if _BARE.fullmatch(name) else json.dumps(name)}={_word(value)}" for name, value in fields.items()]
        if self._has_colours and _COLOURS[level]:
            words[0] = f"{_COLOURS[level]}{words[0]}\x1b[0m"
        return " ".join(words if self._is_journal else [self._stamp(), *words])

    def _stamp(self) -> str:
        second, milliseconds = divmod(int(self._wall() * 1000), 1000)
        stamped = self._stamped
        if second != stamped[0]:
            self._stamped = stamped = (second, datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", ""))
        return f"{stamped[1]}.{milliseconds:03d}Z"

    def open_on(self, descriptor: int) -> None:
        """Write to a descriptor from now on; a reader who stops reading loses lines, and is told how many."""
        self._out = open_out(descriptor, lambda count: self._rendered("warning", "log_lines_dropped", {"count": count}))
        self._write = self._out.write


def open_log(settings: LogSettings, environment: Mapping[str, str]) -> Log:
    """The log on stdout as configured; libraries' warnings are led into it."""
    is_terminal = os.isatty(1)
    log = Log(
        _nowhere,
        level=settings.level,
        as_text=is_text(settings),
        has_colours=is_terminal and "NO_COLOR" not in environment,
        is_journal=_is_journal(environment.get("JOURNAL_STREAM", ""), 1),
    )
    log.open_on(1)
    lead_libraries(log)
    return log


def is_text(settings: LogSettings) -> bool:
    """Whether the log on stdout is text; else it is JSON."""
    return settings.format == "text" or (settings.format == "auto" and os.isatty(1))


def lead_libraries(log: Log) -> logging.Handler:
    """Lead what libraries log at warning and above into `log`, in the place of whatever handled it before."""
    handler = _Leading(log)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    return handler


class _Leading(logging.Handler):
    """Turns a library's record into an event."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            tell = self._log.error if record.levelno >= logging.ERROR else self._log.warning
            error = record.exc_info[1] if record.exc_info else None
            tell("library", library=record.name, message=record.getMessage(), exc_info=error)


def _plain(name: str, value: Any, depth: int) -> Any:
    """A value as JSON can hold it, without secrets: numbers and flags stay whatever their name, for counts of tokens are no secret."""
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if _SECRET_NAME.search(name):
        return _REDACTED
    if isinstance(value, Mapping):
        if depth >= _DEEPEST:
            return "…"
        return {str(key): _plain(str(key), inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, BaseException):
        return _failure(value)
    if isinstance(value, list | tuple | set | frozenset):
        return "…" if depth >= _DEEPEST else [_plain("", inner, depth + 1) for inner in value]
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return _clean(text)


def _may_hold_secret(line: bytes) -> bool:
    folded = line.lower()
    return b"sk-" in folded or b"bearer" in folded or b"basic" in folded


def _clean(text: str) -> str:
    shortened = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
    return _SECRET_VALUE.sub(_REDACTED, shortened)


def _failure(error: BaseException) -> str:
    """An exception in a line: what it is, what it says, and where it came from."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_failure(inner) for inner in error.exceptions)
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = " > ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
    said = _clean(f"{type(error).__name__}: {error}")
    return f"{said} ({places})" if places else said


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else json.dumps(value)
    return json.dumps(value, default=str)


def _nowhere(_line: bytes) -> None:
    """Until a log is open."""


def _is_journal(stream: str, descriptor: int) -> bool:
    """Whether the descriptor is the journal's stream that JOURNAL_STREAM names ("device:inode", systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return stream == f"{status.st_dev}:{status.st_ino}"
