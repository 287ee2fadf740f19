"""Names that the configuration gives and this version does not read: misspelt ones, GoModel's own, and what must not be there.

Layer: config. Source: behaviour.md §10 (unknown YAML keys are errors, GoModel's own only warn by name).
"""

import re

from gomodel_trio.config.catalogue import VARIABLES, YAML_PATHS
from gomodel_trio.config.env_providers import parse_provider_variable
from gomodel_trio.config.environment import Variables
from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.foreign import (
    FOREIGN_KEYS,
    FOREIGN_PREFIXES,
    FOREIGN_PROVIDER_FIELDS,
    FOREIGN_SECTIONS,
    FOREIGN_VARIABLES,
    LATER_PREFIXES,
    LATER_SECTIONS,
    LATER_VARIABLES,
)
from gomodel_trio.config.located import Located, kind_of
from gomodel_trio.config.provider_types import TYPES_BY_VARIABLE

_OUR_PREFIXES = ("PRO_SMART_ROUTING_", "PRO_ROUTING_", "SESSION_HEADER_", "GOMODEL_", "FAILOVER_", "RETRY_", "CIRCUIT_BREAKER_")
"""A variable that begins so is meant for a gateway: not knowing it is worth a line."""
_PASSED_OVER = ("GOMODEL_TRIO_",)
_SESSION_HEADER = re.compile(r"SESSION_HEADER_\d{1,6}(_TRANSFORM)?", re.ASCII)
_STEM = re.compile(r"_(?:\d+|FILE)$")
_LEAST_SIMILAR = 8
"""Shorter names resemble each other by chance."""
_LATER = "comes in a later version: ignored"
_FOREIGN = "is GoModel's and not in this version: ignored"
_WHOLE_LISTS = frozenset({"providers", "virtual_models", "smart_routing.routes", "smart_routing.keywords", "session.headers"})
"""Paths that have readers of their own, which check the keys under them."""
_LEAVES = frozenset(YAML_PATHS) | _WHOLE_LISTS
_SECTIONS = frozenset(path[:index] for path in _LEAVES for index, character in enumerate(path) if character == ".")


def warn_of_variables(variables: Variables, findings: Findings) -> None:
    """Warn of every variable that looks meant for the gateway and is not read by it."""
    for name in variables.names:
        message = _variable_message(name)
        if message:
            findings.warn(name, message)


def is_gateway_variable(name: str) -> bool:
    """Whether this version reads a variable of that name."""
    stem = _STEM.sub("", name)
    return name in VARIABLES or stem in VARIABLES or bool(_SESSION_HEADER.fullmatch(name)) or parse_provider_variable(stem) is not None


def check_yaml_keys(item: Located, findings: Findings, path: str = "") -> None:
    """Walk the sections of the YAML file: an unknown key is a fault, one of GoModel's a warning."""
    if not isinstance(item.value, dict):
        findings.fault(item.place, f"must be a section with keys, not {kind_of(item.value)}")
        return
    for key, value in item.value.items():
        each, here = item.child(key, value), f"{path}.{key}" if path else key
        if here in _LEAVES or (value is None and here in _SECTIONS):
            continue
        if here in _SECTIONS:
            check_yaml_keys(each, findings, here)
        elif (not path and key in LATER_SECTIONS) or key in FOREIGN_KEYS.get(path, ()) or (not path and key in FOREIGN_SECTIONS):
            findings.warn(each.place, _LATER if key in LATER_SECTIONS and not path else _FOREIGN)
        else:
            findings.fault(each.place, f"unknown key {shown(key)}" + did_you_mean(key, _siblings(path)))


def _siblings(path: str) -> set[str]:
    """The keys of ours directly under a path."""
    prefix = f"{path}." if path else ""
    return {full.removeprefix(prefix).partition(".")[0] for full in _LEAVES if full.startswith(prefix)}


def _variable_message(name: str) -> str | None:
    """What to say of a variable; None if it is read, or none of our business."""
    if name == "GOMODEL_PRO_LICENSE":
        return "is ignored: there is no licence, everything is on"
    if name == "PROMETHEUS_MULTIPROC_DIR":
        return "is ignored: the gateway is one process and serves its own counters"
    if is_gateway_variable(name) or name.startswith(_PASSED_OVER):
        return None
    if name in LATER_VARIABLES or name.startswith(LATER_PREFIXES):
        return _LATER
    if name in FOREIGN_VARIABLES or name.startswith(FOREIGN_PREFIXES) or _is_foreign_provider_field(name):
        return _FOREIGN
    near = next((known for known in VARIABLES if len(name) >= _LEAST_SIMILAR and _is_near(name, known)), None)
    if near is None and not name.startswith(_OUR_PREFIXES):
        return None
    return "is no variable of the gateway" + (f"; did you mean {near!r}?" if near else did_you_mean(name, VARIABLES))


def _is_near(name: str, known: str) -> bool:
    """Whether two names differ by a letter or two, underscores apart."""
    return abs(len(known) - len(name)) <= 2 and _distance_is_small(name.replace("_", ""), known.replace("_", ""))


def _distance_is_small(first: str, second: str) -> bool:
    """At most two characters are in another place: the common start and end cover the rest."""
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start]:
        start += 1
    end = 0
    while end < min(len(first), len(second)) - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return max(len(first), len(second)) - start - end <= 2


def _is_foreign_provider_field(name: str) -> bool:
    return name.endswith(tuple("_" + field for field in FOREIGN_PROVIDER_FIELDS)) and any(
        name.startswith(row.variable + "_") for row in TYPES_BY_VARIABLE
    )
