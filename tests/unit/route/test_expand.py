"""What a virtual model stands for."""

import pytest

from gomodel_trio.route.expand import expand, is_allowed, is_available, path_to, slowdown_of
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.policy import Leg, Policy, Price, Provider, VirtualModel
from gomodel_trio.wire.dialect import Dialect

A, B, C = TargetId("a/m"), TargetId("b/m"), TargetId("c/m")


def provider(name: str, *, is_available: bool = True) -> Provider:
    return Provider(name, "openai", Dialect.OPENAI, is_available, ("m",))


def policy(*models: VirtualModel, disabled: frozenset[TargetId] = frozenset(), prices: dict[TargetId, Price] | None = None) -> Policy:
    providers = {name: provider(name) for name in "abc"} | {"keyless": provider("keyless", is_available=False)}
    return Policy(
        providers=providers, virtual_models={model.source: model for model in models}, disabled_targets=disabled, prices=prices or {}
    )


@pytest.mark.parametrize(
    ("target", "expect"), [("a/m", True), ("a/unlisted", True), ("b/m", False), ("keyless/m", False), ("nowhere/m", False), ("m", False)]
)
def test_available_is_a_usable_provider_and_no_ban(target: str, expect: bool) -> None:
    assert is_available(policy(disabled=frozenset({B})), TargetId(target)) is expect


@pytest.mark.parametrize(
    ("rules", "path", "expect"),
    [
        ((), "", True),
        (("/team",), "/team", True),
        (("/team",), "/team/app", True),
        (("/team",), "/team/", True),
        (("/team/",), "/team", True),
        (("/team",), "/teamx", False),
        (("/team",), "/", False),
        (("/team", "/ops"), "/ops/x", True),
        (("/",), "", True),
    ],
)
def test_a_user_path_is_allowed_by_whole_segments(rules: tuple[str, ...], path: str, expect: bool) -> None:
    assert is_allowed(VirtualModel("v", (), user_paths=rules), path) is expect


def test_unavailable_legs_are_left_out_but_stay_configured() -> None:
    model = VirtualModel("v", (Leg("keyless/m"), Leg("a/m", weight=2), Leg("b/m")))
    branch = expand(policy(model, disabled=frozenset({B})), model)
    assert [(node.name, node.weight, node.targets) for node in branch.nodes] == [("a/m", 2, (A,))]
    assert branch.targets == (A,)
    assert branch.configured == {"keyless/m", "a/m", "b/m"}


def test_a_chain_is_one_leg_with_its_targets_in_declared_order() -> None:
    inner = VirtualModel("inner", (Leg("c/m"), Leg("b/m")))
    outer = VirtualModel("outer", (Leg("a/m"), Leg("inner", is_virtual=True), Leg("b/m")))
    branch = expand(policy(inner, outer, prices={B: Price(1, 2), C: Price(4, 4)}), outer)
    assert [node.targets for node in branch.nodes] == [(A,), (C, B), (B,)]
    assert [node.price for node in branch.nodes] == [None, 3.0, 3.0]
    assert branch.targets == (A, C, B)


def test_the_path_to_a_target_names_each_leg_on_the_way() -> None:
    inner = VirtualModel("inner", (Leg("c/m"),), slowdown=0.5)
    outer = VirtualModel("outer", (Leg("a/m"), Leg("inner", is_virtual=True)))
    branch = expand(policy(inner, outer), outer)
    path = path_to(branch, C)
    assert [(step.model.source, node.name) for step, node in path] == [("outer", "inner"), ("inner", "c/m")]
    assert slowdown_of(path) == 0.5
    assert slowdown_of(path_to(branch, A)) is None


def test_a_leg_that_names_nothing_is_left_out() -> None:
    model = VirtualModel("v", (Leg("ghost", is_virtual=True), Leg("m", is_virtual=True)))
    assert expand(policy(model), model).targets == (A,)
