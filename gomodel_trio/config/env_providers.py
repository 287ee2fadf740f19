"""Providers as variables declare them: `<TYPE>[_SUFFIX]_API_KEY`, `_API_KEY_2`…, `_BASE_URL`, `_MODELS`, `_HTTP2` and so on; `ECHO_…`.

Layer: config. Source: behaviour.md §7 (the longest type name wins; a suffix becomes part of the provider's name, hyphenated).
"""

import re
from dataclasses import dataclass

from gomodel_trio.config.catalogue import ECHO_FIELDS, Variable, VariableKind
from gomodel_trio.config.environment import Variables
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.model_entries import read_models_text
from gomodel_trio.config.provider_entries import Declared
from gomodel_trio.config.provider_types import PROVIDER_TYPES, TYPES_BY_VARIABLE, ProviderType
from gomodel_trio.config.values import Value, parse_value

_SUFFIX = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)*", re.ASCII)
_NUMBERED_KEY = re.compile(r"(?P<before>(?:.*_)?)API_KEY_(?P<number>\d{1,4})", re.ASCII)
_FIELDS = ("API_VERSION", "PROXY_URL", "BASE_URL", "API_KEY", "MODELS", "HTTP2")
SECRET_FIELDS = ("API_KEY", "PROXY_URL")
_ECHO = "echo"
_ECHO_FIELDS = (*sorted(ECHO_FIELDS, key=len, reverse=True), "ENABLED", *_FIELDS)
"""Longest first, so that ECHO_CHUNK_DELAY is no DELAY of a provider `echo-chunk`."""
_FLAG = Variable(name="", kind=VariableKind.BOOL, section="Providers", help="")
_ORDER = list(PROVIDER_TYPES)


@dataclass(frozen=True)
class ProviderVariable:
    """What the name of a provider variable says. `number` orders keys: 1 for `_API_KEY`, N for `_API_KEY_N`."""

    type: ProviderType
    suffix: str
    field: str
    number: int = 1

    @property
    def provider(self) -> str:
        """The provider's name: `openai`, `openai-east`."""
        return f"{self.type.name}-{self.suffix.lower().replace('_', '-')}" if self.suffix else self.type.name


def parse_provider_variable(name: str) -> ProviderVariable | None:
    """Take the name of a variable apart; None if it is no provider's."""
    for provider_type in TYPES_BY_VARIABLE:
        if not name.startswith(provider_type.variable + "_"):
            continue
        rest, number = name.removeprefix(provider_type.variable + "_"), 1
        numbered = _NUMBERED_KEY.fullmatch(rest)
        if numbered:
            rest, number = numbered["before"] + "API_KEY", int(numbered["number"])
        for field in _ECHO_FIELDS if provider_type.name == _ECHO else _FIELDS:
            suffix = "" if rest == field else rest.removesuffix("_" + field)
            if suffix == rest or (rest != field and not _SUFFIX.fullmatch(suffix)):
                continue
            return ProviderVariable(provider_type, suffix, field, number)
    return None


def apply_provider_variables(declared: dict[str, Declared], variables: Variables, findings: Findings) -> None:
    """Lay the variables over the YAML entries of the same name, and append the providers that they declare themselves."""
    groups: dict[str, list[tuple[ProviderVariable, str]]] = {}
    for name in variables.names:
        parsed = parse_provider_variable(name)
        if parsed is not None:
            groups.setdefault(parsed.provider, []).append((parsed, name))
    by_folded_name = {_folded(name): name for name in declared}
    for provider, group in sorted(groups.items(), key=lambda pair: (_ORDER.index(pair[1][0][0].type.name), pair[0])):
        existing = declared.get(by_folded_name.get(_folded(provider), ""))
        if existing is None:
            declaring = [name for parsed, name in group if _declares(parsed, name, variables)]
            if not declaring:
                _warn_of_no_effect(provider, group, findings)
                continue
            existing = Declared(provider, group[0][0].type, variables.place(min(declaring)))
            declared[provider] = existing
        _lay_over(existing, group, variables, findings)


def _folded(name: str) -> str:
    """Provider names as variables can spell them: `my-vllm`, `MY_VLLM` and `my_vllm` are one."""
    return name.lower().replace("_", "-")


def _declares(parsed: ProviderVariable, name: str, variables: Variables) -> bool:
    """Whether this variable alone makes a provider exist."""
    if parsed.type.name != _ECHO:
        return parsed.field in ("API_KEY", "BASE_URL")
    return parsed.field == "MODELS" or (
        parsed.field == "ENABLED" and (variables.get(name) or "").lower() not in ("false", "0", "no", "off")
    )


def _warn_of_no_effect(provider: str, group: list[tuple[ProviderVariable, str]], findings: Findings) -> None:
    """Say that fields alone declare nothing; `OLLAMA_MODELS` is Ollama's own as well and passed over."""
    for parsed, name in group:
        if parsed.field == "ENABLED" or name == "OLLAMA_MODELS":
            continue
        prefix = name.removesuffix(parsed.field)
        wanted = f"{prefix}ENABLED=true" if parsed.type.name == _ECHO else f"{prefix}API_KEY or {prefix}BASE_URL"
        findings.warn(name, f"has no effect: there is no provider {provider!r}; {wanted} would declare it")


def _lay_over(target: Declared, group: list[tuple[ProviderVariable, str]], variables: Variables, findings: Findings) -> None:
    """Set the fields of `target` from its variables."""
    keys = sorted((parsed.number, name) for parsed, name in group if parsed.field == "API_KEY")
    if keys:
        target.keys = list(dict.fromkeys(variables.get(name) or "" for _, name in keys))
        target.keys_place = variables.place(keys[0][1])
    for parsed, name in group:
        value = variables.get(name) or ""
        match parsed.field:
            case "API_KEY":
                continue
            case "BASE_URL":
                target.base_url, target.base_url_place = value, variables.place(name)
            case "API_VERSION":
                target.api_version = value
            case "MODELS":
                target.models = read_models_text(name, value, findings)
            case "ENABLED":
                target.enabled = _parse(_FLAG, name, value, findings) is not False
            case "HTTP2":
                target.http2, target.http2_place = _parse(_FLAG, name, value, findings) is True, variables.place(name)
            case "PROXY_URL":
                target.proxy_url, target.proxy_url_place = value, variables.place(name)
            case field:
                echo = _parse(ECHO_FIELDS[field], name, value, findings)
                if echo is not None:
                    target.echo[field] = echo


def _parse(row: Variable, name: str, text: str, findings: Findings) -> Value | None:
    try:
        return parse_value(row, text)
    except ValueError as error:
        findings.fault(name, str(error))
        return None
