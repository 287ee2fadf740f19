"""The gate in front of the HTTP/2 machine: what passes, what is counted, what is refused."""

import pytest
from h2.errors import ErrorCodes

from gomodel_trio.listen.h2_gate import PREFACE, Breach, Gate, NotHttp2
from gomodel_trio.listen.h2_limits import Http2Limits

LIMITS = Http2Limits(resets_per_s=2, control_per_s=20, head_bytes=100)
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
CALM, BROKEN = ErrorCodes.ENHANCE_YOUR_CALM, ErrorCodes.PROTOCOL_ERROR


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


BEGIN = PREFACE + frame(SETTINGS)


def begun() -> Gate:
    """A gate whose first SETTINGS have taken 10 of the 60 that may be spent at once."""
    gate = Gate(LIMITS, 0.0)
    assert gate.take(BEGIN, 0.0) == BEGIN
    return gate


PASSES = [frame(HEADERS, b"h" * 30, stream=1), frame(CONTINUATION, b"c", flags=4, stream=1), frame(DATA, b"d" * 40, stream=1)]
STAYS = [frame(PRIORITY, b"p" * 5, stream=3), frame(99, b"?"), frame(GOAWAY, b"g" * 8)]


@pytest.mark.parametrize("size", [1, 2, 5, 9, 10, 1000])
def test_the_cut_of_the_pieces_does_not_matter(size: int) -> None:
    gate = Gate(LIMITS, 0.0)
    sent = BEGIN + b"".join([*PASSES, *STAYS, frame(PING, b"8bytes..")])
    passed = b"".join(gate.take(sent[at : at + size], 0.0) for at in range(0, len(sent), size))
    assert passed == BEGIN + b"".join(PASSES) + frame(PING, b"8bytes..")
    assert (gate.is_http2, gate.is_begun, gate.is_leaving, gate.pending_since_s) == (True, True, True, None)


@pytest.mark.parametrize("data", [b"G", b"PRJ", PREFACE[:-1] + b"x", b"\x16"])
def test_the_first_byte_that_differs_from_the_preface_is_refused(data: bytes) -> None:
    gate = Gate(LIMITS, 0.0)
    assert gate.take(data[:-1], 0.0) == data[:-1]
    with pytest.raises(NotHttp2):
        gate.take(data[-1:], 0.0)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(HEADERS, b"h", flags=4, stream=1), None),
        (b"\x00\x40\x01" + bytes(6), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(CONTINUATION, stream=1), BROKEN),
        (frame(HEADERS, b"h", stream=1) + frame(DATA, b"d" * 20, stream=1), BROKEN),
        (frame(HEADERS, b"h", stream=1) + frame(PRIORITY, b"p" * 5), BROKEN),
        (frame(HEADERS, b"h" * 101, flags=4, stream=1), CALM),
        (frame(HEADERS, b"h" * 60, stream=1) + frame(CONTINUATION, b"c" * 41, flags=4, stream=1), CALM),
        (frame(HEADERS, b"h" * 60, stream=1) + frame(CONTINUATION, b"c" * 40, flags=4, stream=1), None),
        (frame(RST_STREAM, b"code", stream=1) * 6, None),
        (frame(RST_STREAM, b"code", stream=1) * 7, CALM),
        (frame(PING, b"8bytes..") * 50, None),
        (frame(PING, b"8bytes..") * 51, CALM),
        (frame(SETTINGS) * 5, None),
        (frame(SETTINGS) * 6, CALM),
        (frame(DATA, b"d" * 15, stream=1) * 51, CALM),
        (frame(DATA, b"d" * 16, stream=1) * 1000, None),
        (frame(DATA, flags=1, stream=1) * 1000, None),
        (frame(WINDOW_UPDATE, b"more") * 250, None),
        (frame(WINDOW_UPDATE, b"more") * 251, CALM),
        (frame(77) * 51, CALM),
        (frame(HEADERS, stream=1) + frame(CONTINUATION, stream=1) * 51, CALM),
    ],
)
def test_rules_and_budgets_are_kept(data: bytes, code: ErrorCodes | None) -> None:
    gate = begun()
    if code is None:
        gate.take(data, 0.0)
    else:
        with pytest.raises(Breach) as breach:
            gate.take(data, 0.0)
        assert breach.value.code is code


def test_budgets_refill_with_time_and_no_further_than_at_first() -> None:
    gate = begun()
    for _ in range(6):
        gate.charge_reset(0.0)
    gate.charge_reset(0.5)
    with pytest.raises(Breach, match="too many streams were reset"):
        gate.charge_reset(0.5)
    for _ in range(6):
        gate.charge_reset(1000.0)
    with pytest.raises(Breach):
        gate.charge_reset(1000.0)


def test_each_data_frame_that_is_sent_earns_its_window_updates() -> None:
    gate = begun()
    for _ in range(100):
        gate.note_data_sent()
    gate.take(frame(WINDOW_UPDATE, b"more") * 650, 0.0)
    with pytest.raises(Breach):
        gate.take(frame(WINDOW_UPDATE, b"more"), 0.0)


@pytest.mark.parametrize("first", [frame(SETTINGS, flags=1), frame(PING, b"8bytes.."), frame(HEADERS, b"h", flags=4, stream=1)])
def test_the_first_frame_has_to_be_the_clients_settings(first: bytes) -> None:
    gate = Gate(LIMITS, 0.0)
    with pytest.raises(Breach) as breach:
        gate.take(PREFACE + first, 0.0)
    assert breach.value.code is BROKEN


def test_it_is_known_since_when_something_is_incomplete() -> None:
    gate = Gate(LIMITS, 1.0)
    assert gate.pending_since_s == 1.0
    gate.take(PREFACE, 2.0)
    assert gate.pending_since_s == 1.0  # the preface with its SETTINGS is one
    gate.take(frame(SETTINGS), 3.0)
    assert gate.pending_since_s is None
    data = frame(DATA, b"d" * 40, stream=1)
    gate.take(data[:4], 4.0)
    gate.take(data[4:20], 5.0)
    assert gate.pending_since_s == 4.0
    gate.take(data[20:] + data[:9], 6.0)
    assert gate.pending_since_s == 6.0  # another frame
    gate.take(data[9:], 7.0)
    assert gate.pending_since_s is None
    gate.take(frame(HEADERS, b"h", stream=3), 8.0)
    gate.take(frame(CONTINUATION, b"c", stream=3), 9.0)
    assert gate.pending_since_s == 8.0  # one header block
    gate.take(frame(CONTINUATION, b"c", flags=4, stream=3), 10.0)
    assert gate.pending_since_s is None
