"""From the actor's facts to metrics and log lines.

Layer: service. Source: architecture.md rule 3; behaviour.md §3, §5 (metrics).
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from gomodel_trio.gateway.deployment import Log
from gomodel_trio.metrics.catalogue import Metrics
from gomodel_trio.state import commands


def facts_sink(metrics: Metrics, log: Log) -> Callable[[Sequence[commands.Fact]], None]:
    """What the actor calls with each batch of facts."""

    faulty: set[str] = set()

    def take(facts: Sequence[commands.Fact]) -> None:
        for fact in facts:
            if isinstance(fact, commands.SelectionDeclined) and fact.source not in faulty:  # told once: it fails at every request
                faulty.add(fact.source)
                log.error("selection_declined", virtual_model=fact.source, error=fact.error)
            _take(metrics, log, fact)

    return take


def _take(metrics: Metrics, log: Log, fact: commands.Fact) -> None:
    match fact:  # the frequent ones first
        case commands.InFlightChanged():
            metrics.in_flight_changed(fact.target, fact.count)
        case commands.AttemptEnded():
            metrics.attempt_ended(fact.target, fact.outcome, fact.cause)
        case commands.TargetSelected():
            metrics.target_selected(fact.source, fact.target, fact.reason)
        case commands.EstimateChanged():
            metrics.estimate_changed(fact.target, fact.kind, fact.value_s)
        case commands.PinHonored():
            metrics.pin_honored()
        case commands.TierPinsCounted():
            metrics.tier_pins_counted(fact.count)
        case commands.TierEscalated():
            metrics.tier_escalated(fact.alias)
            log.info("tier_escalated", alias=fact.alias)
        case commands.PinReleased():
            metrics.pin_released()
            log.info("pin_released", virtual_model=fact.source)
        case commands.CooldownStarted():
            metrics.cooldown_started(fact.target, fact.reason)
            log.info("cooldown_started", target=fact.target, reason=fact.reason.value, for_s=round(fact.for_s, 3))
        case commands.CooldownEnded():
            metrics.cooldown_ended(fact.target)
            log.info("cooldown_ended", target=fact.target)
        case commands.SelectionDeclined():
            metrics.selection_declined(fact.source)
        case commands.PinExpired():
            log.debug("pins_expired", kind=fact.kind, count=fact.count)
        case _:
            assert_never(fact)
