"""A stage for end-to-end tests: one gateway process before a fake upstream that plays many providers, and a pool for each test.

The providers `a`, `b`, … (OpenAI's dialect) and `xa`, `xb`, … (Anthropic's) are legs of the same fake, told apart by the path of their base
URL. A `Pool` is a virtual model over some of them whose targets no other test uses, so that no test meets another's cooldowns or pins.
"""

import contextlib
import itertools
import json
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from support import anthropic_replies, openai_replies, raw_http
from support.fake_upstream import Exchange, FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess, wait_for
from support.replies import Reply, Request, anthropic_error, openai_error

ApiName = Literal["chat", "responses", "messages"]
APIS: tuple[ApiName, ...] = ("chat", "responses", "messages")
PATHS: dict[ApiName, str] = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SERIES = "gomodel_pro_routing_"
_LEGS = ("a", "b", "c", "d", "e")


class Stage:
    """What runs. `extra_providers` of `open_stage` are legs, too: a pool may name them."""

    def __init__(self, gateway: GatewayProcess, upstream: FakeUpstream, pools: Mapping[str, int]) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self._numbers = {shape: iter(range(count)) for shape, count in pools.items()}
        self._single_numbers = itertools.count()
        self._told: dict[tuple[str, str], deque[Reply]] = defaultdict(deque)
        self._always: dict[tuple[str, str], Reply] = {}
        self._request_numbers = itertools.count(1)
        upstream.rule = self._rule

    def pool(self, *legs: str, api: ApiName = "chat", strategy: str = "failover") -> "Pool":
        """A fresh virtual model over these legs (written `a`, `b`, … for either dialect); over one leg, a fresh target."""
        prefix = "x" if api == "messages" else ""
        shape = shape_of(legs)
        number = next(self._numbers.get(shape, self._single_numbers))
        return Pool(self, api, f"{shape}-{number}", tuple(prefix + leg for leg in legs), strategy)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the series of that name that have these labels; 0 without any."""
        return sum(value for found, having, value in self.series() if found == name and labels.items() <= having.items())

    def series(self) -> list[tuple[str, dict[str, str], float]]:
        """All that /metrics shows now: name, labels, value."""
        return parse_metrics(self.gateway.exchange("GET", "/metrics").text)

    def wait_for_quiet(self, timeout_s: float = 5.0) -> None:
        """Wait until nothing is in flight, neither at the gateway nor at the upstream.

        Raises:
            TimeoutError
        """
        wait_for(
            lambda: (
                self.upstream.running == 0
                and not any(value for name, _, value in self.series() if name in (SERIES + "in_flight", "gomodel_requests_in_flight"))
            ),
            timeout_s=timeout_s,
            what="nothing in flight",
        )

    def tell(self, leg: str, model: str, replies: Sequence[Reply]) -> None:
        """Answer the next requests for the model at the leg with these."""
        self._told[leg, model].extend(replies)

    def always(self, leg: str, model: str, reply: Reply | None) -> None:
        """Answer every other request for the model at the leg with this; None: as an ordinary provider."""
        if reply is None:
            self._always.pop((leg, model), None)
        else:
            self._always[leg, model] = reply

    def forget(self, leg: str, model: str) -> None:
        """Take back what was told for the next requests."""
        self._told[leg, model].clear()

    def next_request_id(self) -> str:
        """An id for a request, to find its log line by."""
        return f"req-{next(self._request_numbers)}"

    def _rule(self, request: Request) -> Reply | None:
        key = leg_of(request), model_of(request)
        if self._told[key]:
            return self._told[key].popleft()
        return self._always.get(key)


@dataclass
class Pool:
    """A virtual model of one test's own. `legs` are provider names; `name` is what clients ask for."""

    stage: Stage
    api: ApiName
    model: str
    legs: tuple[str, ...]
    strategy: str
    request_ids: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The virtual model; of a pool of one leg its only target."""
        return (
            f"{self.legs[0]}/{self.model}"
            if len(self.legs) == 1
            else f"{self.strategy}-{'-'.join(self.legs)}-{self.model.rpartition('-')[2]}"
        )

    @property
    def path(self) -> str:
        """The endpoint."""
        return PATHS[self.api]

    def target(self, index: int) -> str:
        """The qualified name of a leg."""
        return f"{self.legs[index]}/{self.model}"

    def tell(self, index: int, *replies: Reply) -> Self:
        """Answer the next requests at a leg with these."""
        self.stage.tell(self.legs[index], self.model, replies)
        return self

    def always(self, index: int, reply: Reply | None) -> Self:
        """Answer every other request at a leg with this."""
        self.stage.always(self.legs[index], self.model, reply)
        return self

    def forget(self, index: int) -> Self:
        """Take back what was told for the next requests at a leg."""
        self.stage.forget(self.legs[index], self.model)
        return self

    def exchanges(self) -> list[Exchange]:
        """What reached the upstream for this pool, in order."""
        return [exchange for exchange in list(self.stage.upstream.exchanges) if model_of(exchange.request) == self.model]

    def calls(self) -> str:
        """The legs that were asked, in order, as one word (`aab`)."""
        return "".join(leg_of(exchange.request).removeprefix("x") for exchange in self.exchanges())

    def body(self, *, stream: bool = False, text: str = "hi", **more: Any) -> dict[str, Any]:
        """A request of the pool's dialect."""
        return {"model": self.name, **words_of(self.api, text), **({"stream": True} if stream else {}), **more}

    def error(
        self,
        status: int,
        message: str = "refused",
        code: str | None = None,
        kind: str = "api_error",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """An error of the pool's dialect."""
        if self.api == "messages":
            return anthropic_error(status, code or kind, message, tuple(headers))
        return openai_error(status, message, code, kind, tuple(headers))

    def whole(self, text: str = "hi") -> Reply:
        """A whole answer."""
        return _answer(self.api, {"model": self.model, **words_of(self.api, text)})

    def streamed(self) -> Reply:
        """A streamed answer."""
        return _answer(self.api, {"model": self.model, "stream": True, **words_of(self.api, "hi")})

    def ask(
        self,
        *,
        stream: bool = False,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_s: float = 10.0,
        **more: Any,
    ) -> raw_http.Answer:
        """One request, to its end; `content` replaces the body. The log line may follow a little later: see `log_line`."""
        with self.open(stream=stream, headers=headers, content=content, timeout_s=timeout_s, **more) as connection:
            return connection.read_answer()

    def open(
        self,
        *,
        stream: bool = False,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_s: float = 10.0,
        **more: Any,
    ) -> raw_http.Connection:
        """Send one request on a connection of its own, which the caller closes."""
        self.request_ids.append(self.stage.next_request_id())
        connection = raw_http.Connection(self.stage.gateway.port, timeout_s=timeout_s, tls=self.stage.gateway.client_tls)
        connection.request(
            "POST",
            self.path,
            headers={"X-Request-ID": self.request_ids[-1], **(headers or {})},
            body=self.body(stream=stream, **more) if content is None else content,
        )
        return connection

    def log_line(self, index: int = -1) -> dict[str, Any]:
        """The canonical log line of one of the pool's requests, once it is written."""
        return self.stage.gateway.wait_for_log("request", request_id=self.request_ids[index])

    def outcomes(self, index: int) -> dict[str, float]:
        """How the attempts at a leg ended so far, by the label of the metric."""
        name = SERIES + "outcomes_total"
        wanted = self.target(index)
        return {labels["outcome"]: value for found, labels, value in self.stage.series() if found == name and labels["target"] == wanted}

    def is_cooling(self, index: int) -> bool:
        """Whether the gauge shows a leg as cooling."""
        return self.stage.metric(SERIES + "cooling", target=self.target(index)) == 1


class HandUpstream:
    """An upstream driven by hand: the test accepts, reads and writes, so that it knows what was sent before what."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(5.0)
        self.port = int(self._listener.getsockname()[1])

    def accept(self) -> "HandConnection":
        """The next connection.

        Raises:
            TimeoutError: nobody came within 5 s.
        """
        return HandConnection(self._listener.accept()[0])

    def accept_after(self, act: Callable[[], object]) -> "HandConnection":
        """Do something that makes the gateway connect, and take the connection."""
        act()
        return self.accept()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


class HandConnection:
    """One connection of a hand-driven upstream."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._socket.settimeout(5.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def read_request(self) -> bytes:
        """The bytes of one request with content-length."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        while len(rest) < length:
            self._receive()
            rest = self._buffer.partition(b"\r\n\r\n")[2]
        self._buffer = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def start_stream(self, *headers: str) -> None:
        """Send the head of a chunked event stream."""
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    def send_chunk(self, data: bytes) -> None:
        """Send one chunk of a chunked body; nothing: its end."""
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def wait_for_close(self, timeout_s: float = 5.0) -> None:
        """Wait until the gateway has closed this connection.

        Raises:
            TimeoutError
        """
        self._socket.settimeout(timeout_s)
        with contextlib.suppress(ConnectionError):
            while self._socket.recv(65536):
                pass

    def close(self) -> None:
        """Close."""
        self._socket.close()

    def _receive(self) -> None:
        received = self._socket.recv(65536)
        if not received:
            raise ConnectionError("the gateway closed the connection")
        self._buffer += received


@contextlib.contextmanager
def open_stage(
    directory: Path,
    variables: Mapping[str, str] | None = None,
    *,
    pools: Mapping[str, int],
    strategies: Sequence[str] = ("failover",),
    extra_providers: Mapping[str, Mapping[str, Any]] | None = None,
    configuration: Mapping[str, Any] | None = None,
    client_tls: ssl.SSLContext | None = None,
) -> Iterator[Stage]:
    """Run a gateway with so many pools of these shapes (`ab`: over the legs a and b); afterwards nothing may be in flight.

    Pools of one leg need not be declared, but then the metrics show their targets as others.

    `extra_providers` are further legs, for the chat and responses APIs; a shape with one is written `dead-b`, and `{upstream}` in a base
    URL is the fake's address. `configuration` is merged over the sections of config.yaml.
    """
    with open_on_thread() as upstream:
        config = stage_configuration(upstream.url, pools, strategies)
        for name, provider in (extra_providers or {}).items():
            base_url = str(provider["base_url"]).replace("{upstream}", f"127.0.0.1:{upstream.port}")
            config["providers"][name] = {**provider, "base_url": base_url}
        for section, content in (configuration or {}).items():
            config[section] = config[section] + content if isinstance(content, list) else config.get(section, {}) | content
        (directory / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        with GatewayProcess({"RETRY_MAX_RETRIES": "0", **(variables or {})}, directory=directory, client_tls=client_tls) as gateway:
            stage = Stage(gateway, upstream, pools)
            yield stage
            if gateway.is_running():
                stage.wait_for_quiet()
                assert not gateway.logged("internal_error")
                assert not gateway.logged("connection_failed")


def stage_configuration(url: str, pools: Mapping[str, int], strategies: Sequence[str] = ("failover",)) -> dict[str, Any]:
    """The config.yaml of a stage before an upstream at `url`."""
    providers: dict[str, Any] = {}
    for leg in _LEGS:
        providers[leg] = {"type": "openai_compatible", "base_url": f"{url}/{leg}/v1", "api_key": f"key-of-{leg}"}
        providers["x" + leg] = {"type": "anthropic", "base_url": f"{url}/x{leg}/v1", "api_key": f"key-of-x{leg}"}
        listed = [f"{leg}-{number}" for number in range(pools.get(leg, 0))]
        for name in (leg, "x" + leg) if listed else ():
            providers[name]["models"] = listed
    virtual_models = []
    for shape, strategy in itertools.product([shape for shape in pools if len(shape) > 1], strategies):
        legs = shape.split("-") if "-" in shape else list(shape)
        prefixes = ("", "x") if all(leg in _LEGS for leg in legs) else ("",)
        for prefix, number in itertools.product(prefixes, range(pools[shape])):
            names = [prefix + leg for leg in legs]
            targets = [{"model": f"{name}/{shape}-{number}"} for name in names]
            virtual_models.append({"source": f"{strategy}-{'-'.join(names)}-{number}", "strategy": strategy, "targets": targets})
    return {"providers": providers, "virtual_models": virtual_models}


def shape_of(legs: Sequence[str]) -> str:
    """`ab` for the legs a and b; with longer names `dead-b`."""
    return ("" if all(leg in _LEGS for leg in legs) else "-").join(legs)


def leg_of(request: Request) -> str:
    """The provider that a request at the upstream was meant for."""
    return request.path.split("/")[1]


def model_of(request: Request) -> str:
    """The model that it names."""
    return str(request.json.get("model"))


def words_of(api: ApiName, text: str) -> dict[str, Any]:
    """The members of a request that say `text`."""
    if api == "responses":
        return {"input": text}
    messages = {"messages": [{"role": "user", "content": text}]}
    return messages if api == "chat" else {**messages, "max_tokens": 64}


def parse_metrics(text: str) -> list[tuple[str, dict[str, str], float]]:
    """The series of the Prometheus text format: name, labels, value."""
    found = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        left, _, value = line.rpartition(" ")
        name, _, inside = left.partition("{")
        found.append((name, _labels(inside.removesuffix("}")), float(value)))
    return found


def _labels(text: str) -> dict[str, str]:
    labels, rest = {}, text
    while rest:
        name, _, rest = rest.partition('="')
        value = ""
        while not rest.startswith('"'):
            size = 2 if rest.startswith("\\") else 1
            value += {"\\n": "\n", "\\\\": "\\", '\\"': '"'}.get(rest[:size], rest[:size])
            rest = rest[size:]
        labels[name] = value
        rest = rest[1:].removeprefix(",")
    return labels


def _answer(api: ApiName, body: dict[str, Any]) -> Reply:
    match api:
        case "chat":
            return openai_replies.chat(body)
        case "responses":
            return openai_replies.responses(body)
        case "messages":
            return anthropic_replies.messages(body)
