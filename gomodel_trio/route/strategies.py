"""How a virtual model picks among its legs, as functions over weights, prices and deadlines; state and chance are arguments.

Layer: route. Source: behaviour.md §4 (round_robin, cost), §5 (all cooling), §7 (keys).
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from gomodel_trio.route.health import TargetHealth
from gomodel_trio.route.names import SessionId

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""Its multiples modulo 1 are the evenest spread there is (Weyl; Knuth, TAOCP 6.4)."""


def pick_round_robin(weights: Sequence[float], turn: int) -> int:
    """Tell whose slot the `turn`-th (from 0) is; a leg of weight w owns w consecutive slots, an unset weight (0) counts 1.

    Fractions are taken as multiples of the least weight where they are (0.5, 1.5 → 1, 3). Where they are not there are no whole slots: the
    turns are then spread over the weights by the golden ratio, so that every leg gets its share evenly.
    """
    shares = [float(weight or 1) for weight in weights]
    if not all(map(float.is_integer, shares)):
        least = min(shares)
        multiples = [round(share / least) for share in shares]
        if not all(math.isclose(share, multiple * least) for share, multiple in zip(shares, multiples, strict=True)):
            return bisect_right(list(accumulate(shares)), math.fmod(turn * _GOLDEN, 1.0) * sum(shares), hi=len(shares) - 1)
        shares = [float(multiple) for multiple in multiples]
    ends = list(accumulate(shares))
    return bisect_right(ends, math.fmod(turn, ends[-1]))


def pick_cheapest(prices: Sequence[float | None]) -> int:
    """Tell the index of the least price; None (unpriced) is skipped while any is priced; ties and all unpriced: the first."""
    return min(range(len(prices)), key=lambda index: math.inf if (price := prices[index]) is None else price)


def pick_last_resort(healths: Sequence[TargetHealth], pinned: int | None = None) -> int:
    """Tell which of targets that are all cooling to try: those with a wrong key, account or name last, else whose cooldown ends first.

    On a tie the pinned one, then the first.
    """
    return min(
        range(len(healths)),
        key=lambda index: (healths[index].is_severe, healths[index].until_s, index != pinned, index),
    )


def order_keys(keys: Sequence[int], *, provider: str, session: SessionId | None, turn: int) -> tuple[int, ...]:
    """Order indices of a provider's keys (at least one) for a request: by rendezvous hash of its session, else rotated by `turn`."""
    if session is None:
        first = turn % len(keys)
        return (*keys[first:], *keys[:first])
    return tuple(sorted(keys, key=lambda index: _rendezvous(session, provider, index), reverse=True))


def _rendezvous(session: str, provider: str, index: int) -> bytes:
    # Surrogates cannot be encoded strictly; a session may hold any text a JSON string can.
    return hashlib.blake2b(f"{session}\0{provider}\0{index}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
