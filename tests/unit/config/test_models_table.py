"""The targets that the configuration knows, as rows and as lines."""

from pathlib import Path

from gomodel_trio.config.load import load_settings
from gomodel_trio.config.models_table import ModelRow, list_models, table_lines

_YAML = """
providers:
  local:
    type: vllm
    base_url: http://h:8000/v1
    models: [{id: a, pricing: {input_per_mtok: 0.25, output_per_mtok: 12}}, b, {id: c, enabled: false}]
  anthropic:
virtual_models:
  - {source: pool, targets: [{model: local/a}, {model: anthropic/unheard-of}, {model: nowhere}]}
  - {source: outer, targets: [{model: pool}, {model: b}]}
"""


def rows(cwd: Path) -> list[ModelRow]:
    (cwd / "config.yaml").write_text(_YAML, encoding="utf-8")
    environ = {"PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"b","hard":"pool"}}'}
    return list_models(load_settings(environ, config_file=None, env_file=None, cwd=cwd))


def test_every_target_has_a_row_with_its_price_and_who_uses_it(tmp_path: Path) -> None:
    a, b, c, last = rows(tmp_path)
    assert (a.target, a.provider, a.model, a.type, a.dialect) == ("local/a", "local", "a", "vllm", "openai")
    assert (a.input_usd_per_mtok, a.output_usd_per_mtok, a.price_from) == (0.25, 12.0, "configuration")
    assert (a.available, a.why_unavailable, a.used_by) == (True, None, ("pool",))
    assert (b.target, b.input_usd_per_mtok, b.output_usd_per_mtok, b.price_from) == ("local/b", None, None, None)
    assert b.used_by == ("outer", "normal")
    assert (c.target, c.available, c.why_unavailable) == ("local/c", False, "The model is disabled in the gateway's configuration.")
    assert (last.target, last.available, last.used_by) == ("anthropic/unheard-of", False, ("pool",))
    assert last.why_unavailable is not None
    assert "ANTHROPIC_API_KEY" in last.why_unavailable


def test_the_table_has_columns_and_no_blanks_at_the_end(tmp_path: Path) -> None:
    assert table_lines(rows(tmp_path)[:3]) == [
        "TARGET   TYPE  DIALECT  INPUT  OUTPUT  PRICE FROM     USED BY        AVAILABLE",
        "local/a  vllm  openai    0.25      12  configuration  pool           yes",
        "local/b  vllm  openai       -       -  none           outer, normal  yes",
        "local/c  vllm  openai       -       -  none           -              no: The model is disabled in the gateway's configuration.",
        "INPUT and OUTPUT are USD per million tokens.",
    ]


def test_without_models_it_says_so() -> None:
    assert table_lines([]) == ["No models are known: list some under a provider, or name them in a virtual model or an alias."]
