"""What follows a failed attempt (behaviour.md §6)."""

import msgspec
import pytest

from gomodel_trio.route.attempts import Progress, Respond, Rules, TryNext, Wait, next_step
from gomodel_trio.route.outcome import Classification, Outcome

RULES = Rules()
MIDDLE = 0.5
"""The draw that leaves a backoff as it is."""


def progress(**changes: object) -> Progress:
    base = Progress(
        targets_tried=1, retries_made=0, targets_left=0, is_failover_allowed=True, was_cooling=False, now_s=100.0, deadline_s=700.0
    )
    return msgspec.structs.replace(base, **changes)


def rate(retry_after_s: float | None = None) -> Classification:
    return Classification(outcome=Outcome.RATE, is_failover=True, is_retryable=True, retry_after_s=retry_after_s)


REQUEST = Classification(outcome=Outcome.REQUEST, is_failover=False)
AUTH = Classification(outcome=Outcome.AUTH, is_failover=True)
TOO_LARGE_HERE = Classification(outcome=Outcome.REQUEST, is_failover=True)


def test_a_fault_of_the_request_is_answered_at_once_though_targets_are_left() -> None:
    assert next_step(RULES, progress(targets_left=2), REQUEST, MIDDLE) == Respond()


@pytest.mark.parametrize("classification", [rate(), AUTH, TOO_LARGE_HERE])
def test_the_next_target_is_tried_at_once_where_one_is_left(classification: Classification) -> None:
    assert next_step(RULES, progress(targets_left=1), classification, MIDDLE) == TryNext()


def test_failover_switched_off_leaves_retries_of_the_same_target() -> None:
    off = Rules(is_failover_enabled=False)
    assert next_step(off, progress(targets_left=2), rate(), MIDDLE) == Wait(1.0)
    assert next_step(off, progress(targets_left=2), AUTH, MIDDLE) == Respond()


def test_a_virtual_model_without_failover_retries_its_one_target() -> None:
    assert next_step(RULES, progress(targets_left=2, is_failover_allowed=False), rate(), MIDDLE) == Wait(1.0)


def test_the_pool_is_walked_whole_whatever_the_number_of_retries() -> None:
    none = Rules(max_retries=0)
    assert next_step(none, progress(targets_tried=4, targets_left=1), AUTH, MIDDLE) == TryNext()


def test_max_attempts_bounds_the_targets_after_the_first() -> None:
    two = Rules(max_attempts=2)
    assert next_step(two, progress(targets_tried=2, targets_left=3), AUTH, MIDDLE) == TryNext()
    assert next_step(two, progress(targets_tried=3, targets_left=3), AUTH, MIDDLE) == Respond()
    assert next_step(Rules(max_attempts=1), progress(targets_tried=1, targets_left=1), AUTH, MIDDLE) == TryNext()


def test_backoff_doubles_from_the_initial_one_up_to_the_maximum() -> None:
    rules = Rules(max_retries=10)
    waits = [next_step(rules, progress(retries_made=made), rate(), MIDDLE) for made in range(7)]
    assert waits == [Wait(1.0), Wait(2.0), Wait(4.0), Wait(8.0), Wait(16.0), Wait(30.0), Wait(30.0)]


def test_backoff_is_spread_by_ten_percent_but_never_over_the_maximum() -> None:
    assert next_step(RULES, progress(), rate(), 0.0) == Wait(0.9)
    late = next_step(Rules(max_retries=10), progress(retries_made=6), rate(), 0.999)
    assert late == Wait(30.0)


def test_retries_end_after_their_number() -> None:
    assert next_step(RULES, progress(retries_made=3), rate(), MIDDLE) == Respond()


def test_a_huge_number_of_retries_does_not_overflow() -> None:
    assert next_step(Rules(max_retries=10**9), progress(retries_made=5000), rate(), MIDDLE) == Wait(30.0)


def test_a_retry_never_comes_sooner_than_retry_after() -> None:
    assert next_step(RULES, progress(), rate(7.5), MIDDLE) == Wait(7.5)
    assert next_step(RULES, progress(), rate(0.1), MIDDLE) == Wait(1.0)


def test_a_retry_after_over_thirty_seconds_is_not_waited_for() -> None:
    assert next_step(RULES, progress(), rate(30.0), MIDDLE) == Wait(30.0)
    assert next_step(RULES, progress(), rate(30.5), MIDDLE) == Respond()


def test_a_target_that_was_cooling_is_not_retried() -> None:
    assert next_step(RULES, progress(was_cooling=True), rate(), MIDDLE) == Respond()


def test_no_wait_goes_past_the_deadline() -> None:
    assert next_step(RULES, progress(now_s=699.5), rate(), MIDDLE) == Respond()


def test_nothing_is_tried_after_the_deadline() -> None:
    assert next_step(RULES, progress(now_s=700.0, targets_left=1), rate(), MIDDLE) == Respond()


def test_a_failure_that_may_not_be_retried_is_answered_when_nobody_is_left() -> None:
    assert next_step(RULES, progress(), AUTH, MIDDLE) == Respond()


def test_a_retryable_failure_that_does_not_fail_over_is_answered_while_targets_are_left() -> None:
    odd = Classification(outcome=Outcome.REQUEST, is_failover=False, is_retryable=True)
    assert next_step(RULES, progress(targets_left=1), odd, MIDDLE) == Respond()
