"""Reads catalogued settings from the layers: variables over the YAML file over defaults.

Layer: config. Source: behaviour.md §10.
"""

from collections.abc import Mapping
from pathlib import Path

from gomodel_trio.config.catalogue import VARIABLES, Variable, VariableKind
from gomodel_trio.config.dotenv import read_dotenv
from gomodel_trio.config.env_providers import SECRET_FIELDS, parse_provider_variable
from gomodel_trio.config.environment import Variables
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.json_value import parse_json_variable
from gomodel_trio.config.located import Located
from gomodel_trio.config.unknown import is_gateway_variable
from gomodel_trio.config.values import Value, parse_value, read_scalar
from gomodel_trio.config.yaml_file import YamlDocument, expand_tree, read_yaml

_YAML_FILES = ("config/config.yaml", "config.yaml")
_DOTENV = ".env"


class Reader:
    """Reads catalogued settings: the variable, else the YAML value, else the default."""

    def __init__(self, variables: Variables, document: YamlDocument, findings: Findings) -> None:
        self.variables = variables
        self.document = document
        self.findings = findings

    def place(self, name: str) -> str:
        """Where the setting was given, or its variable's name."""
        if name in self.variables:
            return self.variables.place(name)
        path = VARIABLES[name].yaml
        item = self.document.find(path) if path else None
        return f"{name} ({item.place})" if item else name

    def is_given(self, name: str) -> bool:
        """Whether a variable or the YAML file gives the setting."""
        path = VARIABLES[name].yaml
        return name in self.variables or (path is not None and self.document.find(path) is not None)

    def value(self, name: str) -> Value | None:
        """The value; the default after a fault, so that reading can go on."""
        row = VARIABLES[name]
        text = self.variables.get(name)
        if text is not None:
            try:
                return parse_value(row, text)
            except ValueError as error:
                self.findings.fault(self.place(name), str(error))
                return _default(row)
        item = self.tree(row.yaml or "")
        found = read_scalar(row, item, self.findings) if item is not None else None
        return found if found is not None else _default(row)

    def tree(self, path: str, *, lenient: bool = False) -> Located | None:
        """The YAML value at a path with its references followed; None if it is absent."""
        item = self.document.find(path)
        if item is None:
            return None
        value = expand_tree(item, self.variables.get, self.findings, lenient=lenient)
        return None if value is None else Located(value, item.path, item.origin)

    def json(self, name: str) -> Located | None:
        """A JSON setting: the variable's, else the YAML value, which may be JSON in a string as well."""
        text = self.variables.get(name)
        if text is not None:
            return parse_json_variable(name, text, self.findings)
        item = self.tree(VARIABLES[name].yaml or "")
        if item is not None and isinstance(item.value, str):
            return parse_json_variable(item.path, item.value, self.findings, origin=item.origin)
        return item

    def flag(self, name: str) -> bool:
        """A bool."""
        return bool(self.value(name))

    def integer(self, name: str) -> int:
        """An int, or a size in bytes."""
        return int(self.value(name) or 0)

    def number(self, name: str) -> float:
        """A float, or a duration in seconds."""
        return float(self.value(name) or 0.0)

    def text(self, name: str) -> str:
        """A string, a choice or a secret; empty without one."""
        return str(self.value(name) or "")


def _default(row: Variable) -> Value | None:
    return None if row.default is None else parse_value(row, row.default)


def read_variables(environ: Mapping[str, str], env_file: Path | None, cwd: Path, findings: Findings) -> Variables:
    """Layer the environment over the env files and bring in secrets from files and references."""
    layers: list[tuple[str, Mapping[str, str]]] = []
    dotenv = cwd / _DOTENV
    if dotenv.is_file() and (env_file is None or not _is_same(dotenv, cwd / env_file)):
        layers.append((_DOTENV, read_dotenv(dotenv, _DOTENV, findings)))
    if env_file is not None:
        layers.append((str(env_file), read_dotenv(cwd / env_file, str(env_file), findings)))
    layers.append(("", environ))
    variables = Variables(layers)
    variables.drop_undecodable(is_gateway_variable, findings)
    variables.follow_references(_may_refer, findings)
    variables.read_secret_files(_is_secret, cwd, findings)
    variables.warn_of_quotes(_is_secret, findings)
    return variables


def _is_same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


def _is_secret(name: str) -> bool:
    row = VARIABLES.get(name)
    if row is not None:
        return row.kind is VariableKind.SECRET
    parsed = parse_provider_variable(name)
    return parsed is not None and parsed.field in SECRET_FIELDS


def _may_refer(name: str) -> bool:
    """JSON keeps its text; everything else of ours may be a reference."""
    return is_gateway_variable(name) and (name not in VARIABLES or VARIABLES[name].kind is not VariableKind.JSON)


def read_document(config_file: Path | None, cwd: Path, findings: Findings) -> YamlDocument:
    """The YAML file: the one asked for, else the first there is, else an empty one."""
    if config_file is not None:
        return read_yaml(cwd / config_file, str(config_file), findings)
    found = [name for name in _YAML_FILES if (cwd / name).is_file()]
    if not found:
        return YamlDocument(_YAML_FILES[0], {}, {})
    for name in found[1:]:
        findings.warn(name, f"is not read, because {found[0]} is")
    return read_yaml(cwd / found[0], found[0], findings)
