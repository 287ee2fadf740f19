"""A shared HTTP/2 connection over streams in memory and in virtual time: stalls, cancellation while sending, hostile bytes."""

import contextlib

import httpcore
import pytest
import trio
import trio.testing
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe.frame import GoAwayFrame, RstStreamFrame, SettingsFrame
from hypothesis import given, settings
from hypothesis import strategies as st

from gomodel_trio.upstream.carrier import NotProcessedError, Question
from gomodel_trio.upstream.h1_request import Key, Origin
from gomodel_trio.upstream.http2_carrier import Http2Carrier
from gomodel_trio.upstream.http2_connection import Http2Connection
from gomodel_trio.upstream.transport import TransportFault

HEAD = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"up.test"), (b":path", b"/")]


class Exchange:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_head(self, headers: list[tuple[bytes, bytes]]) -> None:
        self.told.append("head")

    def on_informational(self) -> None:
        self.told.append("informational")

    def on_data(self, content: bytes, size: int) -> None:
        self.told.append(content)

    def on_end(self) -> None:
        self.told.append("end")

    def on_reset(self, code: int) -> None:
        self.told.append(code)

    def on_refusal(self) -> None:
        self.told.append("refused")

    def on_loss(self, fault: TransportFault) -> None:
        self.told.append(fault)


async def opened(stream: trio.abc.Stream, theirs: trio.abc.Stream, first: bytes | None = None) -> Http2Connection:
    connection = Http2Connection(stream, 30.0)
    await theirs.send_all(SettingsFrame(0).serialize() if first is None else first)
    with trio.fail_after(5):
        await connection.open()
    return connection


async def test_who_is_cancelled_while_the_server_takes_nothing_waits_one_second_and_gives_the_connection_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = await opened(ours, theirs)
    exchange, other = Exchange(), Exchange()
    connection.join(other)
    connection.join(exchange)
    connection.begin(exchange, HEAD, is_all=True)
    ours.send_stream.send_all_hook = trio.sleep_forever
    began_s = trio.current_time()
    with trio.move_on_after(10) as scope:
        await connection.flush()
    assert scope.cancelled_caught
    assert trio.current_time() - began_s == 11
    assert connection.is_finished
    assert exchange.told == other.told == [TransportFault.RESET]


async def test_who_is_cancelled_while_the_server_is_slow_sends_its_piece_whole(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = await opened(ours, theirs)
    exchange = Exchange()
    connection.join(exchange)
    stream_id = connection.begin(exchange, HEAD, is_all=False)

    async def pass_on_slowly() -> None:
        await trio.sleep(0.5)
        trio.testing.memory_stream_pump(ours.send_stream, theirs.receive_stream)

    ours.send_stream.send_all_hook = pass_on_slowly
    with trio.move_on_after(0.1):
        await connection.flush()
    await connection.leave(exchange, stream_id, is_complete=False)
    server = H2Connection(H2Configuration(client_side=False))
    events = server.receive_data(bytes(await theirs.receive_some(65536)))
    assert [type(event).__name__ for event in events][-2:] == ["RequestReceived", "StreamReset"]
    assert not connection.is_finished
    assert exchange.told == []


async def test_an_idle_connection_is_finished_after_its_time(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = await opened(ours, theirs)
    await trio.sleep(30)
    assert not connection.is_finished
    await trio.sleep(0.1)
    assert connection.is_finished
    connection.join(exchange := Exchange())
    assert not connection.is_finished
    await connection.leave(exchange, 0, is_complete=True)
    assert not connection.is_finished


async def test_a_request_that_finds_its_connection_told_to_go_was_not_processed() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = await opened(ours, theirs)
    carrier, other = Http2Carrier(connection), Exchange()
    connection.join(other)
    stream_id = connection.begin(other, HEAD, is_all=True)
    await theirs.send_all(GoAwayFrame(0, last_stream_id=stream_id).serialize() + RstStreamFrame(stream_id, error_code=2).serialize())
    with trio.fail_after(5):
        await connection.until(other, lambda: bool(other.told))
    assert other.told == [2]
    message = httpcore.Request("POST", "https://up.test/", headers=[(b"host", b"up.test")])
    with pytest.raises(NotProcessedError):
        await carrier.ask(Question(Key(Origin("https", "up.test", 443), b""), message, b""))
    await carrier.close()
    await connection.leave(other, stream_id, is_complete=False)
    assert connection.is_finished
    await connection.close()


async def test_a_server_that_closes_before_its_settings_is_told() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await Http2Connection(ours, 30.0).open()


def framed(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + payload


frames = st.builds(framed, st.integers(0, 12), st.integers(0, 255), st.sampled_from([0, 1, 2, 3, 5, 2**31]), st.binary(max_size=40))
pieces = st.lists(st.one_of(frames, st.binary(max_size=30)), max_size=12)


@settings(max_examples=150)
@given(pieces=pieces)
def test_whatever_a_server_sends_ends_the_exchange_or_not_but_raises_nothing(pieces: list[bytes]) -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        connection = await opened(ours, theirs)
        exchanges = [Exchange(), Exchange()]
        for exchange in exchanges:
            connection.join(exchange)
            connection.begin(exchange, HEAD, is_all=True)
        await connection.flush()
        for piece in pieces:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await theirs.send_all(piece)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await theirs.send_stream.aclose()
        await connection.until(exchanges[0], lambda: False)
        assert connection.is_finished
        assert all(isinstance(exchange.told[-1], TransportFault) for exchange in exchanges)
        await connection.close()

    trio.run(main)
