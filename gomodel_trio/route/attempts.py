"""What a request does after an attempt failed: the next target, the same one after a wait, or the error.

Layer: route; pure: time and chance are arguments. Source: behaviour.md §6.

The rules, in the order they are asked:

    the answer is the request's own fault                    → Respond (one attempt, verbatim)
    failover allowed, a target left, attempts and time left  → TryNext
    the same target may recover, retries and time left       → Wait, then the same target again
    otherwise                                                → Respond
"""

import msgspec

from gomodel_trio.route.outcome import Classification

LONGEST_RETRY_AFTER_S = 30.0
"""A Retry-After beyond this is not waited for: the client can do it better (behaviour.md §6)."""


class Rules(msgspec.Struct, frozen=True):
    """The settings of the attempt loop. `max_attempts`: how many targets may be tried after the first; 0: every one."""

    is_failover_enabled: bool = True
    max_attempts: int = 0
    max_retries: int = 3
    initial_backoff_s: float = 1.0
    max_backoff_s: float = 30.0


class Progress(msgspec.Struct, frozen=True):
    """Where a request stands. `targets_tried` counts distinct targets; `was_cooling`: the last target was, when the request came to it."""

    targets_tried: int
    retries_made: int
    targets_left: int
    is_failover_allowed: bool
    was_cooling: bool
    now_s: float
    deadline_s: float


class TryNext(msgspec.Struct, frozen=True):
    """Ask the selector for another target, at once."""


class Wait(msgspec.Struct, frozen=True):
    """Wait, then try the same target again."""

    for_s: float


class Respond(msgspec.Struct, frozen=True):
    """Tell the client what the last target said."""


def next_step(rules: Rules, progress: Progress, classification: Classification, draw: float) -> TryNext | Wait | Respond:
    """Decide what follows a failed attempt; `draw` is uniform in [0, 1) and spreads the backoff by ±10 %."""
    if progress.now_s >= progress.deadline_s:
        return Respond()
    can_fail_over = rules.is_failover_enabled and progress.is_failover_allowed and progress.targets_left > 0
    within_attempts = rules.max_attempts == 0 or progress.targets_tried <= rules.max_attempts
    if classification.is_failover and can_fail_over and within_attempts:
        return TryNext()
    if not classification.is_retryable or progress.was_cooling or progress.retries_made >= rules.max_retries:
        return Respond()
    if can_fail_over and within_attempts:
        return Respond()
    return _wait(rules, progress, classification.retry_after_s, draw)


def _wait(rules: Rules, progress: Progress, retry_after_s: float | None, draw: float) -> Wait | Respond:
    if retry_after_s is not None and retry_after_s > LONGEST_RETRY_AFTER_S:
        return Respond()
    # 2.0 ** 1024 overflows; no sane setting reaches it, a huge RETRY_MAX_RETRIES must not raise.
    backoff_s = min(rules.initial_backoff_s * 2.0 ** min(progress.retries_made, 64), rules.max_backoff_s)
    for_s = max(min(backoff_s * (0.9 + 0.2 * draw), rules.max_backoff_s), retry_after_s or 0.0)
    if progress.now_s + for_s >= progress.deadline_s:
        return Respond()
    return Wait(for_s)
