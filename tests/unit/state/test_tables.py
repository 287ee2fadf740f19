"""Pin tables and the reading side of the routing state."""

from gomodel_trio.route.health import TargetHealth
from gomodel_trio.route.names import LeaseId, SessionId, TargetId
from gomodel_trio.route.policy import Policy
from gomodel_trio.state.tables import PinTable, RoutingState, Standing

S, T, U = (("v", SessionId(name)) for name in "stu")


def test_a_pin_lives_from_its_last_use_for_its_ttl() -> None:
    pins: PinTable[str] = PinTable()
    pins.put(S, "a", at_s=0, limit=10)
    assert pins.get(S, at_s=9.9, ttl_s=10) == "a"
    pins.put(S, "a", at_s=9.9, limit=10)
    assert pins.get(S, at_s=19.8, ttl_s=10) == "a"
    assert pins.get(S, at_s=19.9, ttl_s=10) is None


def test_over_the_limit_the_pin_that_expires_soonest_goes() -> None:
    pins: PinTable[str] = PinTable()
    pins.put(S, "a", at_s=0, limit=2)
    pins.put(T, "a", at_s=1, limit=2)
    pins.put(S, "a", at_s=2, limit=2)
    pins.put(U, "b", at_s=3, limit=2)
    assert [pins.get(key, at_s=3, ttl_s=10) for key in (S, T, U)] == ["a", None, "b"]
    assert (len(pins), pins.count_of("a"), pins.count_of("b"), pins.count_of("c")) == (2, 1, 1, 0)


def test_expiry_frees_what_is_over_and_tells_what_comes_next() -> None:
    pins: PinTable[str] = PinTable()
    assert pins.next_expiry_s(10) is None
    pins.put(S, "a", at_s=0, limit=10)
    pins.put(T, "b", at_s=4, limit=10)
    assert pins.next_expiry_s(10) == 10
    assert pins.expire(at_s=10, ttl_s=10) == 1
    assert pins.next_expiry_s(10) == 14
    assert pins.expire(at_s=13.9, ttl_s=10) == 0


def test_a_limit_of_nothing_keeps_no_pins() -> None:
    pins: PinTable[str] = PinTable()
    pins.put(S, "a", at_s=0, limit=-1)
    assert len(pins) == 0


def test_an_unproven_target_with_a_newer_attempt_counts_as_cooling() -> None:
    state, target = RoutingState(Policy()), TargetId("a/m")
    assert state.standing(target, 0) is Standing.WELL
    record = state.record(target)
    record.health = TargetHealth(k=1, began_at_s=0, began_order=5, until_s=10, is_unproven=True)
    assert state.standing(target, 9.9) is Standing.COOLING
    record.open_leases[LeaseId(5)] = 5
    assert state.standing(target, 10) is Standing.PROBATION
    record.open_leases[LeaseId(6)] = 6
    assert state.standing(target, 10) is Standing.COOLING
    record.health = TargetHealth(k=1, began_at_s=0, began_order=5, until_s=10)
    assert state.standing(target, 10) is Standing.WELL


def test_two_equal_states_are_equal() -> None:
    one, two = RoutingState(Policy()), RoutingState(Policy())
    assert one == two
    two.turns["v", None] = 1
    assert one != two
    assert one != 3
