"""Power of two choices: two draws with replacement, the lower load wins.

Layer: route. Source: behaviour.md §5 (load, draw). Draws are uniform numbers in [0, 1).
"""

import math
from collections.abc import Sequence
from itertools import accumulate


def load_of(latency_s: float, in_flight: int) -> float:
    """Tell how long a further request would wait, roughly: what one takes, times those it shares the target with."""
    return latency_s * (in_flight + 1)


def draw(weights: Sequence[float], uniform: float) -> int:
    """Tell whom a uniform number draws: the first whose cumulative weight is above it, scaled by the sum. Weight 0 is never drawn.

    Raises:
        ValueError: the weights do not add up to a finite number above 0.
    """
    ends = list(accumulate(weights))
    if not ends or not math.isfinite(ends[-1]) or ends[-1] <= 0:
        raise ValueError("weights do not add up to a finite number above 0")
    point, last = uniform * ends[-1], 0
    for index, end in enumerate(ends):
        if point < end:
            return index
        if weights[index] > 0:
            last = index
    return last  # rounding put the point on the sum itself


def pick_of_two(weights: Sequence[float], loads: Sequence[float], draws: tuple[float, float]) -> int:
    """Tell the index of the drawn candidate with the lower load; on a tie the first drawn.

    Raises:
        ValueError: as `draw`.
    """
    first, second = draw(weights, draws[0]), draw(weights, draws[1])
    return second if loads[second] < loads[first] else first
