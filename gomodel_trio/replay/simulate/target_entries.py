"""The targets of a scenario file: each with its conditions and the phases that change them.

Layer: replay.
"""

import math
from typing import Any, Final

import msgspec

from gomodel_trio.config.findings import Findings, shown
from gomodel_trio.config.located import Located, number_of
from gomodel_trio.replay.simulate.members import Members, duration_of
from gomodel_trio.replay.simulate.scenario import Cache, Conditions, Distribution, Errors, Outage, RateLimit, Target
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.policy import Price

_CONDITIONS: Final = (
    "latency", "slower", "tokens_per_second", "concurrency", "outage", "errors", "rate_limit", "price", "cache",
)  # fmt: skip


def read_targets(top: Members, duration_s: float, findings: Findings) -> tuple[Target, ...]:
    """Read the list `targets` of a scenario that lasts `duration_s`; what is wrong is left out, and a fault."""
    targets: dict[str, Target] = {}
    for item in top.items("targets"):
        target = _target(item, duration_s, findings)
        if target is None:
            continue
        if target.name in targets:
            findings.fault(item.place, f"the target {shown(target.name)} is declared twice")
        targets[target.name] = target
    listed = top.get("targets")
    if listed is not None and listed.value == []:
        findings.fault(listed.place, "has no target")
    return tuple(targets.values())


def _target(item: Located, duration_s: float, findings: Findings) -> Target | None:
    given = Members(item, ("name", "weight", "phases", *_CONDITIONS), findings, "a target such as {name: east/m, latency: 800ms}")
    if not given.require("name", "latency"):
        return None
    name = given.text("name")
    provider, _, model = name.partition("/")
    if name and not (provider and model):
        findings.fault(item.child("name", name).place, f"must be provider/model, not {shown(name)}")
    usual = Conditions(Distribution("constant", 1.0, 1.0))
    base = msgspec.structs.replace(usual, **_changes(given, findings))
    changes = [_phase(each, duration_s, findings) for each in given.items("phases")]
    segments = _segments(base, [change for change in changes if change is not None])
    return Target(TargetId(name), given.number("weight", 1.0, least=0.001), segments)


def _phase(item: Located, duration_s: float, findings: Findings) -> tuple[float, float, dict[str, Any]] | None:
    given = Members(item, ("from", "until", *_CONDITIONS), findings, "a phase such as {from: 5m, until: 10m, outage: 503}")
    if not given.require("from"):
        return None
    from_s = given.duration("from", 0.0, most=duration_s)
    until_s = given.duration("until", duration_s)
    if until_s <= from_s:
        findings.fault(item.place, "ends before it begins")
    return from_s, math.inf if until_s >= duration_s else until_s, _changes(given, findings)


def _segments(base: Conditions, phases: list[tuple[float, float, dict[str, Any]]]) -> tuple[tuple[float, Conditions], ...]:
    """The conditions from each instant where they change; of phases that overlap the later one in the file counts."""
    edges = sorted({0.0, *(edge for from_s, until_s, _ in phases for edge in (from_s, until_s) if edge != math.inf)})
    segments = []
    for edge in edges:
        conditions = base
        for from_s, until_s, changes in phases:
            if from_s <= edge < until_s:
                conditions = msgspec.structs.replace(conditions, **changes)
        segments.append((edge, conditions))
    return tuple(segments)


def _changes(given: Members, findings: Findings) -> dict[str, Any]:
    """What of the conditions is given, under the names of `Conditions`."""
    changes: dict[str, Any] = {}
    if (latency := given.get("latency")) is not None:
        changes["latency"] = _distribution(latency, findings)
    if "slower" in given:
        changes["slower"] = given.number("slower", 1.0, least=0.001, most=1000.0)
    if "tokens_per_second" in given:
        changes["tokens_per_second"] = given.number("tokens_per_second", 1.0, least=0.001)
    if "concurrency" in given:
        changes["concurrency"] = given.whole("concurrency", 1, least=1)
    if (outage := given.get("outage")) is not None:
        changes["outage"] = _outage(outage, findings)
    if (errors := given.get("errors")) is not None:
        read = Members(errors, ("fraction", "status", "after"), findings)
        read.require("fraction")
        after_s = read.duration("after", -1.0)
        changes["errors"] = Errors(read.number("fraction", 0.0, most=1.0), _status(read), None if after_s < 0 else after_s)
    if (limit := given.get("rate_limit")) is not None:
        changes["rate_limit"] = _rate_limit(limit, findings)
    if (price := given.get("price")) is not None:
        read = Members(price, ("input", "output"), findings)
        read.require("input", "output")
        changes["price"] = Price(read.number("input", 0.0), read.number("output", 0.0))
    if (cache := given.get("cache")) is not None:
        read = Members(cache, ("latency_factor", "price_factor", "ttl"), findings)
        changes["cache"] = Cache(
            latency_factor=read.number("latency_factor", 1.0, least=0.001, most=1.0),
            price_factor=read.number("price_factor", 1.0, most=1.0),
            ttl_s=read.duration("ttl", 300.0),
        )
    return changes


def _status(read: Members, default: int = 500) -> int:
    return read.whole("status", default, least=400, most=599)


def _outage(item: Located, findings: Findings) -> Outage | None:
    """`silence`, a status, {status, after}, or `none` where a phase ends an outage."""
    if item.value in ("silence", "none"):
        return Outage(None) if item.value == "silence" else None
    usual = Outage(503)
    if isinstance(item.value, int):
        status = number_of(item, findings, least=400, most=599)
        return usual if status is None else Outage(int(status))
    read = Members(item, ("status", "after"), findings, "'silence', 'none', a status, or a mapping with 'status' and 'after'")
    return Outage(_status(read, 503), read.duration("after", usual.after_s))


def _rate_limit(item: Located, findings: Findings) -> RateLimit:
    read = Members(item, ("per_second", "burst", "retry_after"), findings)
    read.require("per_second")
    per_second = read.number("per_second", 1.0, least=0.001)
    retry_after_s = read.duration("retry_after", -1.0)
    burst = read.number("burst", max(1.0, per_second), least=1.0)
    return RateLimit(per_second, burst, None if retry_after_s < 0 else retry_after_s)


def _distribution(item: Located, findings: Findings) -> Distribution:
    """A duration (constant), or {constant}, {uniform: [least, most]}, {lognormal: median, sigma}."""
    fallback = Distribution("constant", 1.0, 1.0)
    if not isinstance(item.value, dict):
        value_s = duration_of(item, findings, least=0.001)
        return fallback if value_s is None else Distribution("constant", value_s, value_s)
    given = Members(item, ("constant", "uniform", "lognormal", "sigma"), findings)
    shapes = [shape for shape in ("constant", "uniform", "lognormal") if shape in given]
    if len(shapes) != 1:
        findings.fault(item.place, "must have exactly one of constant, uniform, lognormal")
        return fallback
    if "sigma" in given and shapes != ["lognormal"]:
        findings.fault(item.place, "'sigma' goes with lognormal only")
    if shapes == ["uniform"]:
        return _uniform(given, findings) or fallback
    value_s = given.duration(shapes[0], 1.0, least=0.001)
    if shapes == ["constant"]:
        return Distribution("constant", value_s, value_s)
    return Distribution("lognormal", value_s, value_s, given.number("sigma", 0.1, most=5.0))


def _uniform(given: Members, findings: Findings) -> Distribution | None:
    ends = [duration_of(each, findings, least=0.001) for each in given.items("uniform")]
    known = [end for end in ends if end is not None]
    uniform = given.get("uniform")
    if uniform is not None and isinstance(uniform.value, list) and len(known) == len(ends) and (len(ends) != 2 or known[0] > known[1]):
        findings.fault(uniform.place, "must be two durations, [least, most]")
    return Distribution("uniform", known[0], known[1]) if len(known) == 2 else None
