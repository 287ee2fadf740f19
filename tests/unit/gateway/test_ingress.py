"""From a request's bytes to its envelope (behaviour.md §1, §9)."""

import gzip
import uuid
import zlib

import pytest

from gomodel_trio.errors import BodyTooLarge, ClientFault
from gomodel_trio.gateway.http import Headers
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES, open_envelope, read_plain_body, request_id_of
from support.inprocess import FakeRequest

BODY = b'{"model":"m", "pad":"                                                            "}'


@pytest.mark.parametrize("value", [b"abc", b"x" * 200, b"!~"])
def test_a_good_request_id_is_kept(value: bytes) -> None:
    assert request_id_of([(b"x-request-id", value)]) == value.decode()


@pytest.mark.parametrize(
    "headers", [[], [(b"x-request-id", b"")], [(b"x-request-id", b"x" * 201)], [(b"x-request-id", b"a b")], [(b"x-request-id", b"\xff")]]
)
def test_any_other_is_replaced(headers: Headers) -> None:
    made = request_id_of(headers)

    assert str(uuid.UUID(made)) == made
    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (4, uuid.RFC_4122)
    assert request_id_of(headers) != made


def coded(coding: bytes, body: bytes) -> FakeRequest:
    return FakeRequest(headers=[(b"content-encoding", coding)], body=body)


@pytest.mark.parametrize(
    "request_",
    [
        FakeRequest(body=BODY),
        coded(b"", BODY),
        coded(b"identity", BODY),
        coded(b"identity, , GZIP", gzip.compress(BODY)),
        coded(b"x-gzip", gzip.compress(BODY)),
        coded(b"deflate", zlib.compress(BODY)),
    ],
)
async def test_a_body_is_decoded(request_: FakeRequest) -> None:
    assert await read_plain_body(request_, len(BODY)) == BODY


@pytest.mark.parametrize(
    ("coding", "body"), [(b"br", b"x"), (b"gzip, gzip", b"x"), (b"gzip", gzip.compress(b" " * 200)), (b"gzip", b"no"), (b"deflate", b"no")]
)
async def test_an_unknown_or_broken_coding_or_a_bomb_is_a_415(coding: bytes, body: bytes) -> None:
    with pytest.raises(ClientFault) as caught:
        await read_plain_body(coded(coding, body), 199)
    assert (caught.value.status, caught.value.code) == (415, "unsupported_content_encoding")


async def test_the_limit_holds_for_the_body_as_sent() -> None:
    with pytest.raises(BodyTooLarge):
        await read_plain_body(FakeRequest(body=BODY), len(BODY) - 1)


async def test_an_envelope_names_its_model() -> None:
    envelope = await open_envelope(b'{"model":"m","stream":true,"provider":"p"}')
    assert (envelope.model, envelope.stream, envelope.provider) == ("m", True, "p")


async def test_a_long_body_is_read_as_well() -> None:
    assert (await open_envelope(b'{"model":"m","x":"' + b"y" * LONG_BODY_BYTES + b'"}')).model == "m"


@pytest.mark.parametrize("body", [b"{}", b'{"model":""}', b'{"model":null}', b'{"model":1}'])
async def test_an_envelope_without_a_model_is_refused(body: bytes) -> None:
    with pytest.raises(ClientFault) as caught:
        await open_envelope(body)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "missing_model", "model")
