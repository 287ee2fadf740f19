"""Providers as the YAML file declares them.

Layer: config. Source: behaviour.md §7.
"""

from dataclasses import dataclass, field

from gomodel_trio.config.catalogue import ECHO_FIELDS
from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.foreign import FOREIGN_PROVIDER_KEYS
from gomodel_trio.config.located import Located, check_keys, flag_of, items_of, members_of, text_of
from gomodel_trio.config.model_entries import read_models
from gomodel_trio.config.provider_types import SUPPORTED_TYPES, ProviderType, find_type
from gomodel_trio.config.sessions import is_header_name
from gomodel_trio.config.settings import ModelSettings
from gomodel_trio.config.values import Value, read_scalar
from gomodel_trio.wire.dialect import Api, Dialect

_KEYS = (
    "type", "api_key", "api_keys", "base_url", "api_version", "models", "headers", "custom_upstream_headers", "http2", "proxy_url",
    "enabled", "echo", "apis",
)  # fmt: skip
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "connection", "transfer-encoding", "te", "upgrade", "keep-alive", "trailer", "expect"}
)
"""Headers that the transport writes itself."""


@dataclass
class Declared:
    """A provider while it is put together: the YAML entry first, then the variables over it. `place` is where it was declared."""

    name: str
    type: ProviderType
    place: str
    keys: list[str] = field(default_factory=list)
    keys_place: str = ""
    base_url: str | None = None
    base_url_place: str = ""
    api_version: str | None = None
    models: tuple[ModelSettings, ...] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    http2: bool = False
    http2_place: str = ""
    proxy_url: str | None = None
    proxy_url_place: str = ""
    enabled: bool = True
    forms: tuple[Api, ...] | None = None
    echo: dict[str, Value] = field(default_factory=dict)


def read_provider_entries(item: Located | None, findings: Findings) -> dict[str, Declared]:
    """Read `providers:`, in order; an entry whose name or type is wrong is a fault and left out."""
    if item is None:
        return {}
    declared: dict[str, Declared] = {}
    for name, entry in (members_of(item, findings, "a mapping of provider names") or {}).items():
        found = _read_entry(name, entry, findings)
        if found is not None:
            declared[name] = found
    return declared


def _read_entry(name: str, entry: Located, findings: Findings) -> Declared | None:
    members = {} if entry.value is None else members_of(entry, findings, "a mapping")
    if members is None:
        return None
    if not name or name != name.strip() or not name.isprintable() or "/" in name or " " in name:
        findings.fault(entry.place, f"{shown(name)} cannot name a provider: no slash, space or control character")
        return None
    check_keys(members, _KEYS, FOREIGN_PROVIDER_KEYS, findings)
    given = {key: item for key, item in members.items() if item.value is not None and item.value != ""}
    provider_type = _read_type(name, entry, given.get("type"), findings)
    if provider_type is None:
        return None
    declared = Declared(name, provider_type, entry.place)
    declared.keys, declared.keys_place = _read_keys(given, findings), entry.place
    if "base_url" in given:
        declared.base_url, declared.base_url_place = text_of(given["base_url"], findings), given["base_url"].place
    if "api_version" in given:
        declared.api_version = text_of(given["api_version"], findings)
    if "models" in given:
        declared.models = read_models(given["models"], findings)
    if "http2" in given:
        declared.http2, declared.http2_place = flag_of(given["http2"], findings) is True, given["http2"].place
    if "proxy_url" in given:
        declared.proxy_url, declared.proxy_url_place = text_of(given["proxy_url"], findings), given["proxy_url"].place
    if "enabled" in given:
        declared.enabled = flag_of(given["enabled"], findings) is not False
    if "apis" in given:
        declared.forms = _read_forms(given["apis"], provider_type, findings)
    if "echo" in given:
        declared.echo = _read_echo(given["echo"], findings)
    for key in ("custom_upstream_headers", "headers"):
        if key in given:
            declared.headers += _read_headers(given[key], findings)
    return declared


def _read_forms(item: Located, provider_type: ProviderType, findings: Findings) -> tuple[Api, ...] | None:
    """`apis`: which of the APIs of its dialect a provider has, the one to translate to first."""
    known = {api.name.lower(): api for api in (Api.CHAT, Api.RESPONSES, Api.EMBEDDINGS)}
    if provider_type.dialect is not Dialect.OPENAI or provider_type.name == "echo":
        findings.fault(item.place, f"a provider of type {provider_type.name} has no choice of APIs")
        return None
    forms: list[Api] = []
    for each in items_of(item, findings) or []:
        text = text_of(each, findings, "the name of an API")
        if text is not None and text not in known:
            findings.fault(each.place, f"unknown API {shown(text)}; the APIs are {', '.join(known)}")
        elif text is not None:
            forms.append(known[text])
    return tuple(dict.fromkeys(forms)) or None


def _read_type(name: str, entry: Located, item: Located | None, findings: Findings) -> ProviderType | None:
    """The entry's type; without one the provider's name must be a type's."""
    if item is None:
        found = find_type(name)
        if found is None:
            findings.fault(entry.place, f"has no 'type'; the types are {', '.join(SUPPORTED_TYPES)}")
        return found
    text = text_of(item, findings, "the name of a provider type")
    if text is None:
        return None
    found = find_type(text)
    if found is None:
        findings.fault(
            item.place, f"unknown type {shown(text)}{did_you_mean(text, SUPPORTED_TYPES)}; the types are {', '.join(SUPPORTED_TYPES)}"
        )
    return found


def _read_keys(given: dict[str, Located], findings: Findings) -> list[str]:
    """`api_key` and `api_keys` together, each key once; entries that a reference left empty are passed over."""
    items = [given["api_key"]] if "api_key" in given else []
    if "api_keys" in given:
        items += items_of(given["api_keys"], findings) or []
    keys = [text_of(item, findings) for item in items if item.value is not None and item.value != ""]
    return list(dict.fromkeys(key for key in keys if key is not None))


def _read_echo(item: Located, findings: Findings) -> dict[str, Value]:
    members = members_of(item, findings) or {}
    rows = {row.yaml or "": row for row in ECHO_FIELDS.values()}
    check_keys(members, tuple(rows), (), findings)
    values = {
        rows[key].name: read_scalar(rows[key], each, findings) for key, each in members.items() if key in rows and each.value is not None
    }
    return {name: value for name, value in values.items() if value is not None}


def _read_headers(item: Located, findings: Findings) -> tuple[tuple[str, str], ...]:
    """The provider's own headers, names in lower case. Their values are not shown."""
    headers: list[tuple[str, str]] = []
    for name, each in (members_of(item, findings) or {}).items():
        value = text_of(each, findings) if each.value is not None else None
        if not is_header_name(name):
            findings.fault(each.place, f"{shown(name)} is no header name")
        elif name.lower() in _OWN_HEADERS:
            findings.fault(each.place, f"{shown(name)} is written by the gateway itself")
        elif name.lower() in ("authorization", "x-api-key", "api-key"):
            findings.fault(each.place, f"{shown(name)} carries the key; give it as api_key")
        elif value is not None and not all(" " <= character <= "~" or character == "\t" for character in value):
            findings.fault(each.place, "the value holds a character that no header may carry")
        elif value is not None:
            headers.append((name.lower(), value))
    return tuple(headers)
