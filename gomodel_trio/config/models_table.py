"""The targets that the configuration knows, one row each: what they speak, whether they can be asked, what they cost, who uses them.

Layer: config. Used by the command `models`. Source: behaviour.md §4 (available), §8 (prices).
"""

from collections.abc import Sequence

import msgspec

from gomodel_trio.config.availability import why_unavailable
from gomodel_trio.config.compile import compile_policy, declared_targets, priced_targets
from gomodel_trio.config.settings import Settings
from gomodel_trio.route.names import TargetId, split_target
from gomodel_trio.route.policy import Policy
from gomodel_trio.route.resolve import resolve_concrete

_HEADINGS = ("TARGET", "TYPE", "DIALECT", "INPUT", "OUTPUT", "PRICE FROM", "USED BY", "AVAILABLE")
_NONE = "-"
_NUMERIC = frozenset({3, 4})
"""Columns that are set to the right."""


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A target. `why_unavailable` is None while it is available, `price_from` where there is no price.

    `used_by`: the virtual models that have it among their own targets, and the aliases of which it is a tier.
    """

    target: str
    provider: str
    model: str
    type: str
    dialect: str
    available: bool
    why_unavailable: str | None
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    price_from: str | None
    used_by: tuple[str, ...]


def list_models(settings: Settings) -> list[ModelRow]:
    """Every declared target: the providers' models in their order, then those that only virtual models or aliases name."""
    policy = compile_policy(settings)
    prices = priced_targets(settings, policy)
    rows = []
    for target in declared_targets(policy):
        name, model = split_target(target)
        provider = settings.providers[name]
        why = why_unavailable(provider) if not provider.is_available else None
        if why is None and target in policy.disabled_targets:
            why = "The model is disabled in the gateway's configuration."
        priced = prices.get(target)
        rows.append(
            ModelRow(
                target=target,
                provider=name,
                model=model,
                type=provider.type,
                dialect=provider.dialect.value,
                available=why is None,
                why_unavailable=why,
                input_usd_per_mtok=priced.price.input_usd_per_mtok if priced is not None else None,
                output_usd_per_mtok=priced.price.output_usd_per_mtok if priced is not None else None,
                price_from=priced.origin if priced is not None else None,
                used_by=_users(policy, target),
            )
        )
    return rows


def table_lines(rows: Sequence[ModelRow]) -> list[str]:
    """The rows as lines with columns of equal width, prices in USD per million tokens."""
    if not rows:
        return ["No models are known: list some under a provider, or name them in a virtual model or an alias."]
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    lines = ["  ".join(_set(text, widths[column], column) for column, text in enumerate(line)).rstrip() for line in cells]
    return [*lines, "INPUT and OUTPUT are USD per million tokens."]


def _users(policy: Policy, target: TargetId) -> tuple[str, ...]:
    pools = policy.virtual_models.items()
    models = [source for source, model in pools if any(leg.name == target and not leg.is_virtual for leg in model.legs)]
    aliases = [alias.name for alias in policy.smart.aliases.values() if target in (_tier(policy, alias.easy), _tier(policy, alias.hard))]
    return tuple(dict.fromkeys([*models, *aliases]))


def _tier(policy: Policy, name: str) -> TargetId | None:
    """The target that a tier's name stands for by itself; None for a virtual model or a name of nothing."""
    return None if name in policy.virtual_models else resolve_concrete(policy.providers, name)


def _cells(row: ModelRow) -> tuple[str, ...]:
    return (
        row.target,
        row.type,
        row.dialect,
        _amount(row.input_usd_per_mtok),
        _amount(row.output_usd_per_mtok),
        row.price_from or "none",
        ", ".join(row.used_by) or _NONE,
        "yes" if row.available else f"no: {row.why_unavailable}",
    )


def _amount(usd_per_mtok: float | None) -> str:
    return _NONE if usd_per_mtok is None else f"{usd_per_mtok:.10g}"


def _set(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column in _NUMERIC else text.ljust(width)
