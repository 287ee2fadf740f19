import trio
import trio.testing

from gomodel_trio.service.clock import Clock


async def test_time_is_counted_from_the_start(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock(wall=lambda: 1_790_000_000.5)
    assert clock.now_s() == 0.0
    await trio.sleep(90)
    assert clock.now_s() == 90.0
    assert clock.epoch_s() == 1_790_000_000.5
