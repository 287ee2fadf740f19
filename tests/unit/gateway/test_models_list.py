"""The list of models (behaviour.md §1, §4)."""

import json
from functools import cache
from typing import Any

import pytest

from gomodel_trio.errors import ModelNotFound
from gomodel_trio.gateway.deployment import Deployment
from gomodel_trio.gateway.models_list import list_models, one_model
from gomodel_trio.wire.dialect import Dialect
from support.inprocess import make_deployment

ROUTES = '{"normal":{"easy":"a/m","hard":"pool"},"pool":{"easy":"a/m","hard":"a/n"}}'
VIRTUAL = [
    {"source": "pool", "target": "a/m"},
    {"source": "off", "target": "a/m", "enabled": False},
    {"source": "team", "target": "a/m", "user_paths": ["/team"]},
    {"source": "m", "target": "a/m", "user_paths": ["/team"]},
    {"source": "a/n", "target": "b/n"},
]
SECTIONS = {
    "providers": {
        "a": {
            "type": "openai_compatible",
            "base_url": "http://a.test/v1",
            "api_key": "k",
            "models": ["m", "n", {"id": "gone", "enabled": False}],
        },
        "b": {"type": "openai_compatible", "base_url": "http://b.test/v1", "api_key": "k", "models": ["m", "deep/id"]},
        "none": {"type": "openai", "models": ["unseen"]},
        "c": {"type": "openai_compatible", "base_url": "http://c.test/v1", "api_key": "k", "enabled": False, "models": ["unseen"]},
    }
}


@cache
def deployment(**variables: str) -> Deployment:
    return make_deployment({"PRO_SMART_ROUTING_ROUTES": ROUTES, "VIRTUAL_MODELS": json.dumps(VIRTUAL), **variables}, SECTIONS)


def names(user_path: str = "", **variables: str) -> list[str]:
    return [entry["id"] for entry in json.loads(list_models(deployment(**variables), user_path, Dialect.OPENAI))["data"]]


def one(name: str, user_path: str = "", dialect: Dialect = Dialect.OPENAI) -> Any:
    return json.loads(one_model(deployment(), user_path, dialect, name))


def test_aliases_come_first_then_virtual_models_then_the_providers_and_each_name_once() -> None:
    assert names() == ["normal", "pool", "a/n", "a/m", "b/m", "b/deep/id"]
    assert names("/team/app") == ["normal", "pool", "team", "m", "a/n", "a/m", "b/m", "b/deep/id"]


def test_aliases_that_are_switched_off_are_no_names() -> None:
    assert names(PRO_SMART_ROUTING_ENABLED="false") == ["pool", "a/n", "a/m", "b/m", "b/deep/id"]


def test_the_list_may_be_kept_to_the_operators_own_names() -> None:
    assert names(KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT="true") == ["normal", "pool", "a/n"]


def test_entries_in_either_dialect() -> None:
    assert one("b/deep/id") == {"id": "b/deep/id", "object": "model", "created": 1_700_000_000, "owned_by": "b"}
    assert one("normal")["owned_by"] == one("a/n")["owned_by"] == "gomodel"
    assert one("pool", dialect=Dialect.ANTHROPIC) == {
        "type": "model",
        "id": "pool",
        "display_name": "pool",
        "created_at": "2023-11-14T22:13:20Z",
    }


def test_a_list_of_anthropics_names_its_ends() -> None:
    listed = json.loads(list_models(deployment(), "", Dialect.ANTHROPIC))
    assert (listed["first_id"], listed["last_id"], listed["has_more"], len(listed["data"])) == ("normal", "b/deep/id", False, 6)


def test_an_empty_list_is_a_list() -> None:
    variables = {"KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT": "true"}
    assert json.loads(list_models(make_deployment(variables), "", Dialect.ANTHROPIC)) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize(("name", "owner"), [("deep/id", "b"), ("a/unlisted", "a"), ("n", "a"), ("openai_compatible/x", "a")])
def test_any_name_that_a_request_may_use_is_found(name: str, owner: str) -> None:
    assert one(name)["owned_by"] == owner


@pytest.mark.parametrize("name", ["nothing", "team", "m", "off", "nobody/m"])
def test_what_a_request_may_not_use_is_not_found(name: str) -> None:
    with pytest.raises(ModelNotFound):
        one(name)


def test_a_name_hidden_by_a_virtual_model_is_found_by_whom_that_allows() -> None:
    assert one("m", "/team")["owned_by"] == "gomodel"
