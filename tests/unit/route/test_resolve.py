"""Names of concrete models."""

import pytest

from gomodel_trio.route.policy import Provider
from gomodel_trio.route.resolve import resolve_concrete
from gomodel_trio.wire.dialect import Dialect


def provider(name: str, kind: str, *models: str, is_available: bool = True) -> Provider:
    return Provider(name, kind, Dialect.OPENAI, is_available, models)


PROVIDERS = {
    each.name: each
    for each in (
        provider("down", "openai", "shared", "only-down", is_available=False),
        provider("east", "openai", "shared", "meta/llama"),
        provider("west", "openai", "shared"),
        provider("router", "openrouter", "router/auto", "openai/gpt"),
        provider("off-a", "groq", is_available=False),
        provider("off-b", "groq", is_available=False),
    )
}


@pytest.mark.parametrize(
    ("name", "expect"),
    [
        ("west/anything", "west/anything"),
        ("west/a/b", "west/a/b"),
        ("openai/gpt", "east/gpt"),
        ("openrouter/x", "router/x"),
        ("groq/x", "off-a/x"),
        ("down/x", "down/x"),
        ("shared", "east/shared"),
        ("only-down", "down/only-down"),
        ("meta/llama", "east/meta/llama"),
        ("meta/other", None),
        ("unlisted", None),
        ("west/", None),
        ("/x", None),
        ("", None),
    ],
)
def test_a_name_goes_by_provider_then_type_then_list(name: str, expect: str | None) -> None:
    assert resolve_concrete(PROVIDERS, name) == expect


@pytest.mark.parametrize(
    ("name", "at", "expect"),
    [
        ("anything", "west", "west/anything"),
        ("meta/llama", "west", "west/meta/llama"),
        ("west/x", "west", "west/x"),
        ("openai/x", "openai", "east/x"),
        ("router/auto", "router", "router/router/auto"),
        ("x", "openrouter", "router/x"),
        ("x", "nobody", None),
        ("", "west", None),
        ("west/", "west", "west/west/"),
    ],
)
def test_with_a_provider_the_model_may_be_anything(name: str, at: str, expect: str | None) -> None:
    assert resolve_concrete(PROVIDERS, name, at) == expect


def test_a_bare_name_goes_to_who_speaks_the_dialect() -> None:
    providers = {
        "down": Provider("down", "anthropic", Dialect.ANTHROPIC, False, ("m",)),
        "one": Provider("one", "openai", Dialect.OPENAI, True, ("m", "only")),
        "two": Provider("two", "anthropic", Dialect.ANTHROPIC, True, ("m",)),
    }
    found = [resolve_concrete(providers, "m", dialect=dialect) for dialect in (None, Dialect.OPENAI, Dialect.ANTHROPIC)]
    assert found == ["one/m", "one/m", "two/m"]
    assert resolve_concrete(providers, "only", dialect=Dialect.ANTHROPIC) == "one/only"
