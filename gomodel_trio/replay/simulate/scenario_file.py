"""A scenario file: YAML → Scenario, every fault at once and with its place.

Layer: replay. The format by example: `spec/scenarios/*.yaml`.
"""

from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from gomodel_trio.config.findings import Findings
from gomodel_trio.config.located import Located, kind_of
from gomodel_trio.config.yaml_file import YamlDocument, parse_yaml, read_yaml
from gomodel_trio.replay.simulate.members import Members
from gomodel_trio.replay.simulate.scenario import Limits, Measure, Rate, Scenario, Sessions, StrategyName, Traffic
from gomodel_trio.replay.simulate.target_entries import read_targets
from gomodel_trio.route.attempts import Rules
from gomodel_trio.route.policy import AdaptiveRouting, Objective

_POLICY: Final = (
    "objective", "min_weight_fraction", "cooldown_base", "cooldown_max", "warm_cache_weight", "warm_cache_ttl", "latency_decay",
)  # fmt: skip
_ATTEMPTS: Final = (
    "failover", "max_attempts", "max_retries", "initial_backoff", "max_backoff", "request_timeout", "header_timeout", "first_event_timeout",
)  # fmt: skip
_TOP: Final = ("name", "description", "duration", "warm_up", "seed", "measure", "strategies", "policy", "attempts", "targets", "traffic")
_LONGEST_S: Final = 7 * 86400.0
_MOST_REQUESTS: Final = 2_000_000.0
"""More than a machine's memory and a person's patience hold: a scenario is a thought experiment."""


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ConfigurationError: it cannot be read, or is wrong; with every fault.
    """
    findings = Findings()
    return _checked(read_yaml(path, path.name, findings), path.stem, findings)


def parse_scenario(content: bytes, label: str = "scenario") -> Scenario:
    """Read the bytes of a scenario file; raises as `read_scenario`."""
    findings = Findings()
    return _checked(parse_yaml(content, label, findings), label, findings)


def _checked(document: YamlDocument, name: str, findings: Findings) -> Scenario:
    findings.raise_faults()
    scenario = _scenario(document.root, name, findings)
    findings.raise_faults()
    return scenario


def _scenario(root: Located, name: str, findings: Findings) -> Scenario:
    top = Members(root, _TOP, findings)
    top.require("targets", "traffic", "duration")
    duration_s = top.duration("duration", 60.0, least=1.0, most=_LONGEST_S)
    rules, limits = _attempts(top.get("attempts"), findings)
    adaptive = msgspec.structs.replace(_policy(top.get("policy"), findings), latency_cap_s=limits.request_timeout_s)
    return Scenario(
        name=top.text("name", name),
        description=top.text("description"),
        duration_s=duration_s,
        warm_up_s=top.duration("warm_up", 0.0, most=duration_s),
        seed=top.whole("seed", 1),
        measure=top.choice("measure", Measure.P95),
        strategies=top.choices("strategies", StrategyName) or tuple(StrategyName),
        targets=read_targets(top, duration_s, findings),
        traffic=_traffic(top.get("traffic"), duration_s, findings),
        adaptive=adaptive,
        rules=rules,
        limits=limits,
    )


# ---- policy and attempts --------------------------------------------------------------------------------------------


def _policy(item: Located | None, findings: Findings) -> AdaptiveRouting:
    if item is None:
        return AdaptiveRouting()
    given, usual = Members(item, _POLICY, findings), AdaptiveRouting()
    base_s = given.duration("cooldown_base", usual.cooldown_base_s, least=0.001)
    return AdaptiveRouting(
        objective=given.choice("objective", Objective.BALANCED),
        min_weight_fraction=given.number("min_weight_fraction", usual.min_weight_fraction, most=0.5),
        cooldown_base_s=base_s,
        cooldown_max_s=given.duration("cooldown_max", max(usual.cooldown_max_s, base_s), least=base_s),
        warm_cache_weight=given.number("warm_cache_weight", usual.warm_cache_weight, least=1.0),
        warm_cache_ttl_s=given.duration("warm_cache_ttl", usual.warm_cache_ttl_s),
        latency_decay_s=given.duration("latency_decay", usual.latency_decay_s, least=0.001),
    )


def _attempts(item: Located | None, findings: Findings) -> tuple[Rules, Limits]:
    if item is None:
        return Rules(), Limits()
    given, rules, limits = Members(item, _ATTEMPTS, findings), Rules(), Limits()
    failover = given.get("failover")
    if failover is not None and not isinstance(failover.value, bool):
        findings.fault(failover.place, f"must be true or false, not {kind_of(failover.value)}")
    first_s = given.duration("first_event_timeout", 0.0)
    return Rules(
        is_failover_enabled=failover is None or failover.value is True,
        max_attempts=given.whole("max_attempts", rules.max_attempts),
        max_retries=given.whole("max_retries", rules.max_retries, most=100),
        initial_backoff_s=given.duration("initial_backoff", rules.initial_backoff_s, least=0.001),
        max_backoff_s=given.duration("max_backoff", rules.max_backoff_s, least=0.001),
    ), Limits(
        request_timeout_s=given.duration("request_timeout", limits.request_timeout_s, least=0.001),
        header_timeout_s=given.duration("header_timeout", limits.header_timeout_s, least=0.001),
        first_event_timeout_s=first_s or None,
    )


# ---- traffic --------------------------------------------------------------------------------------------------------


def _traffic(item: Located | None, duration_s: float, findings: Findings) -> Traffic:
    usual = Traffic((Rate(0.0, 1.0),))
    if item is None:
        return usual
    keys = ("per_second", "phases", "stream_fraction", "input_tokens", "output_tokens", "patience", "sessions")
    given = Members(item, keys, findings)
    given.require("per_second")
    rates = [Rate(0.0, given.number("per_second", 1.0))]
    for each in given.items("phases"):
        phase = Members(each, ("from", "per_second"), findings)
        phase.require("from", "per_second")
        rates.append(Rate(phase.duration("from", 0.0, most=duration_s), phase.number("per_second", 1.0)))
    if any(later.from_s <= earlier.from_s for earlier, later in pairwise(rates[1:])):
        findings.fault(item.place, "the phases must begin one after the other")
    ends_s = [*(rate.from_s for rate in rates[1:]), duration_s]
    sessions = None if (listed := given.get("sessions")) is None else _sessions(listed, findings)
    arrivals = sum(rate.per_second * (end_s - rate.from_s) for rate, end_s in zip(rates, ends_s, strict=True))
    if arrivals * (1 if sessions is None else sessions.most_turns) > _MOST_REQUESTS:
        findings.fault(item.place, f"more than {_MOST_REQUESTS:,.0f} requests: shorten the scenario or thin the traffic")
    return Traffic(
        rates=tuple(rates),
        stream_fraction=given.number("stream_fraction", usual.stream_fraction, most=1.0),
        input_tokens=given.whole_range("input_tokens", usual.input_tokens),
        output_tokens=given.whole_range("output_tokens", usual.output_tokens),
        patience_s=given.duration("patience", usual.patience_s, least=0.001),
        sessions=sessions,
    )


def _sessions(item: Located, findings: Findings) -> Sessions:
    given = Members(item, ("turns", "think", "prompt_growth_tokens"), findings)
    given.require("turns")
    least, most = given.whole_range("turns", (1, 1), least=1, most=1000)
    return Sessions(least, most, given.duration("think", 10.0), given.whole("prompt_growth_tokens", 0))
