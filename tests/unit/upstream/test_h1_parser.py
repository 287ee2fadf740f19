"""Answers byte by byte: framing, bounds, and everything that must not be guessed at."""

import pytest

from gomodel_trio.upstream.h1_parser import MAX_FIELDS, MAX_FRAMING_BYTES, MAX_HEAD_BYTES, MAX_INFORMATIONAL, AnswerParser
from gomodel_trio.upstream.transport import TransportFault

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def parsed(*pieces: bytes, is_to_head: bool = False) -> AnswerParser:
    """What a parser makes of one answer in pieces."""
    parser = AnswerParser()
    parser.begin(is_to_head=is_to_head)
    for piece in pieces:
        parser.feed(piece)
    return parser


@pytest.mark.parametrize(
    ("answer", "body", "keeps_alive"),
    [
        (OK + b"content-length: 2\r\n\r\nok", b"ok", True),
        (OK + b"content-length: 0\r\n\r\n", b"", True),
        (OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nok", b"ok", False),
        (OK + b"content-length: 2\r\nconnection: x, Close\r\n\r\nok", b"ok", False),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"ok", True),
        (OK + b"Transfer-Encoding: Chunked\r\n\r\n1;a=b\r\no\r\n1\r\nk\r\n0\r\nx: trailer\r\n\r\n", b"ok", True),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok", False),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", b"", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", b"", True),
        (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (b"\r\n\r\n" + OK + b"content-length: 2\r\n\r\nok", b"ok", True),
        (b"HTTP/1.1 426 Upgrade Required\r\nupgrade: x\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
    ],
)
def test_each_framing_gives_its_body_and_says_whether_the_connection_stays(answer: bytes, body: bytes, keeps_alive: bool) -> None:
    parser = parsed(answer)
    assert (parser.take(), parser.is_complete, parser.keeps_alive, parser.has_extra, parser.fault) == (body, True, keeps_alive, False, None)


def test_a_body_without_length_ends_with_the_connection_and_is_never_kept() -> None:
    parser = parsed(OK + b"\r\nall of", b" it")
    assert not parser.is_complete
    parser.feed_end()
    assert (parser.take(), parser.is_complete, parser.keeps_alive) == (b"all of it", True, False)


def test_names_are_lowered_and_values_trimmed() -> None:
    parser = parsed(OK + b"X-A:  b \t\r\nSet-Cookie: 1\r\nset-cookie: 2\r\nx:\r\ncontent-length: 0\r\n\r\n")
    assert parser.headers == [(b"x-a", b"b"), (b"set-cookie", b"1"), (b"set-cookie", b"2"), (b"x", b""), (b"content-length", b"0")]


def test_trailers_are_no_headers() -> None:
    parser = parsed(CHUNKED + b"0\r\netag: 7\r\n\r\n")
    assert (parser.headers, parser.is_complete) == ([(b"transfer-encoding", b"chunked")], True)


def test_informational_answers_are_skipped_with_their_headers() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\ncontent-length: 9\r\n\r\n"
    parser = parsed(early + b"HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\n\r\n")
    assert (parser.status, parser.headers, parser.is_complete) == (307, [(b"content-length", b"0")], True)


def test_informational_answers_are_bounded() -> None:
    final = OK + b"content-length: 0\r\n\r\n"
    assert parsed(b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_INFORMATIONAL + final).is_complete
    assert parsed(b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INFORMATIONAL + 1) + final).fault is TransportFault.PROTOCOL


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
        OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok",
        OK + b"content-length: 2, 3\r\n\r\nok",
        OK + b"content-length: +2\r\n\r\nok",
        OK + b"content-length: 0x2\r\n\r\nok",
        OK + b"content-length: -2\r\n\r\nok",
        OK + b"content-length:\r\n\r\nok",
        OK + b"content-length: 99999999999999999999\r\n\r\nok",
        OK + b"transfer-encoding: gzip\r\n\r\nok",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: identity\r\n\r\nok",
        OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
        OK + b"x: a\0b\r\n\r\n",
        OK + b"x: a\rb\r\n\r\n",
        OK + b": a\r\n\r\n",
        OK + b"abc\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"RTSP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"\r\nICE/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"220 smtp ready\r\n\r\n",
        b"<html>",
        b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 20 Short\r\n\r\n",
        b"HTTP/1.1 2000 Long\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
def test_a_head_that_only_a_guess_could_read_is_refused(answer: bytes) -> None:
    for parser in (parsed(answer), parsed(*(answer[i : i + 1] for i in range(len(answer))))):
        assert (parser.fault, parser.is_complete, parser.has_head) == (TransportFault.PROTOCOL, False, False)


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\n",
        b"2\r\nokX",
        b"2\nok\n0\n\n",
        b"2 \r\nok\r\n",
        b"-1\r\n",
        b"10000000000000000\r\nx",
        b"0\r\nx y: z\r\n\r\n",
        b"0\r\ncontent-length: 7\r\n\r\n",
        b"2\r\nok\r\n\r\n",
    ],
)
def test_a_broken_chunk_is_a_fault_behind_what_came_before_it(rest: bytes) -> None:
    parser = parsed(CHUNKED + b"5\r\nhello\r\n" + rest)
    assert (parser.take()[:5], parser.fault, parser.is_complete) == (b"hello", TransportFault.PROTOCOL, False)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"", TransportFault.RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-le", TransportFault.RESET),
        (b"HTTP/1.1 100 Continue\r\n\r\n", TransportFault.RESET),
        (OK + b"content-length: 5\r\n\r\nab", TransportFault.SHORT_BODY),
        (CHUNKED + b"5\r\nab", TransportFault.SHORT_BODY),
        (CHUNKED + b"2\r\nab\r\n", TransportFault.SHORT_BODY),
        (CHUNKED + b"2\r\nab\r\n0\r\n", TransportFault.SHORT_BODY),
    ],
)
def test_an_early_end_is_told_by_where_it_came(answer: bytes, fault: TransportFault) -> None:
    parser = parsed(*([answer] if answer else []))
    parser.feed_end()
    assert (parser.fault, parser.has_received) == (fault, bool(answer))


def test_a_reset_is_a_reset_unless_all_had_come() -> None:
    for answer, fault in ((OK + b"\r\nab", TransportFault.RESET), (OK + b"content-length: 2\r\n\r\nab", None)):
        parser = parsed(answer)
        parser.feed_reset()
        parser.feed_end()
        assert parser.fault is fault


@pytest.mark.parametrize("extra", [b"x", b"HTTP/1.1 2", OK + b"content-length: 2\r\n\r\nno"])
@pytest.mark.parametrize("head", [b"", b"connection: close\r\n"])
def test_bytes_behind_an_answer_are_seen_and_not_taken_for_it(extra: bytes, head: bytes) -> None:
    answer = OK + head + b"content-length: 2\r\n\r\nok"
    for parser in (parsed(answer + extra), parsed(answer, extra)):
        assert (parser.take(), parser.is_complete, parser.has_extra, parser.fault) == (b"ok", True, True, None)
        assert len(parser.headers) == 1 + bool(head)


def test_the_answer_to_a_head_has_no_body_and_the_next_answer_is_read_anew() -> None:
    parser = parsed(OK + b"content-length: 99\r\n\r\n", is_to_head=True)
    assert (parser.is_complete, parser.keeps_alive, parser.has_extra) == (True, True, False)
    parser.begin()
    parser.feed(OK + b"content-length: 2\r\n\r\nok")
    assert (parser.take(), parser.is_complete) == (b"ok", True)
    assert parsed(OK + b"content-length: 2\r\n\r\nok", is_to_head=True).has_extra
    assert parsed(OK + b"content-length: 2\r\n\r\nok", is_to_head=True).take() == b""
    assert not parsed(OK + b"\r\n", is_to_head=True).keeps_alive


def test_one_parser_reads_answer_after_answer() -> None:
    parser = AnswerParser()
    for number in range(3):
        parser.begin()
        parser.feed(CHUNKED + b"1\r\n%d\r\n0\r\n\r\n" % number)
        assert (parser.take(), parser.is_complete, len(parser.headers)) == (b"%d" % number, True, 1)


def test_heads_are_bounded_in_size_and_in_fields() -> None:
    end = b"content-length: 0\r\n\r\n"
    assert parsed(OK + b"x: y\r\n" * (MAX_FIELDS - 1) + end).is_complete
    assert parsed(OK + b"x: y\r\n" * MAX_FIELDS + end).fault is TransportFault.PROTOCOL
    assert parsed(OK + b"x: " + b"a" * (MAX_HEAD_BYTES - 100) + b"\r\n" + end).is_complete
    assert parsed(OK + b"x: " + b"a" * MAX_HEAD_BYTES + b"\r\n" + end).fault is TransportFault.PROTOCOL
    assert parsed(OK + b"x: " + b"a" * MAX_HEAD_BYTES).fault is TransportFault.PROTOCOL
    assert parsed(OK + b"content-length: 100000\r\n\r\n" + b"a" * 100_000).is_complete


@pytest.mark.parametrize("padding", [b"1;" + b"x" * 1000, b"0" * 1000, b"0\r\nx: " + b"y" * 1000])
def test_framing_without_content_is_bounded(padding: bytes) -> None:
    parser = parsed(CHUNKED, padding)
    for _ in range(MAX_FRAMING_BYTES // 1000 + 1):
        parser.feed(padding[-1:] * 1000)
    assert parser.fault is TransportFault.PROTOCOL


def test_content_in_between_lets_framing_go_on() -> None:
    parser = parsed(CHUNKED)
    for _ in range(40):
        parser.feed(b"1;" + b"x" * 1000)
        parser.feed(b"\r\nx\r\n")
    assert (parser.fault, len(parser.take())) == (None, 40)


@pytest.mark.parametrize(
    ("value", "seconds"), [(b"timeout=5", 5.0), (b'max=100, Timeout = "7"', 7.0), (b"max=100", None), (b"timeout=x", None), (b"", None)]
)
def test_the_servers_own_idle_time_is_known(value: bytes, seconds: float | None) -> None:
    assert parsed(OK + b"keep-alive: " + value + b"\r\ncontent-length: 0\r\n\r\n").timeout_s == seconds


def test_after_a_fault_or_when_detached_nothing_more_is_read() -> None:
    parser = parsed(CHUNKED + b"zz\r\n")
    parser.feed(b"2\r\nok\r\n")
    assert (parser.take(), parser.fault) == (b"", TransportFault.PROTOCOL)
    parser = parsed(CHUNKED)
    parser.detach()
    parser.feed(b"2\r\nok\r\n")
    assert parser.take() == b""
