"""The simulator's targets answer exactly as their conditions say."""

import math
from statistics import median, stdev

import pytest

from gomodel_trio.replay.simulate.scenario import Cache, Conditions, Distribution, Errors, Outage, RateLimit, Target
from gomodel_trio.replay.simulate.traffic import Luck, Turn
from gomodel_trio.replay.simulate.world import Answer, Server, TokenBucket, luck_of, sample
from gomodel_trio.route.names import Kind, SessionId, TargetId
from gomodel_trio.route.policy import Price

SECOND = Distribution("constant", 1.0, 1.0)
LUCK = Luck(0.5, 0.5)
SESSION = SessionId("s")


def server(**conditions: object) -> Server:
    return Server(Target(TargetId("a/m"), 1.0, ((0.0, Conditions(**{"latency": SECOND, **conditions})),)))


def turn(kind: Kind = Kind.UNARY, tokens: tuple[int, int] = (1000, 100)) -> Turn:
    return Turn(0.0, kind, *tokens, (LUCK,))


def test_a_bucket_is_full_at_first_and_fills_at_its_rate() -> None:
    bucket, limit = TokenBucket(), RateLimit(per_second=2.0, burst=3.0)
    assert [bucket.take(limit, 10.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.has(limit, 10.49)
    assert bucket.has(limit, 10.5)
    assert bucket.take(limit, 10.5)
    assert [bucket.take(limit, 99.0) for _ in range(4)] == [True, True, True, False]


def test_a_distribution_is_read_at_a_uniform_number() -> None:
    assert [sample(SECOND, uniform) for uniform in (0.0, 0.99)] == [1.0, 1.0]
    assert [sample(Distribution("uniform", 1.0, 3.0), uniform) for uniform in (0.0, 0.25, 0.5)] == [1.0, 1.5, 2.0]
    lognormal = Distribution("lognormal", 0.8, 0.8, 0.5)
    assert sample(lognormal, 0.5) == pytest.approx(0.8)
    assert sample(lognormal, 0.8413447460685429) == pytest.approx(0.8 * math.exp(0.5))
    assert math.isfinite(sample(lognormal, 0.0))


def test_a_lognormal_has_its_median_and_sigma() -> None:
    values = [math.log(sample(Distribution("lognormal", 2.0, 2.0, 0.3), (index + 0.5) / 10_000)) for index in range(10_000)]
    assert median(values) == pytest.approx(math.log(2.0), abs=1e-3)
    assert stdev(values) == pytest.approx(0.3, abs=1e-3)


def test_a_stream_begins_before_a_whole_answer_is_there() -> None:
    slow = {"tokens_per_second": 50.0, "slower": 2.0}
    assert server(**slow).foresee(turn(Kind.STREAM), LUCK, None, 0.0) == Answer(200, 2.0, 6.0)
    assert server(**slow).foresee(turn(), LUCK, None, 0.0) == Answer(200, 6.0, 6.0)


def test_more_than_its_concurrency_share_the_speed() -> None:
    busy = server(concurrency=2)
    firsts = [busy.begin(turn(), LUCK, None, 0.0).first_s for _ in range(4)]
    assert firsts == [1.0, 1.0, 1.5, 2.0]
    busy.end(None, 1.0, is_success=True)
    assert busy.in_flight == 3


def test_an_outage_has_a_status_or_is_silent() -> None:
    assert server(outage=Outage(503, 0.2)).foresee(turn(), LUCK, None, 0.0) == Answer(503, 0.2, 0.2)
    assert server(outage=Outage(None)).foresee(turn(), LUCK, None, 0.0) == Answer(None, math.inf, math.inf)


def test_errors_hit_their_share_of_the_luck() -> None:
    flapping = server(errors=Errors(0.5, 502, 0.1))
    assert flapping.foresee(turn(), Luck(0.5, 0.499), None, 0.0) == Answer(502, 0.1, 0.1)
    assert flapping.foresee(turn(), Luck(0.5, 0.5), None, 0.0).status == 200
    assert server(errors=Errors(1.0)).foresee(turn(), LUCK, None, 0.0) == Answer(500, 1.0, 1.0)


def test_beyond_its_rate_a_target_answers_429_at_once() -> None:
    limited = server(rate_limit=RateLimit(1.0, 1.0, retry_after_s=5.0))
    assert limited.foresee(turn(), LUCK, None, 0.0).status == 200  # looking takes no token
    assert limited.begin(turn(), LUCK, None, 0.0).status == 200
    assert limited.begin(turn(), LUCK, None, 0.5) == Answer(429, 0.05, 0.05, retry_after_s=5.0)
    assert limited.begin(turn(), LUCK, None, 1.0).status == 200


def test_an_outage_takes_no_tokens() -> None:
    conditions = Conditions(SECOND, rate_limit=RateLimit(0.001, 1.0))
    out = Conditions(SECOND, rate_limit=RateLimit(0.001, 1.0), outage=Outage(503))
    target = Server(Target(TargetId("a/m"), 1.0, ((0.0, out), (10.0, conditions))))
    assert target.begin(turn(), LUCK, None, 9.0).status == 503
    assert target.begin(turn(), LUCK, None, 10.0).status == 200


def test_a_cached_prompt_is_faster_and_cheaper_until_its_time_is_over() -> None:
    cached = server(cache=Cache(0.5, 0.1, 60.0), price=Price(2.0, 10.0))
    cold = cached.begin(turn(), LUCK, SESSION, 0.0)
    assert cold == Answer(200, 1.0, 1.0, cost_usd=0.003)
    cached.end(SESSION, 1.0, is_success=True)
    warm = cached.foresee(turn(), LUCK, SESSION, 61.0)
    assert (warm.is_cached, warm.first_s, warm.cost_usd) == (True, 0.5, pytest.approx(0.0012))
    assert not cached.foresee(turn(), LUCK, SESSION, 61.1).is_cached
    assert not cached.foresee(turn(), LUCK, SessionId("another"), 2.0).is_cached


def test_a_failure_caches_nothing() -> None:
    cached = server(cache=Cache(0.5))
    cached.begin(turn(), LUCK, SESSION, 0.0)
    cached.end(SESSION, 1.0, is_success=False)
    assert not cached.foresee(turn(), LUCK, SESSION, 2.0).is_cached


def test_every_attempt_at_a_target_has_its_own_luck() -> None:
    one = Turn(0.0, Kind.UNARY, 1, 1, (Luck(0.1, 0.9),))
    assert luck_of(one, 0, 0) == Luck(0.1, 0.9)
    again = luck_of(one, 0, 1)
    assert (again.latency, again.error) == (pytest.approx(0.7180339887), pytest.approx(0.5180339887))
