"""Shares over many requests: at equal load every target gets what its weight promises (behaviour.md §5, weight and draw)."""

import random
from collections import Counter

import pytest

from gomodel_trio.state.commands import TargetWeight
from support.adaptive_room import Room

LIMIT_2_DF = 9.21
"""What chi-square with two degrees of freedom exceeds once in a hundred times."""


def serve(room: Room, count: int, seed: int) -> Counter[str]:
    """So many requests one after the other, each of half a second: sums of halves are exact, so that loads are equal to the bit."""
    draws = random.Random(seed)
    return Counter(room.serve(float(at_s), draws=(draws.random(), draws.random()), for_s=0.5) for at_s in range(count))


def chi_square(served: Counter[str], shares: dict[str, float]) -> float:
    total = served.total()
    return sum((served[name] - total * share) ** 2 / (total * share) for name, share in shares.items())


@pytest.mark.parametrize(
    ("objective", "parts"),
    [("latency", {"A": 2, "B": 1, "C": 1}), ("balanced", {"A": 8, "B": 2, "C": 1}), ("cost", {"A": 32, "B": 4, "C": 1})],
)
@pytest.mark.parametrize("floor", [0.0, 0.05, 0.5])
def test_each_objective_gives_the_promised_shares(objective: str, parts: dict[str, float], floor: float) -> None:
    room = Room(objective=objective, min_weight_fraction=floor, prices={"A": 2, "B": 4, "C": 8}, weights={"A": 2})
    floored = {name: max(part, floor * parts["A"]) for name, part in parts.items()}
    shares = {name: part / sum(floored.values()) for name, part in floored.items()}
    served = serve(room, 3000, seed=17)
    assert chi_square(served, shares) < LIMIT_2_DF, served
    shown = {name: [row for row in room.row(3000.0, name).weights if isinstance(row, TargetWeight)] for name in parts}
    assert {name: row.share for name, rows in shown.items() for row in rows} == pytest.approx(shares)


@pytest.mark.parametrize("seed", range(5))
def test_identical_idle_targets_are_taken_equally(seed: int) -> None:
    assert chi_square(serve(Room(), 300, seed), dict.fromkeys("ABC", 1 / 3)) < LIMIT_2_DF


def test_a_warm_target_is_drawn_eight_times_as_often() -> None:
    room, draws = Room(session_affinity=False), random.Random(4)
    room.measure(0.0, "A", 0.5)
    served: Counter[str] = Counter()
    for number in range(3000):
        session = f"s{number}"
        room.end(float(number + 1), room.ask_for(number + 0.5, "A", session))
        served[room.serve(float(number + 1), session, draws=(draws.random(), draws.random()), for_s=0.5)] += 1
    assert chi_square(served, {"A": 0.8, "B": 0.1, "C": 0.1}) < LIMIT_2_DF, served
