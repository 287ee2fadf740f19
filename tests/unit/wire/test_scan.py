"""Offsets in JSON texts."""

import pytest

from gomodel_trio.wire.scan import items, members, value_end


@pytest.mark.parametrize(
    "value",
    [
        b"1",
        b"-1.5e+3",
        b"true",
        b"null",
        b'""',
        b'"a"',
        rb'"\""',
        rb'"\\"',
        rb'"\\\""',
        rb'"a\\\\"',
        rb'"a \" b \\\" c"',
        b"[]",
        b"{}",
        b'[[],{"a":[{}]},[[]]]',
        b'{"a":"]}","b":["\\"]"]}',
        b'[ {"x": 1} , "]" ]',
    ],
)
@pytest.mark.parametrize("behind", [b"", b",", b" ,]", b"}", b"]]", b',"x":[1]'])
def test_a_value_ends_where_it_ends_whatever_follows(value: bytes, behind: bytes) -> None:
    assert value_end(b"xx" + value + behind, 2) == 2 + len(value)


@pytest.mark.parametrize("text", [b"", b",", b"]", b'"a', b'"a\\"', b"[", b"[1,{}", b'["]', b'{"a":"}', b"[" * 1000])
def test_a_value_that_does_not_end_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="JSON value"):
        value_end(text, 0)


def test_members_are_found_with_every_copy_of_a_key() -> None:
    raw = b' { "a" : 1 ,\n"a":[2, 3] , "b\\"" : {"c":4}} trailing'

    found = [(raw[m.key_at : m.key_end], raw[m.value_at : m.value_end]) for m in members(raw)]

    assert found == [(b'"a"', b"1"), (b'"a"', b"[2, 3]"), (b'"b\\""', b'{"c":4}')]


def test_an_empty_object_and_an_empty_array_hold_nothing() -> None:
    assert list(members(b"{ }")) == []
    assert list(items(b" [\n]")) == []


def test_items_are_found_as_they_were_sent() -> None:
    assert list(items(b'[ 1.0 ,"a" ,{"b": [ ]}, [ ]\t]')) == [b"1.0", b'"a"', b'{"b": [ ]}', b"[ ]"]


def test_nothing_is_read_beyond_the_item_asked_for() -> None:
    assert next(items(b"[1, ???")) == b"1"


@pytest.mark.parametrize("text", [b"", b"[]", b'"a"', b"{1:2}", b'{"a" 1}', b'{"a":1 "b":2}', b'{"a":1,}', b'{"a":}', b'{"a":1'])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|key"):
        list(members(text))


@pytest.mark.parametrize("text", [b"", b"{}", b"[1 2]", b"[1,]", b"[1", b"[,]"])
def test_what_is_no_array_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="JSON"):
        list(items(text))


def test_members_flat_and_nested_in_turn() -> None:
    raw = b'{ "a" : "x,}" , "b":[1,{"c":"]"}],"d":-1.5e3 ,"e":{} , "f":null}'
    assert [(raw[m.key_at : m.key_end], raw[m.value_at : m.value_end]) for m in members(raw)] == [
        (b'"a"', b'"x,}"'),
        (b'"b"', b'[1,{"c":"]"}]'),
        (b'"d"', b"-1.5e3"),
        (b'"e"', b"{}"),
        (b'"f"', b"null"),
    ]
