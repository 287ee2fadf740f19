"""Hostile and odd requests over real sockets: bodies, framing, headers, paths, credentials, and the native passthrough."""

import gzip
import json
import re
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess
from support.raw_http import Answer, Connection, request_bytes, sse_data
from support.replies import Reply, Request, anthropic_error, json_reply, openai_error, sse_reply

pytestmark = pytest.mark.e2e

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "embeddings": "/v1/embeddings",
}
SCORED = ("chat", "responses", "messages")
ANTHROPIC = ("messages", "count_tokens")
MODELS = {api: "claude-a" if api in ANTHROPIC else "gpt-a" for api in PATHS}
LIMIT = 256 << 10
KEY = "gw-master-key"
AUTH = {"Authorization": f"Bearer {KEY}"}
FINE = json_reply({"fine": True})


def answer_fine(request: Request) -> Reply | None:
    """Whatever is asked on the five endpoints is answered, so that only the gateway judges it."""
    return FINE if request.method == "POST" and request.path.endswith(tuple(path.removeprefix("/v1") for path in PATHS.values())) else None


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeUpstream]:
    with open_on_thread() as fake:
        fake.rule = answer_fine
        yield fake


@pytest.fixture(autouse=True)
def nothing_told(provider: FakeUpstream) -> None:
    provider.forget()


def variables(provider: FakeUpstream) -> dict[str, str]:
    routes = {name: {"easy": f"{name}-easy", "hard": f"{name}-hard"} for name in ("normal", "claude")}
    virtual = [
        {"source": f"{name}-{tier}", "target": target}
        for name, target in (("normal", "openai/gpt-a"), ("claude", "anthropic/claude-a"))
        for tier in ("easy", "hard")
    ]
    virtual.append({"source": "team-model", "target": "openai/gpt-a", "user_paths": ["/team"]})
    return {
        "OPENAI_API_KEY": "sk-provider-secret",
        "OPENAI_BASE_URL": f"{provider.url}/v1",
        "OPENAI_MODELS": "gpt-a,ft/one:two",
        "ANTHROPIC_API_KEY": "sk-ant-provider-secret",
        "ANTHROPIC_BASE_URL": f"{provider.url}/v1",
        "ANTHROPIC_MODELS": "claude-a",
        "BODY_SIZE_LIMIT": str(LIMIT),
        "RETRY_MAX_RETRIES": "0",
        "PRO_SMART_ROUTING_ROUTES": json.dumps(routes),
        "VIRTUAL_MODELS": json.dumps(virtual),
    }


@pytest.fixture(scope="module")
def gateway(provider: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(variables(provider), directory=tmp_path_factory.mktemp("open")) as running:
        yield running
        assert running.logged("internal_error") == []
        assert running.logged("connection_failed") == []


@pytest.fixture(scope="module")
def locked(provider: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a master key, under a base path."""
    extra = {"GOMODEL_MASTER_KEY": KEY, "BASE_PATH": "/g"}
    with GatewayProcess({**variables(provider), **extra}, directory=tmp_path_factory.mktemp("locked")) as running:
        yield running
        assert running.logged("internal_error") == []
        assert running.logged("connection_failed") == []


def fault_of(answer: Answer, *, is_anthropic: bool) -> tuple[str, str | None, str]:
    """An error's type, code and message, after its form was checked."""
    assert answer.get("content-type") == "application/json"
    body = answer.json()
    if is_anthropic:
        assert body["type"] == "error"
        assert body["request_id"] == answer.get("x-request-id")
        error = body["error"]
        code = error.get("details", {}).get("error_code")
    else:
        assert set(body) == {"error"}
        error = body["error"]
        assert set(error) == {"message", "type", "param", "code"}
        code = error["code"]
    assert error["message"]
    assert "Traceback" not in answer.text
    return error["type"], code, error["message"]


def ask(gateway: GatewayProcess, api: str, body: bytes | Any, **kwargs: Any) -> Answer:
    return gateway.exchange("POST", PATHS[api], body=body, **kwargs)


def good_body(api: str, size: int = 0) -> bytes:
    """A valid request, padded to `size` bytes."""
    body = b'{"model":"%s","messages":[],"pad":""}' % MODELS[api].encode()
    return body[:-2] + b"x" * (size - len(body)) + body[-2:]


def check_state(connection: Connection, answer: Answer) -> None:
    """After an answer the connection is closed as announced, or good for the next request: never in between."""
    if answer.get("connection") == "close":
        assert connection.is_closed_by_peer()
    else:
        connection.request("GET", "/health", headers={"X-Request-ID": "next"})
        assert connection.read_answer().get("x-request-id") == "next"


def chunked(body: bytes, size: int) -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size]) for at in range(0, len(body), size)) + b"0\r\n\r\n"


# ---- bodies that are no requests ------------------------------------------------------------------------------------


def nested(depth: int, kind: str) -> bytes:
    opening, closing = {"lists": ("[", "]"), "objects": ('{"a":', "}")}[kind]
    return b'{"model":"gpt-a","x":' + (opening * depth + "1" + closing * depth).encode() + b"}"


DEEP_SCHEMA = '{"type":"object","properties":{"a":' * 1000 + "{}" + "}}" * 1000
NO_JSON = {
    "truncated": b'{"model":"gpt-a","messages":[{"role":"us',
    "truncated in an escape": b'{"model":"gpt-a\\u00',
    "one brace": b"{",
    "trailing garbage": b'{"model":"gpt-a"} trailing',
    "two objects": b'{"model":"gpt-a"}{"model":"gpt-a"}',
    "a list": b'[{"model":"gpt-a"}]',
    "a string": b'"model"',
    "a number": b"42",
    "null": b"null",
    "true": b"true",
    "a byte order mark": b'\xef\xbb\xbf{"model":"gpt-a"}',
    "UTF-16": '{"model":"gpt-a"}'.encode("utf-16"),
    "UTF-32": '{"model":"gpt-a"}'.encode("utf-32-le"),
    "Latin-1": '{"model":"gpt-a","user":"Jürgen"}'.encode("latin-1"),
    "broken UTF-8 in a key": b'{"model":"gpt-a","\xc3":1}',
    "overlong UTF-8": b'{"model":"gpt-a","x":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"model":"gpt-a","x":"\xed\xa0\x80"}',
    "NaN": b'{"model":"gpt-a","temperature":NaN}',
    "Infinity": b'{"model":"gpt-a","temperature":Infinity}',
    "-Infinity": b'{"model":"gpt-a","temperature":-Infinity}',
    "5000 digits": b'{"model":"gpt-a","seed":' + b"9" * 5000 + b"}",
    "5000 decimals": b'{"model":"gpt-a","temperature":0.' + b"1" * 5000 + b"}",
    "20000 lists deep": nested(20_000, "lists"),
    "20000 objects deep": nested(20_000, "objects"),
    "20000 lists deep and never closed": b'{"model":"gpt-a","x":' + b"[" * 20_000,
    "a tool's schema 2000 deep": f'{{"model":"gpt-a","tools":[{{"parameters":{DEEP_SCHEMA}}}]}}'.encode(),
    "a trailing comma": b'{"model":"gpt-a",}',
    "single quotes": b"{'model':'gpt-a'}",
    "a comment": b'{"model":"gpt-a"/* the best */}',
    "no quotes": b"{model:gpt-a}",
    "a line break in a string": b'{"model":"gpt\na"}',
    "a NUL in a string": b'{"model":"gpt\x00a"}',
    "a NUL behind": b'{"model":"gpt-a"}\x00',
    "a bad escape": b'{"model":"gpt\\xa"}',
    "a leading zero": b'{"model":"gpt-a","n":01}',
    "a bare minus": b'{"model":"gpt-a","n":-}',
    "a form": b"model=gpt-a&messages=hi",
    "HTML": b"<html></html>",
    "nothing": b"",
    "white space": b" \r\n\t ",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("api", PATHS)
def test_a_body_that_is_no_json_object_is_a_400_in_the_callers_dialect(gateway: GatewayProcess, provider: FakeUpstream, api: str) -> None:
    asked = len(provider.requests)
    with Connection(gateway.port) as connection:
        for name, body in NO_JSON.items():
            connection.request("POST", PATHS[api], body=body)
            answer = connection.read_answer()
            kind, code, message = fault_of(answer, is_anthropic=api in ANTHROPIC)
            assert (name, answer.status, kind, code) == (name, 400, "invalid_request_error", "invalid_json")
            assert message.startswith("The request body"), name
            assert len(message) < 200, name
            assert answer.get("x-should-retry") == "false"
    assert len(provider.requests) == asked


@pytest.mark.parametrize("api", PATHS)
def test_a_message_says_what_is_wrong_with_a_body(gateway: GatewayProcess, api: str) -> None:
    told = {name: fault_of(ask(gateway, api, NO_JSON[name]), is_anthropic=api in ANTHROPIC)[2] for name in NO_JSON}
    assert told["nothing"] == "The request body is empty; a JSON object is expected."
    assert told["a list"] == told["null"] == "The request body must be a JSON object."
    assert "byte order mark" in told["a byte order mark"]
    assert told["Latin-1"] == "The request body is not valid UTF-8 (byte 26)."
    assert told["5000 digits"] == "The request body holds a number of more than 4300 digits."
    assert told["20000 lists deep"] == told["a tool's schema 2000 deep"] == "The request body is nested deeper than 512 levels."


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("model", ["", "null", '""', "7", "true", "[]", "{}", '["gpt-a"]'])
def test_without_a_models_name_the_request_is_a_400(gateway: GatewayProcess, api: str, model: str) -> None:
    answer = ask(gateway, api, (f'{{"model":{model}}}' if model else "{}").encode())
    assert answer.status == 400
    kind, code, message = fault_of(answer, is_anthropic=api in ANTHROPIC)
    assert (kind, code) == ("invalid_request_error", "missing_model")
    assert "`model`" in message
    if api not in ANTHROPIC:
        assert answer.json()["error"]["param"] == "model"


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("model", ["nope", "nope/x", "openai", "openai/", "/gpt-a", " ", " gpt-a", "GPT-A", "\ud800", "a\nb", "x" * 512])
def test_an_unknown_model_is_a_404_that_shows_no_more_of_it_than_is_needed(gateway: GatewayProcess, api: str, model: str) -> None:
    answer = ask(gateway, api, {"model": model})
    assert answer.status == 404
    kind, code, message = fault_of(answer, is_anthropic=api in ANTHROPIC)
    assert (kind, code) == ("not_found_error", "model_not_found")
    assert len(message) < 400
    line = gateway.wait_for_log("request", request_id=answer.get("x-request-id"))
    assert len(json.dumps(line)) < 6000


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("member", ["model", "provider"])
def test_a_name_longer_than_any_is_a_400_that_does_not_repeat_it(gateway: GatewayProcess, api: str, member: str) -> None:
    answer = ask(gateway, api, {"model": "openai/gpt-a", member: "openai/" + "x" * 100_000})
    assert answer.status == 400
    kind, code, message = fault_of(answer, is_anthropic=api in ANTHROPIC)
    assert (kind, code) == ("invalid_request_error", "name_too_long")
    assert f"`{member}`" in message
    assert len(message) < 200
    assert b"xxx" not in gateway.exchange("GET", "/metrics").body


@pytest.mark.parametrize("api", PATHS)
def test_of_several_copies_of_a_key_the_last_counts_and_each_model_is_changed(
    gateway: GatewayProcess, provider: FakeUpstream, api: str
) -> None:
    name = "anthropic/claude-a" if api in ANTHROPIC else "openai/gpt-a"
    body = f'{{"model":"nope","messages":[],"mod\\u0065l":"{name}" , "messages":[1]}}'.encode()
    assert ask(gateway, api, body).status == 200
    bare = name.partition("/")[2]
    assert provider.requests[-1].body == f'{{"model":"{bare}","messages":[],"mod\\u0065l":"{bare}" , "messages":[1]}}'.encode()


# ---- odd bodies that are requests -----------------------------------------------------------------------------------

ODD = [
    '"messages":[{"role":"user","content":null}]',
    '"messages":[{"role":"user","content":[null]}]',
    '"messages":[{"role":"user","content":[{"type":null,"text":null}]}]',
    '"messages":[{"role":"user","content":[{"type":"text","text":{"a":1}},7,"s",[[]]]}]',
    '"messages":[{"role":null},{"role":7,"content":7},{}]',
    '"messages":[null,1,"s",[],true]',
    '"messages":null,"input":null',
    '"messages":"hi","input":7',
    '"messages":{"role":"user"},"input":{"a":[]}',
    '"messages":[],"input":[]',
    '"messages":[{"role":"user","content":"\\ud800 lone \\udc00 \\ud83d\\ude00 \\udfff"}],"input":"\\ud800"',
    '"\\ud800":"\\ud800","messages":[]',
    '"messages":[{"role":"user","content":"\\u0000\\u001f\\u007f\\u2028"}],"input":"\\u0000"',
    '"tools":{}',
    '"tools":null,"functions":"x"',
    '"tools":[null,1,{}],"functions":[]',
    '"stream":null',
    '"stream":"true"',
    '"stream":1',
    '"thinking":"enabled"',
    '"thinking":[],"reasoning":"high","reasoning_effort":{"effort":"high"}',
    '"reasoning":{"effort":null,"mode":[]},"response_format":"json","text":1,"output_format":[],"output_config":null',
    '"system":7,"instructions":{"a":1},"metadata":"x","session_id":{},"conversation":[],"prompt_cache_key":1',
    '"metadata":{"user_id":"{\\"session_id\\":7}"}',
    '"metadata":{"user_id":"{broken"}',
    '"seed":123456789012345678901234567890,"temperature":1e400,"top_p":1E-400,"n":-0,"k":1.0000000000000000000001',
    '"provider":{"order":["a"]}',
    '"provider":null',
    '"provider":7',
    '"x":"' + '\\\\\\"' * 500 + '"',
    '"":1,"a":{"model":"inner"},"messages":[{"model":"inner"}]',
    '"x":' + "[" * 500 + "]" * 500,
    '"input":[[1,2,3],[4]]',
    '"input":"日本語 Ünïcode 😀"',
]


@pytest.mark.parametrize("api", PATHS)
def test_an_odd_body_reaches_the_provider_as_it_was_sent(gateway: GatewayProcess, provider: FakeUpstream, api: str) -> None:
    with Connection(gateway.port) as connection:
        for members in ODD:
            body = f'{{"model":"{MODELS[api]}",{members}}}'.encode()
            connection.request("POST", PATHS[api], body=body)
            assert (members, connection.read_answer().status) == (members, 200)
            assert provider.requests[-1].body == body


@pytest.mark.parametrize("api", SCORED)
def test_an_odd_body_is_scored_and_only_its_model_is_changed(gateway: GatewayProcess, provider: FakeUpstream, api: str) -> None:
    alias, model = ("claude", "claude-a") if api == "messages" else ("normal", "gpt-a")
    with Connection(gateway.port) as connection:
        for members in ODD:
            connection.request("POST", PATHS[api], body=f'{{ "model" :\t"{alias}" ,{members}\n}}'.encode())
            answer = connection.read_answer()
            assert (members, answer.status) == (members, 200)
            assert answer.get("x-gomodel-pro-tier") in ("easy", "hard"), members
            assert provider.requests[-1].body == f'{{ "model" :\t"{model}" ,{members}\n}}'.encode()


def test_a_string_provider_is_read_and_removed(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    assert ask(gateway, "chat", b'{"provider":"openai", "model":"any-model","n":1e3}').status == 200
    assert provider.requests[-1].body == b'{"model":"any-model","n":1e3}'
    refused = ask(gateway, "chat", b'{"provider":"nobody","model":"gpt-a"}')
    assert (refused.status, fault_of(refused, is_anthropic=False)[1]) == (404, "model_not_found")


# ---- size and coding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", PATHS)
def test_a_body_is_taken_up_to_the_limit_and_refused_above(gateway: GatewayProcess, provider: FakeUpstream, api: str) -> None:
    with Connection(gateway.port) as connection:
        connection.request("POST", PATHS[api], body=good_body(api, LIMIT))
        assert connection.read_answer().status == 200
        assert len(provider.requests[-1].body) == LIMIT
        connection.request("POST", PATHS[api], body=good_body(api, LIMIT + 1))
        answer = connection.read_answer()
        assert answer.status == 413
        kind, code, message = fault_of(answer, is_anthropic=api in ANTHROPIC)
        assert (kind, code) == ("request_too_large" if api in ANTHROPIC else "invalid_request_error", "request_too_large")
        assert str(LIMIT) in message
        check_state(connection, answer)


def test_a_chunked_body_is_taken_up_to_the_limit_and_refused_above(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    headers = {"Transfer-Encoding": "chunked"}
    with Connection(gateway.port) as connection:
        connection.request("POST", PATHS["chat"], headers=headers, body=chunked(good_body("chat", LIMIT), 7000))
        assert connection.read_answer().status == 200
        assert provider.requests[-1].body == good_body("chat", LIMIT)
        assert provider.requests[-1].header("transfer-encoding") is None
        connection.request("POST", PATHS["messages"], headers=headers, body=chunked(good_body("messages", LIMIT + 1), 7000))
        answer = connection.read_answer()
        assert (answer.status, fault_of(answer, is_anthropic=True)[1]) == (413, "request_too_large")
        check_state(connection, answer)


def test_an_endless_chunked_body_ends_with_a_413(gateway: GatewayProcess) -> None:
    with Connection(gateway.port) as connection:
        connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(5):
            connection.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        assert connection.read_answer().status == 413


@pytest.mark.parametrize("length", ["99999999999999999999999", "1000000000000", str(LIMIT + 1)])
def test_a_length_over_the_limit_is_refused_before_anything_of_the_body_is_sent(gateway: GatewayProcess, length: str) -> None:
    with Connection(gateway.port) as connection:
        connection.send(f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        answer = connection.read_answer()
    assert answer.status in (413, 400)
    assert answer.is_complete


def test_a_client_that_sends_all_of_a_huge_body_first_can_still_read_the_413(gateway: GatewayProcess) -> None:
    answer = ask(gateway, "chat", b" " * (16 << 20))
    assert (answer.status, answer.is_complete) == (413, True)
    assert ask(gateway, "chat", good_body("chat")).status == 200


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
        ("identity, gzip", gzip.compress),
        ("", bytes),
    ],
)
def test_a_coded_body_is_decoded(gateway: GatewayProcess, provider: FakeUpstream, api: str, coding: str, pack: Any) -> None:
    answer = ask(gateway, api, pack(good_body(api, 5000)), headers={"Content-Encoding": coding})
    assert answer.status == 200
    assert provider.requests[-1].body == good_body(api, 5000)
    assert provider.requests[-1].header("content-encoding") is None
    assert provider.requests[-1].header("content-length") == "5000"


def test_a_coded_body_may_come_in_chunks_and_inflate_to_the_limit(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    headers = {"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"}
    answer = ask(gateway, "chat", chunked(gzip.compress(good_body("chat", LIMIT)), 11), headers=headers)
    assert answer.status == 200
    assert provider.requests[-1].body == good_body("chat", LIMIT)


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("br", b"\x0b\x02\x80"),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("compress", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
        ("deflate, gzip", b"x"),
        ("none\x22\xff", b"x"),
        ("gzip", gzip.compress(b"x" * (LIMIT + 1))),
        ("gzip", gzip.compress(b"\0" * (32 << 20))),
        ("deflate", zlib.compress(b"\0" * (32 << 20))),
        ("gzip", b"no gzip at all"),
        ("gzip", b""),
        ("gzip", gzip.compress(b"{}")[:-5]),
        ("gzip", gzip.compress(b"{}") + b"behind"),
        ("deflate", gzip.compress(b"{}")),
    ],
    ids=range(14),
)
def test_a_coding_that_is_unknown_doubled_damaged_or_a_bomb_is_a_415(gateway: GatewayProcess, api: str, coding: str, body: bytes) -> None:
    answer = ask(gateway, api, body, headers={"Content-Encoding": coding})
    assert answer.status == 415
    kind, code, _ = fault_of(answer, is_anthropic=api in ANTHROPIC)
    assert (kind, code) == ("invalid_request_error", "unsupported_content_encoding")


def test_codings_on_two_lines_are_one_list(gateway: GatewayProcess) -> None:
    two = [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")]
    assert ask(gateway, "chat", gzip.compress(gzip.compress(good_body("chat"))), headers=two).status == 415
    two = [("Content-Encoding", "identity"), ("Content-Encoding", "gzip")]
    assert ask(gateway, "chat", gzip.compress(good_body("chat")), headers=two).status == 200


# ---- framing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_upload_may_be_chunked_any_way(gateway: GatewayProcess, provider: FakeUpstream, size: int) -> None:
    answer = ask(gateway, "chat", chunked(good_body("chat", 300), size), headers={"Transfer-Encoding": "chunked"})
    assert answer.status == 200
    assert provider.requests[-1].body == good_body("chat", 300)


def test_chunk_extensions_and_trailers_are_read_over(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    body = good_body("chat")
    wire = b"%x;name=value\r\n%s\r\n0;last\r\nX-Trailer: authorization\r\n\r\n" % (len(body), body)
    with Connection(gateway.port) as connection:
        for _ in range(2):
            connection.request("POST", PATHS["chat"], headers={"Transfer-Encoding": "chunked"}, body=wire)
            assert connection.read_answer().status == 200
    assert provider.requests[-1].body == body


def test_a_body_may_come_byte_by_byte(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    with Connection(gateway.port) as connection:
        for byte in request_bytes("POST", PATHS["chat"], body=good_body("chat")):
            connection.send(bytes([byte]))
        assert connection.read_answer().status == 200
    assert provider.requests[-1].body == good_body("chat")


@pytest.mark.parametrize("kept", ["", "Connection: keep-alive\r\n"])
@pytest.mark.parametrize("stream", [False, True])
def test_http_1_0_gets_an_answer_it_can_read(gateway: GatewayProcess, provider: FakeUpstream, kept: str, stream: bool) -> None:
    events = [b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n', b"data: [DONE]\n\n"]
    if stream:
        provider.answer(sse_reply(events))
    body = b'{"model":"gpt-a","stream":%s}' % (b"true" if stream else b"false")
    with Connection(gateway.port) as connection:
        connection.send(f"POST /v1/chat/completions HTTP/1.0\r\n{kept}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = connection.read_answer()
        assert answer.status == 200
        assert answer.get("transfer-encoding") is None
        assert answer.body == (b"".join(events) if stream else FINE.body)
        if (answer.get("connection") or "").lower() == "keep-alive":
            connection.send(b"GET /health HTTP/1.0\r\n\r\n")
            assert connection.read_answer().status == 200
        assert connection.is_closed_by_peer()


def test_pipelined_requests_are_answered_in_order(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(FINE.held(0.2), path="/chat/completions")
    wire = b"".join(
        [
            request_bytes("POST", PATHS["chat"], headers={"X-Request-ID": "one"}, body=good_body("chat")),
            request_bytes("GET", "/health", headers={"X-Request-ID": "two"}),
            request_bytes("POST", PATHS["messages"], headers={"X-Request-ID": "three"}, body=b"broken"),
            request_bytes("POST", PATHS["messages"], headers={"X-Request-ID": "four"}, body=good_body("messages")),
            request_bytes("GET", "/nowhere", headers={"X-Request-ID": "five"}),
        ]
    )
    with Connection(gateway.port) as connection:
        connection.send(wire)
        answers = [connection.read_answer() for _ in range(5)]
    assert [(answer.get("x-request-id"), answer.status) for answer in answers] == [
        ("one", 200),
        ("two", 200),
        ("three", 400),
        ("four", 200),
        ("five", 404),
    ]


def expecting(path: str, length: int, headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n".encode()


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    body = good_body("chat")
    with Connection(gateway.port) as connection:
        connection.send(expecting(PATHS["chat"], len(body)))
        assert connection._read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        connection.send(body)
        assert connection.read_answer().status == 200
    assert provider.requests[-1].body == body
    assert provider.requests[-1].header("expect") is None


@pytest.mark.parametrize(
    ("path", "length", "headers", "status"),
    [
        ("/g/v1/messages", 100, "", 401),
        ("/g/v1/chat/completions", 100, "Authorization: Bearer wrong\r\n", 401),
        ("/g/p/openai/v1/files", 100, "", 401),
        ("/g/v1/chat/completions", LIMIT + 1, f"x-api-key: {KEY}\r\n", 413),
        ("/g/v1/chat/completions", 100, f"x-api-key: {KEY}\r\nContent-Encoding: br\r\n", 415),
        ("/g/v1/nothing", 100, f"x-api-key: {KEY}\r\n", 404),
        ("/g/v1/models", 100, f"x-api-key: {KEY}\r\n", 405),
        ("/elsewhere", 100, f"x-api-key: {KEY}\r\n", 404),
    ],
)
def test_a_client_that_waits_for_100_continue_is_refused_before_it_sends_its_body(
    locked: GatewayProcess, path: str, length: int, headers: str, status: int
) -> None:
    with Connection(locked.port) as connection:
        connection.send(expecting(path, length, headers))
        assert connection._read_until(b"\r\n").startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad name: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Session-Id: a\x01b\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / nonsense HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"hello\r\n\r\n",
    ],
)
def test_what_is_not_http_is_answered_with_400_and_the_connection_closed(gateway: GatewayProcess, head: bytes) -> None:
    with Connection(gateway.port) as connection:
        connection.send(head)
        answer = connection.read_answer()
        assert answer.status == 400
        body = answer.json()
        assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
        assert connection.is_closed_by_peer()


def test_other_versions_and_transfer_codings_are_refused_by_their_status(gateway: GatewayProcess) -> None:
    wires = {
        505: b"PRI * HTTP/2.0\r\nHost: x\r\n\r\nSM\r\n\r\n",
        501: b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        405: b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    }
    for status, wire in wires.items():
        with Connection(gateway.port) as connection:
            connection.send(wire)
            assert connection.read_answer().status == status


def test_a_broken_chunk_ends_the_connection_and_nothing_is_asked(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    asked = len(provider.requests)
    with Connection(gateway.port) as connection:
        connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert connection.read_answer().status == 400
        assert connection.is_closed_by_peer()
    assert len(provider.requests) == asked


def test_half_a_body_and_a_hang_up_is_nobodys_fault(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    asked = len(provider.requests)
    with Connection(gateway.port) as connection:
        connection.send(request_bytes("POST", PATHS["chat"], headers={"X-Request-ID": "half"}, body=good_body("chat"))[:-5])
    assert gateway.wait_for_log("request", request_id="half")["status"] == 499
    assert len(provider.requests) == asked


# ---- headers --------------------------------------------------------------------------------------------------------


def test_headers_over_64_kib_are_refused_with_431_and_below_taken(gateway: GatewayProcess) -> None:
    for headers in ({"X-Big": "x" * 60_000}, [("X-Many", "y" * 600)] * 100):
        assert gateway.exchange("GET", "/health", headers=headers).status == 200
    for headers in ({"X-Big": "x" * 200_000}, [("X-Many", "y" * 1500)] * 100):
        answer = gateway.exchange("GET", "/health", headers=headers)
        assert (answer.status, answer.is_complete) == (431, True)
    assert gateway.exchange("GET", "/" + "x" * 200_000).status == 431


def test_a_long_target_is_a_404_whose_message_and_log_line_are_short(gateway: GatewayProcess) -> None:
    answer = gateway.exchange("GET", "/" + "x" * 50_000)
    assert (answer.status, len(answer.body) < 500) == (404, True)
    assert len(json.dumps(gateway.wait_for_log("request", request_id=answer.get("x-request-id")))) < 6000


@pytest.mark.parametrize("given", ["abc-123", "x" * 200, "!~{}", "req_1/2:3=4"])
def test_a_request_id_is_echoed(gateway: GatewayProcess, given: str) -> None:
    for path in ("/health", "/nowhere", "/v1/models"):
        assert gateway.exchange("GET", path, headers={"X-Request-ID": given}).get_all("x-request-id") == [given]


@pytest.mark.parametrize("given", [None, "", "x" * 201, "a b", "ü", "a\tb", "\xff"])
def test_a_request_id_is_made_where_none_or_no_good_one_was_sent(gateway: GatewayProcess, given: str | None) -> None:
    made = gateway.exchange("GET", "/v1/models", headers={} if given is None else {"X-Request-ID": given}).get_all("x-request-id")
    assert len(made) == 1
    assert str(uuid.UUID(made[0])) == made[0]


def test_the_upstreams_request_id_does_not_take_the_place_of_ours(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(FINE.with_headers(("X-Request-ID", "theirs"), ("request-id", "req_1")))
    answer = ask(gateway, "chat", good_body("chat"), headers={"X-Request-ID": "mine"})
    assert answer.get_all("x-request-id") == ["mine"]
    assert answer.get("request-id") == "req_1"


@pytest.mark.parametrize("path", ["/team", "team", "/team/", "//team//app/", " /team/app ", "/team/Jürgen", "/team/日本"])
def test_a_user_path_is_understood_in_any_spelling(gateway: GatewayProcess, path: str) -> None:
    headers = {"X-GoModel-User-Path": path.encode().decode("latin-1")}
    assert ask(gateway, "chat", {"model": "team-model"}, headers=headers).status == 200


@pytest.mark.parametrize("path", [None, "", "/", "/teamx", "/other/team", "/Team", "/tea", "%2Fteam"])
def test_a_virtual_model_of_other_user_paths_is_not_found(gateway: GatewayProcess, path: str | None) -> None:
    headers = {} if path is None else {"X-GoModel-User-Path": path}
    answer = ask(gateway, "chat", {"model": "team-model"}, headers=headers)
    assert (answer.status, fault_of(answer, is_anthropic=False)[1]) == (404, "model_not_found")
    assert gateway.exchange("GET", "/v1/models/team-model", headers=headers).status == 404
    listed = gateway.exchange("GET", "/v1/models", headers=headers).json()["data"]
    assert "team-model" not in [model["id"] for model in listed]


# ---- paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/api/hello", "/health", "/health/live", "/health/ready", "/version", "/metrics"])
def test_probes_are_answered_without_a_key_and_heads_without_a_body(
    gateway: GatewayProcess, locked: GatewayProcess, method: str, path: str
) -> None:
    for target in (path, path + "?x=1"):
        for answer in (gateway.exchange(method, target), locked.exchange(method, "/g" + target)):
            assert answer.status == 200
            assert (answer.body == b"") == (method == "HEAD")
            assert int(answer.get("content-length") or 0) > 0


def test_a_kept_connection_survives_a_head(gateway: GatewayProcess) -> None:
    with Connection(gateway.port) as connection:
        for method, target in (("HEAD", "/"), ("GET", "/health"), ("HEAD", "/api/hello"), ("HEAD", "/nowhere"), ("GET", "/version")):
            connection.request(method, target)
            assert connection.read_answer().status == (404 if target == "/nowhere" else 200)


@pytest.mark.parametrize(
    ("path", "is_anthropic"),
    [
        ("/v1/nothing", False),
        ("/v1", False),
        ("/v2/chat/completions", False),
        ("/v1/chat/completions/", False),
        ("//v1/chat/completions", False),
        ("/v1/messages/batches", True),
        ("/v1/messages/", True),
        ("/admin", False),
        ("/admin/dashboard", False),
        ("/p", False),
        ("/healthz", False),
        ("/%ff%fe", False),
        ("/%zz", False),
        ("/v1/%2e%2e/health", False),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_route_is_a_404_in_the_dialect_of_its_path(gateway: GatewayProcess, method: str, path: str, is_anthropic: bool) -> None:
    answer = gateway.exchange(method, path)
    assert answer.status == 404
    kind, code, message = fault_of(answer, is_anthropic=is_anthropic)
    assert (kind, code) == ("not_found_error", "unknown_url")
    assert method in message


def test_elsewhere_an_anthropic_client_is_known_by_its_version_header(gateway: GatewayProcess) -> None:
    for path in ("/v1/files", "/v1/v1/messages", "/v1/models/none", "/p/nobody/x"):
        answer = gateway.exchange("GET", path, headers={"anthropic-version": "2023-06-01"})
        assert (path, answer.status, fault_of(answer, is_anthropic=True)[0]) == (path, 404, "not_found_error")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("api", PATHS)
def test_a_wrong_method_is_a_405_that_names_the_right_one(gateway: GatewayProcess, api: str, method: str) -> None:
    answer = gateway.exchange(method, PATHS[api])
    assert (answer.status, answer.get("allow")) == (405, "POST")
    if method != "HEAD":
        assert fault_of(answer, is_anthropic=api in ANTHROPIC)[:2] == ("invalid_request_error", "method_not_allowed")


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/models/gpt-a", "/metrics"])
def test_what_can_only_be_read_says_so(gateway: GatewayProcess, path: str) -> None:
    answer = gateway.exchange("DELETE", path)
    assert (answer.status, answer.get("allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "target",
    [
        "/v1/%63hat/completions",
        "/%76%31/chat/completions",
        "/v1/chat/completions?",
        "/v1/chat/completions?a=b&c",
        "http://any.host/v1/chat/completions?x",
    ],
)
def test_a_path_may_be_spelled_as_uris_may(gateway: GatewayProcess, target: str) -> None:
    assert gateway.exchange("POST", target, body=good_body("chat")).status == 200


@pytest.mark.parametrize("name", ["openai/ft/one:two", "openai%2Fft%2Fone%3Atwo", "openai/ft%2Fone:two", "ft%2Fone:two", "ft/one:two"])
def test_a_model_is_found_by_its_id_however_the_slashes_are_written(gateway: GatewayProcess, name: str) -> None:
    for version, shape in (({}, "object"), ({"anthropic-version": "2023-06-01"}, "type")):
        answer = gateway.exchange("GET", f"/v1/models/{name}?x=1", headers=version)
        assert (answer.status, answer.json()[shape]) == (200, "model")
        assert answer.json()["id"] in ("openai/ft/one:two", "ft/one:two")


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("?beta=true", "?beta=true"),
        ("?beta=true&key=SECRET&api_key=SECRET", "?beta=true"),
        ("?token=SECRET", ""),
        ("?a=%20b%2Fc&d", "?a=%20b%2Fc&d"),
        ("?", ""),
    ],
)
def test_a_query_goes_on_without_its_credentials(gateway: GatewayProcess, provider: FakeUpstream, query: str, sent: str) -> None:
    assert gateway.exchange("POST", f"/v1/messages{query}", body=good_body("messages")).status == 200
    assert provider.requests[-1].target == f"/v1/messages{sent}"


def test_under_a_base_path_everything_is_there_and_nothing_outside(locked: GatewayProcess) -> None:
    assert locked.exchange("POST", "/g/v1/chat/completions", headers=AUTH, body=good_body("chat")).status == 200
    assert locked.exchange("GET", "/g/v1/models", headers=AUTH).status == 200
    assert locked.exchange("GET", "/g/v1/models/openai%2Fft%2Fone:two", headers=AUTH).status == 200
    assert locked.exchange("GET", "/g").status == locked.exchange("GET", "/g/").status == 200
    for path in ("/", "/health", "/v1/models", "/gg/v1/models", "/gv1/models"):
        answer = locked.exchange("GET", path, headers=AUTH)
        assert (path, answer.status, fault_of(answer, is_anthropic=False)[1]) == (path, 404, "unknown_url")
    answer = locked.exchange("POST", "/g/v1/messages/x", headers=AUTH)
    assert (answer.status, fault_of(answer, is_anthropic=True)[1]) == (404, "unknown_url")


# ---- credentials ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [AUTH, {"x-api-key": KEY}, {"authorization": f"bearer  {KEY}"}, {"Authorization": "Bearer x", "X-API-Key": KEY}]
)
def test_the_key_is_taken_from_either_header(locked: GatewayProcess, provider: FakeUpstream, headers: dict[str, str]) -> None:
    for api, path in PATHS.items():
        assert locked.exchange("POST", "/g" + path, headers=headers, body=good_body(api)).status == 200
        assert KEY not in str(provider.requests[-1].headers)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": "sk-provider-secret"}, {"Authorization": f"Basic {KEY}"}]
)
@pytest.mark.parametrize(
    "path", [*PATHS.values(), "/v1/models", "/v1/models/x", "/v1/nothing", "/admin", "/p/openai/v1/models", "/p/nobody"]
)
def test_without_the_key_everything_else_is_a_401(locked: GatewayProcess, headers: dict[str, str], path: str) -> None:
    answer = locked.exchange("POST", "/g" + path, headers=headers, body=b"{}")
    assert answer.status == 401
    kind, code, _ = fault_of(answer, is_anthropic=path.startswith("/v1/messages"))
    assert (kind, code) == (
        "authentication_error",
        "invalid_api_key" if "Bearer" in str(headers) or "x-api-key" in headers else "missing_api_key",
    )
    assert answer.get("x-should-retry") == "false"
    assert "wrong" not in answer.text


def test_credentials_are_checked_before_the_body_is_read(locked: GatewayProcess) -> None:
    with Connection(locked.port) as connection:
        connection.send(b"POST /g/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        answer = connection.read_answer()
        assert (answer.status, fault_of(answer, is_anthropic=True)[0]) == (401, "authentication_error")


def test_there_is_nothing_at_the_root_of_admin(locked: GatewayProcess) -> None:
    assert locked.exchange("GET", "/g/admin", headers=AUTH).status == 404


# ---- the native passthrough -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_any_method_and_body_pass_through(gateway: GatewayProcess, provider: FakeUpstream, method: str) -> None:
    provider.answer(Reply(status=207, headers=(("content-type", "application/x-odd"), ("x-odd", "1")), pieces=(b"\x00\xff",)))
    body = None if method in ("GET", "OPTIONS") else b"\xff\x00 not JSON"
    answer = gateway.exchange(method, "/p/openai/v1/files/f%2F1?a=b%20c", headers={"Content-Type": "x/y"}, body=body)
    assert (answer.status, answer.body, answer.get("content-type"), answer.get("x-odd")) == (207, b"\x00\xff", "application/x-odd", "1")
    assert answer.get("content-length") == "2"
    seen = provider.requests[-1]
    assert (seen.method, seen.target, seen.body) == (method, "/v1/files/f%2F1?a=b%20c", body or b"")
    assert (seen.header("content-type"), seen.header("authorization")) == ("x/y", "Bearer sk-provider-secret")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/p/openai/v1/models", "/v1/models"),
        ("/p/openai/models", "/v1/models"),
        ("/p/openai/v1beta/x", "/v1/v1beta/x"),
        ("/p/openai/a%20b/%E2%82%AC?q=%2B", "/v1/a%20b/%E2%82%AC?q=%2B"),
        ("/p/openai/x?key=SECRET&q=1", "/v1/x?q=1"),
        ("/p/%6fpenai/x", "/v1/x"),
        ("/p/anthropic/v1/messages/batches?limit=2", "/v1/messages/batches?limit=2"),
        ("/p/openai//double//slash/", "/v1//double//slash/"),
    ],
)
def test_a_native_path_goes_on_as_it_was_written(gateway: GatewayProcess, provider: FakeUpstream, path: str, target: str) -> None:
    provider.answer(FINE)
    assert gateway.exchange("GET", path).status == 200
    assert provider.requests[-1].target == target


@pytest.mark.parametrize("path", ["../x", "a/../../x", "%2e%2e/x", "a/%2E./x", ".", "a/..", "..%2fx", "..%5Cx", "a/./b"])
def test_no_native_path_leads_out_of_the_providers_base_url(gateway: GatewayProcess, provider: FakeUpstream, path: str) -> None:
    asked = len(provider.requests)
    answer = gateway.exchange("GET", f"/p/openai/{path}")
    assert (answer.status, fault_of(answer, is_anthropic=False)[1]) == (404, "unknown_url")
    assert len(provider.requests) == asked


@pytest.mark.parametrize("path", ["/v1/chat%2Fcompletions", "/v1%2fmodels", "/v1/models%2Fx", "/p%2Fopenai/x", "/health%2Fready"])
def test_an_encoded_slash_separates_nothing(gateway: GatewayProcess, path: str) -> None:
    for method in ("GET", "POST"):
        answer = gateway.exchange(method, path)
        assert (answer.status, fault_of(answer, is_anthropic=False)[1]) == (404, "unknown_url")


@pytest.mark.parametrize("path", ["/p/nobody/v1/models", "/p/nobody", "/p/", "/p/OpenAI/x", "/p/openai%2Fv1/models"])
def test_an_unknown_provider_is_a_404(gateway: GatewayProcess, path: str) -> None:
    answer = gateway.exchange("GET", path)
    assert (answer.status, fault_of(answer, is_anthropic=False)[1]) == (404, "provider_not_found")


def test_a_native_head_keeps_the_length_and_the_connection(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    with Connection(gateway.port) as connection:
        for number in range(3):
            provider.answer(Reply(pieces=(b"x" * 1234,)))
            connection.request("HEAD", "/p/openai/v1/files/f", headers={"X-Request-ID": f"head-{number}"})
            answer = connection.read_answer()
            assert (answer.status, answer.get("content-length"), answer.body) == (200, "1234", b"")
            assert provider.requests[-1].method == "HEAD"
            assert gateway.wait_for_log("request", request_id=f"head-{number}")["outcome"] == "ok"


def test_a_native_stream_is_relayed_as_it_comes(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    events = [b"data: %d\n\n" % number for number in range(5)]
    provider.answer(sse_reply(events).slowed(0.05))
    answer = gateway.exchange("POST", "/p/openai/v1/chat/completions", body={"stream": True})
    assert sse_data(answer.body) == ["0", "1", "2", "3", "4"]
    assert answer.is_complete
    assert answer.get("content-type") == "text/event-stream; charset=utf-8"
    assert answer.chunks[-1][0] - answer.chunks[0][0] > 0.15


def test_a_native_answer_that_is_cut_is_seen_to_be_cut(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(sse_reply([b"data: 1\n\n", b"data: 2\n\n"]).cut_after(1), Reply(pieces=(b"half",), declared_length=100, ending="fin"))
    for _ in range(2):
        answer = gateway.exchange("GET", "/p/openai/v1/x")
        assert (answer.status, answer.is_complete) == (200, False)
        assert gateway.wait_for_log("request", request_id=answer.get("x-request-id"))["outcome"] == "fault"


def test_native_statuses_without_a_body_pass(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    with Connection(gateway.port) as connection:
        for status in (204, 304, 200):
            provider.answer(Reply(status=status))
            connection.request("GET", "/p/openai/v1/x")
            answer = connection.read_answer()
            assert (answer.status, answer.body, answer.is_complete) == (status, b"", True)


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 429, 500, 503, 529])
def test_native_errors_pass_verbatim(gateway: GatewayProcess, provider: FakeUpstream, status: int) -> None:
    provider.answer(openai_error(status, "their words", "their_code", headers=(("retry-after", "7"), ("x-ratelimit-remaining", "0"))))
    answer = gateway.exchange("POST", "/p/openai/v1/x", body=b"{}")
    assert (answer.status, answer.json()["error"]["code"]) == (status, "their_code")
    assert (answer.get("retry-after"), answer.get("x-ratelimit-remaining")) == ("7", "0")


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_native_refusal_of_our_credentials_is_not_shown_as_the_clients(
    gateway: GatewayProcess, provider: FakeUpstream, status: int, is_gzip: bool
) -> None:
    for name, refusal in (
        ("openai", openai_error(status, "Incorrect API key provided: sk-provider-secret", "invalid_api_key")),
        ("anthropic", anthropic_error(status, "authentication_error", "invalid x-api-key")),
    ):
        provider.answer(refusal.gzipped() if is_gzip else refusal)
        answer = gateway.exchange("GET", f"/p/{name}/v1/x")
        assert answer.status == 502
        assert fault_of(answer, is_anthropic=name == "anthropic")[1] == "upstream_authentication"
        assert "secret" not in answer.text


def test_a_native_refusal_of_this_very_request_is_shown(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    flagged = {"error": {"message": "flagged", "code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}
    provider.answer(json_reply(flagged, 403), json_reply(flagged, 403).gzipped())
    for _ in range(2):
        answer = gateway.exchange("POST", "/p/openai/v1/x", body=b"{}")
        assert (answer.status, answer.json()) == (403, flagged)
        assert answer.get("content-encoding") is None


def test_large_native_bodies_pass_up_to_the_limit(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(Reply(pieces=(b"y" * 3_000_000,)))
    answer = gateway.exchange("POST", "/p/openai/v1/files", body=b"\x01" * LIMIT)
    assert (answer.status, len(answer.body)) == (200, 3_000_000)
    assert provider.requests[-1].body == b"\x01" * LIMIT
    assert gateway.exchange("POST", "/p/openai/v1/files", body=b"\x01" * (LIMIT + 1)).status == 413


def test_a_native_body_keeps_its_coding_either_way(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(json_reply({"a": 1}).gzipped())
    packed = gzip.compress(b"{}")
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip, br"}
    answer = gateway.exchange("POST", "/p/openai/v1/x", headers=headers, body=packed)
    assert (gzip.decompress(answer.body), answer.get("content-encoding")) == (b'{"a": 1}', "gzip")
    seen = provider.requests[-1]
    assert (seen.body, seen.header("content-encoding"), seen.header("accept-encoding")) == (packed, "gzip", "gzip")


def test_nothing_of_the_hop_or_of_the_gateway_passes_through(gateway: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(FINE.with_headers(("connection", "x-hop"), ("x-hop", "1"), ("set-cookie", "s=1"), ("x-gomodel-pro-tier", "hard")))
    headers = {
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "1",
        "Cookie": "s=1",
        "TE": "trailers",
        "X-GoModel-Tier": "hard",
        "X-Forwarded-For": "10.0.0.1",
        "Authorization": "Bearer client-secret",
        "x-api-key": "client-secret",
        "OpenAI-Organization": "org-client",
        "X-Kept": "yes",
    }
    answer = gateway.exchange("POST", "/p/openai/v1/x", headers=headers, body=b'{"model":"normal","session_id":"s"}')
    seen = provider.requests[-1]
    names = {name.decode().lower() for name, _ in seen.headers}
    assert names == {"host", "content-length", "authorization", "x-kept"}
    assert (seen.header("authorization"), seen.body) == ("Bearer sk-provider-secret", b'{"model":"normal","session_id":"s"}')
    assert not {"x-hop", "set-cookie"} & {name.lower() for name, _ in answer.headers}
    assert [name.lower() for name, _ in answer.headers if re.match("x-gomodel-pro", name.lower())] == []
    assert (answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")) == ("openai", "1")
    line = gateway.wait_for_log("request", request_id=answer.get("x-request-id"))
    assert not {"session", "tier", "alias"} & set(line)


def test_the_passthrough_is_for_holders_of_the_gateways_key(locked: GatewayProcess, provider: FakeUpstream) -> None:
    provider.answer(FINE)
    assert locked.exchange("GET", "/g/p/openai/v1/a%2Fb", headers=AUTH).status == 200
    assert provider.requests[-1].target == "/v1/a%2Fb"
    assert locked.exchange("GET", "/g/p/openai/v1/x").status == 401


def test_a_provider_that_cannot_be_reached_is_a_502_of_the_passthrough(tmp_path: Path) -> None:
    dead = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with GatewayProcess(dead, directory=tmp_path) as gateway:
        answer = gateway.exchange("GET", "/p/openai/v1/models")
        assert answer.status == 502
        assert "127.0.0.1" not in answer.text
