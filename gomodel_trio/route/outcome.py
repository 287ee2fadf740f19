"""Outcome classes: what an attempt's end says about its target.

Layer: route. Source: behaviour.md §5 (outcome classes), §6 (what fails over).
"""

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How an attempt ended, as health sees it."""

    SUCCESS = "success"
    RATE = "rate"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    ACCOUNT = "account"
    FAULT = "fault"
    REQUEST = "request"
    CLIENT = "client"


class Cause(StrEnum):
    """What exactly made a FAULT, for metrics, the log line and the audit."""

    NONE = "none"
    STATUS = "status"
    NETWORK = "network"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    STALLED = "stalled"
    ERROR_EVENT = "error_event"
    SILENT = "silent"


class Classification(msgspec.Struct, frozen=True):
    """An upstream's answer, judged.

    `is_failover`: the next target may do better. `is_retryable`: the same target may do better after a wait (§6, RETRY_MAX_RETRIES).
    `retry_after_s` is the upstream's own wish, uncapped; None if it named none. `code` and `message` are the upstream's.
    """

    outcome: Outcome
    is_failover: bool
    is_retryable: bool = False
    retry_after_s: float | None = None
    cause: Cause = Cause.NONE
    code: str | None = None
    message: str | None = None
