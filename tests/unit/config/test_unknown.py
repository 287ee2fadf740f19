"""Variables that the gateway does not read."""

from pathlib import Path

import pytest

from gomodel_trio.config.load import load_settings


def warnings(*names: str) -> tuple[str, ...]:
    return load_settings(dict.fromkeys(names, "x"), config_file=None, env_file=None, cwd=Path("/nonexistent")).warnings


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("GOMODEL_PRO_LICENSE", "GOMODEL_PRO_LICENSE: is ignored: there is no licence, everything is on"),
        ("PROMETHEUS_MULTIPROC_DIR", "PROMETHEUS_MULTIPROC_DIR: is ignored: the gateway is one process and serves its own counters"),
        ("STORAGE_TYPE", "STORAGE_TYPE: comes in a later version: ignored"),
        ("LOGGING_LOG_BODIES", "LOGGING_LOG_BODIES: comes in a later version: ignored"),
        ("USAGE_ENABLED", "USAGE_ENABLED: comes in a later version: ignored"),
        ("REDIS_URL", "REDIS_URL: is GoModel's and not in this version: ignored"),
        ("SET_BUDGET_TEAM__A", "SET_BUDGET_TEAM__A: is GoModel's and not in this version: ignored"),
        ("SEMANTIC_CACHE_TTL", "SEMANTIC_CACHE_TTL: is GoModel's and not in this version: ignored"),
        ("CIRCUIT_BREAKER_TIMEOUT", "CIRCUIT_BREAKER_TIMEOUT: is GoModel's and not in this version: ignored"),
        ("OPENAI_EAST_LOCATION", "OPENAI_EAST_LOCATION: is GoModel's and not in this version: ignored"),
        ("VERTEX_PROJECT", "VERTEX_PROJECT: is GoModel's and not in this version: ignored"),
        ("PRO_SMART_ROUTING_ROUTE", "PRO_SMART_ROUTING_ROUTE: is no variable of the gateway; did you mean 'PRO_SMART_ROUTING_ROUTES'?"),
        ("PRO_ROUTING_XYZ", "PRO_ROUTING_XYZ: is no variable of the gateway"),
        ("SESSION_HEADER_X", "SESSION_HEADER_X: is no variable of the gateway"),
        ("GOMODEL_MASTERKEY", "GOMODEL_MASTERKEY: is no variable of the gateway; did you mean 'GOMODEL_MASTER_KEY'?"),
        ("VIRTUALMODELS", "VIRTUALMODELS: is no variable of the gateway; did you mean 'VIRTUAL_MODELS'?"),
        ("METRIC_ENABLED", "METRIC_ENABLED: is no variable of the gateway; did you mean 'METRICS_ENABLED'?"),
    ],
)
def test_what_looks_meant_for_the_gateway_is_named(name: str, warning: str) -> None:
    (line,) = warnings(name)
    assert line.startswith(warning)


def test_what_is_others_business_is_passed_over() -> None:
    assert warnings("PATH", "HOME", "HOSTNAME", "LANG", "HTTP_PROXY", "POST", "SESSION_MANAGER", "GOMODEL_TRIO_SHARED", "MY_PROJECT") == ()


def test_a_blank_variable_is_not_there() -> None:
    environ = {"STORAGE_TYPE": "", "REDIS_URL": " \n", "PRO_ROUTING_XYZ": '""'}
    assert load_settings(environ, config_file=None, env_file=None, cwd=Path("/nonexistent")).warnings == ()
