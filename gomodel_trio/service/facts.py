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

    def take(facts: Sequence[commands.Fact]) -> None:
        for fact in facts:
            _count(metrics, fact)
            _tell(log, fact)

    return take


def _count(metrics: Metrics, fact: commands.Fact) -> None:
    match fact:
        case commands.TierEscalated(alias=alias):
            metrics.tier_escalated(alias)
        case commands.TierPinsCounted(count=count):
            metrics.tier_pins_counted(count)
        case commands.CooldownStarted(target=target, reason=reason):
            metrics.cooldown_started(target, reason)
        case commands.CooldownEnded(target=target):
            metrics.cooldown_ended(target)
        case commands.PinReleased():
            metrics.pin_released()
        case commands.PinHonored():
            metrics.pin_honored()
        case commands.PinExpired():
            pass
        case commands.AttemptEnded(target=target, outcome=outcome, cause=cause):
            metrics.attempt_ended(target, outcome, cause)
        case commands.InFlightChanged(target=target, count=count):
            metrics.in_flight_changed(target, count)
        case _:
            assert_never(fact)


def _tell(log: Log, fact: commands.Fact) -> None:
    match fact:
        case commands.CooldownStarted(target=target, reason=reason, for_s=for_s):
            log.info("cooldown_started", target=target, reason=reason.value, for_s=round(for_s, 3))
        case commands.CooldownEnded(target=target):
            log.info("cooldown_ended", target=target)
        case commands.TierEscalated(alias=alias):
            log.info("tier_escalated", alias=alias)
        case commands.PinReleased(source=source):
            log.info("pin_released", virtual_model=source)
        case commands.PinExpired(kind=kind, count=count):
            log.debug("pins_expired", kind=kind, count=count)
        case _:
            pass
