"""The admin API's paths and documents (behaviour.md §1, §5)."""

import json
from typing import Any

import msgspec
import pytest

from gomodel_trio.admin.api import AdminApi
from gomodel_trio.errors import ClientFault, GatewayError, MethodNotAllowed, NotFound
from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import Kind, TargetId
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.state.commands import Inspect, Inspection, KeyState, ResetTarget, TargetState, TargetWeight
from gomodel_trio.wire.dialect import Api

KNOWN = {"a/m", "a/org/model v2", "ä/m"}
INSPECTION = Inspection(
    (
        TargetState(TargetId("a/m"), 2, False, False, 0.0, 0, 3, 0.1 + 0.2, None, (TargetWeight("pool", Kind.STREAM, 1.0, 2 / 3),)),
        TargetState(TargetId("b/m"), 0, True, False, 12.34567891, 2, 0, None, 1.5, cooldown_reason=Outcome.RATE),
        TargetState(TargetId("c/m"), 1, True, True, 0.0, 1, 0, cooldown_reason=Outcome.FAULT),
        TargetState(TargetId("d/m"), 0, False, True, 0.0, 1, 0, cooldown_reason=Outcome.AUTH),
    ),
    open_leases=3,
    tier_pins=4,
    target_pins=5,
    at_s=61.5,
    keys=(
        KeyState("a", 0, 1, Standing.WELL, 0.0, None, 0),
        KeyState("a", 1, 0, Standing.COOLING, 29.12345678, Outcome.RATE, 1),
    ),
)


class Told(msgspec.Struct):
    """What the explainer was asked."""

    api: str
    headers: list[tuple[str, str]]
    body: str


class Desk:
    """The API over a state that is always the same."""

    def __init__(self) -> None:
        self.commands: list[Inspect | ResetTarget] = []
        self.bodies_read = 0
        self.api = AdminApi(self._ask, self._explain)

    async def _ask(self, command: Any) -> Any:
        self.commands.append(command)
        return INSPECTION if isinstance(command, Inspect) else command.target in KNOWN

    async def _explain(self, api: Api, headers: Any, body: bytes) -> Told:
        return Told(api.value, [(name.decode(), value.decode()) for name, value in headers], body.decode())

    async def get(self, rest: str, method: str = "GET", query: str = "") -> Any:
        async def read_body() -> bytes:
            self.bodies_read += 1
            return b"{}"

        return json.loads(await self.api.answer(method, rest.encode(), query.encode(), [(b"x-session-id", b"s")], read_body))


async def test_the_state_of_every_target_is_shown() -> None:
    shown = await Desk().get("routing")
    assert shown["now_s"] == 61.5
    assert shown["totals"] == {"open_leases": 3, "tier_pins": 4, "target_pins": 5}
    assert shown["targets"][0] == {
        "target": "a/m",
        "standing": "well",
        "cooldown_left_s": 0.0,
        "cooldown_reason": None,
        "streak": 0,
        "in_flight": 2,
        "estimates": {"stream_s": 0.3, "unary_s": None},
        "weights": [{"virtual_model": "pool", "kind": "stream", "weight": 1.0, "share": 0.666667}],
        "pins": 3,
    }
    rest = [(row["standing"], row["cooldown_left_s"], row["cooldown_reason"], row["streak"]) for row in shown["targets"][1:]]
    assert rest == [("cooling", 12.345679, "rate", 2), ("cooling", 0.0, "fault", 1), ("probation", 0.0, "auth", 1)]
    assert shown["keys"] == [
        {
            "provider": "a",
            "index": 0,
            "standing": "well",
            "cooldown_left_s": 0.0,
            "cooldown_reason": None,
            "streak": 0,
            "in_flight": 1,
        },
        {
            "provider": "a",
            "index": 1,
            "standing": "cooling",
            "cooldown_left_s": 29.123457,
            "cooldown_reason": "rate",
            "streak": 1,
            "in_flight": 0,
        },
    ]


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("a/m", "a/m"),
        ("a%2Fm", "a/m"),
        ("a%2fm", "a/m"),
        ("a/org/model%20v2", "a/org/model v2"),
        ("a/org%2Fmodel%20v2", "a/org/model v2"),
        ("%C3%A4/m", "ä/m"),
    ],
)
async def test_a_target_is_named_in_the_path_slashes_and_all(written: str, target: str) -> None:
    desk = Desk()
    assert await desk.get(f"routing/{written}/reset", "POST") == {"target": target, "is_reset": True}
    assert desk.commands == [ResetTarget(TargetId(target))]


@pytest.mark.parametrize("written", ["b/m", "a%252Fm", "reset", "a/m/", "%FF", "routing/a/m"])
async def test_an_unknown_target_is_named(written: str) -> None:
    with pytest.raises(NotFound, match="is not known here") as caught:
        await Desk().get(f"routing/{written}/reset", "POST")
    assert (caught.value.status, caught.value.code) == (404, "unknown_target")


@pytest.mark.parametrize(
    ("query", "api"),
    [
        ("", "openai.chat"),
        ("api=messages", "anthropic.messages"),
        ("x=1&api=count_tokens", "anthropic.count_tokens"),
        ("api=/v1/responses", "openai.responses"),
        ("api=%2Fv1%2Fembeddings", "openai.embeddings"),
    ],
)
async def test_the_endpoint_of_an_explained_request_is_in_the_query(query: str, api: str) -> None:
    desk = Desk()
    assert await desk.get("explain", "POST", query) == {"api": api, "headers": [["x-session-id", "s"]], "body": "{}"}
    assert desk.commands == []


@pytest.mark.parametrize("query", ["api=", "api=images", "api=%ff"])
async def test_an_endpoint_that_there_is_not_is_refused_before_the_body_is_read(query: str) -> None:
    desk = Desk()
    with pytest.raises(ClientFault, match="use one of chat, responses, messages, count_tokens, embeddings") as caught:
        await desk.get("explain", "POST", query)
    assert (caught.value.status, caught.value.param, desk.bodies_read) == (400, "api", 0)


async def test_a_head_is_answered_as_a_get() -> None:
    desk = Desk()
    assert await desk.get("routing", "HEAD") == await desk.get("routing")


@pytest.mark.parametrize(
    ("method", "rest", "allowed"),
    [
        ("POST", "routing", ("GET", "HEAD")),
        ("GET", "explain", ("POST",)),
        ("HEAD", "explain", ("POST",)),
        ("GET", "routing/a/m/reset", ("POST",)),
        ("DELETE", "routing/x/y/reset", ("POST",)),
    ],
)
async def test_another_method_changes_nothing(method: str, rest: str, allowed: tuple[str, ...]) -> None:
    desk = Desk()
    with pytest.raises(MethodNotAllowed) as caught:
        await desk.get(rest, method)
    assert caught.value.allowed == allowed
    assert desk.commands == []


@pytest.mark.parametrize(
    "rest", ["", "routing/", "routing//reset", "routing/reset", "routing/a/m", "routing%2Fa/reset", "dashboard", "x/reset"]
)
async def test_elsewhere_there_is_nothing(rest: str) -> None:
    with pytest.raises(GatewayError) as caught:
        await Desk().get(rest, "POST")
    assert (caught.value.status, caught.value.code) == (404, "unknown_url")
