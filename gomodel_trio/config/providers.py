"""The providers, complete: declared in YAML and variables, checked, with their types' defaults filled in.

Layer: config. Source: behaviour.md §4 (without credentials: a warning, its targets unavailable), §7.
"""

from collections.abc import Collection

from gomodel_trio.config.base_url import check_base_url, is_own_listener, lacks_version_path
from gomodel_trio.config.env_providers import apply_provider_variables
from gomodel_trio.config.environment import Variables
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.located import Located
from gomodel_trio.config.provider_entries import Declared, read_provider_entries
from gomodel_trio.config.provider_types import PROVIDER_TYPES
from gomodel_trio.config.proxy_url import check_proxy_url
from gomodel_trio.config.secret import Secret
from gomodel_trio.config.settings import EchoSettings, ModelSettings, ProviderSettings

_ECHO = "echo"


def read_providers(
    entries: Located | None, variables: Variables, findings: Findings, *, host: str, ports: Collection[int], demo: bool
) -> dict[str, ProviderSettings]:
    """Read every provider: YAML entries in their order, then those of variables, then `echo` for a demonstration.

    `host` and `ports` are the gateway's own, which no provider may be.
    """
    declared = read_provider_entries(entries, findings)
    is_echo_added = demo and _ECHO not in declared
    if is_echo_added:
        declared[_ECHO] = Declared(_ECHO, PROVIDER_TYPES[_ECHO], "--demo")
    apply_provider_variables(declared, variables, findings)
    if is_echo_added:
        declared[_ECHO] = declared.pop(_ECHO)  # last: a demonstration must not take names from providers that are there
    return {name: _complete(each, host, ports, findings) for name, each in declared.items()}


def _complete(declared: Declared, host: str, ports: Collection[int], findings: Findings) -> ProviderSettings:
    """Check one provider and fill in what its type gives."""
    row = declared.type
    is_available = declared.enabled
    if not row.is_in_this_version and declared.enabled:
        findings.warn(declared.place, f"providers of type {row.name} are not in this version: its targets are unavailable")
    is_available &= row.is_in_this_version
    keys = _checked_keys(declared, findings)
    if is_available and row.is_key_required and not keys:
        findings.warn(declared.place, f"provider {declared.name!r} has no API key: its targets are unavailable")
        is_available = False
    base_url = _checked_base_url(declared, findings)
    if is_available and not base_url:
        findings.warn(declared.place, f"provider {declared.name!r} has no base_url, and its type no usual one: its targets are unavailable")
        is_available = False
    if base_url and row.name != _ECHO and declared.enabled and is_own_listener(base_url, host, ports):
        message = "is the gateway's own address: clients use that one, the provider needs the upstream's"
        if is_available:
            findings.fault(declared.base_url_place or declared.place, message)
        else:
            findings.warn(declared.base_url_place or declared.place, message)
    return ProviderSettings(
        name=declared.name,
        type=row.name,
        dialect=row.dialect,
        base_url=base_url,
        forms=declared.forms if declared.forms is not None else row.forms,
        api_keys=tuple(Secret(key) for key in keys),
        api_version=declared.api_version,
        models=declared.models if declared.models is not None else tuple(ModelSettings(id=model) for model in row.models),
        headers=declared.headers,
        http2=declared.http2 and _may_be_http2(declared, base_url, findings),
        proxy_url=_checked_proxy_url(declared, findings),
        enabled=declared.enabled,
        is_available=is_available,
        echo=_echo_settings(declared) if row.name == _ECHO else None,
    )


def _checked_keys(declared: Declared, findings: Findings) -> list[str]:
    """The keys; one that no header may carry is a fault that does not show it."""
    for key in declared.keys:
        wrong = next((index for index, character in enumerate(key) if not " " <= character <= "~"), None)
        if wrong is not None:
            findings.fault(declared.keys_place, f"an API key holds a character that no header may carry, at position {wrong + 1}")
    return declared.keys


def _checked_base_url(declared: Declared, findings: Findings) -> str:
    """The base URL, given or usual; empty without one or after a fault."""
    row = declared.type
    if row.name == _ECHO or not declared.base_url:
        return row.base_url or ""
    if not row.is_in_this_version:
        return declared.base_url if "@" not in declared.base_url else ""
    try:
        base_url = check_base_url(declared.base_url)
    except ValueError as error:
        findings.fault(declared.base_url_place, str(error))
        return row.base_url or ""
    if lacks_version_path(base_url, row.base_url):
        findings.warn(declared.base_url_place, f"a base URL includes the version: {base_url} has none; did you mean {row.base_url}?")
    return base_url


def _checked_proxy_url(declared: Declared, findings: Findings) -> Secret | None:
    if not declared.proxy_url:
        return None
    try:
        return Secret(check_proxy_url(declared.proxy_url))
    except ValueError as error:
        findings.fault(declared.proxy_url_place, str(error))
        return None


def _may_be_http2(declared: Declared, base_url: str, findings: Findings) -> bool:
    """Whether HTTP/2 can be offered; elsewhere than over TLS there is nobody to agree on it."""
    is_secure = base_url.lower().startswith("https://")
    if base_url and not is_secure:
        findings.warn(declared.http2_place, "has no effect: HTTP/2 needs an https:// base URL")
    return is_secure


def _echo_settings(declared: Declared) -> EchoSettings:
    usual = EchoSettings()
    return EchoSettings(
        delay_s=float(declared.echo.get("DELAY", usual.delay_s)),
        chunk_delay_s=float(declared.echo.get("CHUNK_DELAY", usual.chunk_delay_s)),
        failure_fraction=float(declared.echo.get("FAILURE_FRACTION", usual.failure_fraction)),
        failure_status=int(declared.echo.get("FAILURE_STATUS", usual.failure_status)),
    )
