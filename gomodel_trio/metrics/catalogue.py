"""Every metric of the gateway, counted through methods named by what happened.

Layer: metrics. Source: behaviour.md §3, §5, §9; the table is in `families`. Nobody else imports prometheus-client. Label values come from
the configuration or from closed sets of ours, never from a client: a model that no configuration names is `other`.
"""

import os
from collections.abc import Callable
from typing import Final, Generic, Literal, TypeVar, assert_never

import msgspec

from gomodel_trio.metrics import families
from gomodel_trio.metrics.families import ENDPOINTS, OTHER, Family
from gomodel_trio.route.names import Kind, TargetId, Tier, split_target
from gomodel_trio.route.outcome import Cause, Outcome

# prometheus-client reads these at import and would then keep its counters in files of a directory that may not exist, and never remove a
# series. The gateway is one process by contract, so they must not be seen, whatever the unit file was copied from.
for _name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
    os.environ.pop(_name, None)

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics  # noqa: E402
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest  # noqa: E402

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""The content type of what `Metrics.render` returns."""

Picked = Literal["p2c", "pinned", "probe", "all_cooling"]
"""How an adaptive virtual model chose (§5)."""

TierReason = Literal["forced", "explicit_reasoning", "session_pin", "score"]
"""Why a request went to its tier (§3)."""


class KnownNames(msgspec.Struct, frozen=True):
    """What may become a label value: the names that the configuration holds. `has_routing`: PRO_ROUTING_ENABLED."""

    providers: frozenset[str] = frozenset()
    targets: frozenset[TargetId] = frozenset()
    aliases: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    has_routing: bool = True


class Metrics:
    """All counters of one gateway, in registries of its own. Made once; `replace_names` at every reload. For one thread."""

    def __init__(self, names: KnownNames) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` series double a scrape and tell nothing that is used
        self._core = CollectorRegistry()
        self._routing = CollectorRegistry()
        self._requests = self._counter(families.REQUESTS)
        self._durations = self._histogram(families.REQUEST_DURATION)
        self._requests_running = 0
        self._gauge(families.REQUESTS_IN_FLIGHT).child().set_function(lambda: self._requests_running)
        self._tier_requests = self._counter(families.TIER_REQUESTS)
        self._tier_escalations = self._counter(families.TIER_ESCALATIONS)
        self._tier_score = self._histogram(families.TIER_SCORE)
        self._tier_pins = self._gauge(families.TIER_PINS).child()
        self._outcomes = self._counter(families.OUTCOMES)
        self._cooldowns = self._counter(families.COOLDOWNS)
        affinity = self._counter(families.SESSION_AFFINITY)
        self._honored, self._released = affinity.child("honored"), affinity.child("released")
        self._selections = self._counter(families.SELECTIONS)
        self._declines = self._counter(families.DECLINES)
        self._estimates = self._gauge(families.LATENCY_ESTIMATE)
        self._in_flight = self._gauge(families.TARGET_IN_FLIGHT)
        self._cooling = self._gauge(families.COOLING)
        # The targets behind the two gauges, as several may share a label (`provider/other`) and one may leave the configuration while
        # attempts at it run. Only running and cooling ones are held.
        self._running: dict[TargetId, int] = {}
        self._benched: set[TargetId] = set()
        self._names = KnownNames()
        self.replace_names(names)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def request_started(self) -> None:
        """Count a request in; each is counted out by one `request_finished`."""
        self._requests_running += 1

    def request_finished(
        self, *, provider: str | None, model: str | None, endpoint: str, status: int | None, is_stream: bool, duration_s: float
    ) -> None:
        """Count a request out.

        `provider` and `model` are of the target that answered, None if there was none. `endpoint`: `Api.path`, `/models` or `/p`. `status`:
        what the client was sent, 499 if it hung up; None if no upstream answered at all. `duration_s`: for streams up to the first byte.
        """
        self._requests_running -= 1
        known_provider, known_model = self._provider_and_model(provider, model)
        known_endpoint = endpoint if endpoint in ENDPOINTS else OTHER
        stream = "true" if is_stream else "false"
        code, status_type = _status_labels(status)
        self._requests.child(known_provider, known_model, known_endpoint, code, status_type, stream).inc()
        self._durations.child(known_provider, known_model, known_endpoint, stream).observe(duration_s)

    # ---- tiers ------------------------------------------------------------------------------------------------------

    def tier_routed(self, alias: str, tier: Tier, reason: TierReason, score: int) -> None:
        """Count a request that an alias was split for; a forced one stays out of the histogram."""
        label = self._alias_label(alias)
        self._tier_requests.child(label, tier.value, reason).inc()
        if reason != "forced":
            self._tier_score.child(label).observe(score)

    def tier_escalated(self, alias: str) -> None:
        """Count a session whose pin went from easy to hard."""
        self._tier_escalations.child(self._alias_label(alias)).inc()

    def tier_pins_counted(self, count: int) -> None:
        """Show how many tier pins there are."""
        self._tier_pins.set(count)

    # ---- routing ----------------------------------------------------------------------------------------------------

    def attempt_ended(self, target: TargetId, outcome: Outcome, cause: Cause = Cause.NONE) -> None:
        """Count an attempt by how it ended."""
        self._outcomes.child(self._target_label(target), outcome_label(outcome, cause)).inc()

    def cooldown_started(self, target: TargetId, reason: Outcome) -> None:
        """Count a cooldown and show the target as cooling."""
        label = self._target_label(target)
        self._cooldowns.child(label, reason.value).inc()
        self._benched.add(target)
        self._show_cooling(label)

    def cooldown_ended(self, target: TargetId) -> None:
        """Show the target as not cooling."""
        self._benched.discard(target)
        self._show_cooling(self._target_label(target))

    def pin_honored(self) -> None:
        """Count a session that was kept on its target."""
        self._honored.inc()

    def pin_released(self) -> None:
        """Count a session that left a cooling target for good."""
        self._released.inc()

    def target_selected(self, source: str, target: TargetId, reason: Picked) -> None:
        """Count a choice of an adaptive virtual model."""
        self._selections.child(self._source_label(source), self._target_label(target), reason).inc()

    def selection_declined(self, source: str) -> None:
        """Count a choice that the selector could not make."""
        self._declines.child(self._source_label(source), "fault").inc()

    def estimate_changed(self, target: TargetId, kind: Kind, value_s: float | None) -> None:
        """Show a target's stored estimate; None: there is none any more."""
        if value_s is None:
            self._estimates.keep(lambda labels: labels != (target, kind.value))
        elif target in self._names.targets:
            self._estimates.child(target, kind.value).set(value_s)

    def in_flight_changed(self, target: TargetId, count: int) -> None:
        """Show how many attempts run at the target."""
        if count > 0:
            self._running[target] = count
        else:
            self._running.pop(target, None)
        if target in self._names.targets:
            self._in_flight.child(target).set(count)
        else:
            self._show_in_flight(self._target_label(target))

    # ---- names and output -------------------------------------------------------------------------------------------

    def replace_names(self, names: KnownNames) -> None:
        """Take the names of a new configuration. Series of targets, providers and aliases that are gone are removed; all others keep on."""
        self._names = names
        others = {TargetId(f"{provider}/{OTHER}") for provider in names.providers}
        targets = {*names.targets, *others, OTHER}
        for by_target in (self._outcomes, self._cooldowns, self._in_flight, self._cooling):
            by_target.keep(lambda labels: labels[0] in targets)
        self._estimates.keep(lambda labels: labels[0] in names.targets)
        self._selections.keep(lambda labels: (labels[0] in names.sources or labels[0] == OTHER) and labels[1] in targets)
        self._declines.keep(lambda labels: labels[0] in names.sources or labels[0] == OTHER)
        for by_alias in (self._tier_requests, self._tier_escalations, self._tier_score):
            by_alias.keep(lambda labels: labels[0] in names.aliases or labels[0] == OTHER)
        for by_model in (self._requests, self._durations):
            by_model.keep(lambda labels: f"{labels[0]}/{labels[1]}" in targets or labels[0] == OTHER)
        for alias in names.aliases:
            self._tier_escalations.child(alias)
        for label in {*names.targets, *(self._target_label(target) for target in self._running), *self._in_flight.first_labels()}:
            self._show_in_flight(label)
        for label in {*names.targets, *(self._target_label(target) for target in self._benched), *self._cooling.first_labels()}:
            self._show_cooling(label)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format; its content type is `CONTENT_TYPE`."""
        core = generate_latest(self._core)
        return core + generate_latest(self._routing) if self._names.has_routing else core

    def _counter(self, family: Family) -> "_Series[Counter]":
        return _Series(Counter(family.name, family.help, family.labels, registry=self._registry(family)))

    def _gauge(self, family: Family) -> "_Series[Gauge]":
        return _Series(Gauge(family.name, family.help, family.labels, registry=self._registry(family)))

    def _histogram(self, family: Family) -> "_Series[Histogram]":
        return _Series(Histogram(family.name, family.help, family.labels, registry=self._registry(family), buckets=family.buckets))

    def _registry(self, family: Family) -> CollectorRegistry:
        return self._routing if family.is_routing else self._core

    def _provider_and_model(self, provider: str | None, model: str | None) -> tuple[str, str]:
        if provider is None or provider not in self._names.providers:
            return OTHER, OTHER
        return provider, model if model is not None and f"{provider}/{model}" in self._names.targets else OTHER

    def _alias_label(self, alias: str) -> str:
        return alias if alias in self._names.aliases else OTHER

    def _source_label(self, source: str) -> str:
        return source if source in self._names.sources else OTHER

    def _target_label(self, target: TargetId) -> str:
        if target in self._names.targets:
            return target
        provider, _ = split_target(target)
        return f"{provider}/{OTHER}" if provider in self._names.providers else OTHER

    def _show_in_flight(self, label: str) -> None:
        running = sum(count for target, count in self._running.items() if self._target_label(target) == label)
        self._in_flight.child(label).set(running)

    def _show_cooling(self, label: str) -> None:
        self._cooling.child(label).set(any(self._target_label(target) == label for target in self._benched))


def outcome_label(outcome: Outcome, cause: Cause) -> str:
    """The value of `outcome` in `gomodel_pro_routing_outcomes_total`."""
    match outcome:
        case Outcome.SUCCESS | Outcome.AUTH | Outcome.NOT_FOUND | Outcome.ACCOUNT | Outcome.REQUEST:
            return outcome.value
        case Outcome.RATE:
            return "rate_limited"
        case Outcome.CLIENT:
            return "cancelled"
        case Outcome.FAULT:
            return _FAULT_LABELS[cause]
        case _:
            assert_never(outcome)


_FAULT_LABELS: Final[dict[Cause, str]] = {
    Cause.NONE: "server_error",
    Cause.STATUS: "server_error",
    Cause.ERROR_EVENT: "server_error",
    Cause.NETWORK: "network",
    Cause.TIMEOUT: "network",
    Cause.SILENT: "network",
    Cause.TRUNCATED: "truncated",
    Cause.STALLED: "truncated",
}


def _status_labels(status: int | None) -> tuple[str, str]:
    if status is None:
        return "network_error", "error"
    return str(status) if 100 <= status <= 599 else OTHER, "success" if 100 <= status < 400 else "error"


_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class _Series(Generic[_Metric]):
    """The series of one family, each bound once: finding a bound one costs a fraction of what `labels()` does."""

    def __init__(self, parent: _Metric) -> None:
        self._parent: _Metric = parent
        self._bound: dict[tuple[str, ...], _Metric] = {}

    def child(self, *labels: str) -> _Metric:
        """The series with these label values, in the family's order of labels."""
        child = self._bound.get(labels)
        if child is None:
            child = self._bound[labels] = self._parent.labels(*labels) if labels else self._parent
        return child

    def keep(self, is_kept: Callable[[tuple[str, ...]], bool]) -> None:
        """Remove the series whose label values are not to be kept."""
        for labels in [labels for labels in self._bound if not is_kept(labels)]:
            del self._bound[labels]
            self._parent.remove(*labels)

    def first_labels(self) -> tuple[str, ...]:
        """The first label's value of every series."""
        return tuple(labels[0] for labels in self._bound)
