"""The HTTP status that an error under a 200 stands for.

Layer: wire. Source: behaviour.md §6 (its embedded status, else 502); the error tables of the OpenAI, Anthropic, Google and AWS references.
"""

import re
from typing import Final

import msgspec

from gomodel_trio.wire.faults import Fault

UNKNOWN_STATUS = 502
"""What an error stands for that names nothing we know."""


class StreamFault(msgspec.Struct, frozen=True):
    """An error under a 200, in a stream or a whole answer. `status`: what it stands for. `after_content`: content had come before it."""

    fault: Fault
    status: int
    after_content: bool = False


def snake(code: str) -> str:
    """A code in one spelling: `DeploymentNotFound`, `deployment-not-found` → `deployment_not_found`."""
    return _HUMP.sub("_", code[:200]).lower().replace("-", "_")


def status_of(fault: Fault) -> int:
    """The status named in the body, else the one its most exact known code stands for, else 502."""
    if fault.http_status is not None:
        return fault.http_status
    for code in (fault.error_code, fault.code, fault.type, fault.status_text):
        if code is not None:
            name = snake(code).removesuffix("_exception")
            status = _STATUS.get(name) or (400 if _REQUEST_CODE.fullmatch(name) else None)
            if status is not None:
                return status
    return UNKNOWN_STATUS


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REQUEST_CODE = re.compile(
    r"(?:invalid|unsupported|image|empty_image|failed_to_download|misalignment)_\w{1,80}|bio_policy|cyber_policy\w{0,40}", re.ASCII
)
_CODES: Final = {
    400: (
        "invalid_request_error bad_request bad_request_error validation validation_error failed_precondition out_of_range "
        "context_length_exceeded string_above_max_length content_filter content_policy_violation data_residency_mismatch "
        "previous_response_not_found"
    ),
    401: "authentication_error invalid_api_key invalid_authentication unauthenticated unauthorized",
    402: "billing_error payment_required insufficient_balance insufficient_credits",
    403: "permission_error permission_denied forbidden access_denied",
    404: "not_found_error not_found model_not_found resource_not_found",
    408: "model_timeout request_timeout",
    409: "conflict_error conflict",
    413: "request_too_large payload_too_large",
    424: "model_error model_stream_error",
    429: (
        "rate_limit_error rate_limit_exceeded rate_limited rate_limit_reached insufficient_quota resource_exhausted throttling throttled "
        "too_many_requests slow_down tokens requests usage_limit_reached usage_limit_exceeded credit_balance_exhausted "
        "service_quota_exceeded model_not_ready billing_hard_limit_reached"
    ),
    500: "api_error server_error internal_error internal internal_server internal_server_error unknown",
    502: "bad_gateway provider_unavailable",
    503: (
        "unavailable service_unavailable service_unavailable_error server_overloaded engine_overloaded over_capacity "
        "server_is_overloaded model_overloaded"
    ),
    504: "timeout_error timeout deadline_exceeded gateway_timeout vector_store_timeout",
    529: "overloaded_error overloaded",
}
_STATUS: Final = {code: status for status, codes in _CODES.items() for code in codes.split()}
