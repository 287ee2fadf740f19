import signal

import pytest

from gomodel_trio.service.early_signals import EarlySignals


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    return codes


def test_a_wish_to_stop_before_anything_runs_ends_the_process_with_0(ended: list[int]) -> None:
    EarlySignals()._stop(signal.SIGTERM, None)
    assert ended == [0]


def test_one_that_comes_at_the_end_changes_nothing(ended: list[int]) -> None:
    early = EarlySignals()
    early.hand_over()
    early._stop(signal.SIGTERM, None)
    assert ended == []


def test_an_early_wish_to_reload_is_kept_and_handed_over_once() -> None:
    early = EarlySignals()
    early._note_reload(signal.SIGHUP, None)
    assert [early.hand_over(), early.hand_over()] == [True, False]
