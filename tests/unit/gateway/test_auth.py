"""The master key (behaviour.md §9)."""

import pytest

from gomodel_trio.errors import Unauthenticated
from gomodel_trio.gateway.auth import MasterKey

KEY = MasterKey("gw-secret")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer gw-secret")],
        [(b"authorization", b"bearer  gw-secret ")],
        [(b"x-api-key", b"gw-secret")],
        [(b"authorization", b"Bearer sk-of-a-provider"), (b"x-api-key", b"gw-secret")],
    ],
)
def test_the_key_lets_a_request_pass_by_either_header(headers: list[tuple[bytes, bytes]]) -> None:
    KEY.check(headers)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Basic gw-secret")],
        [(b"authorization", b"gw-secret")],
        [(b"x-api-key", b"gw-secret2")],
        [(b"x-api-key", b"")],
        [(b"api-key", b"gw-secret")],
        [(b"cookie", b"gw-secret")],
    ],
)
def test_without_the_key_nobody_passes_and_nothing_sent_is_repeated(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthenticated) as caught:
        KEY.check(headers)
    assert caught.value.status == 401
    assert "gw-secret" not in caught.value.message


def test_a_gateway_without_a_key_is_open() -> None:
    open_gateway = MasterKey(None)
    assert not open_gateway.is_set
    open_gateway.check([])


def test_a_key_beyond_ascii_is_compared_as_utf8() -> None:
    MasterKey("schlüssel").check([(b"x-api-key", "schlüssel".encode())])
