"""The head of a request: where it goes, what is in it, and what may not be."""

import pytest

from gomodel_trio.upstream import h1_request
from gomodel_trio.upstream.h1_request import compose
from gomodel_trio.upstream.transport import Headers, TransportError, TransportFault, UpstreamRequest


def request(
    url: str = "http://up.test/v1", headers: Headers | None = None, *, method: str = "POST", body: bytes = b"{}"
) -> UpstreamRequest:
    return UpstreamRequest(method, url, headers or [], body, 10.0, 600.0)


def test_the_headers_stand_as_given_between_host_and_length() -> None:
    message = compose(request("http://up.test:8080/v1/x%20y?a=1&b=%2F", [(b"x-b", b"1"), (b"X-A", b" 2 "), (b"x-b", b"")]))
    start = b"POST /v1/x%20y?a=1&b=%2F HTTP/1.1\r\nHost: up.test:8080\r\n"
    assert message.head == start + b"x-b: 1\r\nX-A:  2 \r\nx-b: \r\nContent-Length: 2\r\n\r\n"
    assert (message.body, message.is_head) == (b"{}", False)


@pytest.mark.parametrize(
    ("method", "body", "ending"),
    [
        ("POST", b"", b"Content-Length: 0\r\n\r\n"),
        ("PUT", b"", b"Content-Length: 0\r\n\r\n"),
        ("PATCH", b"", b"Content-Length: 0\r\n\r\n"),
        ("GET", b"", b"Host: up.test\r\n\r\n"),
        ("HEAD", b"", b"Host: up.test\r\n\r\n"),
        ("DELETE", b"x", b"Content-Length: 1\r\n\r\n"),
    ],
)
def test_a_length_is_told_where_there_is_a_body_or_one_is_expected(method: str, body: bytes, ending: bytes) -> None:
    message = compose(request(method=method, body=body))
    assert message.head.endswith(ending)
    assert message.is_head is (method == "HEAD")


def test_framing_is_the_transports_and_a_given_host_stands() -> None:
    given = [(b"Content-Length", b"99"), (b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"host", b"other.test")]
    assert compose(request(headers=given)).head == b"POST /v1 HTTP/1.1\r\nHost: other.test\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("HTTP://UP.test", b"POST / HTTP/1.1\r\nHost: up.test\r\n"),
        ("http://up.test?a=b", b"POST /?a=b HTTP/1.1\r\nHost: up.test\r\n"),
        ("http://up.test/a#b?c", b"POST /a HTTP/1.1\r\nHost: up.test\r\n"),
        ("http://up.test:80/", b"POST / HTTP/1.1\r\nHost: up.test\r\n"),
        ("https://up.test:443/", b"POST / HTTP/1.1\r\nHost: up.test\r\n"),
        ("https://up.test:/", b"POST / HTTP/1.1\r\nHost: up.test\r\n"),
        ("https://up.test:80/", b"POST / HTTP/1.1\r\nHost: up.test:80\r\n"),
        ("http://user:pass@up.test/", b"POST / HTTP/1.1\r\nHost: up.test\r\n"),
        ("http://[::1]:8000/v1", b"POST /v1 HTTP/1.1\r\nHost: [::1]:8000\r\n"),
        ("http://[FE80::1%25eth0]/", b"POST / HTTP/1.1\r\nHost: [fe80::1]\r\n"),
        ("http://my_service/", b"POST / HTTP/1.1\r\nHost: my_service\r\n"),
        ('http://up.test/é b?q=北|"', b'POST /%C3%A9%20b?q=%E5%8C%97|" HTTP/1.1\r\nHost: up.test\r\n'),
        ("http://up.test/a/../%2e?&&=%zz", b"POST /a/../%2e?&&=%zz HTTP/1.1\r\nHost: up.test\r\n"),
        ("http://Bücher.test/", b"POST / HTTP/1.1\r\nHost: xn--bcher-kva.test\r\n"),
    ],
)
def test_path_and_query_go_out_as_they_are(url: str, start: bytes) -> None:
    assert compose(request(url)).head.startswith(start)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "up.test/v1",
        "ftp://up.test/",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://[up.test]/",
        "http://[1.2.3.4]/",
        "http://up.test:99999/",
        "http://up.test:999999/",
        "http://up.test:x/",
        "http://up\x00.test/",
        "http://up.test/\r\nx: y",
        "http://up.test/a\x7f",
        "http://up test/",
        "http://up.test\\@other.test/",
        "http://\u2024\u2024/",
        "http://[fe80::1%25\u00e9]/",
    ],
)
def test_what_is_no_url_is_a_connect_fault_that_does_not_show_it(url: str) -> None:
    with pytest.raises(TransportError) as caught:
        compose(request(url))
    assert caught.value.fault is TransportFault.CONNECT
    assert caught.value.message == "The upstream could not be asked: its base URL is none."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x", b"canary\r\ny: z"),
        (b"x", b"canary\n"),
        (b"x", b"\rcanary"),
        (b"x", b"canary\0"),
        (b"host", b"canary\r\nx: y"),
        (b"x y", b"canary"),
        (b"x:", b"canary"),
        (b"", b"canary"),
        (b"x\r\ny", b"canary"),
        (b"\xc3\xa9", b"canary"),
    ],
)
def test_what_would_not_stay_one_header_is_refused_unseen(name: bytes, value: bytes) -> None:
    with pytest.raises(TransportError) as caught:
        compose(request(headers=[(name, value)]))
    assert caught.value.fault is TransportFault.PROTOCOL
    assert "canary" not in caught.value.message
    assert caught.value.__context__ is None


@pytest.mark.parametrize("method", ["", "GET /x HTTP/1.1\r\nx:", "GE T", "GÉT"])
def test_a_method_is_a_token(method: str) -> None:
    with pytest.raises(TransportError) as caught:
        compose(request(method=method))
    assert caught.value.fault is TransportFault.PROTOCOL


def test_bytes_beyond_ascii_in_values_are_sent_as_they_are() -> None:
    assert b"\r\nx: \xe5\x8c\x97\xff\r\n" in compose(request(headers=[(b"x", b"\xe5\x8c\x97\xff")])).head


def test_connections_are_shared_by_origin_and_credential() -> None:
    def key(url: str, *headers: tuple[bytes, bytes]) -> object:
        return compose(request(url, list(headers))).key

    one = key("http://up.test/v1", (b"authorization", b"Bearer a"))
    assert one == key("http://UP.test:80/v2?x", (b"Authorization", b"Bearer a"), (b"x", b"y"))
    assert one != key("http://up.test/v1", (b"authorization", b"Bearer b"))
    assert one != key("http://up.test:81/v1", (b"authorization", b"Bearer a"))
    assert one != key("https://up.test/v1", (b"authorization", b"Bearer a"))
    assert key("http://up.test/", (b"x-api-key", b"a")) != key("http://up.test/")
    signed = b"AWS4-HMAC-SHA256 Credential=AKID/20261130/x/y/aws4_request, SignedHeaders=a, Signature="
    assert key("http://up.test/", (b"authorization", signed + b"1")) == key("http://up.test/", (b"authorization", signed + b"2"))


def test_what_clients_choose_is_not_remembered() -> None:
    h1_request._origin.cache_clear()
    h1_request._field.cache_clear()
    for number in range(20):
        compose(request(f"http://up.test/openai/deployments/{number}{'x' * 100_000}", [(b"x-%d" % number + b"y" * 10_000, b"1")]))
    compose(request(f"http://{'a' * 300}.test/"))
    assert (h1_request._origin.cache_info().currsize, h1_request._field.cache_info().currsize) == (1, 0)
