"""Places of the HTTP/1.1 transport's pool: limits in total and per origin, and who is next."""

import socket

import pytest
import trio
import trio.testing

from gomodel_trio.upstream.h1_connection import H1Connection
from gomodel_trio.upstream.h1_pool import Pool, Slot
from gomodel_trio.upstream.h1_request import Key, Origin

A, B = Key(Origin("http", "a.test", 80), b""), Key(Origin("http", "b.test", 80), b"")


def pool_of(most: int, per_origin: int | None = None) -> Pool:
    return Pool(max_connections=most, max_per_origin=per_origin, keep_alive_s=30.0)


async def test_places_are_given_in_the_order_of_asking(autojump_clock: trio.testing.MockClock) -> None:
    pool, order = pool_of(2), []

    async def use(number: int, key: Key) -> None:
        await trio.sleep(number / 100)
        slot = await pool.take(key)
        order.append(number)
        await trio.sleep(1)
        slot.end()
        slot.end()

    async with trio.open_nursery() as nursery:
        for number, key in enumerate((A, A, B, A, B, A)):
            nursery.start_soon(use, number, key)
    assert (order, pool.in_use_count) == ([0, 1, 2, 3, 4, 5], 0)


async def test_an_origin_at_its_limit_does_not_hold_up_another(autojump_clock: trio.testing.MockClock) -> None:
    pool, order = pool_of(2, per_origin=1), []

    async def use(name: str, key: Key, at_s: float) -> None:
        await trio.sleep(at_s)
        slot = await pool.take(key)
        order.append((name, round(trio.current_time() - began, 3)))
        await trio.sleep(10)
        slot.end()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for name, key, at_s in (("a1", A, 0.0), ("a2", A, 1.0), ("b1", B, 2.0), ("a3", A, 3.0), ("b2", B, 4.0)):
            nursery.start_soon(use, name, key, at_s)
    assert order == [("a1", 0.0), ("b1", 2.0), ("a2", 10.0), ("b2", 12.0), ("a3", 20.0)]


async def test_nobody_overtakes_those_who_wait(autojump_clock: trio.testing.MockClock) -> None:
    pool = pool_of(1)
    first = pool.try_take(A, trio.current_time())
    assert first is not None
    got: list[Slot] = []

    async def wait() -> None:
        got.append(await pool.take(A))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert pool.try_take(A, trio.current_time()) is None
        first.end()
        assert pool.try_take(A, trio.current_time()) is None
    assert pool.in_use_count == 1
    got[0].end()
    assert pool.in_use_count == 0


@pytest.mark.parametrize("is_granted", ["never", "before", "after"])
async def test_whoever_stops_waiting_takes_no_place_with_it(is_granted: str, autojump_clock: trio.testing.MockClock) -> None:
    pool = pool_of(1)
    first = pool.try_take(A, trio.current_time())
    assert first is not None

    async def wait() -> None:
        (await pool.take(A)).end()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            if is_granted == "before":
                first.end()
            scope.cancel()
            if is_granted == "after":
                first.end()
    first.end()
    again = pool.try_take(A, trio.current_time())
    assert again is not None
    again.end()
    assert pool.in_use_count == 0


async def connection() -> tuple[H1Connection, socket.socket]:
    """One that has answered, with the server's end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    made = H1Connection(ours, bytearray(1000))
    made.parser.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    return made, theirs


async def test_the_longest_idle_makes_room_in_total_and_within_its_origin(autojump_clock: trio.testing.MockClock) -> None:
    pool = pool_of(4, per_origin=2)
    kept = [await connection() for _ in range(4)]
    for (made, _), key in zip(kept, (A, B, A, B), strict=True):
        pool.keep(key, made)
        await trio.sleep(1)
    slot = pool.try_take(Key(A.origin, b"another"), trio.current_time())
    assert slot is not None
    pool.make_room(A)
    assert [made.is_alive() for made, _ in kept] == [False, True, True, True]
    slot.end()
    pool.close()
    assert [made.is_alive() for made, _ in kept] == [False] * 4
    for _, theirs in kept:
        assert theirs.recv(1) == b""
        theirs.close()


async def test_the_last_kept_is_the_first_used_and_an_expired_one_is_not(autojump_clock: trio.testing.MockClock) -> None:
    pool = pool_of(4)
    (old, at_old), (new, at_new) = await connection(), await connection()
    pool.keep(A, old)
    await trio.sleep(20)
    pool.keep(A, new)
    slot = pool.try_take(A, trio.current_time())
    assert slot is not None
    assert slot.connection is new
    await trio.sleep(10)
    other = pool.try_take(A, trio.current_time())
    assert other is not None
    assert (other.connection, pool.idle_count) == (None, 0)
    slot.drop()
    slot.end()
    other.end()
    at_old.close()
    at_new.close()


async def test_those_who_give_up_leave_nothing_behind_and_cost_no_search(autojump_clock: trio.testing.MockClock) -> None:
    pool = pool_of(1)
    first = pool.try_take(A, trio.current_time())
    assert first is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.take, A)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as impatient:
            for _ in range(1000):
                impatient.start_soon(pool.take, A)
            await trio.testing.wait_all_tasks_blocked()
            assert len(pool._waiting[A.origin]) == 1001
            impatient.cancel_scope.cancel()
        assert list(pool._waiting[A.origin]) == [0]
        first.end()
    assert (pool._waiting, pool.in_use_count) == ({}, 1)
