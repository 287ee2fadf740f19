"""The gateway without sockets: fake upstreams, requests and responders, for tests in virtual time.

    async with open_gateway(pool("a", "b")) as inside:
        inside.transport.tell("a", Play(503), Play(silence=FOREVER))
        answer = await inside.ask({"model": "pool"})

The providers are `a`, `b`, `c` (OpenAI's dialect) and `x`, `y` (Anthropic's). Everything else is the gateway's own: configuration, actor,
expiry, metrics, exchange. Take `autojump_clock` in the test's own arguments.
"""

import json
import tempfile
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio
import trio.testing

from gomodel_trio.config.compile import compile_policy
from gomodel_trio.config.load import load_settings
from gomodel_trio.config.settings import Settings
from gomodel_trio.errors import BodyTooLarge, ClientGone
from gomodel_trio.gateway.app import Gateway
from gomodel_trio.gateway.deployment import Deployment, Tools, deploy, known_names
from gomodel_trio.gateway.http import Headers
from gomodel_trio.metrics.catalogue import Metrics
from gomodel_trio.service.clock import Clock
from gomodel_trio.service.facts import facts_sink
from gomodel_trio.state.actor import Actor
from gomodel_trio.state.commands import AttemptEnded, Fact, Inspect, Inspection, TargetState
from gomodel_trio.state.expiry import run_expiry
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from gomodel_trio.wire.dialect import Api

FOREVER = 1e9
EPOCH_S = 1_800_000_000.0
"""Wall time at the start."""
CHAT_BODY = b'{"choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
CHAT_EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)
RESET = TransportError(TransportFault.RESET, "reset")
_JSON = (b"content-type", b"application/json")
_SSE = (b"content-type", b"text/event-stream")

Piece = bytes | float | TransportError
"""A chunk, a wait in seconds, or what the read raises."""


@dataclass(frozen=True)
class Play:
    """What an upstream does once asked: `silence` seconds, then `fault`, or the head and the pieces; then the proper end."""

    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)
    pieces: tuple[Piece, ...] = (CHAT_BODY,)
    silence: float = 0.0
    fault: TransportError | None = None


def streaming(*pieces: Piece, silence: float = 0.0, headers: Sequence[tuple[bytes, bytes]] = ()) -> Play:
    """An event stream; the usual one without pieces."""
    return Play(headers=(_SSE, *headers), pieces=pieces or CHAT_EVENTS, silence=silence)


def refusing(status: int, *, retry_after: str | None = None, code: str | None = None, message: str = "refused") -> Play:
    """An error of OpenAI's dialect."""
    headers = (_JSON, *(((b"retry-after", retry_after.encode()),) if retry_after is not None else ()))
    body = json.dumps({"error": {"message": message, "type": "api_error", "param": None, "code": code}}).encode()
    return Play(status, headers, (body,))


class FakeResponse:
    """One answer being played. `closed_at_s`: when the gateway let go of it, None as long as it holds it."""

    def __init__(self, play: Play) -> None:
        self.status = play.status
        self.headers: Headers = list(play.headers)
        self.closed_at_s: float | None = None
        self._pieces = deque(play.pieces)

    async def read(self) -> bytes:
        """The next chunk."""
        await trio.lowlevel.checkpoint()
        while self._pieces:
            piece = self._pieces.popleft()
            if isinstance(piece, bytes):
                return piece
            if isinstance(piece, TransportError):
                raise piece
            await trio.sleep(piece)
        return b""

    async def aclose(self) -> None:
        """Note that it was let go."""
        if self.closed_at_s is None:
            self.closed_at_s = trio.current_time()


@dataclass
class Sent:
    """A request that reached an upstream. `at_s` since the start; `ending` of the wait for its head."""

    provider: str
    request: UpstreamRequest
    at_s: float
    response: FakeResponse | None = None
    ending: str = "waiting"

    @property
    def model(self) -> str:
        """The model it names."""
        return str(json.loads(self.request.body)["model"])

    def header(self, name: bytes) -> str | None:
        """The first value of a header."""
        return next((value.decode() for key, value in self.request.headers if key == name), None)


class FakeTransport:
    """Plays what it was told for each provider, in order; untold, it answers at once."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._start_s = trio.current_time()
        self._told: dict[str, deque[Play]] = defaultdict(deque)
        self._always: dict[str, Play] = {}

    def tell(self, provider: str, *plays: Play) -> None:
        """Play these for the next requests to a provider."""
        self._told[provider].extend(plays)

    def always(self, provider: str, play: Play) -> None:
        """Play this for every other request to a provider."""
        self._always[provider] = play

    @property
    def calls(self) -> str:
        """The providers that were asked, in order, as one word (`aab`)."""
        return "".join(sent.provider for sent in self.sent)

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return trio.current_time() - self._start_s

    async def send(self, request: UpstreamRequest) -> FakeResponse:
        """Wait for the head as a real transport does: no longer than the request's header timeout."""
        provider = (urlsplit(request.url).hostname or "").partition(".")[0]
        sent = Sent(provider, request, self.now_s)
        self.sent.append(sent)
        told = self._told[provider]
        play = told.popleft() if told else self._always.get(provider) or self._default(request)
        sent.ending = "cancelled"
        await trio.sleep(min(play.silence, request.header_timeout_s))
        sent.ending = "failed"
        if play.silence > request.header_timeout_s:
            raise TransportError(TransportFault.HEADER_TIMEOUT, "no head in time")
        if play.fault is not None:
            raise play.fault
        sent.ending = "answered"
        sent.response = FakeResponse(play)
        return sent.response

    def _default(self, request: UpstreamRequest) -> Play:
        return streaming() if json.loads(request.body or b"{}").get("stream") else Play()

    async def aclose(self) -> None:
        """Nothing to close."""


class FakeRequest:
    """A request as a front door hands it over."""

    def __init__(
        self, method: str = "POST", target: str = "/v1/chat/completions", headers: Headers | None = None, body: bytes = b""
    ) -> None:
        self.method = method
        self.path, _, query = target.partition("?")
        self.raw_path = self.path.encode()
        self.query = query.encode()
        self.headers: Headers = list(headers or [])
        self.peer = "192.0.2.1"
        self.is_disconnected = False
        self.is_gone = False
        self._body = body

    async def read_body(self, limit_bytes: int) -> bytes:
        """The body."""
        await trio.lowlevel.checkpoint()
        if self.is_gone:
            raise ClientGone
        if len(self._body) > limit_bytes:
            raise BodyTooLarge("too large")
        return self._body


class FakeResponder:
    """Notes what the client would see and when, in seconds since it was made. `write_s`: how long each write takes.

    `ending`: open, ended or aborted. `is_gone`: every further write raises ClientGone.
    """

    def __init__(self, *, write_s: float = 0.0) -> None:
        self.status: int | None = None
        self.headers: Headers = []
        self.writes: list[tuple[float, bytes]] = []
        self.ending = "open"
        self.is_gone = False
        self.head_at_s: float | None = None
        self.ended_at_s: float | None = None
        self._start_s = trio.current_time()
        self._write_s = write_s

    @property
    def has_started(self) -> bool:
        """Whether a head was sent."""
        return self.status is not None

    @property
    def body(self) -> bytes:
        """All that was written."""
        return b"".join(chunk for _, chunk in self.writes)

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def header(self, name: bytes) -> str | None:
        """The first value of a header."""
        return next((value.decode() for key, value in self.headers if key == name), None)

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer."""
        await self.start(status, headers)
        await self.write(body)
        await self.end()

    async def start(self, status: int, headers: Headers) -> None:
        """The head."""
        assert self.status is None, "an answer begins once"
        self._check()
        await trio.lowlevel.checkpoint()
        self.status, self.headers, self.head_at_s = status, list(headers), self._now()

    async def write(self, chunk: bytes) -> None:
        """A chunk."""
        assert self.status is not None, "no head yet"
        assert self.ending == "open", "the answer is over"
        self._check()
        await trio.sleep(self._write_s)
        self.writes.append((self._now(), chunk))

    async def end(self) -> None:
        """The proper end."""
        assert self.ending == "open", "the answer is over"
        await trio.lowlevel.checkpoint()
        self.ending, self.ended_at_s = "ended", self._now()

    def abort(self) -> None:
        """The end that is none."""
        if self.ending == "open":
            self.ending, self.ended_at_s = "aborted", self._now()

    def _check(self) -> None:
        if self.is_gone:
            raise ClientGone

    def _now(self) -> float:
        return round(trio.current_time() - self._start_s, 6)


@dataclass
class RecordingLog:
    """Keeps what was logged: (level, event, fields)."""

    lines: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def debug(self, event: str, **fields: Any) -> None:
        """At debug."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        """At info."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        """At warning."""
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        """At error."""
        self.lines.append(("error", event, fields))

    def line(self, event: str, fields: dict[str, Any]) -> None:
        """The quick way at info."""
        self.lines.append(("info", event, fields))

    def of(self, event: str) -> list[dict[str, Any]]:
        """The fields of every line of that event."""
        return [fields for _, found, fields in self.lines if found == event]


class Inside:
    """A running gateway. `facts`: all the actor reported."""

    def __init__(self, gateway: Gateway, transport: FakeTransport, log: RecordingLog, facts: list[Fact], actor: Actor) -> None:
        self.gateway = gateway
        self.transport = transport
        self.log = log
        self.facts = facts
        self.actor = actor

    @property
    def deployment(self) -> Deployment:
        """What is served now."""
        return self.gateway.deployment

    async def ask(
        self,
        body: dict[str, Any] | bytes | None = None,
        *,
        api: Api = Api.CHAT,
        headers: dict[str, str] | None = None,
        responder: FakeResponder | None = None,
    ) -> FakeResponder:
        """One request, to its end."""
        given = body if isinstance(body, bytes) else json.dumps({"model": "pool", "messages": [], **(body or {})}).encode()
        sent = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        return await self.handle(FakeRequest("POST", "/v1" + api.path, sent, given), responder)

    async def handle(self, request: FakeRequest, responder: FakeResponder | None = None) -> FakeResponder:
        """Any request, to its end."""
        answer = responder if responder is not None else FakeResponder()
        await self.gateway.handle(request, answer)
        return answer

    async def attempts_ended(self) -> list[AttemptEnded]:
        """How the attempts ended so far."""
        await self.inspect()  # what was told before is carried out first
        return [fact for fact in self.facts if isinstance(fact, AttemptEnded)]

    async def inspect(self) -> Inspection:
        """The routing state."""
        return await self.actor.ask(Inspect())

    async def target(self, name: str) -> TargetState:
        """One target's state."""
        return next(row for row in (await self.inspect()).targets if row.target == name)


def pool(*providers: str, strategy: str = "failover", source: str = "pool", **more: Any) -> dict[str, str]:
    """The variable that declares a virtual model over the model `m` at each of the providers."""
    targets = [{"model": f"{provider}/m"} for provider in providers]
    return {"VIRTUAL_MODELS": json.dumps([{"source": source, "strategy": strategy, "targets": targets, **more}])}


def make_settings(variables: dict[str, str] | None = None, sections: dict[str, Any] | None = None) -> Settings:
    """Settings from variables, and sections of config.yaml, over the providers of this module; a section merges with what is there."""
    providers: dict[str, Any] = {
        name: {"type": kind, "api_key": f"key-of-{name}", "base_url": f"http://{name}.test/v1"}
        for kind, names in (("openai_compatible", "abc"), ("anthropic", "xy"))
        for name in names
    }
    document: dict[str, Any] = {**(sections or {}), "providers": {**providers, **(sections or {}).get("providers", {})}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(json.dumps(document), encoding="utf-8")
        return load_settings({"RETRY_MAX_RETRIES": "0", **(variables or {})}, config_file=file, env_file=None, cwd=Path(folder))


def make_tools(
    settings: Settings, *, draw: Callable[[], float] = lambda: 0.5
) -> tuple[Tools, FakeTransport, RecordingLog, list[Fact], Actor]:
    """The tools of a gateway that reaches nothing; the actor still has to be run."""
    policy = compile_policy(settings)
    metrics, log, transport = Metrics(known_names(policy)), RecordingLog(), FakeTransport()
    facts: list[Fact] = []
    sink = facts_sink(metrics, log)

    def on_facts(batch: Sequence[Fact]) -> None:
        facts.extend(batch)
        sink(batch)

    actor = Actor(policy, draws=lambda: (draw(), draw()), on_facts=on_facts)
    start_s = trio.current_time()
    clock = Clock(lambda: EPOCH_S + trio.current_time() - start_s)
    return (
        Tools(actor=actor, metrics=metrics, log=log, clock=clock, draw=draw, transport_for=lambda *_, **__: transport),
        transport,
        log,
        facts,
        actor,
    )


@asynccontextmanager
async def open_gateway(
    variables: dict[str, str] | None = None, sections: dict[str, Any] | None = None, *, draw: Callable[[], float] = lambda: 0.5
) -> AsyncIterator[Inside]:
    """Run a gateway in a nursery of the calling task; afterwards no lease may be open and no answer unclosed."""
    settings = make_settings(variables, sections)
    tools, transport, log, facts, actor = make_tools(settings, draw=draw)
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        await nursery.start(run_expiry, actor)
        inside = Inside(Gateway(tools, deploy(settings, tools)), transport, log, facts, actor)
        yield inside
        assert (await inside.inspect()).open_leases == 0
        assert [sent for sent in transport.sent if sent.response is not None and sent.response.closed_at_s is None] == []
        assert actor.callback_failures == actor.tell_failures == 0
        nursery.cancel_scope.cancel()


def make_deployment(variables: dict[str, str] | None = None, sections: dict[str, Any] | None = None) -> Deployment:
    """A deployment by itself, for what only reads it; sections as in `make_settings`."""
    settings = make_settings(variables, sections)

    async def make() -> Deployment:
        return deploy(settings, make_tools(settings)[0])

    return trio.run(make, clock=trio.testing.MockClock())
