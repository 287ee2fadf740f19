import json
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import LogSettings
from gomodel_trio.service.logging import Log, _is_journal, lead_libraries, open_log


class Lines:
    """A log and what it wrote."""

    def __init__(self, **options: Any) -> None:
        self.written: list[bytes] = []
        self.log = Log(self.written.append, wall=lambda: 1_790_000_000.25, **options)

    @property
    def last(self) -> dict[str, Any]:
        return dict(json.loads(self.written[-1]))


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before


def test_an_event_is_one_json_line_with_time_level_and_fields() -> None:
    lines = Lines()
    lines.log.info("request", status=200, target="a/b", tier=None, duration_ms=1.5)
    assert lines.written == [
        b'{"ts": "2026-09-21T14:13:20.250Z", "level": "info", "event": "request", "status": 200, "target": "a/b", "duration_ms": 1.5}\n'
    ]


def test_levels_below_the_configured_one_are_silent() -> None:
    lines = Lines(level="warning")
    for tell in (lines.log.debug, lines.log.info, lines.log.warning, lines.log.error):
        tell("x")
    assert [json.loads(line)["level"] for line in lines.written] == ["warning", "error"]


@pytest.mark.parametrize("name", ["api_key", "Authorization", "cookie", "x-auth", "secret", "session_token", "AWS_CREDENTIALS", "password"])
def test_fields_named_like_credentials_are_redacted(name: str) -> None:
    lines = Lines()
    lines.log.info("x", **{name: "canary"}, headers={name: "canary", "accept": "a"}, listed=[{name: b"canary"}], keys={"a": "canary"})
    assert b"canary" not in lines.written[0]
    assert lines.last[name] == "[REDACTED]"
    assert lines.last["headers"] == {name: "[REDACTED]", "accept": "a"}


def test_counts_of_tokens_are_no_secrets() -> None:
    lines = Lines()
    lines.log.info("x", input_tokens=12, key_index=1, is_authenticated=True)
    assert (lines.last["input_tokens"], lines.last["key_index"], lines.last["is_authenticated"]) == (12, 1, True)


def test_credentials_inside_other_text_are_redacted() -> None:
    lines = Lines()
    lines.log.error("x", error="header 'Bearer abc.def-123' and sk-proj-0123456789, basic auth", given=Secret("canary"))
    assert lines.last["error"] == "header '[REDACTED]' and [REDACTED], basic auth"
    assert "canary" not in lines.last["given"]


@pytest.mark.parametrize("as_text", [False, True])
def test_no_field_can_break_its_line_or_drive_a_terminal(as_text: bool) -> None:
    lines = Lines(as_text=as_text)
    hostile = "a\nb\r\x1b[2J\x85\u2028\ud800é\x00"
    lines.log.info(hostile, **{hostile: hostile}, inner={hostile: [hostile]})
    assert lines.written[0].count(b"\n") == 1
    assert all(0x20 <= byte < 0x7F for byte in lines.written[0][:-1])


def test_text_is_for_reading() -> None:
    lines = Lines(as_text=True)
    lines.log.warning("cooldown_started", target="openai/gpt-5", for_s=30.0, note="two words", listed=[1, "a"])
    assert lines.written == [
        b'2026-09-21T14:13:20.250Z WARNING cooldown_started target=openai/gpt-5 for_s=30.0 note="two words" listed=[1, "a"]\n'
    ]


def test_a_terminal_has_colours_for_what_needs_attention() -> None:
    lines = Lines(as_text=True, has_colours=True)
    lines.log.error("x")
    assert b"\x1b[31mERROR  \x1b[0m x" in lines.written[0]


def test_the_journal_gets_levels_and_keeps_its_own_time() -> None:
    lines = Lines(as_text=True, is_journal=True)
    for tell in (lines.log.info, lines.log.warning, lines.log.error):
        tell("x", a=1)
    assert lines.written == [b"<6>INFO    x a=1\n", b"<4>WARNING x a=1\n", b"<3>ERROR   x a=1\n"]


def test_json_in_the_journal_has_the_level_before_it() -> None:
    lines = Lines(is_journal=True, level="debug")
    lines.log.debug("x")
    assert lines.written[0].startswith(b'<7>{"ts"')


def test_an_exception_is_told_with_its_places_and_without_its_secrets() -> None:
    lines = Lines()
    try:
        raise ValueError("bad header Bearer abcdefgh")
    except ValueError as error:
        lines.log.error("x", exc_info=error, grouped=ExceptionGroup("g", [error, KeyError("k")]))
    assert lines.last["exc_info"].startswith("ValueError: bad header [REDACTED] (test_logging.py:")
    assert "KeyError: 'k'" in lines.last["grouped"]


def test_odd_values_are_written_somehow() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    lines = Lines()
    lines.log.info("x", nan=float("nan"), raw=b"\xff", long="a" * 10_000, deep=deep, mapping={1: {2: {3: {4: {5: {6: {7: 8}}}}}}})
    assert (lines.last["nan"], lines.last["raw"]) == ("nan", "\\xff")
    assert lines.last["long"].endswith("… (10000 characters)")
    assert len(lines.written[0]) < 6000
    lines.log.info("x", hostile=Hostile())
    assert len(lines.written) == 1


def test_a_broken_pipe_is_contained() -> None:
    def broken(_data: bytes) -> None:
        raise BrokenPipeError

    Log(broken).error("x")


def test_warnings_of_libraries_are_led_into_the_log() -> None:
    lines = Lines()
    lead_libraries(lines.log)
    logging.getLogger("hypercorn.error").warning("odd %s", "thing")
    logging.getLogger("httpx").info("not this")
    try:
        raise OSError(24, "too many")
    except OSError:
        logging.getLogger("trio.serve_listeners").error("accept", exc_info=True)
    logging.getLogger("broken").warning("%d", "no number")
    assert [(json.loads(line)["library"], json.loads(line)["level"]) for line in lines.written] == [
        ("hypercorn.error", "warning"),
        ("trio.serve_listeners", "error"),
    ]
    assert json.loads(lines.written[0])["message"] == "odd thing"


def test_the_journal_is_known_by_device_and_inode(tmp_path: Any) -> None:
    with open(tmp_path / "stream", "wb") as stream:
        status = os.fstat(stream.fileno())
        assert _is_journal(f"{status.st_dev}:{status.st_ino}", stream.fileno())
        assert not _is_journal("1:2", stream.fileno())
    assert not _is_journal("1:2", -1)


@pytest.mark.parametrize(("chosen", "start"), [("auto", b'{"ts"'), ("json", b'{"ts"'), ("text", b"20")])
def test_the_log_on_stdout_is_text_only_on_a_terminal_or_by_wish(
    chosen: Any, start: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    open_log(LogSettings(level="info", format=chosen), {}).info("started", port=8080)
    assert capfdbinary.readouterr().out.startswith(start)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("secret", ["master-key-1", 'with "quotes" and \\', "schl\u00fcssel"])
def test_configured_secrets_are_in_no_line_whoever_put_them_there(as_text: bool, secret: str) -> None:
    lines = Lines(as_text=as_text)
    lines.log.keep_secret([secret])
    fields = {"session": secret, "path": f"/v1/models/{secret}", "listed": [{"a": secret}]}
    lines.log.line("request", dict(fields))
    lines.log.error("x", exc_info=ValueError(secret), **fields)
    said = b"".join(lines.written).decode()
    assert secret not in said
    assert json.dumps(secret)[1:-1] not in said
    assert said.count("[REDACTED]") == 7


def test_the_quick_line_says_what_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    lines.log.keep_secret(["master-key-1", "master-key-12"])
    lines.log.line("request", {"session": "a master-key-12 b", "path": "/v1"})
    assert (lines.last["session"], lines.last["path"]) == ("a [REDACTED] b", "/v1")
    lines.log.keep_secret([])
    lines.log.line("request", {"session": "master-key-1"})
    assert lines.last["session"] == "master-key-1"


def test_level_and_form_can_change() -> None:
    lines = Lines()
    lines.log.debug("x")
    lines.log.set_manner(level="debug", as_text=True)
    lines.log.debug("y")
    assert lines.written == [b"2026-09-21T14:13:20.250Z DEBUG   y\n"]


def test_a_log_on_a_pipe_tells_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gomodel_trio.service.log_pipe.LogPipe.__init__.__kwdefaults__", {"backlog_bytes": 300_000})
    reading, writing = os.pipe()
    log = Log(print)
    log.open_on(writing)
    for _ in range(1000):
        log.info("x", filler="y" * 1000)
    got = b""
    while b"log_lines_dropped" not in got or not got.endswith(b"\n"):
        got += os.read(reading, 1 << 20)
    *lines, last = [json.loads(line) for line in got.splitlines()]
    assert (last["event"], last["count"]) == ("log_lines_dropped", 1000 - len(lines))
    log.close()
    os.close(reading)
    os.close(writing)
