"""Durations and sizes as operators write them."""

import pytest

from gomodel_trio.units import format_duration, parse_duration_s, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "value_s"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("90m10s", 5410.0),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("1us", 1e-6),
        ("1ns", 1e-9),
        ("1s1s", 2.0),
        ("30", 30.0),
        ("0.25", 0.25),
        (".5", 0.5),
        ("0", 0.0),
        ("0s", 0.0),
        ("-1", -1.0),
        ("-1m30s", -90.0),
        ("+5s", 5.0),
        (" 30s\n", 30.0),
        ("876000h", 3153600000.0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, value_s: float) -> None:
    assert parse_duration_s(text) == value_s


@pytest.mark.parametrize(
    "text", ["", " ", "s", "30 s", "1h 30m", "30S", "5min", "1d", "1e3", "nan", "inf", "--1s", "1m-1s", "1,5s", "٣s", ".", ".s", "1h30"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration: write 30s, 5m, 1h30m, 250ms or a number of seconds"):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["876001h", "-876001h", "3153600001", "9" * 400, "9" * 400 + "h", ("1" + "0" * 308 + "s") * 2])
def test_more_than_a_century_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than a century"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0, "0s"),
        (30, "30s"),
        (5400, "1h30m"),
        (300, "5m"),
        (0.25, "250ms"),
        (1.5, "1s500ms"),
        (3661.001, "1h1m1s1ms"),
        (-90, "-1m30s"),
        (59.9996, "1m"),
        (0.0000004, "400ns"),
        (0.00025, "250us"),
        (-1e-7, "-100ns"),
        (1e-12, "0s"),
        (-1e-12, "0s"),
    ],
)
def test_a_duration_is_written_in_the_largest_whole_units(value_s: float, text: str) -> None:
    assert format_duration(value_s) == text


@pytest.mark.parametrize("value_s", [30.0, 5400.0, 0.25, 1.5, -90.0, 1e-6, 3153600000.0])
def test_a_written_duration_reads_back_as_itself(value_s: float) -> None:
    assert parse_duration_s(format_duration(value_s)) == value_s


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1", 1),
        ("10M", 10_485_760),
        ("512K", 524_288),
        ("1G", 1_073_741_824),
        ("1T", 1_099_511_627_776),
        ("10m", 10_485_760),
        ("10MB", 10_485_760),
        ("10MiB", 10_485_760),
        ("10 mb", 10_485_760),
        ("100B", 100),
        ("1.5K", 1536),
        (".5K", 512),
        (" 1K ", 1024),
        ("1125899906842623", 1_125_899_906_842_623),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "M", "-1", "+1", "10X", "10MM", "1e3", "1_000", "10iB", "١٠M", "ten"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is no size: write 10M, 512K or a number of bytes"):
        parse_size_bytes(text)


@pytest.mark.parametrize("text", ["1024T", "1125899906842624", "9" * 400])
def test_a_petabyte_or_more_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is beyond a petabyte"):
        parse_size_bytes(text)
