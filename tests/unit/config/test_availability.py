"""Why a provider cannot be asked (behaviour.md §4)."""

from typing import Any

import pytest

from gomodel_trio.config.availability import why_unavailable
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.wire.dialect import Dialect


@pytest.mark.parametrize(
    ("name", "kind", "more", "words"),
    [
        ("openai", "openai", {}, "set OPENAI_API_KEY."),
        ("openai-east", "openai", {}, "set OPENAI_EAST_API_KEY."),
        ("mine", "openai", {}, "set providers.mine.api_key."),
        ("openai-é", "openai", {}, "set providers.openai-é.api_key."),
        ("openai", "openai", {"enabled": False}, "is disabled"),
        ("vertex", "vertex", {}, "not in this version"),
        ("azure", "azure", {"api_keys": (Secret("k"),)}, "has no base URL"),
        ("local", "openai_compatible", {}, "has no base URL"),
    ],
)
def test_what_is_lacking_is_told(name: str, kind: str, more: dict[str, Any], words: str) -> None:
    provider = ProviderSettings(name=name, type=kind, dialect=Dialect.OPENAI, base_url="", is_available=False, **more)
    told = why_unavailable(provider)
    assert words in told
    assert repr(name) in told
