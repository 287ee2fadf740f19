"""Virtual models over real sockets: strategies, affinity, chains, names, the list of models, and a provider's several keys."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess
from support.raw_http import Answer
from support.replies import Reply, Request, anthropic_error, json_reply, openai_error, sse_reply

pytestmark = pytest.mark.e2e

WHOLE = json_reply({"fine": True})
CHAT_EVENTS = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"one"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"two"}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


def price(total: float) -> dict[str, float]:
    return {"input_per_mtok": total / 4, "output_per_mtok": total * 3 / 4}


def configuration(url: str) -> dict[str, Any]:
    def provider(name: str, kind: str = "openai_compatible", **more: Any) -> dict[str, Any]:
        return {"type": kind, "base_url": f"{url}/{name}/v1", "api_key": f"key-of-{name}", **more}

    priced = {"cheap": price(1), "dear": price(9)}
    models = [{"id": name, "metadata": {"pricing": pricing}} for name, pricing in priced.items()]
    return {
        "providers": {
            "a": provider("a", models=["gpt-real", "shared", *models, "unpriced", {"id": "off", "enabled": False}]),
            "b": provider("b", models=["shared", "meta/llama-4", {"id": "cheapest", "pricing": price(0.5)}]),
            "c": provider("c"),
            "vllm-here": provider("v", "vllm", models=["local"]),
            "x": provider("x", "anthropic", models=["claude-real"]),
            "keys": provider("keys", models=["of-keys"], api_keys=["key-1", "key-2", "key-3"]) | {"api_key": None},
            "keyless": {"type": "openai", "models": ["gpt-keyless"]},
            "switched-off": provider("off", enabled=False),
        },
        "virtual_models": [
            *pool("rr-weights", ("a", 3), ("b", 1), session_affinity=False),
            *pool("rr-fractions", ("a", 0.5), ("b", 1.5), session_affinity=False),
            *pool("rr-plain", "a", "b", "c", session_affinity=False),
            *pool("adaptive", ("a", 2), ("b", 1), session_affinity=False, strategy="adaptive"),
            *pool("in-order", "a", "b", "c", strategy="failover"),
            *pool("in-order-sticky", "a", "b", strategy="failover"),
            *pool("no-failover", "a", "b", strategy="failover", failover=False),
            *costs("cost", "a/dear", "a/unpriced", "a/cheap"),
            *costs("cost-tie", "c/unpriced", "a/cheap", "c/cheap"),
            *costs("cost-unpriced", "c/u", "b/u"),
            *costs("cost-chain", "a/cheap", "inner-cheapest"),
            {"source": "inner-cheapest", "targets": [{"model": "a/dear"}, {"model": "b/cheapest"}]},
            *pool("inner", "a", "b", session_affinity=False),
            {"source": "chain", "session_affinity": False, "targets": [{"model": "inner"}, {"model": "c/chained"}]},
            {"source": "chain-in-order", "strategy": "failover", "targets": [{"model": "inner-in-order"}, {"model": "c/chained"}]},
            *pool("inner-in-order", "b", "a", strategy="failover"),
            {"source": "through-a-wall", "target": "for-nobody"},
            *pool("for-nobody", "a", user_paths=["/nobody"]),
            {"source": "over-disabled", "strategy": "failover", "targets": [{"model": "disabled"}, {"model": "b/m"}]},
            *pool("disabled", "a", enabled=False),
            {"source": "gpt-real", "strategy": "failover", "targets": [{"model": "gpt-real"}, {"model": "b/stand-in"}]},
            {"source": "c/shadowed", "target": "b/instead"},
            {"source": "meta/llama-4", "target": "meta/llama-4", "user_paths": ["/llama"]},
            *pool("team", "a", user_paths=["/team/", "other"]),
            *pool("slow", "a", slowdown=1),
            *pool("sticky", "a", "b"),
            *pool("sticky-2", "a", "b"),
            *pool("sticky-3", "a", "b", "c"),
            *pool("sticky-4", "a", "b", "c"),
            *pool("sticky-5", "a", "b"),
            *pool("loose", "a", "b", session_affinity=False),
            *pool("some-unavailable", "keyless", "switched-off", "b", strategy="failover"),
            *pool("all-unavailable", "keyless", "switched-off"),
            {"source": "off-model", "targets": [{"model": "a/off"}]},
            *pool("both-dialects", "x", "a", session_affinity=False),
            *pool("both-in-order", "x", "a", "b", strategy="failover"),
            *pool("other-dialect", "x"),
        ],
    }


def pool(source: str, *legs: str | tuple[str, float], **more: Any) -> list[dict[str, Any]]:
    """A virtual model over the model of its own name at these providers."""
    weighted = [leg if isinstance(leg, tuple) else (leg, None) for leg in legs]
    targets = [{"model": f"{name}/{source}"} | ({"weight": weight} if weight else {}) for name, weight in weighted]
    return [{"source": source, "targets": targets, **more}]


def costs(source: str, *targets: str) -> list[dict[str, Any]]:
    return [{"source": source, "strategy": "cost", "session_affinity": False, "targets": [{"model": target} for target in targets]}]


class Stand:
    """A gateway before an upstream that plays every provider, told apart by the path. `replies`: what a leg answers, by its name."""

    def __init__(self, gateway: GatewayProcess, upstream: FakeUpstream) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.replies: dict[str, Reply] = {}
        self.first = 0
        upstream.rule = self._rule

    def _rule(self, request: Request) -> Reply:
        return self.replies.get(leg_of(request)) or (sse_reply(CHAT_EVENTS) if request.json.get("stream") else WHOLE)

    def ask(self, model: str, *, path: str = "/v1/chat/completions", session: str | None = None, **kwargs: Any) -> Answer:
        """One request; without a session and without an opening there is none."""
        headers = {**({"X-Session-Id": session} if session else {}), **kwargs.pop("headers", {})}
        return self.gateway.exchange("POST", path, headers=headers, body={"model": model, "messages": [], **kwargs})

    def legs(self, model: str, count: int, **kwargs: Any) -> str:
        """Who served so many requests."""
        return "".join((self.ask(model, **kwargs).get("x-gomodel-target") or "?").partition("/")[0] for _ in range(count))

    def asked(self, model: str) -> str:
        """The legs that were asked for a model in this test, in order."""
        return "".join(leg_of(request) for request in self.requests() if request.json.get("model") == model)

    def requests(self) -> list[Request]:
        """What reached the upstream in this test."""
        return list(self.upstream.requests)[self.first :]


def leg_of(request: Request) -> str:
    return request.path.split("/")[1]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    directory = tmp_path_factory.mktemp("virtual-models")
    with open_on_thread() as upstream:
        (directory / "config.yaml").write_text(json.dumps(configuration(upstream.url)), encoding="utf-8")
        variables = {"RETRY_MAX_RETRIES": "0", "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"rr-plain","hard":"in-order"}}'}
        with GatewayProcess(variables, directory=directory) as gateway:
            yield Stand(gateway, upstream)
            assert gateway.logged("internal_error") == []


@pytest.fixture
def stand(running: Stand) -> Iterator[Stand]:
    running.upstream.forget()
    running.upstream.rule = running._rule  # a test may have led it to a stand of its own
    running.first = len(running.upstream.requests)
    yield running
    running.replies.clear()


def code_of(answer: Answer) -> str:
    return str(answer.json()["error"]["code"])


# ---- strategies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "expected"),
    [("rr-weights", "aaabaaab"), ("rr-fractions", "abbbabbb"), ("rr-plain", "abcabcab")],
)
def test_turns_are_taken_by_weight(stand: Stand, model: str, expected: str) -> None:
    assert stand.legs(model, 8) == expected


def test_adaptive_turned_off_takes_turns_by_weight_and_has_no_metrics(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration(stand.upstream.url)), encoding="utf-8")
    with GatewayProcess({"PRO_ROUTING_ENABLED": "false"}, directory=tmp_path) as gateway:
        assert Stand(gateway, stand.upstream).legs("adaptive", 8) == "aabaabaa"
        assert b"gomodel_pro_routing" not in gateway.exchange("GET", "/metrics").body


def test_adaptive_counts_its_choices_and_shows_what_it_measured(stand: Stand) -> None:
    legs = stand.legs("adaptive", 20)
    text = stand.gateway.exchange("GET", "/metrics").body.decode()
    for leg in set(legs):
        counted = f'gomodel_pro_routing_selections_total{{reason="p2c",source="adaptive",target="{leg}/adaptive"}} {legs.count(leg)}.0'
        assert counted in text
        assert f'gomodel_pro_routing_latency_estimate_seconds{{kind="unary",target="{leg}/adaptive"}} 0.' in text


@pytest.mark.parametrize(
    ("model", "target"),
    [("cost", "a/cheap"), ("cost-tie", "a/cheap"), ("cost-unpriced", "c/u"), ("cost-chain", "b/cheapest")],
)
def test_the_cheapest_priced_target_is_taken_and_the_first_of_equals(stand: Stand, model: str, target: str) -> None:
    # In a chain the inner model counts with its least price; which of its targets is asked is its own strategy's choice.
    seen = {stand.ask(model).get("x-gomodel-target") for _ in range(4)}
    assert seen == ({"a/dear", "b/cheapest"} if model == "cost-chain" else {target})


def test_where_the_cheapest_fails_the_others_follow_in_the_order_of_their_list(stand: Stand) -> None:
    stand.upstream.answer(openai_error(500), openai_error(500))
    assert stand.ask("cost").get("x-gomodel-target") == "a/unpriced"
    assert [request.json["model"] for request in stand.requests()] == ["cheap", "dear", "unpriced"]


def test_failover_keeps_to_the_declared_order(stand: Stand) -> None:
    assert stand.legs("in-order", 3) == "aaa"
    stand.upstream.answer(openai_error(429), openai_error(503))
    assert stand.legs("in-order", 3) == "cbb"
    assert stand.asked("in-order") == "aaa" + "abc" + "bb"


def test_failover_never_pins(stand: Stand) -> None:
    stand.upstream.answer(openai_error(500))
    assert stand.legs("in-order-sticky", 3, session="s") == "baa"


def test_a_virtual_model_may_forbid_failover(stand: Stand) -> None:
    stand.upstream.answer(openai_error(500, "theirs"))
    answer = stand.ask("no-failover")
    assert (answer.status, answer.json()["error"]["message"], stand.asked("no-failover")) == (500, "theirs", "a")


@pytest.mark.parametrize("stream", [False, True])
def test_a_slowdown_stretches_an_answer(stand: Stand, stream: bool) -> None:
    reply = sse_reply(CHAT_EVENTS).slowed(0.1).held(0.1) if stream else WHOLE.held(0.3)
    stand.upstream.answer(reply)
    answer = stand.ask("slow", stream=stream)
    assert answer.body == reply.body
    at_s = [moment for moment, _ in answer.chunks]
    if not stream:
        assert 0.6 <= at_s[0] < 3.0
        return
    # Content came at 0.2 s, the further events 0.1 s apart.
    assert 0.4 <= at_s[0] < 2.0
    assert 1.0 <= at_s[-1] < 4.0
    assert at_s[-1] - at_s[0] > 0.45


# ---- affinity -------------------------------------------------------------------------------------------------------


def test_a_session_stays_on_its_target_and_sessions_take_turns(stand: Stand) -> None:
    assert [stand.legs("sticky", 3, session=f"s{number}") for number in range(4)] == ["aaa", "bbb", "aaa", "bbb"]
    assert stand.legs("sticky", 1, session="s1") == "b"


def test_a_growing_conversation_is_one_session(stand: Stand) -> None:
    turns: list[dict[str, str]] = []
    seen = []
    for number in range(4):
        turns.append({"role": "user", "content": f"turn {number}"})
        seen.append(stand.ask("sticky-2", messages=turns).get("x-gomodel-target"))
        turns.append({"role": "assistant", "content": "fine"})
    assert len(set(seen)) == 1
    other = stand.ask("sticky-2", messages=[{"role": "user", "content": "another opening"}]).get("x-gomodel-target")
    assert other not in seen


def test_concurrent_first_requests_of_a_session_agree(stand: Stand) -> None:
    stand.replies = {leg: WHOLE.held(0.2) for leg in "abc"}
    seen: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: seen.append(stand.ask("sticky-3", session="together").get("x-gomodel-target"))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert (len(seen), len(set(seen))) == (12, 1)


def test_without_affinity_a_session_takes_turns(stand: Stand) -> None:
    assert stand.legs("loose", 4, session="s") == "abab"


def test_a_session_leaves_a_target_that_cools_and_stays_where_it_went(stand: Stand) -> None:
    first = stand.legs("sticky-4", 1, session="s")
    stand.upstream.answer(openai_error(429))
    (moved,) = set(stand.legs("sticky-4", 3, session="s"))
    assert moved != first
    assert stand.asked("sticky-4") == first + first + moved * 3


def test_embeddings_and_token_counts_neither_follow_nor_make_pins(stand: Stand) -> None:
    legs = stand.legs("sticky-5", 4, session="s", path="/v1/embeddings")
    assert Counter(legs) == {"a": 2, "b": 2}


# ---- chains ---------------------------------------------------------------------------------------------------------


def test_an_inner_virtual_model_is_one_leg(stand: Stand) -> None:
    assert stand.legs("chain", 8) == "acbcacbc"


def test_failover_goes_through_a_chain_in_declared_order(stand: Stand) -> None:
    stand.upstream.answer(openai_error(500), openai_error(502))
    assert stand.legs("chain-in-order", 1) == "c"
    assert "".join(map(leg_of, stand.requests())) == "bac"


def test_only_the_outer_models_user_paths_apply(stand: Stand) -> None:
    assert stand.legs("through-a-wall", 1) == "a"
    assert stand.ask("for-nobody").status == 404


def test_a_disabled_inner_model_is_no_leg_and_a_disabled_model_is_not_found(stand: Stand) -> None:
    assert stand.legs("over-disabled", 2) == "bb"
    answer = stand.ask("disabled")
    assert (answer.status, code_of(answer)) == (404, "model_not_found")


# ---- names ----------------------------------------------------------------------------------------------------------


def test_a_virtual_model_may_bear_a_real_models_name_and_mean_it(stand: Stand) -> None:
    assert stand.ask("gpt-real").get("x-gomodel-target") == "a/gpt-real"
    stand.upstream.answer(openai_error(500))
    assert stand.ask("gpt-real").get("x-gomodel-target") == "b/stand-in"
    assert stand.ask("a/gpt-real").get("x-gomodel-target") == "a/gpt-real"
    assert stand.ask("c/shadowed").get("x-gomodel-target") == "b/instead"


def test_a_shadow_that_is_not_for_the_caller_hides_the_real_model(stand: Stand) -> None:
    assert stand.ask("meta/llama-4").status == 404
    assert stand.gateway.exchange("GET", "/v1/models/meta/llama-4").status == 404
    allowed = {"X-GoModel-User-Path": "/llama/three"}
    assert stand.ask("meta/llama-4", headers=allowed).get("x-gomodel-target") == "b/meta/llama-4"
    assert stand.gateway.exchange("GET", "/v1/models/meta/llama-4", headers=allowed).status == 200
    assert stand.ask("b/meta/llama-4").status == 200


@pytest.mark.parametrize(("path", "status"), [("/team", 200), ("/team/a/b", 200), ("/other", 200), ("/teams", 404), ("", 404), ("/", 404)])
def test_user_paths_are_prefixes_of_whole_segments(stand: Stand, path: str, status: int) -> None:
    assert stand.ask("team", headers={"X-GoModel-User-Path": path}).status == status


def test_an_explicit_provider_means_its_own_model_whatever_the_name(stand: Stand) -> None:
    asked = [
        (stand.ask("gpt-real", provider="b"), "b/gpt-real"),
        (stand.ask("sticky", provider="c"), "c/sticky"),
        (stand.ask("local", provider="vllm"), "vllm-here/local"),
        (stand.ask("normal", provider="b"), "b/normal"),
        (stand.ask("c/shadowed", provider="c"), "c/shadowed"),
    ]
    for answer, target in asked:
        assert (answer.status, answer.get("x-gomodel-target"), answer.get("x-gomodel-pro-tier")) == (200, target, None)
    assert stand.upstream.requests[-1].json == {"model": "shadowed", "messages": []}
    assert stand.ask("local", provider="nobody").status == 404


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("shared", "a/shared"),
        ("b/shared", "b/shared"),
        ("local", "vllm-here/local"),
        ("vllm/local", "vllm-here/local"),
        ("vllm/anything", "vllm-here/anything"),
        ("openai_compatible/anything", "a/anything"),
        ("c/unlisted", "c/unlisted"),
        ("b/meta/llama-4", "b/meta/llama-4"),
        ("c/some/deep/id:free", "c/some/deep/id:free"),
        ("c/a", "c/a"),
    ],
)
def test_a_concrete_name_is_resolved_by_provider_then_type_then_list(stand: Stand, model: str, target: str) -> None:
    answer = stand.ask(model)
    assert (answer.status, answer.get("x-gomodel-target")) == (200, target)
    assert stand.upstream.requests[-1].json["model"] == target.partition("/")[2]


@pytest.mark.parametrize("model", ["unlisted", "nobody/shared", "meta/unlisted", "A/shared", "rr", "c/"])
def test_a_name_that_means_nothing_is_a_404(stand: Stand, model: str) -> None:
    answer = stand.ask(model)
    assert (answer.status, code_of(answer)) == (404, "model_not_found")


# ---- what is available ----------------------------------------------------------------------------------------------


def test_unavailable_targets_are_passed_over(stand: Stand) -> None:
    assert stand.legs("some-unavailable", 2) == "bb"


@pytest.mark.parametrize("model", ["all-unavailable", "off-model", "keyless/gpt-keyless", "gpt-keyless", "switched-off/x", "a/off"])
def test_a_name_whose_targets_are_all_unavailable_is_a_503(stand: Stand, model: str) -> None:
    answer = stand.ask(model)
    assert (answer.status, code_of(answer), answer.get("retry-after")) == (503, "no_target_available", "30")


def test_a_target_of_the_other_dialect_is_a_400_that_says_so(stand: Stand) -> None:
    answer = stand.ask("x/claude-real", path="/v1/embeddings")  # what is not translated
    assert answer.status == 400
    assert answer.json()["error"]["code"] == "dialect_mismatch"
    assert "dialect" in answer.json()["error"]["message"]
    assert stand.requests() == []


def test_tokens_for_a_target_that_cannot_count_them_are_estimated(stand: Stand) -> None:
    answer = stand.ask("a/shared", path="/v1/messages/count_tokens")
    assert (answer.status, answer.get("x-gomodel-token-count")) == (200, "estimate")
    assert 1 <= answer.json()["input_tokens"] < 100
    assert stand.requests() == []


def test_a_pool_of_both_dialects_serves_clients_of_both(stand: Stand) -> None:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": [], "usage": {}}
    completion = {
        "object": "chat.completion",
        "id": "1",
        "model": "m",
        "choices": [{"message": {"content": "Well."}, "finish_reason": "stop"}],
    }
    stand.replies |= {"x": json_reply(message), "a": json_reply(completion)}
    assert stand.legs("both-dialects", 4) == "xaxa"
    assert stand.legs("both-dialects", 4, path="/v1/messages") == "xaxa"
    stand.replies.clear()
    stand.upstream.answer(anthropic_error(529, "overloaded_error", "busy"), openai_error(500, "theirs"), openai_error(500, "also theirs"))
    answer = stand.ask("both-in-order")
    assert (answer.status, answer.json()["error"]["message"], stand.asked("both-in-order")) == (500, "also theirs", "xab")
    assert answer.get("x-gomodel-attempts") == "3"


def test_what_one_target_cannot_be_asked_goes_to_the_next_without_an_attempt(stand: Stand) -> None:
    answer = stand.ask("both-in-order", n=2)
    assert (answer.status, answer.get("x-gomodel-target"), answer.get("x-gomodel-attempts")) == (200, "a/both-in-order", "1")
    answer = stand.ask("other-dialect", n=2)
    assert (answer.status, answer.json()["error"]["param"]) == (400, "n")


# ---- the list -------------------------------------------------------------------------------------------------------


def listed(gateway: GatewayProcess, **headers: str) -> list[str]:
    return [model["id"] for model in gateway.exchange("GET", "/v1/models", headers=headers).json()["data"]]


def test_the_list_holds_aliases_virtual_models_and_what_providers_list(stand: Stand) -> None:
    names = listed(stand.gateway)
    assert len(names) == len(set(names))
    assert names[0] == "normal"
    assert names[1:4] == ["rr-weights", "rr-fractions", "rr-plain"]
    assert names[-11:] == [
        "a/gpt-real",
        "a/shared",
        "a/cheap",
        "a/dear",
        "a/unpriced",
        "b/shared",
        "b/meta/llama-4",
        "b/cheapest",
        "vllm-here/local",
        "x/claude-real",
        "keys/of-keys",
    ]
    assert {"c/shadowed", "gpt-real"} <= set(names)
    assert not {"disabled", "team", "for-nobody", "a/off", "keyless/gpt-keyless"} & set(names)
    assert "team" in listed(stand.gateway, **{"X-GoModel-User-Path": "/team/x"})


def test_every_listed_name_can_be_asked_for_and_looked_up(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration(stand.upstream.url)), encoding="utf-8")
    with GatewayProcess(directory=tmp_path) as gateway:
        for name in listed(gateway):
            assert gateway.exchange("GET", f"/v1/models/{name}").json()["id"] == name
            if name not in ("all-unavailable", "off-model"):
                path = "/v1/messages" if name in ("other-dialect", "x/claude-real") else "/v1/chat/completions"
                assert (name, gateway.exchange("POST", path, body={"model": name, "messages": []}).status) == (name, 200)


def test_anthropic_clients_get_their_own_shape(stand: Stand) -> None:
    answer = stand.gateway.exchange("GET", "/v1/models?limit=1000", headers={"anthropic-version": "2023-06-01"}).json()
    assert set(answer) == {"data", "has_more", "first_id", "last_id"}
    assert (answer["has_more"], answer["first_id"], answer["last_id"]) == (False, "normal", "keys/of-keys")
    assert set(answer["data"][0]) == {"type", "id", "display_name", "created_at"}
    openai = stand.gateway.exchange("GET", "/v1/models").json()
    assert openai["object"] == "list"
    assert set(openai["data"][0]) == {"id", "object", "created", "owned_by"}
    owners = {model["id"]: model["owned_by"] for model in openai["data"]}
    assert (owners["normal"], owners["sticky"], owners["b/shared"]) == ("gomodel", "gomodel", "b")


def test_the_list_may_be_kept_to_the_operators_own_names(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration(stand.upstream.url)), encoding="utf-8")
    variables = {
        "KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT": "true",
        "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"rr-plain","hard":"in-order"}}',
    }
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        names = listed(gateway)
        assert (names[0], names[-1]) == ("normal", "other-dialect")
        assert not {"a/shared", "x/claude-real"} & set(names)
        assert gateway.exchange("GET", "/v1/models/a/shared").status == 200
        assert gateway.exchange("POST", "/v1/chat/completions", body={"model": "shared", "messages": []}).status == 200


# ---- several keys of one provider -----------------------------------------------------------------------------------


def keys_of(stand: Stand, model: str) -> str:
    """The numbers of the keys that were shown for a model, in order."""
    shown = [request.header("authorization") or "" for request in stand.requests() if request.json.get("model") == model]
    return "".join(key.removeprefix("Bearer key-") for key in shown)


def refuse_key(number: str, refusal: Reply) -> Any:
    def rule(request: Request) -> Reply | None:
        return refusal if request.header("authorization") == f"Bearer key-{number}" else WHOLE

    return rule


@pytest.fixture
def keyed(stand: Stand) -> Iterator[Stand]:
    """Whose keys have no past: what a test made of them is reset."""
    rule = stand.upstream.rule
    assert stand.gateway.exchange("POST", "/admin/routing/keys/of-keys/reset").status == 200
    yield stand
    stand.upstream.rule = rule


def test_without_a_session_the_keys_take_turns(keyed: Stand) -> None:
    for _ in range(7):
        keyed.ask("keys/turns")
    assert keys_of(keyed, "turns") in ("1231231", "2312312", "3123123")


def test_a_session_stays_with_its_key_and_sessions_are_spread(keyed: Stand) -> None:
    for number in range(20):
        for _ in range(2):
            keyed.ask("keys/kept", session=f"session-{number}")
    shown = keys_of(keyed, "kept")
    assert shown[::2] == shown[1::2]
    assert set(shown) == {"1", "2", "3"}


REFUSALS = {
    "401": openai_error(401, "no such key", "invalid_api_key"),
    "403": openai_error(403, "not for you", "permission_denied"),
    "429": openai_error(429, "slow down", "rate_limit_exceeded"),
    "no credit": openai_error(429, "You exceeded your current quota", "insufficient_quota"),
    "402": openai_error(402, "pay first"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_the_next_key_is_tried_before_the_target_is_blamed(keyed: Stand, refusal: Reply, request: pytest.FixtureRequest) -> None:
    model = f"next-{request.node.callspec.id.replace(' ', '-')}"
    keyed.upstream.rule = refuse_key("2", refusal)
    answers = [keyed.ask(f"keys/{model}") for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 6
    shown = keys_of(keyed, model)
    assert shown.count("2") == 1
    assert "23" in shown
    assert sorted(answer.get("x-gomodel-attempts") or "" for answer in answers) == ["1"] * 5 + ["2"]
    state = keyed.gateway.exchange("GET", "/admin/routing").json()["keys"]
    assert [(row["provider"], row["index"], row["standing"]) for row in state] == [
        ("keys", 0, "well"),
        ("keys", 1, "cooling"),
        ("keys", 2, "well"),
    ]
    line = keyed.gateway.wait_for_log("request", target=f"keys/{model}", attempts=2)
    assert [(attempt["kind"], attempt["target"]) for attempt in line["failed"]] == [("primary", f"keys/{model}")]
    assert keyed.gateway.logged("cooldown_started", target=f"keys/{model}") == []


def test_a_fault_of_the_provider_is_no_fault_of_the_key(keyed: Stand) -> None:
    keyed.upstream.answer(openai_error(500))
    assert keyed.ask("keys/fault").status == 500
    assert len(keys_of(keyed, "fault")) == 1


def test_where_every_key_is_refused_the_target_is_blamed_once(keyed: Stand) -> None:
    keyed.upstream.answer(*[openai_error(401)] * 3)
    answer = keyed.ask("keys/refused", session="s")
    assert (answer.status, code_of(answer), answer.get("x-gomodel-attempts")) == (502, "upstream_authentication", "3")
    assert sorted(keys_of(keyed, "refused")) == ["1", "2", "3"]
    keyed.gateway.wait_for_log("cooldown_started", target="keys/refused", reason="auth")
    assert len(keyed.gateway.logged("cooldown_started", target="keys/refused")) == 1
    keyed.ask("keys/refused", session="s")
    assert len(keys_of(keyed, "refused")) == 4, "of keys that all cool one is tried"


def test_further_keys_come_from_numbered_variables(stand: Stand, tmp_path: Path) -> None:
    variables = {
        "OPENAI_BASE_URL": f"{stand.upstream.url}/numbered/v1",
        "OPENAI_API_KEY": "key-1",
        "OPENAI_API_KEY_2": "key-2",
        "OPENAI_API_KEY_4": "key-4",
    }
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        for _ in range(4):
            gateway.exchange("POST", "/v1/chat/completions", body={"model": "openai/numbered", "messages": []})
    assert keys_of(stand, "numbered") == "1241"
