import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.config.confidential import confidential_texts
from gomodel_trio.config.load import load_settings


def texts(tmp_path: Path, provider: dict[str, Any], environ: dict[str, str] | None = None, **variables: str) -> frozenset[str]:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"providers": {"openai": {"type": "openai", **provider}}}), encoding="utf-8")
    return confidential_texts(load_settings(variables, config_file=file, env_file=None, cwd=tmp_path), environ or {})


def test_keys_and_the_master_key_are_confidential(tmp_path: Path) -> None:
    keys = {"api_keys": ["first-key", "second-key"]}
    assert texts(tmp_path, keys, GOMODEL_MASTER_KEY="master-key") == {"first-key", "second-key", "master-key"}


def test_a_proxys_credentials_are_as_written_and_decoded(tmp_path: Path) -> None:
    proxy = {"api_key": "k", "proxy_url": "http://me:pass%2Fword@proxy:1"}
    assert texts(tmp_path, proxy) == {"me:pass%2Fword", "pass%2Fword", "me:pass/word", "pass/word"}


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY"])
def test_so_are_those_of_the_proxies_of_the_process(tmp_path: Path, name: str) -> None:
    assert texts(tmp_path, {"api_key": "k"}, {name: "me:password@proxy:1", "OTHER": "me:otherword@x"}) == {"me:password", "password"}


@pytest.mark.parametrize("url", ["http://[bad", "proxy:3128", "", "http://proxy"])
def test_a_proxy_without_credentials_hides_nothing(tmp_path: Path, url: str) -> None:
    assert texts(tmp_path, {"api_key": "k"}, {"https_proxy": url}) == set()


@pytest.mark.parametrize("key", ["k", "seven77", "gpt-5-mini"])
def test_short_keys_and_those_that_are_names_hide_nothing(tmp_path: Path, key: str) -> None:
    assert texts(tmp_path, {"api_key": key, "models": ["gpt-5-mini-fast"]}) == set()
