"""Cooldown arithmetic under any events."""

from hypothesis import given
from hypothesis import strategies as st

from gomodel_trio.route.health import WELL, after_outcome
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting

CONFIG = AdaptiveRouting(cooldown_base_s=30, cooldown_max_s=300)
events = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.sampled_from(Outcome), st.none() | st.floats(allow_nan=True)), max_size=40
)


@given(events)
def test_nothing_but_a_success_shortens_and_nothing_passes_the_maximum(drawn: list[tuple[float, float, Outcome, float | None]]) -> None:
    health, at_s = WELL, 0.0
    for pause_s, age_s, outcome, retry_after_s in drawn:
        at_s += pause_s
        before = health
        health, _ = after_outcome(health, started_at_s=at_s - age_s, at_s=at_s, outcome=outcome, retry_after_s=retry_after_s, config=CONFIG)
        if outcome is not Outcome.SUCCESS:
            assert health.until_s >= before.until_s
        assert health.until_s <= at_s + 300
        assert health.k >= 0
        if outcome in (Outcome.REQUEST, Outcome.CLIENT):
            assert health is before
