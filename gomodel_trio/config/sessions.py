"""The operator's session headers, from `SESSION_HEADER_<N>` and YAML; headers that carry credentials are refused.

Layer: config. Source: behaviour.md §2 (a session id is stored and shown, a credential must not be).
"""

import itertools
import re
from typing import Literal

from gomodel_trio.config.environment import Variables
from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.located import Located, check_keys, items_of, members_of, text_of
from gomodel_trio.route.session import ExtraHeader

_VARIABLE = re.compile(r"SESSION_HEADER_(\d{1,6})(_TRANSFORM)?", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_CREDENTIAL_WORDS = frozenset(
    {
        *("auth", "authorization", "authentication", "apikey", "token", "secret", "password", "passwd", "cookie", "bearer", "jwt"),
        *("credential", "credentials", "signature"),
    }
)
_CREDENTIAL_PAIRS = frozenset({("api", "key"), ("access", "key"), ("subscription", "key"), ("private", "key"), ("master", "key")})


def is_credential_header(name: str) -> bool:
    """Whether a header of that name carries a credential: `Authorization`, `x-api-key`, `Cookie`, `X-Auth-Token`, …"""
    words = re.split(r"[-_.]", name.lower())
    return not _CREDENTIAL_WORDS.isdisjoint(words) or any(pair in _CREDENTIAL_PAIRS for pair in itertools.pairwise(words))


def is_header_name(name: str) -> bool:
    """Whether `name` can be a header's (RFC 9110 token)."""
    return bool(_TOKEN.fullmatch(name))


def read_session_headers(variables: Variables, yaml_headers: Located | None, findings: Findings) -> tuple[ExtraHeader, ...]:
    """Read the extra session headers: variables by number, then those of the YAML file; the first of a name counts."""
    headers: dict[str, ExtraHeader] = {}
    for header in (*_from_variables(variables, findings), *_from_yaml(yaml_headers, findings)):
        headers.setdefault(header.name, header)
    return tuple(headers.values())


def _from_variables(variables: Variables, findings: Findings) -> list[ExtraHeader]:
    matches = [match for name in variables.names if (match := _VARIABLE.fullmatch(name))]
    found: list[tuple[int, ExtraHeader]] = []
    for match in matches:
        name, number = match[0], int(match[1])
        if match[2]:
            if match[0].removesuffix("_TRANSFORM") not in variables:
                findings.warn(name, f"has no effect without SESSION_HEADER_{match[1]}")
            continue
        transform_name = f"{name}_TRANSFORM"
        header = _header(name, variables.get(name) or "", transform_name, variables.get(transform_name) or "", findings)
        if header is not None:
            found.append((number, header))
    return [header for _, header in sorted(found, key=lambda pair: pair[0])]


def _from_yaml(item: Located | None, findings: Findings) -> list[ExtraHeader]:
    found = []
    for each in (items_of(item, findings) or []) if item is not None else []:
        if isinstance(each.value, str):
            each_name, transform, name = each, "", text_of(each, findings)
            transform_place = each.place
        else:
            members = members_of(each, findings, "an object with 'header'")
            if members is None:
                continue
            check_keys(members, ("header", "transform"), (), findings)
            if "header" not in members:
                findings.fault(each.place, "needs a 'header'")
                continue
            each_name, name = members["header"], text_of(members["header"], findings)
            wanted = members.get("transform")
            transform_place = wanted.place if wanted else each.place
            transform = str(wanted.value).strip() if wanted and wanted.value is not None else ""
        header = _header(each_name.place, name, transform_place, transform, findings) if name else None
        if header is not None:
            found.append(header)
    return found


def _header(place: str, name: str, transform_place: str, transform: str, findings: Findings) -> ExtraHeader | None:
    """Check one header; None after a fault."""
    if not is_header_name(name):
        findings.fault(place, f"{shown(name)} is no header name")
        return None
    if is_credential_header(name):
        findings.fault(place, f"{shown(name)} carries a credential; a session id is stored and shown, so it cannot come from there")
        return None
    checked: Literal["", "session-uuid"] | None = "session-uuid" if transform == "session-uuid" else "" if not transform else None
    if checked is None:
        findings.fault(
            transform_place, f"must be session-uuid or empty, not {shown(transform)}" + did_you_mean(transform, ["session-uuid"])
        )
        return None
    return ExtraHeader(name.lower(), checked)
