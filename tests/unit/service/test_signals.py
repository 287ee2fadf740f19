import os
import signal

import trio
import trio.testing

from gomodel_trio.service.signals import StopRule, watch_signals


def test_the_first_wish_drains_and_its_echoes_are_ignored() -> None:
    rule = StopRule()
    assert [rule.judge(at_s) for at_s in (5.0, 5.1, 5.9, 6.0)] == ["drain", "ignore", "ignore", "ignore"]


def test_a_wish_more_than_a_second_after_the_first_forces() -> None:
    rule = StopRule()
    assert [rule.judge(at_s) for at_s in (5.0, 5.5, 6.01, 6.02)] == ["drain", "ignore", "force", "force"]


async def test_signals_of_the_process_reach_their_callbacks() -> None:
    told: list[str] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, lambda: told.append("drain"), lambda: told.append("force"), lambda: told.append("reload"))
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == ["reload", "reload", "drain"]
