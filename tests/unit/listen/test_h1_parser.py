"""Heads of requests: what is read, and what is refused."""

import pytest

from gomodel_trio.listen.h1_parser import Head, Refusal, parse_head


def parse(block: bytes) -> Head:
    return parse_head(block, header_count=128)


def refused(block: bytes) -> int:
    with pytest.raises(Refusal) as caught:
        parse(block)
    return caught.value.status


def test_a_head_is_read_with_names_in_lower_case_and_values_trimmed() -> None:
    head = parse(b"POST /a%20b?c=%20 HTTP/1.1\r\nHost: x\r\nX-Y:  1 2 \t\r\nX-Y:\r\nContent-Length: 12\r\n\r\n")
    assert (head.method, head.path, head.raw_path, head.query) == ("POST", "/a b", b"/a%20b", b"c=%20")
    assert head.headers == [(b"host", b"x"), (b"x-y", b"1 2"), (b"x-y", b""), (b"content-length", b"12")]
    assert (head.body_bytes, head.keeps_alive, head.is_http_1_0, head.expects_continue) == (12, True, False, False)


@pytest.mark.parametrize(
    ("version", "fields", "keeps_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"connection: close\r\n", False),
        (b"1.1", b"connection: foo, CLOSE\r\nconnection: keep-alive\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"connection: Keep-Alive\r\n", True),
        (b"1.0", b"connection: keep-alive, close\r\n", False),
    ],
)
def test_keeping_alive_follows_version_and_connection(version: bytes, fields: bytes, keeps_alive: bool) -> None:
    assert parse(b"GET / HTTP/" + version + b"\r\nhost: x\r\n" + fields + b"\r\n").keeps_alive is keeps_alive


def test_http_1_0_needs_no_host_and_expects_no_100() -> None:
    head = parse(b"POST / HTTP/1.0\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n")
    assert head.is_http_1_0
    assert not head.expects_continue


def test_upgrades_are_ordinary_requests() -> None:
    assert parse(b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n").keeps_alive


@pytest.mark.parametrize("host", [b"", b"x", b"x.y:80", b"[::1]:80", b"127.0.0.1", b"a_b"])
def test_hosts_that_are_taken(host: bytes) -> None:
    assert parse(b"GET / HTTP/1.1\r\nhost: " + host + b"\r\n\r\n").path == "/"


BEGIN = b"POST / HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"content-length: 5\r\ntransfer-encoding: chunked\r\n", 400),
        (b"transfer-encoding: chunked\r\ncontent-length: 5\r\n", 400),
        (b"transfer-encoding: chunked\r\ncontent-length:\r\n", 400),
        (b"transfer-encoding: identity\r\n", 400),
        (b"transfer-encoding: xchunked\r\n", 400),
        (b"transfer-encoding: chunked, chunked\r\n", 400),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", 400),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", 400),
        (b"transfer-encoding: chunked, identity\r\n", 400),
        (b"transfer-encoding: chunked,\r\n", 400),
        (b"transfer-encoding:\r\n", 400),
        (b"transfer-encoding: \x0bchunked\r\n", 400),
        (b"transfer-encoding: chunked;x=y\r\n", 400),
        (b'transfer-encoding: "chunked"\r\n', 400),
        (b"transfer-encoding : chunked\r\n", 400),
        (b" transfer-encoding: chunked\r\n", 400),
        (b"x: y\r\n transfer-encoding: chunked\r\n", 400),
        (b"x: y\rtransfer-encoding: chunked\r\n", 400),
        (b"x: y\ntransfer-encoding: chunked\r\n", 400),
        (b"transfer-encoding: gzip\r\n", 501),
        (b"transfer-encoding: gzip, chunked\r\n", 501),
        (b"content-length: 5\r\ncontent-length: 6\r\n", 400),
        (b"content-length: 5\r\ncontent-length: 5\r\n", 400),
        (b"content-length: 5, 5\r\n", 400),
        (b"content-length: +5\r\n", 400),
        (b"content-length: -5\r\n", 400),
        (b"content-length: 5 5\r\n", 400),
        (b"content-length: 0x5\r\n", 400),
        (b"content-length: 5_0\r\n", 400),
        (b"content-length: \xb2\r\n", 400),
        (b"content-length:\r\n", 400),
        (b"content-length: 1" + b"0" * 18 + b"\r\n", 400),
        (b"content-length: " + b"9" * 400 + b"\r\n", 400),
        (b": x\r\n", 400),
        (b"x\r\n", 400),
        (b"x y: 1\r\n", 400),
        (b"x: \x00\r\n", 400),
        (b"x: \x7f\r\n", 400),
        (b"x\x00: 1\r\n", 400),
        (b"x: a\r\r\n", 400),
        (b"host: x\r\n", 400),
        (b"".join(b"x%d: 1\r\n" % number for number in range(128)), 431),
    ],
)
def test_fields_that_two_readers_could_read_differently_are_refused(fields: bytes, status: int) -> None:
    assert refused(BEGIN + fields + b"\r\n") == status


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET /", 400),
        (b"GET / HTTP/0.9", 505),
        (b"GET / HTTP/1.2", 505),
        (b"GET / HTTP/1.9", 505),
        (b"GET / HTTP/2.0", 505),
        (b"PRI * HTTP/2.0", 505),
        (b"GET / HTTP/1.10", 400),
        (b"GET / HTTP/01.1", 400),
        (b"GET / http/1.1", 400),
        (b"GET / HTTP/1.1 ", 400),
        (b"GET  / HTTP/1.1", 400),
        (b"GET /  HTTP/1.1", 400),
        (b"GET\t/ HTTP/1.1", 400),
        (b" GET / HTTP/1.1", 400),
        (b"\r\nGET / HTTP/1.1", 400),
        (b"GET /a b HTTP/1.1", 400),
        (b"GET /\x7f HTTP/1.1", 400),
        (b"GET /\xc3\xa4 HTTP/1.1", 400),
        (b"GET /#a HTTP/1.1", 400),
        (b"GET a HTTP/1.1", 400),
        (b"GET * HTTP/1.1", 400),
        (b"GET ftp://x/ HTTP/1.1", 400),
        (b"GET http:///x HTTP/1.1", 400),
        (b"GET http://user@x/ HTTP/1.1", 400),
        (b"GET http://x\\y/ HTTP/1.1", 400),
        (b"get / HTTP/1.1", 400),
        (b"FOO / HTTP/1.1", 400),
        (b"SOURCE / ICE/1.0", 400),
        (b"DESCRIBE / RTSP/1.0", 400),
        (b"CONNECT x:443 HTTP/1.1", 405),
    ],
)
def test_request_lines_that_are_refused(line: bytes, status: int) -> None:
    assert refused(line + b"\r\nhost: x\r\n\r\n") == status


@pytest.mark.parametrize(
    "fields", [b"", b"host: x\r\nhost: x\r\n", b"host: x/y\r\n", b"host: x, y\r\n", b"host: a b\r\n", b"host: u@x\r\n"]
)
def test_a_host_that_is_missing_repeated_or_none_is_refused(fields: bytes) -> None:
    assert refused(b"GET / HTTP/1.1\r\n" + fields + b"\r\n") == 400


def test_a_head_without_its_empty_line_is_refused() -> None:
    assert refused(b"GET / HTTP/1.0\r\nconnection: keep-") == 400


def test_the_asterisk_is_for_options() -> None:
    assert parse(b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n").path == "*"
