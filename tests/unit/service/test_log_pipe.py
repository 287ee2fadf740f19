"""The log's way out: order, bounds, and a reader who does not read (tests wait for the reader's side, never for time)."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gomodel_trio.service.log_pipe import LogPipe, open_out

LINE = b"x" * 99 + b"\n"


def notice(count: int) -> bytes:
    return b"dropped %d\n" % count


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A pipe that holds one page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    for end in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(end)


def read_lines(reading: int, count: int) -> list[bytes]:
    got = b""
    while got.count(b"\n") < count:
        got += os.read(reading, 65536)
    return got.splitlines(keepends=True)


def test_lines_come_out_whole_and_in_order(ends: tuple[int, int]) -> None:
    out = LogPipe(ends[1], notice)
    lines = [b"%d\n" % number for number in range(3000)]
    for line in lines:
        out.write(line)
    assert read_lines(ends[0], len(lines)) == lines
    out.close()


def test_a_reader_who_stops_keeps_nobody_waiting_and_is_told_what_is_missing(ends: tuple[int, int]) -> None:
    out = LogPipe(ends[1], notice, backlog_bytes=10_000)
    for number in range(1000):
        out.write(b"%099d\n" % number)  # returns at once, though nobody reads
    lines = read_lines(ends[0], 101)
    assert lines[:100] == [b"%099d\n" % number for number in range(100)]
    assert lines[100:] == [b"dropped 900\n"]
    out.write(b"later\n")
    assert read_lines(ends[0], 1) == [b"later\n"]
    out.close()


def test_what_is_missing_is_told_where_it_is_missing(ends: tuple[int, int]) -> None:
    out = LogPipe(ends[1], notice, backlog_bytes=10_000)
    for _ in range(103):
        out.write(LINE)
    got = b""
    os.set_blocking(ends[0], False)
    while out._waiting_bytes > 4_000:  # until there is room again
        with contextlib.suppress(BlockingIOError):
            got += os.read(ends[0], 100)
    out.write(b"after\n")
    out.close()
    os.close(ends[1])
    while more := os.read(ends[0], 65536):
        got += more
    assert got == LINE * 100 + b"dropped 3\nafter\n"


def test_closing_writes_what_waits(ends: tuple[int, int]) -> None:
    out = LogPipe(ends[1], notice)
    for _ in range(10):
        out.write(LINE)
    out.close()
    out.write(b"too late\n")
    assert os.read(ends[0], 65536) == LINE * 10


def test_closing_does_not_wait_for_a_reader_who_does_not_come(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gomodel_trio.service.log_pipe.CLOSE_S", 0.001)
    out = LogPipe(ends[1], notice)
    for _ in range(1000):
        out.write(LINE)
    began = time.monotonic()
    out.close()
    assert time.monotonic() - began < 0.5
    os.set_blocking(ends[0], False)
    while out._thread.is_alive():
        with contextlib.suppress(BlockingIOError):
            os.read(ends[0], 65536)


def test_a_reader_who_has_gone_costs_nothing(ends: tuple[int, int]) -> None:
    os.close(ends[0])
    out = LogPipe(ends[1], notice)
    for _ in range(100):
        out.write(LINE)
    out.close()
    assert not out._thread.is_alive()


def test_a_pipe_that_somebody_made_nonblocking_loses_nothing(ends: tuple[int, int]) -> None:
    os.set_blocking(ends[1], False)
    out = LogPipe(ends[1], notice)
    lines = [b"%099d\n" % number for number in range(200)]
    for line in lines:
        out.write(line)
    assert read_lines(ends[0], 200) == lines
    out.close()


def test_many_threads_may_write(ends: tuple[int, int]) -> None:
    out = LogPipe(ends[1], notice)
    threads = [threading.Thread(target=lambda: [out.write(LINE) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert read_lines(ends[0], 800) == [LINE] * 800
    for thread in threads:
        thread.join()
    out.close()
    assert out._waiting_bytes == 0


def test_a_file_is_written_at_once(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        out = open_out(file.fileno(), notice)
        out.write(LINE)
        assert (tmp_path / "log").read_bytes() == LINE
        out.close()


def test_a_pipe_is_not(ends: tuple[int, int]) -> None:
    out = open_out(ends[1], notice)
    assert isinstance(out, LogPipe)
    out.close()
