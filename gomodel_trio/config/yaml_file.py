"""The YAML file as a tree of plain values with line numbers; duplicate keys, odd tags and bombs are faults.

Layer: config. Source: behaviour.md §10, §7 (`${VAR}` in values). Keys are taken as written, so `on:` stays `on`; dates stay strings.
"""

from pathlib import Path
from typing import NoReturn

import yaml

from gomodel_trio.config.expand import Lookup, ReferenceFault, UnsetReference, expand
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.located import ExpandedText, Located

_LARGEST_BYTES = 1 << 20
_MOST_NODES = 50_000
"""Values in one file, aliases counted each time: a page of anchors must not become gigabytes."""
_DEEPEST = 40
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null", "seq", "map"))


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates: `api_version: 2024-10-21` is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TAG + "timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class YamlDocument:
    """A parsed file: `root` is the mapping at the top; places name the file, the path and the line."""

    def __init__(self, label: str, values: dict[str, object], lines: dict[str, int]) -> None:
        self._label = label
        self._lines = lines
        self.values = values

    @property
    def root(self) -> Located:
        """The whole mapping."""
        return Located(self.values, "", self)

    def place(self, path: str) -> str:
        """`config.yaml: server.port (line 3)`."""
        line = self._lines.get(path)
        return f"{self._label}: {path}" + (f" (line {line})" if line else "")

    def find(self, path: str) -> Located | None:
        """The value at a dotted path, None if it is absent or null."""
        item = self.root
        for key in path.split("."):
            if not isinstance(item.value, dict) or item.value.get(key) is None:
                return None
            item = item.child(key, item.value[key])
        return item


class _Unreadable(Exception):
    """The file cannot be read as configuration at all; the fault has been noted."""


def read_yaml(path: Path, label: str, findings: Findings) -> YamlDocument:
    """Read a YAML file; an empty document stands for one that is empty or has a fault that hides the rest."""
    empty = YamlDocument(label, {}, {})
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        findings.fault(label, f"cannot be read: {error.strerror}")
        return empty
    if len(content) > _LARGEST_BYTES:
        findings.fault(label, "is larger than 1 MiB")
        return empty
    return parse_yaml(content, label, findings)


def parse_yaml(content: bytes, label: str, findings: Findings) -> YamlDocument:
    """Parse the bytes of a YAML file."""
    empty = YamlDocument(label, {}, {})
    try:
        loader = _Loader(content)
        try:
            node = loader.get_single_node()
            if node is None:
                return empty
            tree = _Tree(loader, label, findings)
            values = tree.value(node, "", ())
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        findings.fault(label + at, f"is no valid YAML: {error.problem or error.context or 'syntax error'}")
        return empty
    except yaml.YAMLError as error:
        findings.fault(label, f"is no valid YAML: {str(error).splitlines()[0]}")
        return empty
    except RecursionError:
        findings.fault(label, "is nested too deeply")
        return empty
    except _Unreadable:
        return empty
    if values is None:
        return empty
    if not isinstance(values, dict):
        findings.fault(label, "must be a mapping of sections at the top, such as 'server:'")
        return empty
    return YamlDocument(label, values, tree.lines)


def expand_tree(item: Located, lookup: Lookup, findings: Findings, *, lenient: bool = False) -> object:
    """Follow the references in every string under `item`.

    With `lenient` a value that refers to an unset variable becomes None with a warning instead of a fault: a file that is shared
    by several places names providers that not all of them have.
    """
    value = item.value
    if isinstance(value, dict):
        return {key: expand_tree(item.child(key, inner), lookup, findings, lenient=lenient) for key, inner in value.items()}
    if isinstance(value, list):
        return [expand_tree(item.child(index, inner), lookup, findings, lenient=lenient) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        return ExpandedText(expand(value, lookup))
    except UnsetReference as error:
        if lenient:
            findings.warn(item.place, f"{error}: taken as not given")
        else:
            findings.fault(item.place, f"{error}; write ${{NAME:-}} for an empty one")
    except ReferenceFault as error:
        findings.fault(item.place, str(error))
    return None


class _Tree:
    """Turns nodes into values, noting the line of each path."""

    def __init__(self, loader: _Loader, label: str, findings: Findings) -> None:
        self._loader = loader
        self._label = label
        self._findings = findings
        self._nodes_left = _MOST_NODES
        self.lines: dict[str, int] = {}

    def value(self, node: yaml.Node, path: str, above: tuple[int, ...]) -> object:
        """The value of `node`; `above` are the ids of the nodes it stands in."""
        self._nodes_left -= 1
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if self._nodes_left < 0 or len(above) > _DEEPEST or id(node) in above:
            self._refuse(line, "has too many values, is nested too deeply, or an anchor refers to itself")
        if node.tag not in _PLAIN_TAGS:
            self._refuse(line, f"{path or 'the top'} has a tag that is not allowed here: {node.tag}")
        inner = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, inner)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, f"{path}[{index}]", inner) for index, each in enumerate(node.value)]
        try:
            value: object = self._loader.construct_object(node)
        except ValueError:
            self._refuse(line, f"{path} is no usable number")
        return value.strip("\ufeff") if isinstance(value, str) else value

    def _mapping(self, node: yaml.MappingNode, path: str, above: tuple[int, ...]) -> dict[str, object]:
        """The members of a mapping; those of a merge key `<<` only where the mapping has none of its own."""
        own: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        seen_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(line, f"{path or 'the top'}: a key must be a plain word")
            key = str(key_node.value)
            if key_node.tag == _TAG + "merge":
                merged += self._merged(value_node, path, above)
                continue
            here = f"{path}.{key}" if path else key
            if key in seen_line:
                self._findings.fault(f"{self._label}: {here} (line {line})", f"the key is given twice, first in line {seen_line[key]}")
            seen_line.setdefault(key, line)
            self.lines[here] = line
            own[key] = self.value(value_node, here, above)
        for each in merged:
            own = {**each, **own}
        return own

    def _merged(self, node: yaml.Node, path: str, above: tuple[int, ...]) -> list[dict[str, object]]:
        """The mappings a merge key brings in, the weightiest first."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values = [self.value(each, path, above) for each in nodes]
        if not all(isinstance(value, dict) for value in values):
            self._refuse(node.start_mark.line + 1, f"{path or 'the top'}: '<<' must name a mapping")
        return [value for value in values if isinstance(value, dict)]

    def _refuse(self, line: int, message: str) -> NoReturn:
        self._findings.fault(f"{self._label} line {line}", message)
        raise _Unreadable
