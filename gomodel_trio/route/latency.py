"""The latency of a target: peak EWMA, fed by attempts, read by decisions.

Layer: route. Source: behaviour.md §5 (latency estimate). Instants and durations are seconds on one monotonic clock.

Theory. A peak replaces the estimate at once, a lower sample is blended in by how long ago the last one was: a target is distrusted fast and
trusted slowly. A failure has no latency; it can only raise what is there, so that failing fast never looks like serving fast. Reading never
changes anything: for a decision a stale estimate fades towards the best one stored, for the worst that can be said of a target nobody asked
for long is that it is as good as the others.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from gomodel_trio.route.names import Kind

READ_DECAY_S: Final = 300.0
"""A stale estimate's excess over the best one is read as 1/e after so long."""

NEVER_MEASURED_S: Final = 1.0
"""What a target is taken to need where nothing is known of any."""


LEAST_S: Final = 1e-6
"""No sample is less: at 0 the load of a target would be 0 however busy it is, and a failure could not double it."""


class Estimate(msgspec.Struct, frozen=True):
    """One estimate: `value_s` as of its last sample at `at_s`."""

    value_s: float
    at_s: float


class Latency(msgspec.Struct, frozen=True):
    """What is known of a target's latency, by the kind of its answers; None: never measured.

    `answered_*` is fed by answers alone. It tells what the target needs when it does answer: whoever waits far longer waits in vain.
    """

    stream: Estimate | None = None
    unary: Estimate | None = None
    answered_stream: Estimate | None = None
    answered_unary: Estimate | None = None

    def of(self, kind: Kind) -> Estimate | None:
        """The estimate that decisions read."""
        return self.stream if kind is Kind.STREAM else self.unary

    def answered(self, kind: Kind) -> Estimate | None:
        """The estimate made of answers alone."""
        return self.answered_stream if kind is Kind.STREAM else self.answered_unary


UNMEASURED: Final = Latency()


def blended(old: Estimate | None, sample_s: float, *, at_s: float, decay_s: float) -> Estimate:
    """Tell the estimate after a sample: a peak replaces it, a lower one is blended in with weight 1 − exp(−Δt/`decay_s`)."""
    sample_s = max(sample_s, LEAST_S)
    if old is None or sample_s > old.value_s:
        return Estimate(sample_s, at_s)
    keep = math.exp(-max(0.0, at_s - old.at_s) / decay_s)
    return Estimate(sample_s + (old.value_s - sample_s) * keep, at_s)


def after_answer(latency: Latency, kind: Kind, elapsed_s: float, *, at_s: float, decay_s: float) -> Latency:
    """Tell what is known after an answer that took `elapsed_s`."""
    estimate = blended(latency.of(kind), elapsed_s, at_s=at_s, decay_s=decay_s)
    answered = blended(latency.answered(kind), elapsed_s, at_s=at_s, decay_s=decay_s)
    if kind is Kind.STREAM:
        return Latency(estimate, latency.unary, answered, latency.answered_unary)
    return Latency(latency.stream, estimate, latency.answered_stream, answered)


def after_failure(
    latency: Latency, kind: Kind, elapsed_s: float, *, at_s: float, cap_s: float, presumed_s: float = NEVER_MEASURED_S
) -> Latency:
    """Tell what is known after a failure: raised to max(`elapsed_s`, 2 × estimate), at most `cap_s`, and never lowered.

    `presumed_s`: what the target was taken to need if it was never measured.
    """
    old = latency.of(kind)
    stored_s = presumed_s if old is None else old.value_s
    return _raised(latency, kind, Estimate(max(stored_s, min(max(elapsed_s, 2.0 * stored_s), cap_s)), at_s))


def after_hang_up(latency: Latency, kind: Kind, elapsed_s: float, *, at_s: float, presumed_s: float = NEVER_MEASURED_S) -> Latency:
    """Tell what is known after a client left before any content: the target needs more than `elapsed_s`, which may be no news."""
    old = latency.of(kind)
    is_news = elapsed_s > (presumed_s if old is None else old.value_s)
    return _raised(latency, kind, Estimate(elapsed_s, at_s)) if is_news else latency


def _raised(latency: Latency, kind: Kind, raised: Estimate) -> Latency:
    if kind is Kind.STREAM:
        return Latency(raised, latency.unary, latency.answered_stream, latency.answered_unary)
    return Latency(latency.stream, raised, latency.answered_stream, latency.answered_unary)


def kind_to_read(kind: Kind, latencies: Sequence[Latency]) -> Kind:
    """Tell the kind that a decision reads: the request's own if any candidate has an estimate of it, else the other."""
    if any(latency.of(kind) is not None for latency in latencies):
        return kind
    return Kind.UNARY if kind is Kind.STREAM else Kind.STREAM


def read(estimates: Sequence[Estimate | None], *, at_s: float) -> list[float | None]:
    """Read the candidates' estimates at `at_s`, in seconds: each faded by its age, none below the least stored; None stays None."""
    stored = [estimate.value_s for estimate in estimates if estimate is not None]
    if not stored:
        return [None] * len(estimates)
    least_s = min(stored)
    return [None if estimate is None else _read(estimate, at_s, least_s) for estimate in estimates]


def _read(estimate: Estimate, at_s: float, least_s: float) -> float:
    age_s = at_s - estimate.at_s
    if age_s <= 0.0 or estimate.value_s == least_s:
        return estimate.value_s
    return max(least_s, estimate.value_s * math.exp(-age_s / READ_DECAY_S))


def presumed(known_s: Sequence[float]) -> float:
    """Tell what a target that was never measured is taken to need: the median of what is known of the others, or 1 s."""
    return median(known_s) if known_s else NEVER_MEASURED_S
