"""The generated documentation and the catalogue it comes from."""

from pathlib import Path

from gomodel_trio.config.catalogue import FAMILIES, VARIABLES, YAML_PATHS
from gomodel_trio.config.document import BEGIN, END, generate, insert_between_markers, render_env_md, render_readme_table
from gomodel_trio.config.foreign import FOREIGN_VARIABLES, LATER_VARIABLES
from gomodel_trio.config.provider_types import PROVIDER_TYPES, SUPPORTED_TYPES
from gomodel_trio.config.values import parse_value

ROOT = Path(__file__).parents[3]


def test_every_default_is_a_value_of_its_row() -> None:
    for row in VARIABLES.values():
        assert row.default is None or parse_value(row, row.default) is not None


def test_names_and_yaml_paths_are_unique_and_known_once() -> None:
    assert len(YAML_PATHS) == len([row for row in VARIABLES.values() if row.yaml])
    assert not VARIABLES.keys() & (FOREIGN_VARIABLES | LATER_VARIABLES)


def test_every_variable_and_type_is_documented() -> None:
    text = render_env_md()
    table = render_readme_table()
    for name in (*VARIABLES, *(family.pattern for family in FAMILIES)):
        assert text.count(f"| `{name}` |") == 1
        assert table.count(f"| `{name}` |") == 1
    for name in SUPPORTED_TYPES:
        assert text.count(f"| `{name}` | {PROVIDER_TYPES[name].dialect.value} |") == 1
    assert "`bedrock`" in text


def test_the_env_page_is_current() -> None:
    assert (ROOT / "spec" / "env.md").read_text(encoding="utf-8") == render_env_md()


def test_the_table_goes_between_the_markers() -> None:
    assert insert_between_markers(f"a\n{BEGIN}old{END}\nb", "| t |\n") == f"a\n{BEGIN}\n\n| t |\n\n{END}\nb"
    assert insert_between_markers(f"a {BEGIN} b", "t") is None
    assert insert_between_markers("a", "t") is None


def test_generating_writes_once_and_check_only_tells(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "README.md").write_text(f"# x\n{BEGIN}{END}\n")
    pages = {Path("spec/other.md"): "other\n"}
    assert generate(tmp_path, check=True, say=said.append, pages=pages) == 1
    assert said == ["spec/env.md: is not current", "spec/other.md: is not current", "README.md: is not current"]
    assert not (tmp_path / "spec").exists()
    said.clear()
    assert generate(tmp_path, check=False, say=said.append, pages=pages) == 0
    assert said == ["spec/env.md: written", "spec/other.md: written", "README.md: written"]
    said.clear()
    assert generate(tmp_path, check=True, say=said.append, pages=pages) == 0
    assert said == []


def test_a_readme_without_markers_or_none_at_all_is_left_alone(tmp_path: Path) -> None:
    said: list[str] = []
    assert generate(tmp_path, check=False, say=said.append) == 0
    (tmp_path / "README.md").write_text("# x\n")
    assert generate(tmp_path, check=True, say=said.append) == 0
    assert said == ["spec/env.md: written", f"README.md: has no {BEGIN} and {END}; its table is left out"]
