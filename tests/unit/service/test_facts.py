"""From the actor's facts to metrics and log lines (behaviour.md §3, §5)."""

import pytest

from gomodel_trio.metrics.catalogue import KnownNames, Metrics
from gomodel_trio.route.names import Kind, TargetId
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.service.facts import facts_sink
from gomodel_trio.state import commands
from support.inprocess import RecordingLog

A = TargetId("a/m")
NAMES = KnownNames(providers=frozenset({"a"}), targets=frozenset({A}), aliases=frozenset({"normal"}), sources=frozenset({"pool"}))


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
        (
            commands.TargetSelected("pool", A, "probe"),
            'gomodel_pro_routing_selections_total{reason="probe",source="pool",target="a/m"} 1.0',
            None,
        ),
        (
            commands.SelectionDeclined("pool", "ValueError('no')"),
            'gomodel_pro_routing_declines_total{reason="fault",source="pool"} 1.0',
            ("error", "selection_declined", {"virtual_model": "pool", "error": "ValueError('no')"}),
        ),
        (
            commands.EstimateChanged(A, Kind.STREAM, 0.25),
            'gomodel_pro_routing_latency_estimate_seconds{kind="stream",target="a/m"} 0.25',
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


def test_a_selector_that_fails_is_logged_once_for_each_virtual_model_and_counted_each_time() -> None:
    metrics, log = Metrics(NAMES), RecordingLog()
    sink = facts_sink(metrics, log)
    for source in ("pool", "pool", "gone", "pool"):
        sink([commands.SelectionDeclined(source, "ValueError()")])
    assert [fields["virtual_model"] for fields in log.of("selection_declined")] == ["pool", "gone"]
    assert 'gomodel_pro_routing_declines_total{reason="fault",source="pool"} 3.0' in metrics.render().decode()


def test_an_estimate_that_was_forgotten_is_not_shown() -> None:
    metrics = Metrics(NAMES)
    sink = facts_sink(metrics, RecordingLog())
    sink([commands.EstimateChanged(A, kind, 1.0) for kind in Kind])
    sink([commands.EstimateChanged(A, Kind.STREAM, None), commands.EstimateChanged(TargetId("a/other"), Kind.STREAM, None)])
    shown = [line for line in metrics.render().decode().splitlines() if line.startswith("gomodel_pro_routing_latency_estimate_seconds{")]
    assert shown == ['gomodel_pro_routing_latency_estimate_seconds{kind="unary",target="a/m"} 1.0']
