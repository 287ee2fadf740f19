"""What upstreams must not tell: the configured secrets and the provider's address (behaviour.md §9)."""

from typing import Any

import pytest

from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.gateway.redaction import NOTHING_PRIVATE, Redactor
from gomodel_trio.wire.dialect import Dialect


def redactor(*keys: str, master: str | None = None, base_url: str = "", **more: Any) -> Redactor:
    provider = ProviderSettings(
        name="p", type="openai", dialect=Dialect.OPENAI, base_url=base_url, api_keys=tuple(Secret(key) for key in keys), **more
    )
    return Redactor(Secret(master) if master else None, provider)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key sk-first-key.", "key [REDACTED]."),
        ("sk-first-keysk-second-key", "[REDACTED][REDACTED]"),
        ("master the-master-key", "master [REDACTED]"),
        ("at http://gpu-1:8000/v1/chat", "at [REDACTED]/chat"),
        ("at http://gpu-1:8000/other", "at [REDACTED]/other"),
        ("Host gpu-1:8000 refused", "Host [REDACTED] refused"),
        (r"http:\/\/gpu-1:8000\/v1", "[REDACTED]"),
        ("gpu-1 and 8000 alone, sk-first", "gpu-1 and 8000 alone, sk-first"),
        ("\ud800 sk-first-key", "\ud800 [REDACTED]"),
    ],
)
def test_secrets_and_addresses_are_taken_out(text: str, left: str) -> None:
    found = redactor("sk-first-key", "sk-second-key", master="the-master-key", base_url="http://gpu-1:8000/v1")
    assert found.text(text) == left


def test_an_address_without_a_port_is_known_by_its_scheme_or_the_usual_port() -> None:
    found = redactor(base_url="https://api.test/v1")
    assert found.text("https://api.test/v1 api.test:443 see https://docs.api.test") == "[REDACTED] [REDACTED] see https://docs.api.test"
    assert found.text("write to help@api.test") == "write to help@api.test"


def test_a_secret_is_found_as_json_spells_it() -> None:
    assert redactor('quote"back\\slash').data(b'{"k":"quote\\"back\\\\slash"}') == b'{"k":"[REDACTED]"}'


@pytest.mark.parametrize(
    ("key", "text", "left"),
    [
        ("sk-up", "sk-up, xsk-up, sk-upper", "[REDACTED], xsk-up, sk-upper"),
        ("ollama", "ollama", "ollama"),
        ("k-1", "k-1", "k-1"),
        ("abcdefgh", "xabcdefghx", "x[REDACTED]x"),
    ],
)
def test_a_short_secret_counts_only_where_it_stands_alone(key: str, text: str, left: str) -> None:
    assert redactor(key).text(text) == left


def test_headers_that_hold_a_secret_are_dropped() -> None:
    found = redactor("sk-first-key")
    assert found.headers([(b"a", b"1"), (b"x-echo", b"Bearer sk-first-key"), (b"x-sk-first-key", b""), (b"b", b"2")]) == [
        (b"a", b"1"),
        (b"b", b"2"),
    ]


def test_a_proxys_password_and_the_providers_own_credentials_are_secrets_too() -> None:
    found = redactor(
        proxy_url=Secret("http://user:pass-word-1@proxy:3128"), headers=(("x-auth-token", "token-of-ours"), ("x-team", "team-of-ours"))
    )
    assert found.text("pass-word-1 proxy:3128 token-of-ours team-of-ours") == "[REDACTED] [REDACTED] [REDACTED] team-of-ours"


def test_without_secrets_everything_passes() -> None:
    assert NOTHING_PRIVATE.data(b"x") == b"x"
    assert NOTHING_PRIVATE.text("x") == "x"
    assert NOTHING_PRIVATE.is_clean(b"x")
    assert redactor(master=None, base_url="nowhere").text("nowhere") == "nowhere"
