"""What a caller's headers ask of routing (behaviour.md §3, §9)."""

import pytest

from gomodel_trio.route.directives import alias_of, forced_tier, header, user_path_of
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import Alias, SmartRouting

NORMAL = Alias("normal", "a", "b")
SMART = SmartRouting(aliases={"normal": NORMAL})


def test_the_first_value_of_a_header_is_read_as_latin_1() -> None:
    headers = [(b"other", b"x"), (b"name", b"\xfc"), (b"name", b"second")]
    assert (header(headers, b"name"), header(headers, b"none")) == ("ü", None)


@pytest.mark.parametrize(
    ("smart", "model", "provider", "alias"),
    [
        (SMART, "normal", None, NORMAL),
        (SMART, "Normal", None, None),
        (SMART, "other", None, None),
        (SMART, None, None, None),
        (SMART, "normal", "openai", None),
        (SmartRouting(enabled=False, aliases={"normal": NORMAL}), "normal", None, None),
    ],
)
def test_an_alias_is_named_exactly_without_a_provider(
    smart: SmartRouting, model: str | None, provider: str | None, alias: Alias | None
) -> None:
    assert alias_of(smart, model, provider, []) == alias


@pytest.mark.parametrize(
    ("value", "is_off"), [(b"off", True), (b" OFF ", True), (b"Off", True), (b"on", False), (b"", False), (b"offf", False)]
)
def test_tier_routing_is_switched_off_in_any_case(value: bytes, is_off: bool) -> None:
    assert (alias_of(SMART, "normal", None, [(b"x-gomodel-smart-routing", value)]) is None) == is_off


@pytest.mark.parametrize(
    ("value", "tier"), [(b"easy", Tier.EASY), (b" HARD ", Tier.HARD), (b"Hard", Tier.HARD), (b"medium", None), (b"", None), (b"\xff", None)]
)
def test_a_tier_is_forced_in_any_case_and_other_words_are_ignored(value: bytes, tier: Tier | None) -> None:
    assert forced_tier([(b"x-gomodel-tier", value)]) == tier
    assert forced_tier([]) is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (None, ""),
        (b"", ""),
        (b"/", ""),
        (b" // ", ""),
        (b"team", "/team"),
        (b"/team/app", "/team/app"),
        (b"//team///app/ ", "/team/app"),
        ("/team/Jürgen".encode(), "/team/Jürgen"),
        (b"/team/J\xfcrgen", "/team/Jürgen"),
        (b"/team app", "/team app"),
    ],
)
def test_a_user_path_has_one_spelling(value: bytes | None, path: str) -> None:
    assert user_path_of([] if value is None else [(b"x-gomodel-user-path", value)]) == path
