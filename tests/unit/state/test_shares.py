"""What operators see of the weights (behaviour.md §5)."""

import msgspec

from gomodel_trio.route.names import Kind
from gomodel_trio.route.policy import Leg, Strategy, VirtualModel
from gomodel_trio.state.commands import ReplacePolicy, TargetWeight
from support.adaptive_room import Room


def both(source: str, weight: float, share: float) -> tuple[TargetWeight, ...]:
    return tuple(TargetWeight(source, kind, weight, share) for kind in Kind)


def test_each_target_has_its_weight_and_share_by_kind() -> None:
    room = Room(pools={"v": "AB"}, objective="latency", weights={"A": 3})
    assert room.row(0).weights == both("v", 3.0, 0.75)
    room.measure(1, "A", 1.0)
    room.measure(1, "B", 0.25, Kind.STREAM)
    stream, unary = room.row(1).weights
    assert (stream, unary) == (TargetWeight("v", Kind.STREAM, 3.0, 0.75), TargetWeight("v", Kind.UNARY, 3.0, 0.75))
    room.measure(2, "B", 4.0)
    assert room.row(2).weights[1] == TargetWeight("v", Kind.UNARY, 3.0, 3 / 3.25)


def test_a_cooling_target_weighs_nothing_and_where_all_cool_nobody_does() -> None:
    room = Room(pools={"v": "AB"})
    room.cool(0, "A")
    assert (room.row(1).weights, room.row(1, "B").weights) == (both("v", 0.0, 0.0), both("v", 1.0, 1.0))
    room.cool(1, "B")
    assert room.row(2, "B").weights == both("v", 0.0, 0.0)
    assert (room.row(30).weights, room.row(30, "B").weights) == (both("v", 1.0, 1.0), both("v", 0.0, 0.0))


def test_a_target_on_probation_shows_the_floor_not_the_probe() -> None:
    room = Room(pools={"v": "AB"})
    room.cool(0, "A")
    assert room.row(30).weights == both("v", 0.05, 0.05 / 1.05)


def test_a_target_of_several_models_has_a_row_for_each() -> None:
    room = Room(pools={"v": "AB", "u": "AC"})
    assert room.row(0).weights == both("v", 1.0, 0.5) + both("u", 1.0, 0.5)
    assert room.row(0, "B").weights == both("v", 1.0, 0.5)
    assert room.row(0, "D").weights == ()


def test_other_strategies_single_and_disabled_models_and_chained_legs_have_none() -> None:
    room = Room(pools={"v": "AB", "one": "C"})
    policy = room.policy()
    models = {
        **policy.virtual_models,
        "turns": VirtualModel("turns", (Leg("C/m"), Leg("D/m"))),
        "off": VirtualModel("off", (Leg("C/m"), Leg("D/m")), Strategy.ADAPTIVE, enabled=False),
        "chain": VirtualModel("chain", (Leg("D/m"), Leg("v", is_virtual=True)), Strategy.ADAPTIVE),
    }
    room.send(0, ReplacePolicy(msgspec.structs.replace(policy, virtual_models=models)))
    assert room.row(0).weights == both("v", 1.0, 0.5)
    assert room.row(0, "C").weights == ()
    assert room.row(0, "D").weights == both("chain", 1.0, 0.5)


def test_while_adaptive_is_switched_off_there_are_no_weights() -> None:
    assert Room(enabled=False).row(0).weights == ()
