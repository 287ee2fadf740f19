"""What each event does to the exposition, and what never becomes a label."""

import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gomodel_trio.metrics.catalogue import KnownNames, Metrics, TierReason, outcome_label
from gomodel_trio.metrics.families import CATALOGUE, LABEL_VALUES
from gomodel_trio.route.names import Kind, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome

A = TargetId("alpha/one")
B = TargetId("beta/two")
NAMES = KnownNames(providers=frozenset({"alpha", "beta"}), targets=frozenset({A, B}), aliases=frozenset({"normal"}))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(NAMES)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The value of one series; None if there is none."""
    return series(metrics).get((name, tuple(sorted(labels.items()))))


def series(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def finish(
    metrics: Metrics,
    *,
    provider: str | None = "alpha",
    model: str | None = "one",
    endpoint: str = "/chat/completions",
    status: int | None = 200,
    is_stream: bool = False,
    duration_s: float = 0.3,
) -> None:
    metrics.request_started()
    metrics.request_finished(provider=provider, model=model, endpoint=endpoint, status=status, is_stream=is_stream, duration_s=duration_s)


def test_a_request_is_counted_with_all_its_labels_and_timed(metrics: Metrics) -> None:
    finish(metrics)
    labels = {"provider": "alpha", "model": "one", "endpoint": "/chat/completions", "stream": "false"}
    assert value(metrics, "gomodel_requests_total", **labels, status_code="200", status_type="success") == 1.0
    assert value(metrics, "gomodel_request_duration_seconds_count", **labels) == 1.0
    assert value(metrics, "gomodel_request_duration_seconds_sum", **labels) == 0.3
    assert value(metrics, "gomodel_request_duration_seconds_bucket", **labels, le="0.25") == 0.0
    assert value(metrics, "gomodel_request_duration_seconds_bucket", **labels, le="0.5") == 1.0


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (200, "200", "success"),
        (304, "304", "success"),
        (400, "400", "error"),
        (499, "499", "error"),
        (529, "529", "error"),
        (None, "network_error", "error"),
        (999, "other", "error"),
        (0, "other", "error"),
    ],
)
def test_a_status_is_a_success_below_400(metrics: Metrics, status: int | None, code: str, kind: str) -> None:
    finish(metrics, status=status, is_stream=True)
    labels = {"provider": "alpha", "model": "one", "endpoint": "/chat/completions", "stream": "true"}
    assert value(metrics, "gomodel_requests_total", **labels, status_code=code, status_type=kind) == 1.0


def test_requests_in_flight_go_up_and_down(metrics: Metrics) -> None:
    metrics.request_started()
    metrics.request_started()
    assert value(metrics, "gomodel_requests_in_flight") == 2.0
    metrics.request_finished(provider=None, model=None, endpoint="/models", status=200, is_stream=False, duration_s=0.0)
    assert value(metrics, "gomodel_requests_in_flight") == 1.0


def test_invented_names_never_add_a_series(metrics: Metrics) -> None:
    finish(metrics, model="first")
    finish(metrics, provider="nobody", model="first", endpoint="/first")
    metrics.attempt_ended(TargetId("alpha/first"), Outcome.SUCCESS)
    metrics.in_flight_changed(TargetId("alpha/first"), 0)
    metrics.tier_routed("first", Tier.EASY, "score", 0)
    before = len(series(metrics))
    for i in range(100):
        finish(metrics, model=f"x{i}")
        finish(metrics, provider=f"p{i}", model=f"x{i}", endpoint=f"/{i}")
        metrics.attempt_ended(TargetId(f"alpha/x{i}"), Outcome.SUCCESS)
        metrics.in_flight_changed(TargetId(f"alpha/x{i}"), 1)
        metrics.in_flight_changed(TargetId(f"alpha/x{i}"), 0)
        metrics.tier_routed(f"x{i}", Tier.EASY, "score", 0)
    assert len(series(metrics)) == before
    assert value(metrics, "gomodel_pro_routing_outcomes_total", target="alpha/other", outcome="success") == 101.0


@pytest.mark.parametrize(("reason", "observed"), [("score", 1.0), ("explicit_reasoning", 1.0), ("session_pin", 1.0), ("forced", None)])
def test_a_forced_tier_is_counted_but_stays_out_of_the_histogram(metrics: Metrics, reason: TierReason, observed: float | None) -> None:
    metrics.tier_routed("normal", Tier.HARD, reason, 7)
    assert value(metrics, "gomodel_pro_smartroute_requests_total", alias="normal", tier="hard", reason=reason) == 1.0
    assert value(metrics, "gomodel_pro_smartroute_score_count", alias="normal") == observed


def test_the_score_histogram_has_the_promised_buckets(metrics: Metrics) -> None:
    for score in (0, 4, 7, 22):
        metrics.tier_routed("normal", Tier.EASY, "score", score)
    bounds = {
        dict(labels)["le"]: count for (name, labels), count in series(metrics).items() if name == "gomodel_pro_smartroute_score_bucket"
    }
    assert bounds == {
        "0.0": 1.0,
        "1.0": 1.0,
        "2.0": 1.0,
        "3.0": 1.0,
        "4.0": 2.0,
        "5.0": 2.0,
        "6.0": 2.0,
        "8.0": 3.0,
        "10.0": 3.0,
        "12.0": 3.0,
        "16.0": 3.0,
        "22.0": 4.0,
        "+Inf": 4.0,
    }


def test_escalations_and_pins(metrics: Metrics) -> None:
    assert value(metrics, "gomodel_pro_smartroute_escalations_total", alias="normal") == 0.0
    metrics.tier_escalated("normal")
    metrics.tier_pins_counted(17)
    assert value(metrics, "gomodel_pro_smartroute_escalations_total", alias="normal") == 1.0
    assert value(metrics, "gomodel_pro_smartroute_pins") == 17.0


@pytest.mark.parametrize(
    ("outcome", "cause", "label"),
    [
        (Outcome.SUCCESS, Cause.NONE, "success"),
        (Outcome.RATE, Cause.STATUS, "rate_limited"),
        (Outcome.AUTH, Cause.STATUS, "auth"),
        (Outcome.NOT_FOUND, Cause.STATUS, "not_found"),
        (Outcome.ACCOUNT, Cause.STATUS, "account"),
        (Outcome.REQUEST, Cause.STATUS, "request"),
        (Outcome.CLIENT, Cause.NONE, "cancelled"),
        (Outcome.FAULT, Cause.NONE, "server_error"),
        (Outcome.FAULT, Cause.STATUS, "server_error"),
        (Outcome.FAULT, Cause.ERROR_EVENT, "server_error"),
        (Outcome.FAULT, Cause.NETWORK, "network"),
        (Outcome.FAULT, Cause.TIMEOUT, "network"),
        (Outcome.FAULT, Cause.SILENT, "network"),
        (Outcome.FAULT, Cause.TRUNCATED, "truncated"),
        (Outcome.FAULT, Cause.STALLED, "truncated"),
    ],
)
def test_every_outcome_and_cause_has_its_label(outcome: Outcome, cause: Cause, label: str) -> None:
    assert outcome_label(outcome, cause) == label


def test_a_cooldown_is_counted_and_shown_until_it_ends(metrics: Metrics) -> None:
    assert value(metrics, "gomodel_pro_routing_cooling", target=A) == 0.0
    metrics.cooldown_started(A, Outcome.RATE)
    metrics.cooldown_started(A, Outcome.RATE)
    assert value(metrics, "gomodel_pro_routing_cooldowns_total", target=A, reason="rate") == 2.0
    assert value(metrics, "gomodel_pro_routing_cooling", target=A) == 1.0
    metrics.cooldown_ended(A)
    assert value(metrics, "gomodel_pro_routing_cooling", target=A) == 0.0


def test_session_affinity_starts_at_zero_and_counts(metrics: Metrics) -> None:
    assert value(metrics, "gomodel_pro_routing_session_affinity_total", outcome="released") == 0.0
    metrics.pin_honored()
    metrics.pin_honored()
    metrics.pin_released()
    assert value(metrics, "gomodel_pro_routing_session_affinity_total", outcome="honored") == 2.0
    assert value(metrics, "gomodel_pro_routing_session_affinity_total", outcome="released") == 1.0


def test_targets_that_share_a_label_are_added_up(metrics: Metrics) -> None:
    metrics.in_flight_changed(TargetId("alpha/x"), 2)
    metrics.in_flight_changed(TargetId("alpha/y"), 3)
    metrics.cooldown_started(TargetId("alpha/x"), Outcome.AUTH)
    metrics.cooldown_started(TargetId("alpha/y"), Outcome.AUTH)
    assert value(metrics, "gomodel_pro_routing_in_flight", target="alpha/other") == 5.0
    metrics.in_flight_changed(TargetId("alpha/x"), 0)
    metrics.cooldown_ended(TargetId("alpha/x"))
    assert value(metrics, "gomodel_pro_routing_in_flight", target="alpha/other") == 3.0
    assert value(metrics, "gomodel_pro_routing_cooling", target="alpha/other") == 1.0


def test_a_reload_removes_what_is_gone_and_keeps_the_rest(metrics: Metrics) -> None:
    for provider, model, target in (("alpha", "one", A), ("beta", "two", B)):
        finish(metrics, provider=provider, model=model)
        metrics.attempt_ended(target, Outcome.SUCCESS)
        metrics.in_flight_changed(target, 0)
        metrics.cooldown_started(target, Outcome.RATE)
    metrics.tier_routed("normal", Tier.EASY, "score", 3)
    metrics.replace_names(KnownNames(providers=frozenset({"beta"}), targets=frozenset({B}), aliases=frozenset({"big"})))
    text = metrics.render().decode()
    assert "alpha/one" not in text
    assert 'provider="alpha"' not in text
    assert 'alias="normal"' not in text
    assert value(metrics, "gomodel_pro_routing_outcomes_total", target=B, outcome="success") == 1.0
    assert value(metrics, "gomodel_pro_routing_cooling", target=B) == 1.0
    assert value(metrics, "gomodel_pro_smartroute_escalations_total", alias="big") == 0.0
    finish(metrics, provider="beta", model="two")
    labels = {"provider": "beta", "model": "two", "endpoint": "/chat/completions", "stream": "false"}
    assert value(metrics, "gomodel_requests_total", **labels, status_code="200", status_type="success") == 2.0


def test_attempts_at_a_target_that_left_the_configuration_are_still_seen_until_they_end(metrics: Metrics) -> None:
    metrics.in_flight_changed(A, 2)
    metrics.replace_names(KnownNames(providers=frozenset({"beta"}), targets=frozenset({B})))
    assert value(metrics, "gomodel_pro_routing_in_flight", target=A) is None
    assert value(metrics, "gomodel_pro_routing_in_flight", target="other") == 2.0
    metrics.replace_names(NAMES)
    assert value(metrics, "gomodel_pro_routing_in_flight", target=A) == 2.0
    assert value(metrics, "gomodel_pro_routing_in_flight", target="other") == 0.0
    metrics.in_flight_changed(A, 0)
    assert value(metrics, "gomodel_pro_routing_in_flight", target=A) == 0.0


def test_routing_metrics_do_not_exist_while_routing_is_off() -> None:
    metrics = Metrics(KnownNames(providers=NAMES.providers, targets=NAMES.targets, aliases=NAMES.aliases, has_routing=False))
    metrics.in_flight_changed(A, 1)
    metrics.attempt_ended(A, Outcome.SUCCESS)
    metrics.cooldown_started(A, Outcome.RATE)
    metrics.target_selected("pool", A, "p2c")
    metrics.selection_declined("pool")
    metrics.estimate_changed(A, Kind.STREAM, 0.5)
    assert "gomodel_pro_routing" not in metrics.render().decode()
    assert "gomodel_pro_smartroute_pins" in metrics.render().decode()
    metrics.replace_names(NAMES)
    assert value(metrics, "gomodel_pro_routing_in_flight", target=A) == 1.0


def test_choices_and_declines_are_counted_by_virtual_model() -> None:
    metrics = Metrics(KnownNames(providers=NAMES.providers, targets=NAMES.targets, sources=frozenset({"pool"})))
    for source in ("pool", "pool", "first", "second"):
        metrics.target_selected(source, A, "pinned")
        metrics.selection_declined(source)
    for source in ("pool", "other"):
        assert value(metrics, "gomodel_pro_routing_selections_total", source=source, target=A, reason="pinned") == 2.0
        assert value(metrics, "gomodel_pro_routing_declines_total", source=source, reason="fault") == 2.0
    metrics.replace_names(KnownNames(providers=NAMES.providers, targets=frozenset({B})))
    assert "pool" not in metrics.render().decode()
    assert value(metrics, "gomodel_pro_routing_selections_total", source="other", target=A, reason="pinned") is None
    assert value(metrics, "gomodel_pro_routing_declines_total", source="other", reason="fault") == 2.0


def test_estimates_are_those_of_configured_targets(metrics: Metrics) -> None:
    for target in (A, B, TargetId("alpha/first")):
        metrics.estimate_changed(target, Kind.STREAM, 0.5)
        metrics.estimate_changed(target, Kind.UNARY, 2.0)
    metrics.estimate_changed(A, Kind.STREAM, None)

    def shown() -> dict[tuple[str, str], float]:
        return {
            (dict(labels)["target"], dict(labels)["kind"]): seconds
            for (name, labels), seconds in series(metrics).items()
            if name == "gomodel_pro_routing_latency_estimate_seconds"
        }

    assert shown() == {(A, "unary"): 2.0, (B, "stream"): 0.5, (B, "unary"): 2.0}
    metrics.replace_names(KnownNames(providers=NAMES.providers, targets=frozenset({A})))
    assert shown() == {(A, "unary"): 2.0}


def test_label_values_are_escaped() -> None:
    odd = 'o"d\\d\nline'
    metrics = Metrics(KnownNames(aliases=frozenset({odd})))
    metrics.tier_routed(odd, Tier.EASY, "score", 1)
    assert rb'alias="o\"d\\d\nline"' in metrics.render()
    assert value(metrics, "gomodel_pro_smartroute_requests_total", alias=odd, tier="easy", reason="score") == 1.0


def test_two_gateways_in_one_process_share_nothing(metrics: Metrics) -> None:
    metrics.tier_pins_counted(3)
    assert value(Metrics(NAMES), "gomodel_pro_smartroute_pins") == 0.0


def test_exactly_the_families_of_the_table_are_exposed(metrics: Metrics) -> None:
    families = {family.name for family in text_string_to_metric_families(metrics.render().decode())}
    assert families == {family.name.removesuffix("_total") for family in CATALOGUE}
    assert b"_created" not in metrics.render()


def test_every_label_of_the_table_is_explained() -> None:
    assert {label for family in CATALOGUE for label in family.labels} == set(LABEL_VALUES)


@pytest.mark.parametrize("variable", ["PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"])
def test_the_multiprocess_variable_is_ignored_though_its_directory_is_missing(variable: str) -> None:
    program = (
        "from gomodel_trio.metrics.catalogue import KnownNames, Metrics\n"
        "from gomodel_trio.route.names import TargetId\n"
        "metrics = Metrics(KnownNames(providers=frozenset({'a'}), targets=frozenset({TargetId('a/m')})))\n"
        "for _ in range(3):\n"
        "    metrics.request_started()\n"
        "    metrics.request_finished(provider='a', model='m', endpoint='/models', status=200, is_stream=False, duration_s=0.1)\n"
        "metrics.replace_names(KnownNames(providers=frozenset({'a'})))\n"
        "metrics.pin_honored()\n"
        "print(metrics.render().decode())\n"
    )
    environment = {**os.environ, variable: "/nonexistent/prometheus"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'gomodel_pro_routing_session_affinity_total{outcome="honored"} 1.0' in done.stdout
    assert 'model="m"' not in done.stdout
