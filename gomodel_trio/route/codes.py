"""The codes providers give, by what they mean, in the one spelling of `wire.fault_status.snake` without AWS's `_exception`.

Layer: route. Source: behaviour.md §5 (outcome classes); the error pages of the providers named in `phrases`.
"""

import re
from typing import Final

ACCOUNT = re.compile(
    r"insufficient_(?:quota|user_quota|balance|credits?|funds)|credit_balance_\w+|(?:\w+_)?billing_(?!details)\w+|payment_required"
    r"|(?:\w+_)?(?:spend|spending|usage)_limit_(?:exceeded|reached)|exceeded_current_quota_error|arrearage|account_overdue_error"
    r"|blocked_api_access|invalid_payment_instrument",
    re.ASCII,
)
"""Nothing is served until somebody pays or raises a spending limit."""

NO_MODEL = re.compile(
    r"model_?(?:not_?found|not_?supported|not_?available|not_?exist|not_?allowed|unavailable|unsupported|decommissioned|deprecated|retired)"
    r"(?:_error)?|(?:unsupported|unknown|invalid|deprecated|unavailable)_model(?:_id|_name|_error)?"
    r"|deployment_?not_?found|operation_not_supported",
    re.ASCII,
)
"""The model is not to be had here (Azure's OperationNotSupported: not for this endpoint)."""

PARAMETER = re.compile(
    r"(?:unsupported|invalid|unknown|missing)(?:_required)?_(?:parameter|value|type|argument|tool\w{0,40})|unsupported_\w{1,60}_parameter",
    re.ASCII,
)
"""It is a parameter that is wrong, whatever the words say of the model."""

CLIENTS_OWN = re.compile(
    r"(?:\w{1,60}_)?(?:response|file|thread|message|conversation|item|container|vector_store|assistant|run|batch|profile|skill|prompt"
    r"|upload|image|tool|session|cached_content|memory|document|attachment|reference|checkpoint|video|voice|call)s?"
    r"_(?:not_found|expired|deleted|missing|unresolved|does_not_exist|not_downloadable)(?:_error)?",
    re.ASCII,
)
"""Something only the request can have named is gone."""

AUTH: Final = frozenset(
    {
        "api_key_invalid", "api_key_expired", "api_key_disabled", "invalid_api_key", "invalid_authentication", "authentication_error",
        "unauthenticated", "unauthorized", "expired_token", "unrecognized_client", "invalid_signature", "incomplete_signature",
        "missing_authentication_token", "invalid_client_token_id", "access_denied", "permission_error", "permission_denied",
        "organization_restricted", "account_deactivated", "account_suspended",
    }
)  # fmt: skip
"""Key or account are refused, where the status does not say so."""

RATE: Final = frozenset(
    {
        "throttling", "throttled", "rate_limit_exceeded", "rate_limit_error", "rate_limit_reached", "too_many_requests",
        "resource_exhausted", "service_quota_exceeded", "capacity_exceeded",
    }
)  # fmt: skip
"""Too fast, where the status does not say so (AWS throttles with 400 in places)."""

FLAGGED: Final = frozenset(
    {
        "content_filter", "content_policy_violation", "responsible_aipolicy_violation", "moderation", "moderation_blocked", "flagged",
        "prompt_blocked",
    }
)  # fmt: skip
"""A moderation refused the input."""

CATEGORIES: Final = frozenset(
    {
        "invalid_request_error", "invalid_request", "invalid_argument", "bad_request", "bad_request_error", "error", "api_error",
        "unknown_error", "unknown", "forbidden", "permission_denied", "permission_error", "too_many_requests", "failed_precondition",
        "rate_limit_error", "unauthorized", "authentication_error", "none", "null", "validation",
    }
)  # fmt: skip
"""Names of whole families: with one of these a provider has given no code."""
