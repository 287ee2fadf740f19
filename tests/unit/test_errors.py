"""Errors carry what a client has to be told."""

import pytest

from gomodel_trio.errors import (
    BodyTooLarge,
    ClientFault,
    ConfigFault,
    ConfigurationError,
    GatewayError,
    ModelNotFound,
    NotFound,
    Unauthenticated,
    Unavailable,
    UpstreamFault,
)


@pytest.mark.parametrize(
    ("error_type", "status", "code", "kind"),
    [
        (GatewayError, 500, "internal_error", "api_error"),
        (ClientFault, 400, "invalid_request", "invalid_request_error"),
        (BodyTooLarge, 413, "request_too_large", "invalid_request_error"),
        (Unauthenticated, 401, "invalid_api_key", "authentication_error"),
        (NotFound, 404, "not_found", "not_found_error"),
        (ModelNotFound, 404, "model_not_found", "not_found_error"),
        (UpstreamFault, 502, "upstream_error", "api_error"),
        (Unavailable, 503, "service_unavailable", "api_error"),
    ],
)
def test_each_error_has_its_status_code_and_kind(error_type: type[GatewayError], status: int, code: str, kind: str) -> None:
    error = error_type("what happened")

    assert (error.message, str(error), error.status, error.code, error.kind) == ("what happened", "what happened", status, code, kind)
    assert (error.param, error.retry_after_s, error.should_retry) == (None, None, None)


def test_one_error_can_say_otherwise_without_changing_its_type() -> None:
    error = UpstreamFault("m", status=504, code="c", kind="k", param="p", retry_after_s=0.5, should_retry=False)

    assert (error.status, error.code, error.kind, error.param, error.retry_after_s, error.should_retry) == (504, "c", "k", "p", 0.5, False)
    assert (UpstreamFault.status, UpstreamFault.code, UpstreamFault.kind) == (502, "upstream_error", "api_error")


def test_a_configuration_error_tells_every_fault_with_its_place() -> None:
    error = ConfigurationError([ConfigFault("PORT", "is no number"), ConfigFault("virtual_models[0]", "has no source")])

    assert str(error) == "PORT: is no number\nvirtual_models[0]: has no source"


def test_configuration_errors_do_not_share_their_faults() -> None:
    ConfigurationError().faults.append(ConfigFault("PORT", "is no number"))

    assert ConfigurationError().faults == []
