"""What concerns several virtual models: shadowing, legs that are virtual, duplicates, cycles, depth, names that lead nowhere.

Layer: config. Source: behaviour.md §4. Every walk is iterative and visits an edge once.
"""

import msgspec

from gomodel_trio.config.findings import Findings, did_you_mean, shown
from gomodel_trio.config.provider_types import find_type
from gomodel_trio.config.virtual_models import Entry, Target
from gomodel_trio.route.names import split_target
from gomodel_trio.route.policy import Leg, Provider, VirtualModel
from gomodel_trio.route.resolve import resolve_concrete

_DEEPEST_CHAIN = 8

Edges = dict[str, list[str]]


def link(entries: dict[str, Entry], providers: dict[str, Provider], findings: Findings) -> dict[str, VirtualModel]:
    """Give every virtual model its legs, `is_virtual` where a leg names an enabled other one, and check them together."""
    edges: Edges = {}
    models: dict[str, VirtualModel] = {}
    for source, entry in entries.items():
        legs: dict[str, Leg] = {}
        edges[source] = []
        for target in entry.targets:
            if not _is_allowed(source, entry, target, providers, findings):
                continue
            is_chained = target.provider is None and target.name in entries and target.name != source
            if is_chained:
                edges[source].append(target.name)
            is_virtual = is_chained and entries[target.name].model.enabled
            name = target.name if is_virtual else _identity(target, providers)
            if name in legs:
                findings.fault(target.place, f"the target {shown(target.name)} is listed twice")
                continue
            legs[name] = Leg(name, is_virtual, target.weight)
            if not is_chained and target.name != source:
                _warn_of_unknown_head(target, providers, findings)
        models[source] = msgspec.structs.replace(entry.model, legs=tuple(legs.values()))
    _check_chains(edges, entries, findings)
    return models


def can_serve(name: str, models: dict[str, VirtualModel], providers: dict[str, Provider]) -> bool:
    """Whether a model name leads, through virtual models, to at least one target whose provider is available."""
    waiting, seen = [name], {name}
    while waiting:
        current = waiting.pop()
        model = models.get(current)
        if model is None or not model.enabled:
            target = resolve_concrete(providers, current)
            if target is not None and providers[split_target(target)[0]].is_available:
                return True
            continue
        for leg in model.legs:
            if leg.is_virtual and leg.name not in seen:
                seen.add(leg.name)
                waiting.append(leg.name)
            elif not leg.is_virtual:
                target = resolve_concrete(providers, leg.name)
                if target is not None and providers[split_target(target)[0]].is_available:
                    return True
    return False


def _identity(target: Target, providers: dict[str, Provider]) -> str:
    """The qualified name where there is one: `gpt-5` and `openai/gpt-5` are the same target."""
    return resolve_concrete(providers, target.model, target.provider) or target.name


def _is_allowed(source: str, entry: Entry, target: Target, providers: dict[str, Provider], findings: Findings) -> bool:
    """Whether the target is no self-target; one that shadows a real model means the concrete one.

    A bare name that no configured list holds is presumed real if it has company and a provider's list is yet to be discovered.
    """
    if target.name != source or target.provider is not None:
        return True
    head, slash, _ = source.partition("/")
    if resolve_concrete(providers, source) is not None or (slash and find_type(head) is not None):
        return True
    if len(entry.targets) > 1 and not slash and any(provider.is_available and not provider.models for provider in providers.values()):
        findings.warn(target.place, f"{shown(source)} is taken for a real model's name, but no configured model list holds it")
        return True
    findings.fault(target.place, f"{shown(source)} targets itself, and no provider has a model of that name that it could shadow")
    return False


def _warn_of_unknown_head(target: Target, providers: dict[str, Provider], findings: Findings) -> None:
    """A concrete target that resolves to nothing is skipped at run time; tell how it may have been meant."""
    if resolve_concrete(providers, target.model, target.provider) is not None:
        return
    head = target.name.partition("/")[0]
    suggestion = did_you_mean(head, providers) if "/" in target.name and find_type(head) is None else ""
    findings.warn(target.place, f"{shown(target.name)} resolves to no configured provider: unavailable" + suggestion)


def _check_chains(edges: Edges, entries: dict[str, Entry], findings: Findings) -> None:
    """Find every cycle and every chain that is too deep, by one depth-first walk over all sources."""
    depth: dict[str, int] = {}
    deepest_next: dict[str, str] = {}
    in_cycle: set[str] = set()
    for start in edges:
        if start in depth:
            continue
        path, on_path = [start], {start: 0}
        left = [iter(edges[start])]
        while path:
            following = next(left[-1], None)
            if following is None:
                _settle(path[-1], edges, depth, deepest_next)
                del on_path[path.pop()]
                left.pop()
            elif following in on_path:
                cycle = path[on_path[following] :]
                in_cycle.update(cycle)
                findings.fault(entries[following].place, f"cycle: {' -> '.join([*cycle, following])}")
            elif following not in depth:
                on_path[following] = len(path)
                path.append(following)
                left.append(iter(edges[following]))
    targeted = {name for names in edges.values() for name in names}
    for source, levels in depth.items():
        if levels > _DEEPEST_CHAIN and source not in targeted and source not in in_cycle:
            chain = [source]
            while chain[-1] in deepest_next:
                chain.append(deepest_next[chain[-1]])
            spelled = " -> ".join(chain)
            findings.fault(entries[source].place, f"chain of {levels} virtual models, at most {_DEEPEST_CHAIN} are allowed: {spelled}")


def _settle(source: str, edges: Edges, depth: dict[str, int], deepest_next: dict[str, str]) -> None:
    """Note how many virtual models deep `source` goes, now that all behind it are known; an edge back into a cycle counts nothing."""
    depth[source] = 1
    for name in edges[source]:
        if name in depth and name != source and depth[name] + 1 > depth[source]:
            depth[source] = depth[name] + 1
            deepest_next[source] = name
