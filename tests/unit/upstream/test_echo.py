"""The built-in provider (behaviour.md §7)."""

import json
import struct
from base64 import b64decode
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.config.settings import EchoSettings
from gomodel_trio.upstream.echo import EchoTransport
from gomodel_trio.upstream.transport import UpstreamRequest
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observe import observer_for

SCORED = (Api.CHAT, Api.RESPONSES, Api.MESSAGES)


async def echo(body: Any, api: Api = Api.CHAT, *, settings: EchoSettings | None = None, url: str | None = None) -> tuple[int, list[bytes]]:
    transport = EchoTransport(settings or EchoSettings(), lambda: 0.5)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await transport.send(UpstreamRequest("POST", url or f"echo:{api.path}?beta=true", [], sent, 1.0, 1.0))
    chunks = []
    while chunk := await response.read():
        chunks.append(chunk)
    await response.aclose()
    await transport.aclose()
    return response.status, chunks


async def whole(body: Any, api: Api = Api.CHAT) -> Any:
    status, chunks = await echo(body, api)
    assert status == 200
    return json.loads(b"".join(chunks))


def text_of(api: Api, answer: Any) -> str:
    match api:
        case Api.CHAT:
            return str(answer["choices"][0]["message"]["content"])
        case Api.RESPONSES:
            return str(answer["output"][0]["content"][0]["text"])
        case _:
            return str(answer["content"][0]["text"])


@pytest.mark.parametrize("api", SCORED)
@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("hi there", "hi there"),
        ([{"role": "user", "content": "first"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "last"}], "last"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, 7, {"text": 3}, {"text": "b"}]}], "a b"),
        ([{"role": "user", "content": None}], ""),
        ([{"role": "user", "content": {"a": 1}}], ""),
        (["plain"], "plain"),
        ([{"role": "assistant", "content": "x"}, 7, None], ""),
        ([], ""),
        (None, ""),
        (7, ""),
    ],
)
async def test_it_repeats_the_last_words_of_the_user(api: Api, items: Any, said: str) -> None:
    name = "input" if api is Api.RESPONSES else "messages"
    answer = await whole({"model": "echo-small", name: items}, api)
    assert text_of(api, answer) == f"echo: {said}"
    assert answer["model"] == "echo-small"


@pytest.mark.parametrize("api", SCORED)
async def test_a_stream_says_the_same_word_by_word_and_ends_properly(api: Api) -> None:
    status, chunks = await echo({"model": "m", "stream": True, "messages": "one two", "input": "one two"}, api)
    observer = observer_for(api)
    for chunk in chunks:
        observer.feed(chunk)
    observer.close()
    assert (status, observer.has_ended, observer.error, observer.parse_errors) == (200, True, None, 0)
    assert all(word in b"".join(chunks) for word in (b'"echo: "', b'"one "', b'"two"'))


@pytest.mark.parametrize("stream", [None, "true", 1, False])
async def test_only_true_streams(stream: Any) -> None:
    _, chunks = await echo({"model": "m", "stream": stream, "messages": "hi"})
    assert len(chunks) == 1


async def test_token_counts_and_embeddings() -> None:
    assert (await whole({"model": "m", "stream": True}, Api.COUNT_TOKENS)) == {"input_tokens": 8}
    floats = await whole({"model": "m", "input": ["a", "b"]}, Api.EMBEDDINGS)
    assert [len(row["embedding"]) for row in floats["data"]] == [8, 8]
    coded = await whole({"model": "m", "input": "a", "encoding_format": "base64"}, Api.EMBEDDINGS)
    assert list(struct.unpack("<8f", b64decode(coded["data"][0]["embedding"]))) == floats["data"][0]["embedding"]
    for tokens in ([1, 2, 3], [], None, {"a": 1}):
        assert len((await whole({"input": tokens}, Api.EMBEDDINGS))["data"]) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"[" * 100_000])
async def test_a_body_that_is_no_object_is_a_400(body: bytes) -> None:
    status, chunks = await echo(body, Api.MESSAGES)
    assert (status, json.loads(chunks[0])["type"]) == (400, "error")


async def test_an_unknown_path_is_a_404() -> None:
    status, chunks = await echo({}, url="echo:/files")
    assert (status, "error" in json.loads(chunks[0])) == (404, True)
    assert (await echo({"model": "m"}, url="echo:/v1/chat/completions"))[0] == 200


async def test_it_waits_and_fails_as_it_is_told(autojump_clock: trio.testing.MockClock) -> None:
    start_s = trio.current_time()
    status, chunks = await echo({"messages": "a b", "stream": True}, settings=EchoSettings(delay_s=2.0, chunk_delay_s=0.5))
    assert (status, trio.current_time() - start_s) == (200, pytest.approx(2.0 + 0.5 * (len(chunks) + 1)))
    for fraction, expected in ((0.5, 200), (0.51, 529)):
        status, _ = await echo({"messages": "a"}, settings=EchoSettings(failure_fraction=fraction, failure_status=529))
        assert status == expected
