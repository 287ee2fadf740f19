"""The official anthropic SDK, through the gateway and without it: the upstream and the caller must not see the difference."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anthropic
import pydantic
import pytest

from support import anthropic_replies
from support.both_ways import Call, Way, all_of, credentials_of, done, each, made_both_ways, opened
from support.conversation import TEXT
from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess
from support.replies import Reply, anthropic_error, sse_reply

pytestmark = pytest.mark.e2e

GATEWAY_KEY = "gateway-key"
PROVIDER_KEY = "provider-key"
MODEL = "claude-opus-4-6"
KINDS = ("sync", "async")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USER = {"role": "user", "content": "Grüße, 世界 \u2028 <&> \U0001f600"}
ASK_BOTH = {"role": "user", "content": "Use get_weather and get_time, please."}


def tool(name: str) -> dict[str, Any]:
    properties = {"city": {"type": "string"}, "days": {"type": "integer"}}
    return {"name": name, "description": f"Tells: {name}.", "input_schema": {"type": "object", "properties": properties}}


TOOLS = [tool("get_weather"), tool("get_time")]
THINKING = {"type": "adaptive"}


class Step(pydantic.BaseModel):
    """A structured output."""

    title: str
    done: bool
    parts: list[int]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    with open_on_thread() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(fake: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    variables = {
        "GOMODEL_MASTER_KEY": GATEWAY_KEY,
        "OPENAI_API_KEY": PROVIDER_KEY,
        "OPENAI_BASE_URL": f"{fake.url}/v1",
        "ANTHROPIC_API_KEY": PROVIDER_KEY,
        "ANTHROPIC_BASE_URL": f"{fake.url}/v1",
        "ANTHROPIC_MODELS": f"{MODEL},claude-haiku-4-5",
        "PRO_SMART_ROUTING_ROUTES": f'{{"normal":{{"easy":"claude-haiku-4-5","hard":"{MODEL}"}}}}',
        "VIRTUAL_MODELS": f'[{{"source":"team","targets":[{{"model":"anthropic/{MODEL}"}}]}}]',
        "BODY_SIZE_LIMIT": "256K",
        "RETRY_MAX_RETRIES": "0",
    }
    with GatewayProcess(variables, directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


def client_of(kind: str, url: str, key: str, **options: Any) -> Any:
    client = anthropic.Anthropic if kind == "sync" else anthropic.AsyncAnthropic
    return client(base_url=url, **{"api_key": key, "max_retries": 0, "timeout": 20.0, **options})


@asynccontextmanager
async def both_ways(
    kind: str, fake: FakeUpstream, gateway: GatewayProcess, name: str = f"anthropic/{MODEL}"
) -> AsyncIterator[tuple[Way, Way]]:
    """A way straight to the upstream's model, and one to the gateway's `name`."""
    async with AsyncExitStack() as stack:
        straight = await stack.enter_async_context(opened(client_of(kind, fake.url, "the-clients-own")))
        through = await stack.enter_async_context(opened(client_of(kind, gateway.url, GATEWAY_KEY)))
        yield Way(straight, MODEL), Way(through, name)


# ---- the calls ------------------------------------------------------------------------------------------------------


async def messages(client: Any, model: str) -> Any:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    asked = {"max_tokens": 64, "system": system, "messages": [USER], "metadata": {"user_id": "u-1"}, "stop_sequences": ["\n\n"]}
    return await done(client.messages.create(model=model, extra_body={"temperature": 0.5}, **asked))


async def messages_with_unknown_fields_headers_and_query(client: Any, model: str) -> Any:
    return await done(
        client.messages.create(
            model=model,
            max_tokens=64,
            messages=[USER],
            extra_body={"vendor_option": {"deep": [1, 2.50, None]}, "provider": {"order": ["a"]}},
            extra_headers={"X-Trace": "t 1", "anthropic-beta": "one-2026-01-01,two-2026-02-02"},
            extra_query={"a": "b c"},
        )
    )


async def messages_stream(client: Any, model: str) -> Any:
    return await all_of(await done(client.messages.create(model=model, max_tokens=64, messages=[USER], stream=True)))


async def messages_stream_helper(client: Any, model: str) -> Any:
    async with opened(client.messages.stream(model=model, max_tokens=64, messages=[USER])) as stream:
        events = [event async for event in each(stream)]
        return [event.type for event in events], await done(stream.get_final_message())


async def messages_text_stream(client: Any, model: str) -> Any:
    async with opened(client.messages.stream(model=model, max_tokens=64, messages=[USER])) as stream:
        return [text async for text in each(stream.text_stream)]


async def messages_tools(client: Any, model: str) -> Any:
    return await done(client.messages.create(model=model, max_tokens=64, messages=[ASK_BOTH], tools=TOOLS))


async def messages_tool_named(client: Any, model: str) -> Any:
    choice = {"type": "tool", "name": "get_time", "disable_parallel_tool_use": True}
    return await done(client.messages.create(model=model, max_tokens=64, messages=[USER], tools=TOOLS, tool_choice=choice))


async def messages_tools_streamed(client: Any, model: str) -> Any:
    asked = {"max_tokens": 2048, "messages": [ASK_BOTH], "tools": TOOLS, "thinking": THINKING}
    async with opened(client.messages.stream(model=model, **asked)) as stream:
        events = [event async for event in each(stream)]
        return [event.type for event in events], await done(stream.get_final_message())


async def messages_tool_results(client: Any, model: str) -> Any:
    first = await messages_tools(client, model)
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"} for block in first.content]
    turns = [ASK_BOTH, {"role": "assistant", "content": [block.to_dict() for block in first.content]}, {"role": "user", "content": results}]
    return await done(client.messages.create(model=model, max_tokens=64, messages=turns, tools=TOOLS))


async def messages_thinking(client: Any, model: str) -> Any:
    return await done(client.messages.create(model=model, max_tokens=2048, messages=[USER], thinking=THINKING))


async def messages_parsed(client: Any, model: str) -> Any:
    parsed = await done(client.messages.parse(model=model, max_tokens=64, messages=[USER], output_format=Step))
    assert parsed.parsed_output == Step(title="text", done=True, parts=[1])
    return parsed


async def messages_image(client: Any, model: str) -> Any:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    turns = [{"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]}]
    return await done(client.messages.create(model=model, max_tokens=64, messages=turns))


async def messages_beta(client: Any, model: str) -> Any:
    return await done(client.beta.messages.create(model=model, max_tokens=64, messages=[USER], betas=["context-1m-2025-08-07"]))


async def messages_raw_response(client: Any, model: str) -> Any:
    raw = await done(client.messages.with_raw_response.create(model=model, max_tokens=64, messages=[USER]))
    return raw.status_code, raw.headers["content-type"], raw.headers["request-id"], await done(raw.parse())


async def count_tokens(client: Any, model: str) -> Any:
    return await done(client.messages.count_tokens(model=model, messages=[USER], tools=TOOLS))


CALLS: list[Call] = [
    messages,
    messages_with_unknown_fields_headers_and_query,
    messages_stream,
    messages_stream_helper,
    messages_text_stream,
    messages_tools,
    messages_tool_named,
    messages_tools_streamed,
    messages_tool_results,
    messages_thinking,
    messages_parsed,
    messages_image,
    messages_beta,
    messages_raw_response,
    count_tokens,
]


def run(scenario: Awaitable[None]) -> None:
    """Run a scenario in asyncio's loop, where most users of the asynchronous client are."""

    async def main() -> None:
        await scenario

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_is_the_same_for_both_ends_with_and_without_the_gateway(
    call: Call, kind: str, fake: FakeUpstream, gateway: GatewayProcess
) -> None:
    async def scenario() -> None:
        async with both_ways(kind, fake, gateway) as (straight, through):
            direct, relayed = await made_both_ways(call, fake, straight, through)
        assert relayed == direct

    run(scenario())
    assert credentials_of(fake.requests[-1]) == {"x-api-key": PROVIDER_KEY}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [MODEL, "team", "normal"])
@pytest.mark.parametrize("call", [messages, messages_stream])
def test_a_bare_name_a_virtual_model_and_an_alias_change_only_the_model(
    call: Call, name: str, kind: str, fake: FakeUpstream, gateway: GatewayProcess
) -> None:
    # An alias is scored: the tier is demanded, so that it stands for the model that is asked for directly.
    headers = {"X-GoModel-Tier": "hard", "X-GoModel-User-Path": "/team"}

    async def scenario() -> None:
        async with both_ways(kind, fake, gateway, name) as (straight, through):
            told = Way(through.client.with_options(default_headers=headers), through.model)
            direct, relayed = await made_both_ways(call, fake, straight, told)
        assert relayed == direct

    run(scenario())


@pytest.mark.parametrize(
    "credential",
    [
        {"api_key": GATEWAY_KEY},
        {"api_key": None, "auth_token": GATEWAY_KEY},
        {"api_key": "other", "default_headers": {"X-Api-Key": GATEWAY_KEY, "Authorization": anthropic.omit}},
    ],
)
def test_the_gateways_key_is_taken_from_wherever_the_sdk_puts_it_and_goes_no_further(
    credential: dict[str, Any], fake: FakeUpstream, gateway: GatewayProcess
) -> None:
    with client_of("sync", gateway.url, "", **credential) as client:
        assert client.messages.create(model="normal", max_tokens=9, messages=[USER]).content[0].text == TEXT
    assert credentials_of(fake.requests[-1]) == {"x-api-key": PROVIDER_KEY}
    assert all(GATEWAY_KEY.encode() not in value for _, value in fake.requests[-1].headers)


def test_the_decision_stands_in_the_headers_of_a_raw_response(gateway: GatewayProcess) -> None:
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        raw = client.messages.with_raw_response.create(model="normal", max_tokens=2048, messages=[USER], thinking=THINKING)
        found = {name: raw.headers.get(name) for name in ("x-gomodel-pro-tier", "x-gomodel-pro-tier-reason", "x-gomodel-target")}
        assert found == {
            "x-gomodel-pro-tier": "hard",
            "x-gomodel-pro-tier-reason": "explicit_reasoning",
            "x-gomodel-target": f"anthropic/{MODEL}",
        }


# ---- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_listed_and_retrieved(kind: str, gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        async with opened(client_of(kind, gateway.url, GATEWAY_KEY)) as client:
            page = await done(client.models.list(limit=1000))
            ids = ["normal", "team", f"anthropic/{MODEL}", "anthropic/claude-haiku-4-5"]
            assert [(model.id, model.type) async for model in each(page)] == [(name, "model") for name in ids]
            assert (page.first_id, page.last_id, page.has_more) == (ids[0], ids[-1], False)
            for name in ("normal", "team", MODEL, f"anthropic/{MODEL}"):
                assert (await done(client.models.retrieve(name))).id == name
            with pytest.raises(anthropic.NotFoundError) as missing:
                await done(client.models.retrieve("nowhere/x"))
            assert missing.value.body["error"]["type"] == "not_found_error"

    run(scenario())


# ---- errors ---------------------------------------------------------------------------------------------------------

RAISED: list[tuple[Reply, type[anthropic.APIStatusError]]] = [
    (anthropic_error(400, "invalid_request_error", "messages.0: invalid"), anthropic.BadRequestError),
    (anthropic_error(404, "not_found_error", "no such model"), anthropic.NotFoundError),
    (anthropic_error(409, "invalid_request_error", "conflict"), anthropic.ConflictError),
    (anthropic_error(413, "request_too_large", "too large"), anthropic.RequestTooLargeError),
    (anthropic_error(422, "invalid_request_error", "unprocessable"), anthropic.UnprocessableEntityError),
    (anthropic_error(429, "rate_limit_error", "slow down", (("retry-after", "7"),)), anthropic.RateLimitError),
    (anthropic_error(500, "api_error", "broken"), anthropic.InternalServerError),
    (anthropic_error(504, "timeout_error", "too slow"), anthropic.DeadlineExceededError),
    (anthropic_error(529, "overloaded_error", "overloaded"), anthropic.OverloadedError),
]


async def failure_of(call: Call, client: Any, model: str, expected: type[Exception]) -> Any:
    with pytest.raises(expected) as caught:
        await call(client, model)
    assert type(caught.value) is expected
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [messages, messages_stream, count_tokens], ids=lambda call: call.__name__)
def test_an_upstreams_refusal_is_raised_as_without_the_gateway(call: Call, kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        for reply, expected in RAISED:
            fake.answer(reply, reply)
            # A model for each: what one refusal does to a target's health is not the next one's business.
            async with both_ways(kind, fake, gateway, f"anthropic/refused-{kind}-{call.__name__}-{reply.status}") as (straight, through):
                direct = await failure_of(call, straight.client, straight.model, expected)
                relayed = await failure_of(call, through.client, through.model, expected)
            for field in ("status_code", "message", "type", "body"):
                assert getattr(relayed, field) == getattr(direct, field)
            assert relayed.response.headers.get("retry-after") == direct.response.headers.get("retry-after")

    run(scenario())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (anthropic_error(401, "authentication_error", "invalid x-api-key"), "credentials"),
        (anthropic_error(403, "permission_error", "not allowed"), "credentials"),
        (anthropic_error(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."), "account"),
    ],
)
def test_a_fault_of_the_gateways_account_is_not_taken_for_the_clients_and_not_retried(
    reply: Reply, words: str, fake: FakeUpstream, gateway: GatewayProcess
) -> None:
    fake.answer(reply)
    asked = len(fake.requests)
    with client_of("sync", gateway.url, GATEWAY_KEY, max_retries=2) as client, pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(model=f"anthropic/account-{reply.status}", max_tokens=9, messages=[USER])
    assert caught.value.status_code == 502
    error = caught.value.body["error"]
    assert error["type"] == "api_error"
    assert "'anthropic'" in error["message"]
    assert words in error["message"]
    assert len(fake.requests) == asked + 1


def test_the_gateways_own_refusals_are_the_right_exceptions(gateway: GatewayProcess) -> None:
    with client_of("sync", gateway.url, "wrong") as stranger, pytest.raises(anthropic.AuthenticationError) as unknown:
        stranger.messages.create(model="normal", max_tokens=9, messages=[USER])
    assert unknown.value.body["error"]["type"] == "authentication_error"
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        with pytest.raises(anthropic.NotFoundError) as missing:
            client.messages.create(model="no-such-model", max_tokens=9, messages=[USER])
        assert missing.value.body["error"]["type"] == "not_found_error"
        assert "no-such-model" in missing.value.message
        with pytest.raises(anthropic.NotFoundError) as route:
            client.messages.batches.list()
        assert route.value.body["error"]["type"] == "not_found_error"
        hosted = {"type": "web_search_20250305", "name": "web_search"}
        with pytest.raises(anthropic.BadRequestError) as unsupported:
            client.messages.create(model="openai/gpt-5.1", max_tokens=9, messages=[USER], tools=[hosted])
        assert "tools[0].type" in unsupported.value.message
        with pytest.raises(anthropic.RequestTooLargeError) as large:
            client.messages.create(model="normal", max_tokens=9, messages=[{"role": "user", "content": "x" * 300_000}])
        assert large.value.status_code == 413


OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_inside_a_stream_is_raised_after_what_came_before(kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    whole = anthropic_replies.messages({"model": MODEL, "stream": True})
    begun = [piece for piece in whole.pieces[:5] if isinstance(piece, bytes)]

    async def read(client: Any, model: str, got: list[str]) -> None:
        async with opened(client.messages.stream(model=model, max_tokens=9, messages=[USER])) as stream:
            async for text in each(stream.text_stream):
                got.append(text)

    async def texts(client: Any, model: str) -> tuple[str, anthropic.APIStatusError]:
        got: list[str] = []
        with pytest.raises(anthropic.APIStatusError) as caught:
            await read(client, model, got)
        return "".join(got), caught.value

    async def scenario() -> None:
        reply = sse_reply([*begun, OVERLOADED])
        fake.answer(reply, reply)
        async with both_ways(kind, fake, gateway, f"anthropic/stream-error-{kind}") as (straight, through):
            direct = await texts(straight.client, straight.model)
            relayed = await texts(through.client, through.model)
        assert relayed[0] == direct[0] == "Hello from "
        assert (type(relayed[1]), relayed[1].message, relayed[1].body) == (type(direct[1]), direct[1].message, direct[1].body)

    run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_cut_raises_an_error_that_says_so(kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    fake.answer(anthropic_replies.messages({"model": MODEL, "stream": True}).cut_after(5))

    async def scenario() -> None:
        async with opened(client_of(kind, gateway.url, GATEWAY_KEY)) as client:
            with pytest.raises(anthropic.APIStatusError) as caught:
                await messages_stream(client, f"anthropic/cut-{kind}")
        assert caught.value.body["error"]["message"] == "The upstream ended before its answer was complete."

    run(scenario())


def test_twenty_asynchronous_calls_at_once_get_each_their_own_answer(gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        async with client_of("async", gateway.url, GATEWAY_KEY) as client:

            async def one(number: int) -> str:
                answer = await client.messages.create(model=f"anthropic/n-{number}", max_tokens=9, messages=[USER])
                return str(answer.model)

            found = await asyncio.gather(*(one(number) for number in range(20)))
        assert found == [f"n-{number}" for number in range(20)]

    run(scenario())
