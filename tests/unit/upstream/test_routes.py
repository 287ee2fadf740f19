"""Who needs httpx: HTTP/2, a proxy of the provider's, a proxy of the environment without an exception."""

import pytest

from gomodel_trio.upstream.routes import needs_httpx, proxy_for

PROXIES = {"HTTP_PROXY": "http://proxy.test:3128", "HTTPS_PROXY": "http://proxy.test:3128"}


def test_an_ordinary_upstream_needs_nothing() -> None:
    assert not needs_httpx("https://api.up.test/v1", {}, {"http2": False, "proxy_url": None})


@pytest.mark.parametrize("options", [{"http2": True}, {"proxy_url": "http://proxy.test"}])
def test_a_provider_may_ask_for_it(options: dict[str, object]) -> None:
    assert needs_httpx("https://api.up.test/v1", {"NO_PROXY": "*"}, options)


@pytest.mark.parametrize(
    ("environ", "url", "is_needed"),
    [
        (PROXIES, "https://api.up.test/v1", True),
        (PROXIES, "http://api.up.test/v1", True),
        ({"https_proxy": "proxy.test"}, "http://api.up.test/v1", False),
        ({"https_proxy": "", "HTTPS_PROXY": "proxy.test"}, "https://api.up.test/v1", False),
        ({"ALL_PROXY": "socks5://proxy.test"}, "https://api.up.test/v1", True),
        ({"HTTP_PROXY": "proxy.test", "REQUEST_METHOD": "GET"}, "http://api.up.test/v1", False),
        ({"http_proxy": "proxy.test", "REQUEST_METHOD": "GET"}, "http://api.up.test/v1", True),
        (PROXIES, "http://[::1", False),
        (PROXIES, "http://up.test:99999/", False),
        (PROXIES, "", False),
    ],
)
def test_the_environment_names_a_proxy_for_a_scheme(environ: dict[str, str], url: str, is_needed: bool) -> None:
    assert needs_httpx(url, environ, {}) is is_needed


@pytest.mark.parametrize(
    ("exceptions", "host", "is_excepted"),
    [
        ("*", "up.test", True),
        ("other.test, *", "up.test", True),
        ("up.test", "up.test", True),
        ("UP.test", "api.Up.TEST", True),
        (".up.test", "up.test", True),
        ("*.up.test", "api.up.test", True),
        ("up.test", "setup.test", False),
        ("up.test:8080", "up.test:8080", True),
        ("up.test:8080", "up.test", False),
        ("up.test:443", "up.test", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.7/8", "10.1.2.3", True),
        ("10.0.0.0/8", "up.test", False),
        ("fd00::/8", "[fd00::1]", True),
        ("::1", "[::1]:8000", True),
        ("[::1]:8000", "[::1]:8000", True),
        ("no/network", "up.test", False),
        (",  ,", "up.test", False),
        (".", "up.test", False),
        ("", "up.test", False),
    ],
)
def test_an_exception_is_a_name_a_domain_or_a_network(exceptions: str, host: str, is_excepted: bool) -> None:
    assert needs_httpx(f"https://{host}/v1", {**PROXIES, "no_proxy": exceptions}, {}) is not is_excepted


def test_the_proxy_of_an_origin_is_told_as_it_is_written() -> None:
    environ = {"HTTPS_PROXY": " proxy.test:3128 ", "ALL_PROXY": "http://other.test", "NO_PROXY": "10.0.0.0/8"}
    assert proxy_for("https", "api.up.test", 443, environ) == "proxy.test:3128"
    assert proxy_for("http", "api.up.test", 80, environ) == "http://other.test"
    assert proxy_for("https", "10.1.2.3", 443, environ) == ""
    assert proxy_for("https", "api.up.test", 443, {}) == ""
