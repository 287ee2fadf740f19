"""Mutation fuzzing of what reads HTTP. A target says what a case is fed to and what must hold; a case can be had again by its number."""

import gc
import os
import random
from collections.abc import Sequence
from typing import Protocol

TOKENS = [
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"\x00", b"\t", b" ", b"  ", b":", b";", b",", b"\x0b", b"\x7f", b"\x80", b"\xff",
    b"%", b"#", b"?", b"*", b"0", b"1", b"5", b"-1", b"+5", b"0x5", b"05", b"5, 5", b"00000000000000005", b"18446744073709551616",
    b"ffffffffffffffff", b"0\r\n\r\n", b"content-length: 5\r\n", b"Content-Length: 0\r\n", b"transfer-encoding: chunked\r\n",
    b"Transfer-Encoding: xchunked\r\n", b"transfer-encoding:", b"chunked", b"identity", b"gzip, chunked", b"chunked, chunked",
    b"connection: close\r\n", b"connection: keep-alive\r\n", b"connection: upgrade\r\n", b"upgrade: websocket\r\n",
    b"expect: 100-continue\r\n", b"host: y\r\n", b"host:\r\n", b" x: folded\r\n", b": empty\r\n", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0",
    b"HTTP/0.9", b"GET ", b"HEAD ", b"POST ", b"OPTIONS * ", b"CONNECT a:1 ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"http://a/",
    b"x" * 300,
]  # fmt: skip
"""What separates, frames and confuses."""


class Finding(AssertionError):
    """What must hold does not."""


class Target(Protocol):
    """What is fuzzed. `corpus`: well-formed and hostile inputs to start from."""

    corpus: Sequence[bytes]

    async def run(self, case: bytes, chance: random.Random) -> None:
        """Feed one case. Raises whatever shows a fault; refusing the input is none."""
        ...

    def check(self) -> None:
        """Look for what has gathered over the cases, at any time between two."""
        ...


def case_of(corpus: Sequence[bytes], seed: int, number: int) -> tuple[bytes, random.Random]:
    """The case of that number, and the chance that goes with it."""
    chance = random.Random(f"{seed}:{number}")
    case = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5, 8))):
        _mutate(case, corpus, chance)
    return bytes(case[:8192]), chance


async def fuzz(target: Target, *, cases: int, seed: int, first: int = 0) -> None:
    """Run that many cases.

    Raises:
        Finding: the first that shows a fault; it tells how to have it again.
    """
    before: int | None = None
    for number in range(first, first + cases):
        case, chance = case_of(target.corpus, seed, number)
        try:
            await target.run(case, chance)
        except Exception as error:
            raise Finding(f"seed {seed}, case {number}: {error!r}: {case!r}") from error
        if number - first == cases // 5:
            before = _held()
    target.check()
    if before is not None and _held() - before > 2000 + cases // 1000:
        raise Finding(f"seed {seed}: {_held() - before} more objects and files are held than after a fifth of the cases")


def _held() -> int:
    gc.collect()
    return len(gc.get_objects()) + 1000 * len(os.listdir("/proc/self/fd"))


def _mutate(case: bytearray, corpus: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(case) + 1)
    end = min(len(case), at + chance.choice((1, 1, 2, 4, 16, 64)))
    match chance.randrange(9):
        case 0 if case:
            case[min(at, len(case) - 1)] = chance.randrange(256)
        case 1 | 2:
            case[at:at] = chance.choice(TOKENS)
        case 3:
            case[at:end] = chance.choice(TOKENS)
        case 4:
            del case[at:end]
        case 5:
            case[at:at] = case[at:end]
        case 6:
            del case[at:]
        case 7:
            other = chance.choice(corpus)
            case[at:] = other[chance.randrange(len(other) + 1) :]
        case _:
            lines = bytes(case).split(b"\r\n")
            one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            case[:] = b"\r\n".join(lines)
