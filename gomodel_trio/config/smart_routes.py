"""The aliases of smart tier routing and the operator's keywords.

Layer: config. Source: behaviour.md §3 (a missing or empty tier, a non-string: a fault at its path).
"""

from gomodel_trio.config.findings import Findings
from gomodel_trio.config.located import Located, check_keys, members_of, text_of, texts_of
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import Alias

_TIERS = tuple(tier.value for tier in Tier)


def read_aliases(item: Located | None, findings: Findings) -> dict[str, Alias]:
    """Read `{"alias": {"easy": model, "hard": model}}`; an empty object is no alias at all."""
    if item is None:
        return {}
    routes = members_of(item, findings, 'an object such as {"normal":{"easy":"model-a","hard":"model-b"}}')
    aliases: dict[str, Alias] = {}
    for raw_name, route in (routes or {}).items():
        name = raw_name.strip()
        if not name:
            findings.fault(route.place, "an alias needs a name")
            continue
        if name in aliases:
            findings.fault(route.place, f"the alias {name!r} is given twice")
            continue
        tiers = _read_tiers(route, findings)
        if tiers is not None:
            aliases[name] = Alias(name, *tiers)
    return aliases


def read_keywords(item: Located | None, findings: Findings) -> tuple[str, ...]:
    """Read the list of keywords; a leading minus removes one, and needs a phrase behind it."""
    if item is None:
        return ()
    keywords = texts_of(item, findings)
    for keyword in keywords:
        if not keyword.removeprefix("-").strip():
            findings.fault(item.place, f"{keyword!r} removes nothing: write the phrase behind the minus")
    return tuple(dict.fromkeys(keywords))


def _read_tiers(route: Located, findings: Findings) -> tuple[str, str] | None:
    """The models of both tiers; None after a fault."""
    tiers = members_of(route, findings, 'an object with "easy" and "hard"')
    if tiers is None:
        return None
    check_keys(tiers, _TIERS, (), findings)
    models: list[str] = []
    for tier in _TIERS:
        if tier not in tiers:
            findings.fault(route.place, f'has no "{tier}" model')
            continue
        model = text_of(tiers[tier], findings, "the name of a model")
        if model is not None:
            models.append(model)
    return (models[0], models[1]) if len(models) == len(_TIERS) else None
