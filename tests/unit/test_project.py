"""The project's own files agree with each other and with the code."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "gomodel_trio"
IMPORT_NAMES = {"pyyaml": "yaml"}
PINS = dict(
    line.split("==") for line in (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
)


def bounds(extra: str | None = None) -> dict[str, str]:
    """Name → specifier of the dependencies, or of an extra's."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {match[1]: match[2] for match in (re.fullmatch(r"([a-z0-9-]+)(.*)", each) for each in wanted) if match}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def test_the_package_imports_nothing_that_is_not_declared() -> None:
    allowed = {"gomodel_trio", *sys.stdlib_module_names, *(IMPORT_NAMES.get(name, name.replace("-", "_")) for name in bounds())}
    imported = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0]: path for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported[node.module.partition(".")[0]] = path
    assert {name: str(path) for name, path in imported.items() if name not in allowed} == {}


@pytest.mark.parametrize("extra", [None, "dev"])
def test_every_dependency_has_a_lower_bound_and_a_pin_at_or_above_it(extra: str | None) -> None:
    for name, specifier in bounds(extra).items():
        match = re.match(r">=([\d.]+)", specifier)
        assert match, name
        assert numbers(PINS[name]) >= numbers(match[1]), name


def test_pins_are_exact_and_sorted_and_name_no_host() -> None:
    assert list(PINS) == sorted(PINS, key=lambda name: f"{name}==")
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in PINS.values())
    assert "://" not in (PROJECT / "constraints.txt").read_text(encoding="utf-8")


def test_every_dependency_has_its_reason() -> None:
    reasons = (PROJECT / "spec" / "decisions.md").read_text(encoding="utf-8")
    assert [name for name in bounds() if f"| {name} |" not in reasons] == []


def test_the_version_has_its_section_in_the_changelog() -> None:
    version = re.search(r'__version__ = "([^"]+)"', (PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    assert version
    assert f"\n## {version[1]}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "spec/decisions.md"])
def test_links_and_scripts_that_the_pages_name_exist(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    linked = [PROJECT / Path(name).parent / target for target in re.findall(r"\]\(([^):#]+)\)", text)]
    named = [PROJECT / script for script in re.findall(r"\bscripts/[a-z_]+\b(?!/)", text)]
    assert [str(path) for path in (*linked, *named) if not path.exists()] == []


def test_scripts_can_be_run() -> None:
    scripts = [*(PROJECT / "scripts").iterdir(), PROJECT / ".ci" / "run"]
    for script in scripts:
        if script.is_file():
            assert script.stat().st_mode & 0o111, script.name
            assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env "), script.name
