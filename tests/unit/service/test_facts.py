"""From the actor's facts to metrics and log lines (behaviour.md §3, §5)."""

import pytest

from gomodel_trio.metrics.catalogue import KnownNames, Metrics
from gomodel_trio.route.names import TargetId
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.service.facts import facts_sink
from gomodel_trio.state import commands
from support.inprocess import RecordingLog

A = TargetId("a/m")
NAMES = KnownNames(providers=frozenset({"a"}), targets=frozenset({A}), aliases=frozenset({"normal"}), has_routing=True)


@pytest.mark.parametrize(
    ("fact", "series", "line"),
    [
        (
            commands.TierEscalated("normal"),
            'gomodel_pro_smartroute_escalations_total{alias="normal"} 1.0',
            ("info", "tier_escalated", {"alias": "normal"}),
        ),
        (commands.TierPinsCounted(7), "gomodel_pro_smartroute_pins 7.0", None),
        (
            commands.CooldownStarted(A, Outcome.RATE, 40.0, 30.00049),
            'gomodel_pro_routing_cooling{target="a/m"} 1.0',
            ("info", "cooldown_started", {"target": "a/m", "reason": "rate", "for_s": 30.0}),
        ),
        (commands.CooldownEnded(A), 'gomodel_pro_routing_cooling{target="a/m"} 0.0', ("info", "cooldown_ended", {"target": "a/m"})),
        (
            commands.PinReleased("pool"),
            'gomodel_pro_routing_session_affinity_total{outcome="released"} 1.0',
            ("info", "pin_released", {"virtual_model": "pool"}),
        ),
        (commands.PinHonored("pool"), 'gomodel_pro_routing_session_affinity_total{outcome="honored"} 1.0', None),
        (commands.PinExpired("tier", 3), "", ("debug", "pins_expired", {"kind": "tier", "count": 3})),
        (
            commands.AttemptEnded(A, Outcome.FAULT, Cause.TRUNCATED, 1.0),
            'gomodel_pro_routing_outcomes_total{outcome="truncated",target="a/m"} 1.0',
            None,
        ),
        (commands.InFlightChanged(A, 2), 'gomodel_pro_routing_in_flight{target="a/m"} 2.0', None),
    ],
)
def test_a_fact_is_counted_and_told(fact: commands.Fact, series: str, line: tuple[str, str, dict[str, object]] | None) -> None:
    metrics, log = Metrics(NAMES), RecordingLog()
    facts_sink(metrics, log)([fact])
    assert series in metrics.render().decode()
    assert log.lines == ([line] if line else [])


def test_a_batch_is_taken_in_order() -> None:
    metrics, log = Metrics(NAMES), RecordingLog()
    facts_sink(metrics, log)(
        [commands.CooldownStarted(A, Outcome.AUTH, 1.0, 1.0), commands.InFlightChanged(A, 1), commands.CooldownEnded(A)]
    )
    assert [event for _, event, _ in log.lines] == ["cooldown_started", "cooldown_ended"]
