"""Smart tier routing of one request: score, pin, override, revision (behaviour.md §3)."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from gomodel_trio.gateway.deployment import deploy
from gomodel_trio.gateway.http import Headers
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES
from gomodel_trio.gateway.record import TierRevision
from gomodel_trio.gateway.tiering import route_tier
from gomodel_trio.route.names import SessionId, Tier
from gomodel_trio.route.score import RULES_VERSION
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope
from support.inprocess import make_settings, make_tools

ROUTES = {"PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"a/m","hard":"a/a-longer-name"}}'}
HARD = "think hard"


class Router:
    """Routes requests of one gateway."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._settings = make_settings({**ROUTES, **variables})
        self.tools, *_, self.actor = make_tools(self._settings)
        self._deployment = deploy(self._settings, self.tools)

    async def route(self, text: str = "hi", session: str | None = None, headers: Headers | None = None, **members: Any) -> TierRevision:
        body = json.dumps({"model": "normal", "messages": [{"role": "user", "content": text}], **members}).encode()
        alias = self._deployment.policy.smart.aliases["normal"]
        named = SessionId(session) if session else None
        return await route_tier(
            self.tools, self._deployment, alias, decode_envelope(body), api=Api.CHAT, headers=headers or [], session=named, size=len(body)
        )


@pytest.fixture
async def router(nursery: trio.Nursery) -> Router:
    made = Router({})
    await nursery.start(made.actor.run)
    return made


async def test_a_revision_says_how_the_request_was_rewritten(router: Router) -> None:
    revision = await router.route(HARD)
    assert (revision.alias, revision.tier, revision.target, revision.score, revision.threshold) == (
        "normal",
        Tier.HARD,
        "a/a-longer-name",
        4,
        4,
    )
    assert (revision.reason, revision.pinned, revision.escalated, revision.rules_version) == ("score", False, False, RULES_VERSION)
    assert [contribution.signal for contribution in revision.contributions] == ["keywords"]
    assert revision.bytes_after - revision.bytes_before == len("a/a-longer-name") - len("normal")
    assert revision.rewriter == "smart_tier_routing"


async def test_reasoning_asked_for_is_the_reason(router: Router) -> None:
    revision = await router.route(reasoning_effort="high")
    assert (revision.tier, revision.reason, revision.score) == (Tier.HARD, "explicit_reasoning", 0)


async def test_a_pin_raises_later_turns_and_an_escalation_is_told_once(router: Router) -> None:
    turns = [await router.route(text, "s") for text in ("hi", HARD, "hi", HARD)]
    assert [(turn.tier, turn.reason, turn.pinned, turn.escalated) for turn in turns] == [
        (Tier.EASY, "score", False, False),
        (Tier.HARD, "score", False, True),
        (Tier.HARD, "session_pin", True, False),
        (Tier.HARD, "score", False, False),
    ]


async def test_without_a_session_there_is_no_pin(router: Router) -> None:
    assert [(await router.route(text)).tier for text in (HARD, "hi")] == [Tier.HARD, Tier.EASY]


async def test_a_forced_tier_is_scored_and_leaves_the_pin_alone(router: Router) -> None:
    forced = await router.route(HARD, "s", [(b"x-gomodel-tier", b"easy")])
    assert (forced.tier, forced.reason, forced.score, forced.target) == (Tier.EASY, "forced", 4, "a/m")
    assert (await router.route("hi", "s")).tier is Tier.EASY
    assert (await router.route("hi", "s", [(b"x-gomodel-tier", b"hard")])).tier is Tier.HARD
    assert (await router.route("hi", "s")).tier is Tier.EASY


async def test_without_a_lifetime_no_pin_is_asked_for(nursery: trio.Nursery) -> None:
    router = Router({"PRO_SMART_ROUTING_SESSION_TTL": "0"})
    # The actor does not even run: nobody may ask it.
    with trio.fail_after(5):
        assert [(await router.route(text, "s")).tier for text in (HARD, "hi")] == [Tier.HARD, Tier.EASY]


async def test_a_long_body_is_scored_in_a_thread(router: Router) -> None:
    revision = await router.route("x" * LONG_BODY_BYTES)
    assert (revision.tier, revision.score) == (Tier.HARD, 6)
