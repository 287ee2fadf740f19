"""What a proxy's URL says, and that it stays unsaid."""

import pytest

from gomodel_trio.upstream.proxy import Proxy, parse_proxy


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy.test:3128", Proxy("http", "proxy.test", 3128, None)),
        ("proxy.test:3128", Proxy("http", "proxy.test", 3128, None)),
        ("HTTPS://Proxy.test/", Proxy("https", "proxy.test", 443, None)),
        ("http://[::1]", Proxy("http", "::1", 80, None)),
        ("http://user:pass@proxy.test", Proxy("http", "proxy.test", 80, b"Basic dXNlcjpwYXNz")),
        ("user@proxy.test:1", Proxy("http", "proxy.test", 1, b"Basic dXNlcjo=")),
        ("http://us%3Aer:p%40ss%2F@proxy.test", Proxy("http", "proxy.test", 80, b"Basic dXM6ZXI6cEBzcy8=")),
    ],
)
def test_a_proxy_url_is_read(text: str, proxy: Proxy) -> None:
    assert parse_proxy(text) == proxy


@pytest.mark.parametrize(
    "text", ["", "socks5://u:hunter2@p", "http://", "http://u:hunter2@[::1", "http://p:x", "http://p:70000", "http://é"]
)
def test_what_is_no_proxy_url_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"\Ano usable proxy URL\Z"):
        parse_proxy(text)


def test_a_proxy_does_not_show_its_credentials() -> None:
    assert repr(parse_proxy("http://user:hunter2@proxy.test")) == "Proxy(***)"
    assert str(parse_proxy("http://user:hunter2@proxy.test")) == "Proxy(***)"
