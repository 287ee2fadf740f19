"""Whatever JSON a client writes, the upstream gets its very bytes, but for the value of `model`.

The bodies are made of drawn parts, not by a JSON encoder: white space, escapes and spellings of numbers that none would write. What the
upstream must get is made of the same parts with the model's name exchanged, so that no parser is trusted.
"""

import gzip
import json
import os
import random
import zlib
from collections.abc import Iterator

import pytest

from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess
from support.raw_http import Connection
from support.replies import json_reply

pytestmark = pytest.mark.e2e

BODIES = 1000
MODEL = object()
"""Where a value of the top-level `model` stands."""

Pieces = list[bytes | object]

ODD_MODEL = 'ünicode/"m'
OPENAI_NAMES = {"openai/gpt-5.1": "gpt-5.1", "normal": "small", 'odd "\\ ü \u2028 \U0001f600': ODD_MODEL}
ANTHROPIC_NAMES = {"anthropic/opus": "opus", "claude": "haiku", "odd\t\u20ac": ODD_MODEL}
NAMES = {
    "/v1/chat/completions": OPENAI_NAMES,
    "/v1/responses": OPENAI_NAMES,
    "/v1/embeddings": OPENAI_NAMES,
    "/v1/messages": ANTHROPIC_NAMES,
    "/v1/messages/count_tokens": ANTHROPIC_NAMES,
}
"""What clients ask for, and the model that the upstream must get."""

SPACE = (b"", b"", b"", b" ", b"\n", b"\t", b"\r\n", b"  \n\t ")
NUMBERS = (
    b"0",
    b"-0",
    b"1.0",
    b"-0.0",
    b"1e5",
    b"1E+05",
    b"2.50",
    b"1e-400",
    b"1e400",
    b"0.1",
    b"123456789012345678901234567890",
    b"9" * 400,
)
LITERALS = (b"true", b"false", b"null", b"{}", b"[]", b'""')
TEXTS = (
    b"plain",
    b"\\u0041\\n\\/\\b",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\\udc00 lone",
    b"a\\\\",
    b'say \\"model\\": \\"x\\"',
    "Grüße 世界 😀".encode(),
    "\u2028\u2029\x7f".encode(),
    b"```py\\nx\\n```",
    b"think hard",
    b"</script><!-- & -->",
    b"\\u0000",
    "e\u0301".encode(),
)
KEYS = (
    b"temperature",
    b"x",
    b"",
    b"mode",
    b"Model",
    b"models",
    b"provider_x",
    b"metadata",
    b"\\u006dodels",
    "schlüssel".encode(),
    b"\\ud800",
)


class Author:
    """Writes one body after the other, each from what its chance draws."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def pieces(self) -> Pieces:
        """An object with `model` once or more and other members around it, some of them several times."""
        chance = self._chance
        members = [self._member(depth=0) for _ in range(chance.randrange(6))] + self._conversation()
        for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
            key = chance.choice((b'"model"', b'"model"', b'"model"', b'"mod\\u0065l"', b'"\\u006d\\u006F\\u0064\\u0065\\u006c"'))
            members.append([key, self._space(), b":", self._space(), MODEL])
        if chance.random() < 0.2:
            members.append(chance.choice(members))
        chance.shuffle(members)
        written: Pieces = [self._space(), b"{"]
        for at, member in enumerate(members):
            written += [b"," if at else b"", self._space(), *member, self._space()]
        return [*written, b"}", self._space()]

    def body(self, pieces: Pieces, name: str) -> bytes:
        """The pieces with `name` as the last model, which counts; those before it may be anything."""
        left = pieces.count(MODEL)
        written: list[bytes] = []
        for piece in pieces:
            if isinstance(piece, bytes):
                written.append(piece)
                continue
            left -= 1
            written.append(self._value(depth=2) if left and self._chance.random() < 0.3 else self.spelled(name))
        return b"".join(written)

    def spelled(self, name: str) -> bytes:
        """A JSON string for `name`, each character as it is or escaped."""
        return b'"' + b"".join(self._character(character) for character in name) + b'"'

    def _character(self, character: str) -> bytes:
        units = character.encode("utf-16-be")
        escaped = b"".join(b"\\u%04x" % int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
        if character in '"\\':
            return self._chance.choice((escaped, b"\\" + character.encode()))
        return escaped if character < " " or self._chance.random() < 0.1 else character.encode()

    def _conversation(self) -> list[Pieces]:
        """What endpoints read, in any shape: sound, odd or missing."""
        chance = self._chance
        turn = b'{"role":"user","content":"' + chance.choice(TEXTS) + b'"}'
        found: list[Pieces] = []
        if chance.random() < 0.8:
            turns = b",".join([turn, *(self._value(depth=2) for _ in range(chance.randrange(3)))])
            found.append([chance.choice((b'"messages"', b'"input"')), self._space(), b":", self._space(), b"[", turns, b"]"])
        if chance.random() < 0.3:
            found.append([b'"provider"', self._space(), b":", self._space(), self._object(depth=2)])
        for key in (b'"tools"', b'"system"', b'"reasoning"', b'"response_format"', b'"thinking"'):
            if chance.random() < 0.15:
                found.append([key, b":", self._value(depth=1)])
        return found

    def _member(self, *, depth: int) -> Pieces:
        chance = self._chance
        key = chance.choice(KEYS) if depth == 0 else chance.choice((*KEYS, b"model", b"provider"))
        return [b'"', key, b'"', self._space(), b":", self._space(), self._value(depth=depth + 1)]

    def _value(self, *, depth: int) -> bytes:
        chance = self._chance
        kind = chance.randrange(6 if depth < 4 else 4)
        if kind == 0:
            return chance.choice(NUMBERS)
        if kind == 1:
            return chance.choice(LITERALS)
        if kind < 4:
            return b'"' + b"".join(chance.choice(TEXTS) for _ in range(chance.randrange(3))) + b'"'
        if kind == 4:
            parts = [self._space() + self._value(depth=depth + 1) + self._space() for _ in range(chance.randrange(4))]
            return b"[" + b",".join(parts) + b"]"
        return self._object(depth=depth)

    def _object(self, *, depth: int) -> bytes:
        members = [
            b"".join(part for part in self._member(depth=depth) if isinstance(part, bytes)) for _ in range(self._chance.randrange(4))
        ]
        return b"{" + b",".join(self._space() + member + self._space() for member in members) + b"}"

    def _space(self) -> bytes:
        return self._chance.choice(SPACE)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Of the bodies: pytest-randomly's own, as the head of a run prints it (`--randomly-seed=…` draws the same again); in CI always 0."""
    return 0 if os.environ.get("CI") else int(request.config.getoption("randomly_seed", 0))


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with open_on_thread() as upstream:
        upstream.always(json_reply({"id": "x", "content": [{"type": "text", "text": "ok"}]}))
        yield upstream


@pytest.fixture(scope="module")
def gateway(fake: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    odd = [
        {"source": list(OPENAI_NAMES)[-1], "target": f"openai/{ODD_MODEL}"},
        {"source": list(ANTHROPIC_NAMES)[-1], "target": f"anthropic/{ODD_MODEL}"},
    ]
    aliases = {"normal": dict.fromkeys(("easy", "hard"), "openai/small"), "claude": dict.fromkeys(("easy", "hard"), "anthropic/haiku")}
    variables = {
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": f"{fake.url}/v1",
        "OPENAI_MODELS": "gpt-5.1",
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": f"{fake.url}/v1",
        "PRO_SMART_ROUTING_ROUTES": json.dumps(aliases),
        "VIRTUAL_MODELS": json.dumps(odd),
    }
    with GatewayProcess(variables, directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.mark.parametrize("path", NAMES)
def test_a_thousand_odd_bodies_reach_the_upstream_byte_for_byte(path: str, fake: FakeUpstream, gateway: GatewayProcess, seed: int) -> None:
    author = Author(seed)
    with Connection(gateway.port) as connection:
        for number in range(BODIES // len(NAMES)):
            name, model = list(NAMES[path].items())[number % 3]
            pieces = author.pieces()
            sent = author.body(pieces, name)
            wanted = b"".join(json.dumps(model, ensure_ascii=False).encode() if piece is MODEL else piece for piece in pieces)
            connection.request("POST", path, headers={"Content-Type": "application/json"}, body=sent)
            answer = connection.read_answer()
            assert answer.status == 200, (answer.body, sent)
            assert fake.requests[-1].body == wanted


def test_a_body_in_chunks_or_compressed_arrives_as_the_same_bytes(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    sent = b'{ "model":\t"normal" , "n": 1.0, "messages":[{"role":"user","content":"\\u00fc"}]}\n'
    wanted = sent.replace(b'"normal"', b'"small"')
    chunked = b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in (sent[:7], sent[7:8], sent[8:])) + b"0\r\nX-Trailer: t\r\n\r\n"
    gateway.exchange("POST", "/v1/chat/completions", headers={"Transfer-Encoding": "chunked"}, body=chunked)
    gateway.exchange("POST", "/v1/chat/completions", headers={"Content-Encoding": "gzip"}, body=gzip.compress(sent))
    gateway.exchange("POST", "/v1/chat/completions", headers={"Content-Encoding": "deflate"}, body=zlib.compress(sent))
    assert [request.body for request in fake.requests[-3:]] == [wanted] * 3
    assert [request.header("content-encoding") for request in fake.requests[-3:]] == [None] * 3


def test_a_long_body_is_changed_in_the_model_alone(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    text = ("Grüße \\ud83d\\ude00 \\n" * 150_000).encode()
    head, tail = b'{"messages":[{"role":"user","content":"', b'"}],"seed":1E+2,"model":'
    answer = gateway.exchange("POST", "/v1/chat/completions", body=head + text + tail + b'"normal"}')
    assert (answer.status, answer.get("x-gomodel-pro-tier-score")) == (200, "6")
    assert fake.requests[-1].body == head + text + tail + b'"small"}'


def test_a_name_that_needs_no_change_leaves_every_byte(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    sent = b'{ "model" :"\\u0067pt-5.1", "provider" : {"a":1.0}, "model":"gpt\\u002d5.1" }'
    assert gateway.exchange("POST", "/v1/chat/completions", body=sent).status == 200
    assert fake.requests[-1].body == sent


def test_a_provider_by_name_is_cut_out_and_nothing_else(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    sent = b'{ "a" : 1.0,  "provider"\t:"openai" ,\n"model" : "gpt-5.1" , "x":-0 }'
    assert gateway.exchange("POST", "/v1/chat/completions", body=sent).status == 200
    assert fake.requests[-1].body == b'{ "a" : 1.0,  "model" : "gpt-5.1" , "x":-0 }'
