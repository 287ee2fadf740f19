"""The wheel of deadlines, turned by hand."""

import math

import pytest

from gomodel_trio.listen.deadlines import Deadlines


class Item:
    def __init__(self) -> None:
        self.deadline_s = math.inf
        self.slot: int | None = None
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


def test_an_item_expires_once_at_its_deadline_and_not_before() -> None:
    wheel, item = Deadlines(), Item()
    wheel.set(item, 10.05)
    wheel.expire(10.0)
    assert item.expired == 0
    wheel.expire(10.2)
    wheel.expire(99.0)
    assert (item.expired, len(wheel)) == (1, 0)


def test_a_later_deadline_is_kept_though_the_item_is_not_moved() -> None:
    wheel, item = Deadlines(), Item()
    wheel.set(item, 10.0)
    wheel.set(item, 20.0)
    assert item.slot == 100
    wheel.expire(15.0)
    assert (item.expired, item.slot) == (0, 200)
    wheel.expire(20.0)
    assert item.expired == 1


def test_a_sooner_deadline_moves_the_item() -> None:
    wheel, item = Deadlines(), Item()
    wheel.set(item, 75.0)
    wheel.set(item, 30.0)
    wheel.expire(30.0)
    assert (item.expired, len(wheel)) == (1, 0)


def test_an_item_without_a_deadline_leaves_the_wheel_at_its_slot() -> None:
    wheel, item = Deadlines(), Item()
    wheel.set(item, 1.0)
    wheel.set(item, math.inf)
    wheel.expire(2.0)
    assert (item.expired, item.slot, len(wheel)) == (0, None, 0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_forgotten_item_leaves_nothing(count: int) -> None:
    wheel = Deadlines()
    items = [Item() for _ in range(2)]
    for item in items:
        wheel.set(item, 1.0)
    for item in items[:count]:
        wheel.forget(item)
        wheel.forget(item)
    wheel.expire(2.0)
    assert [item.expired for item in items] == [0] * count + [1] * (2 - count)
    assert len(wheel) == 0
