"""Where the log's lines go: past Python's buffers, and never so that a consumer that stops reading could stop the gateway.

Layer: service. Source: style.md (logging); pipe(7), write(2). A regular file is written directly; a pipe, a socket or a terminal by one
daemon thread behind a bounded backlog: what does not fit is dropped, counted, and told in the place where it is missing.
"""

import os
import queue
import select
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

BACKLOG_BYTES: Final = 4 << 20
"""Lines that may wait: some ten thousand requests'."""
CLOSE_S: Final = 1.0
_AT_ONCE_BYTES: Final = 64 << 10
"""One write: what a pipe takes by default."""
_REST_S: Final = 0.01
"""Between two writes: under load, lines go out together and the loop is disturbed a hundred times a second at most."""

Notice = Callable[[int], bytes]


class Out(Protocol):
    """What takes whole lines. `write` never waits for a reader; `close` writes what is left, within `CLOSE_S`."""

    def write(self, line: bytes) -> None: ...
    def close(self) -> None: ...


def open_out(descriptor: int, notice: Notice) -> Out:
    """What suits the descriptor. `notice` makes the line that tells how many lines are missing."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return _Direct(descriptor)
    is_slow = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    return LogPipe(descriptor, notice) if is_slow else _Direct(descriptor)


class _Direct:
    """Writes at once, to what does not keep a writer waiting."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        pass


class LogPipe:
    """Lines on their way to a reader who may be slow. `write` may be called from any thread, order is kept."""

    def __init__(self, descriptor: int, notice: Notice, *, backlog_bytes: int = BACKLOG_BYTES) -> None:
        self._descriptor = descriptor
        self._notice = notice
        self._backlog_bytes = backlog_bytes
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        # Reentrant: a finalizer that the garbage collector runs in here may log.
        self._lock = threading.RLock()
        self._waiting_bytes = 0
        self._dropped = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Take a line, or drop it where too many wait."""
        with self._lock:
            if self._is_closed:
                return
            # After an overflow it begins anew only when half is gone: one notice then tells of many lines.
            room = self._backlog_bytes if not self._dropped else self._backlog_bytes // 2
            if self._waiting_bytes + len(line) > room:
                self._dropped += 1
                return
            if self._dropped:
                self._take(self._notice_now())
            self._take(line)

    def close(self) -> None:
        """Write what waits; a reader who does not take it in time does not get it."""
        with self._lock:
            self._is_closed = True
        self._lines.put(b"")
        self._thread.join(CLOSE_S)

    def _take(self, line: bytes) -> None:
        self._waiting_bytes += len(line)
        self._lines.put(line)

    def _notice_now(self) -> bytes:
        dropped, self._dropped = self._dropped, 0
        return self._notice(dropped)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_done():
            lines = [self._lines.get()]  # an empty one wakes it for `close`
            size = len(lines[0])
            while size < _AT_ONCE_BYTES and not self._lines.empty():
                lines.append(self._lines.get())
                size += len(lines[-1])
            self._send(b"".join(lines))
            with self._lock:
                self._waiting_bytes -= size
                if self._dropped and not self._waiting_bytes:
                    self._take(self._notice_now())
            if not self._is_closed:
                time.sleep(_REST_S)

    def _is_done(self) -> bool:
        with self._lock:
            return self._is_closed and not self._waiting_bytes

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody else made it so: it is shared with them
                select.select([], [self._descriptor], [])
            except OSError:
                return  # nobody reads any more
