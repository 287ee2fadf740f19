"""Routing and the adapters must agree on who speaks what (behaviour.md §7)."""

import pytest

from gomodel_trio.config.provider_types import SUPPORTED_TYPES
from gomodel_trio.config.provider_view import provider_views
from gomodel_trio.upstream.providers.table import adapter_for
from gomodel_trio.wire.dialect import Api, Dialect
from support.inprocess import make_settings


@pytest.mark.parametrize("kind", SUPPORTED_TYPES)
def test_routing_knows_the_dialects_an_adapter_speaks(kind: str) -> None:
    settings = make_settings({}, {"providers": {"p": {"type": kind, "api_key": "k", "base_url": "http://up.test/v1"}}}).providers
    view = provider_views(settings)["p"]
    for dialect, api in ((Dialect.OPENAI, Api.EMBEDDINGS), (Dialect.ANTHROPIC, Api.COUNT_TOKENS)):  # what is not translated
        assert view.speaks(dialect) is (adapter_for(settings["p"]).asks_in(api, "m") is not None)
    assert view.speaks(None)
