"""Mutated requests against the fast front door; `scripts/fuzz_http` runs many more."""

from support.h1_server_fuzz import ConnectionTarget, HeadTarget
from support.http_fuzz import case_of, fuzz


async def test_mutated_heads_are_refused_or_read_as_h11_reads_them() -> None:
    target = HeadTarget()
    await fuzz(target, cases=3000, seed=1)
    assert target.compared > 500


async def test_mutated_connections_end_and_leave_nothing() -> None:
    target = ConnectionTarget()
    async with target.running():
        await fuzz(target, cases=1000, seed=1)
    assert target.answers > 200


def test_a_case_can_be_had_again() -> None:
    assert case_of([b"abc", b"def"], 1, 5)[0] == case_of([b"abc", b"def"], 1, 5)[0]
