"""A slowdown's timing, chunk by chunk (behaviour.md §4)."""

import pytest
import trio
import trio.testing

from gomodel_trio.gateway.retime import retimed
from gomodel_trio.upstream.attempt import Opened
from gomodel_trio.upstream.transport import TransportError
from support.inprocess import FOREVER, RESET, FakeResponse, Piece, Play


def opened(*pieces: Piece) -> tuple[Opened, FakeResponse]:
    response = FakeResponse(Play(status=201, headers=((b"a", b"b"),), pieces=pieces))
    return Opened(response, is_event_stream=True, held=[b"held"]), response


@pytest.mark.parametrize("slowdown", [None, 0.0])
async def test_without_a_slowdown_the_answer_is_handed_through_and_closed(slowdown: float | None) -> None:
    given, response = opened(b"a")
    async with retimed(given, slowdown, 0.0) as answer:
        assert answer is given
    assert response.closed_at_s is not None


async def test_each_chunk_comes_at_its_own_time_stretched(autojump_clock: trio.testing.MockClock) -> None:
    given, response = opened(1.0, b"a", 2.0, b"b", b"c")
    start_s = trio.current_time()
    seen = []
    async with retimed(given, 0.5, start_s - 1.0) as answer:
        assert (answer.response.status, answer.response.headers, answer.held, answer.is_event_stream) == (
            201,
            [(b"a", b"b")],
            [b"held"],
            True,
        )
        while chunk := await answer.response.read():
            seen.append((round(trio.current_time() - start_s, 6), chunk))
    # Sent 1 s before: it came 2 s and 4 s after the sending, and is due at 3 s and 6 s after it.
    assert seen == [(2.0, b"a"), (5.0, b"b"), (5.0, b"c")]
    assert response.closed_at_s is not None


async def test_a_failure_comes_at_its_time_too(autojump_clock: trio.testing.MockClock) -> None:
    given, _ = opened(b"a", 2.0, RESET)
    start_s = trio.current_time()
    async with retimed(given, 1.0, start_s) as answer:
        assert await answer.response.read() == b"a"
        with pytest.raises(TransportError):
            await answer.response.read()
        assert trio.current_time() - start_s == pytest.approx(4.0)


async def test_what_its_user_raises_comes_out_as_it_is_and_the_answer_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    given, response = opened(b"a", FOREVER)

    async def use() -> None:
        async with retimed(given, 1.0, trio.current_time()) as answer:
            await answer.response.read()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use()
    assert response.closed_at_s is not None


async def test_it_ends_at_once_when_its_user_has_enough(autojump_clock: trio.testing.MockClock) -> None:
    given, response = opened(*[b"a"] * 5000, FOREVER)
    start_s = trio.current_time()
    async with retimed(given, 1.0, start_s) as answer:
        await answer.response.read()
        await answer.response.aclose()
    assert (trio.current_time(), response.closed_at_s) == (start_s, start_s)


async def test_it_can_be_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    given, response = opened(FOREVER)
    with trio.move_on_after(3.0) as scope:
        async with retimed(given, 1.0, trio.current_time()) as answer:
            await answer.response.read()
    assert scope.cancelled_caught
    assert response.closed_at_s is not None
