"""Who may use the admin API (behaviour.md §9)."""

import pytest

from gomodel_trio.errors import Forbidden
from gomodel_trio.gateway.admin_door import admit
from gomodel_trio.gateway.auth import MasterKey
from support.inprocess import FakeRequest

OPEN = MasterKey(None)


def asked(peer: str = "127.0.0.1", host: str | None = "127.0.0.1:8080", **headers: str) -> FakeRequest:
    hosts = [] if host is None else [(b"host", host.encode())]
    request = FakeRequest(
        "GET", "/admin/routing", [*hosts, *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())]
    )
    request.peer = peer
    return request


@pytest.mark.parametrize(
    "request_",
    [
        asked(),
        asked("127.8.9.1"),
        asked("::1", "[::1]:8080"),
        asked("::ffff:127.0.0.1"),
        asked(host="localhost:8080"),
        asked(host="LOCALHOST"),
        asked(host="192.0.2.7:8080"),
        asked(host=None),
        asked(host="localhost:8080", origin="http://localhost:8080"),
        asked(host="localhost", origin="http://localhost"),
        asked(host="localhost:443", origin="https://localhost"),
        asked(host="[::1]:8080", origin="http://[::1]:8080"),
    ],
)
def test_without_a_key_this_machine_may_ask(request_: FakeRequest) -> None:
    admit(request_, OPEN)


@pytest.mark.parametrize(
    "request_",
    [
        asked("192.0.2.1"),
        asked("2001:db8::1"),
        asked("::ffff:192.0.2.1"),
        asked(""),
        asked("localhost"),
        asked(x_forwarded_for="127.0.0.1"),
        asked(x_forwarded_host="127.0.0.1"),
        asked(forwarded="for=127.0.0.1"),
        asked(via="1.1 proxy"),
        asked(x_real_ip="192.0.2.1"),
    ],
)
def test_without_a_key_nobody_else_may_a_proxy_on_this_machine_included(request_: FakeRequest) -> None:
    with pytest.raises(Forbidden, match="Without a master key /admin is for this machine only") as caught:
        admit(request_, OPEN)
    assert (caught.value.status, caught.value.code) == (403, "admin_is_local")


@pytest.mark.parametrize(
    "host", ["rebound.example:8080", "127.0.0.1.example", "localhost.example", "localhost@rebound.example", "", "[::1", "x:y"]
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Forbidden) as caught:
        admit(asked(host=host), OPEN)
    assert caught.value.code == "admin_host"


@pytest.mark.parametrize(
    "origin",
    [
        "http://site.example",
        "http://localhost:3000",
        "https://localhost:8080.example",
        "http://127.0.0.1:8080",
        "null",
        "",
        "localhost:8080",
        "http://localhost",
    ],
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    with pytest.raises(Forbidden) as caught:
        admit(asked(host="localhost:8080", origin=origin), OPEN)
    assert caught.value.code == "admin_origin"


def test_with_a_key_the_key_decides() -> None:
    admit(asked("192.0.2.1", "gateway.example", origin="https://console.example", x_forwarded_for="192.0.2.9"), MasterKey("gw-key"))
