"""A provider's list of models: plain ids, or objects with prices.

Layer: config. Source: behaviour.md §7, §8 (prices from the provider's `models` metadata).
"""

from gomodel_trio.config.findings import Findings, shown
from gomodel_trio.config.json_value import parse_json_variable
from gomodel_trio.config.located import Located, VariableOrigin, check_keys, flag_of, items_of, members_of, number_of, text_of
from gomodel_trio.config.settings import ModelSettings
from gomodel_trio.route.policy import Price

_KEYS = ("id", "enabled", "metadata", "pricing")
_RATES = ("input_per_mtok", "output_per_mtok")


def read_models_text(name: str, text: str, findings: Findings) -> tuple[ModelSettings, ...]:
    """Read the value of a `_MODELS` variable: ids separated by commas, or JSON as in the YAML file."""
    if text[:1] == "[":
        item = parse_json_variable(name, text, findings)
        return read_models(item, findings) if item is not None else ()
    ids = [part.strip() for part in text.split(",")]
    return read_models(Located([each for each in ids if each], name, VariableOrigin()), findings)


def read_models(item: Located, findings: Findings) -> tuple[ModelSettings, ...]:
    """Read a list of models; of two with one id the first counts, with a warning."""
    models: dict[str, ModelSettings] = {}
    for each in items_of(item, findings) or []:
        model = _read_model(each, findings)
        if model is None:
            continue
        if model.id in models:
            findings.warn(each.place, f"{shown(model.id)} is listed twice; the first entry counts")
        models.setdefault(model.id, model)
    return tuple(models.values())


def _read_model(item: Located, findings: Findings) -> ModelSettings | None:
    if not isinstance(item.value, dict):
        name = text_of(item, findings, "the id of a model")
        return ModelSettings(id=name) if name else None
    members = members_of(item, findings) or {}
    check_keys(members, _KEYS, (), findings)
    if "id" not in members:
        findings.fault(item.place, "has no 'id'")
        return None
    name = text_of(members["id"], findings, "the id of a model")
    enabled = flag_of(members["enabled"], findings) if "enabled" in members else True
    price = None
    if "metadata" in members and members["metadata"].value is not None:
        metadata = members_of(members["metadata"], findings) or {}
        price = _read_price(metadata.get("pricing"), findings)
    price = _read_price(members.get("pricing"), findings) or price
    return ModelSettings(id=name, price=price, enabled=enabled is not False) if name else None


def _read_price(item: Located | None, findings: Findings) -> Price | None:
    """Read `input_per_mtok` and `output_per_mtok`; other rates are GoModel's and of no use to routing."""
    if item is None or item.value is None:
        return None
    members = members_of(item, findings)
    if members is None:
        return None
    currency = members.get("currency")
    if currency is not None and currency.value not in ("USD", "usd", None):
        findings.warn(currency.place, f"prices are compared in USD; {shown(str(currency.value))} is ignored")
        return None
    given = [rate for rate in _RATES if rate in members and members[rate].value is not None]
    if len(given) == 1:
        findings.warn(item.place, "needs both input_per_mtok and output_per_mtok; it is ignored")
    rates = [number_of(members[rate], findings) for rate in given]
    if len(given) < len(_RATES) or rates[0] is None or rates[1] is None:
        return None
    return Price(rates[0], rates[1])
