"""Virtual models as declared in YAML and `VIRTUAL_MODELS`: each entry checked by itself.

Layer: config. What concerns several entries (cycles, shadowing, providers) is in `model_graph`. Source: behaviour.md §4.
"""

from collections.abc import Collection
from dataclasses import dataclass

from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.foreign import FOREIGN_VIRTUAL_MODEL_KEYS
from gomodel_trio.config.located import Located, check_keys, flag_of, items_of, kind_of, members_of, number_of, text_of, texts_of
from gomodel_trio.config.provider_types import PROVIDER_TYPES, find_type
from gomodel_trio.route.policy import Strategy, VirtualModel

_KEYS = (
    "source", "target", "targets", "strategy", "session_affinity", "failover", "user_paths", "description", "enabled", "slowdown",
)  # fmt: skip
_TARGET_KEYS = ("model", "provider", "weight")
_SLOWDOWN_LEAST, _SLOWDOWN_MOST = 0.1, 10.0


@dataclass(frozen=True)
class Target:
    """A target as written. `provider` is the explicit one: then the model is concrete, whatever its name."""

    model: str
    provider: str | None
    weight: float
    place: str

    @property
    def name(self) -> str:
        """The model, qualified with the explicit provider unless it already is."""
        if self.provider is None or self.model.startswith(self.provider + "/"):
            return self.model
        return f"{self.provider}/{self.model}"


@dataclass(frozen=True)
class Entry:
    """A checked entry: the virtual model still without legs, its targets, and its place for messages."""

    model: VirtualModel
    targets: tuple[Target, ...]
    place: str


def read_virtual_models(
    yaml_list: Located | None, variable_list: Located | None, providers: Collection[str], findings: Findings
) -> dict[str, Entry]:
    """Read both lists by source; an entry of the variable takes the place of the YAML entry of the same source."""
    entries = _read_list(yaml_list, providers, findings)
    entries.update(_read_list(variable_list, providers, findings))
    return entries


def _read_list(item: Located | None, providers: Collection[str], findings: Findings) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for each in (items_of(item, findings) or []) if item is not None else []:
        entry = _read_entry(each, providers, findings)
        if entry is None:
            continue
        if entry.model.source in entries:
            findings.fault(
                entry.place, f"the source {entry.model.source!r} is declared twice, first at {entries[entry.model.source].place}"
            )
        entries.setdefault(entry.model.source, entry)
    return entries


def _read_entry(item: Located, providers: Collection[str], findings: Findings) -> Entry | None:
    members = members_of(item, findings)
    if members is None:
        return None
    check_keys(members, _KEYS, FOREIGN_VIRTUAL_MODEL_KEYS, findings)
    given = {key: each for key, each in members.items() if each.value is not None}
    targets = _read_targets(item, given, providers, findings)
    strategy = _read_strategy(given.get("strategy"), findings)
    flags = {key: flag_of(given[key], findings) is not False for key in ("session_affinity", "failover", "enabled") if key in given}
    user_paths = _read_user_paths(given.get("user_paths"), findings)
    description = _read_description(given.get("description"), findings)
    slowdown = _read_slowdown(given.get("slowdown"), findings)
    if "source" not in given:
        findings.fault(item.place, "has no 'source'")
        return None
    source = text_of(given["source"], findings, "the name of the virtual model")
    if source is None:
        return None
    model = VirtualModel(
        source,
        (),
        strategy=strategy,
        session_affinity=flags.get("session_affinity", True),
        failover=flags.get("failover", True),
        enabled=flags.get("enabled", True),
        user_paths=user_paths,
        description=description,
        slowdown=slowdown,
    )
    return Entry(model, targets, item.place)


def _read_strategy(item: Located | None, findings: Findings) -> Strategy:
    """The strategy; round_robin without one, or after a fault."""
    if item is None:
        return Strategy.ROUND_ROBIN
    text = text_of(item, findings, "the name of a strategy")
    names = [strategy.value for strategy in Strategy]
    if text is None or text in names:
        return Strategy(text) if text else Strategy.ROUND_ROBIN
    findings.fault(item.place, f"unknown strategy {shown(text)}{did_you_mean(text, names)}; the strategies are {', '.join(names)}")
    return Strategy.ROUND_ROBIN


def _read_targets(entry: Located, given: dict[str, Located], providers: Collection[str], findings: Findings) -> tuple[Target, ...]:
    if "target" in given and "targets" in given:
        findings.fault(entry.place, "has both 'target' and 'targets': keep one of them")
    if "targets" in given:
        items = items_of(given["targets"], findings)
        if items == []:
            findings.fault(given["targets"].place, "has no target")
        read = [_read_target(each, providers, findings) for each in items or []]
        return tuple(target for target in read if target is not None)
    if "target" in given:
        model = text_of(given["target"], findings, "the name of a model")
        return (Target(model, None, 0.0, given["target"].place),) if model else ()
    findings.fault(entry.place, "has no 'target' and no 'targets' (access policies without a target are not in this version)")
    return ()


def _read_target(item: Located, providers: Collection[str], findings: Findings) -> Target | None:
    members = members_of(item, findings, 'an object such as {"model":"openai/gpt-5"}')
    if members is None:
        return None
    check_keys(members, _TARGET_KEYS, (), findings)
    provider = weight = None
    if "provider" in members and members["provider"].value not in (None, ""):
        provider = _read_provider(members["provider"], providers, findings)
    if "weight" in members and members["weight"].value is not None:
        weight = number_of(members["weight"], findings)
    if "model" not in members:
        findings.fault(item.place, "has no 'model'")
        return None
    model = text_of(members["model"], findings, "the name of a model")
    return Target(model, provider, weight or 0.0, item.place) if model else None


def _read_provider(item: Located, providers: Collection[str], findings: Findings) -> str | None:
    """The explicit provider: a declared one, or a known type whose credentials may be missing here."""
    name = text_of(item, findings, "the name of a provider")
    if name is None or name in providers or find_type(name) is not None:
        return name
    known = ", ".join(providers) or "none"
    suggestion = did_you_mean(name, (*providers, *PROVIDER_TYPES))
    findings.fault(item.place, f"unknown provider {shown(name)}{suggestion}; configured are: {known}")
    return name


def _read_user_paths(item: Located | None, findings: Findings) -> tuple[str, ...]:
    """Path prefixes with a leading slash and without a trailing one; the root allows everybody."""
    if item is None:
        return ()
    paths = ["/" + text.strip("/") for text in texts_of(item, findings)]
    return () if "/" in paths else tuple(dict.fromkeys(paths))


def _read_description(item: Located | None, findings: Findings) -> str:
    if item is None:
        return ""
    if isinstance(item.value, str):
        return str(item.value)
    findings.fault(item.place, f"must be a string, not {kind_of(item.value)}")
    return ""


def _read_slowdown(item: Located | None, findings: Findings) -> float | None:
    """0, or a factor in its range; None without one, or after a fault."""
    factor = number_of(item, findings, least=0.0, most=_SLOWDOWN_MOST) if item is not None else None
    if item is not None and factor is not None and 0.0 < factor < _SLOWDOWN_LEAST:
        findings.fault(item.place, f"must be 0, or a number from {_SLOWDOWN_LEAST:g} to {_SLOWDOWN_MOST:g}, not {factor:g}")
        return None
    return factor
