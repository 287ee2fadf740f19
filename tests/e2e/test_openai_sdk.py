"""The official openai SDK, through the gateway and without it: the upstream and the caller must not see the difference."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import openai
import pydantic
import pytest

from support import openai_replies
from support.both_ways import Call, Way, all_of, credentials_of, done, each, made_both_ways, opened
from support.conversation import TEXT
from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import GatewayProcess
from support.replies import Reply, openai_error, sse_reply

pytestmark = pytest.mark.e2e

GATEWAY_KEY = "gateway-key"
PROVIDER_KEY = "provider-key"
KINDS = ("sync", "async")
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USER = {"role": "user", "content": "Grüße, 世界 \u2028 <&> \U0001f600"}
ASK_BOTH = {"role": "user", "content": "Use get_weather and get_time, please."}


def function(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}
    return {"name": name, "description": f"Tells: {name}.", "parameters": {**schema, "additionalProperties": False}, "strict": True}


CHAT_TOOLS = [{"type": "function", "function": function(name)} for name in ("get_weather", "get_time")]
RESPONSES_TOOLS = [{"type": "function", **function(name)} for name in ("get_weather", "get_time")]


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
        "OPENAI_MODELS": "gpt-5.1,gpt-5.1-mini",
        "ANTHROPIC_API_KEY": PROVIDER_KEY,
        "ANTHROPIC_BASE_URL": f"{fake.url}/v1",
        "PRO_SMART_ROUTING_ROUTES": '{"normal":{"easy":"gpt-5.1-mini","hard":"gpt-5.1"}}',
        "VIRTUAL_MODELS": '[{"source":"team","targets":[{"model":"openai/gpt-5.1"}]}]',
        "BODY_SIZE_LIMIT": "256K",
        "RETRY_MAX_RETRIES": "0",
    }
    with GatewayProcess(variables, directory=tmp_path_factory.mktemp("gateway")) as process:
        yield process


def client_of(kind: str, url: str, key: str, **options: Any) -> Any:
    client = openai.OpenAI if kind == "sync" else openai.AsyncOpenAI
    return client(api_key=key, base_url=f"{url}/v1", **{"max_retries": 0, "timeout": 20.0, **options})


@asynccontextmanager
async def both_ways(
    kind: str, fake: FakeUpstream, gateway: GatewayProcess, name: str = "openai/gpt-5.1", **options: Any
) -> AsyncIterator[tuple[Way, Way]]:
    """A way straight to the upstream's `gpt-5.1`, and one to the gateway's `name`."""
    async with AsyncExitStack() as stack:
        straight = await stack.enter_async_context(opened(client_of(kind, fake.url, "the-clients-own", **options)))
        through = await stack.enter_async_context(opened(client_of(kind, gateway.url, GATEWAY_KEY, **options)))
        yield Way(straight, "gpt-5.1"), Way(through, name)


# ---- the calls ------------------------------------------------------------------------------------------------------


async def chat(client: Any, model: str) -> Any:
    asked = {"model": model, "messages": [{"role": "system", "content": "Be brief."}, USER]}
    return await done(client.chat.completions.create(**asked, temperature=0.5, seed=2**53 + 1, user="u-1", store=False))


async def chat_with_unknown_fields_headers_and_query(client: Any, model: str) -> Any:
    extra = {"vendor_option": {"deep": [1, 2.50, None]}, "provider": {"order": ["a", "b"]}, "top_k": 7}
    return await done(
        client.chat.completions.create(
            model=model,
            messages=[USER],
            extra_body=extra,
            extra_headers={"X-Trace": "t 1", "OpenAI-Beta": "x=v1"},
            extra_query={"a": "b c"},
        )
    )


async def chat_stream(client: Any, model: str) -> Any:
    return await all_of(await done(client.chat.completions.create(model=model, messages=[USER], stream=True)))


async def chat_stream_with_usage(client: Any, model: str) -> Any:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return await all_of(await done(client.chat.completions.create(model=model, messages=[USER], **options)))


async def chat_stream_helper(client: Any, model: str) -> Any:
    async with opened(client.chat.completions.stream(model=model, messages=[USER])) as stream:
        events = [event async for event in each(stream)]
        return [event.type for event in events], await done(stream.get_final_completion())


async def chat_tools(client: Any, model: str) -> Any:
    return await done(client.chat.completions.create(model=model, messages=[ASK_BOTH], tools=CHAT_TOOLS, parallel_tool_calls=True))


async def chat_tool_named(client: Any, model: str) -> Any:
    choice = {"type": "function", "function": {"name": "get_time"}}
    return await done(client.chat.completions.create(model=model, messages=[USER], tools=CHAT_TOOLS, tool_choice=choice))


async def chat_tools_streamed(client: Any, model: str) -> Any:
    async with opened(client.chat.completions.stream(model=model, messages=[ASK_BOTH], tools=CHAT_TOOLS)) as stream:
        events = [event async for event in each(stream)]
        return [event.type for event in events], await done(stream.get_final_completion())


async def chat_tool_results(client: Any, model: str) -> Any:
    first = await chat_tools(client, model)
    message = first.choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls]
    asked = [ASK_BOTH, message.to_dict(), *results]
    return await done(client.chat.completions.create(model=model, messages=asked, tools=CHAT_TOOLS))


async def chat_parsed(client: Any, model: str) -> Any:
    parsed = await done(client.chat.completions.parse(model=model, messages=[USER], response_format=Step))
    assert parsed.choices[0].message.parsed == Step(title="text", done=True, parts=[1])
    return parsed


async def chat_parsed_stream(client: Any, model: str) -> Any:
    async with opened(client.chat.completions.stream(model=model, messages=[USER], response_format=Step)) as stream:
        assert [event async for event in each(stream)]
        return await done(stream.get_final_completion())


async def chat_json(client: Any, model: str) -> Any:
    return await done(client.chat.completions.create(model=model, messages=[USER], response_format={"type": "json_object"}))


async def chat_image(client: Any, model: str) -> Any:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]
    return await done(client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}]))


async def chat_raw_response(client: Any, model: str) -> Any:
    raw = await done(client.chat.completions.with_raw_response.create(model=model, messages=[USER]))
    return raw.status_code, raw.headers["content-type"], raw.headers["openai-processing-ms"], await done(raw.parse())


async def chat_streaming_response(client: Any, model: str) -> Any:
    asked = {"model": model, "messages": [USER], "stream": True}
    async with opened(client.chat.completions.with_streaming_response.create(**asked)) as answer:
        return [line async for line in each(answer.iter_lines())]


async def responses(client: Any, model: str) -> Any:
    return await done(
        client.responses.create(model=model, instructions="Be brief.", input="hi", metadata={"k": "v"}, reasoning={"effort": "low"})
    )


async def responses_stream(client: Any, model: str) -> Any:
    return await all_of(await done(client.responses.create(model=model, input=[USER], stream=True)))


async def responses_stream_helper(client: Any, model: str) -> Any:
    async with opened(client.responses.stream(model=model, input="hi")) as stream:
        events = [event async for event in each(stream)]
        return events, await done(stream.get_final_response())


async def responses_tools(client: Any, model: str) -> Any:
    return await done(client.responses.create(model=model, input=[ASK_BOTH], tools=RESPONSES_TOOLS))


async def responses_tools_streamed(client: Any, model: str) -> Any:
    async with opened(client.responses.stream(model=model, input=[ASK_BOTH], tools=RESPONSES_TOOLS)) as stream:
        events = [event async for event in each(stream)]
        return [event.type for event in events], await done(stream.get_final_response())


async def responses_tool_results(client: Any, model: str) -> Any:
    first = await responses_tools(client, model)
    results = [{"type": "function_call_output", "call_id": item.call_id, "output": "sunny"} for item in first.output]
    asked = [ASK_BOTH, *(item.to_dict() for item in first.output), *results]
    return await done(client.responses.create(model=model, input=asked, tools=RESPONSES_TOOLS, previous_response_id="resp_1"))


async def responses_parsed(client: Any, model: str) -> Any:
    parsed = await done(client.responses.parse(model=model, input="hi", text_format=Step))
    assert parsed.output_parsed == Step(title="text", done=True, parts=[1])
    return parsed


async def responses_image(client: Any, model: str) -> Any:
    parts = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL, "detail": "auto"}]
    return await done(client.responses.create(model=model, input=[{"role": "user", "content": parts}]))


async def embeddings_as_base64(client: Any, model: str) -> Any:
    found = await done(client.embeddings.create(model=model, input=["a", "b"]))
    assert [row.embedding for row in found.data] == [[0.5, -0.25, 0.125]] * 2
    return found


async def embeddings_as_floats(client: Any, model: str) -> Any:
    return await done(client.embeddings.create(model=model, input="a", encoding_format="float", dimensions=3))


async def embeddings_of_tokens(client: Any, model: str) -> Any:
    return await done(client.embeddings.create(model=model, input=[[1, 2], [3]]))


CALLS: list[Call] = [
    chat,
    chat_with_unknown_fields_headers_and_query,
    chat_stream,
    chat_stream_with_usage,
    chat_stream_helper,
    chat_tools,
    chat_tool_named,
    chat_tools_streamed,
    chat_tool_results,
    chat_parsed,
    chat_parsed_stream,
    chat_json,
    chat_image,
    chat_raw_response,
    chat_streaming_response,
    responses,
    responses_stream,
    responses_stream_helper,
    responses_tools,
    responses_tools_streamed,
    responses_tool_results,
    responses_parsed,
    responses_image,
    embeddings_as_base64,
    embeddings_as_floats,
    embeddings_of_tokens,
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
    assert credentials_of(fake.requests[-1]) == {"authorization": f"Bearer {PROVIDER_KEY}"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gpt-5.1", "team", "normal"])
@pytest.mark.parametrize("call", [chat_stream, responses])
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


def test_parallel_tool_calls_arrive_as_they_were_made(gateway: GatewayProcess) -> None:
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        asked = {"model": "normal", "messages": [ASK_BOTH], "tools": CHAT_TOOLS}
        with client.chat.completions.stream(**asked) as stream:
            calls = stream.get_final_completion().choices[0].message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("get_weather", {"city": "text", "days": 1}),
            ("get_time", {"city": "text", "days": 1}),
        ]


def test_the_decision_stands_in_the_headers_of_a_raw_response(gateway: GatewayProcess) -> None:
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        raw = client.chat.completions.with_raw_response.create(model="normal", messages=[{"role": "user", "content": "think hard"}])
        found = {name: raw.headers.get(name) for name in ("x-gomodel-pro-tier", "x-gomodel-pro-tier-score", "x-gomodel-target")}
        assert found == {"x-gomodel-pro-tier": "hard", "x-gomodel-pro-tier-score": "4", "x-gomodel-target": "openai/gpt-5.1"}
        assert raw.parse().choices[0].message.content == TEXT


# ---- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_listed_and_retrieved(kind: str, gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        async with opened(client_of(kind, gateway.url, GATEWAY_KEY)) as client:
            listed = [model async for model in each(await done(client.models.list()))]
            assert [(model.id, model.object, model.owned_by) for model in listed] == [
                ("normal", "model", "gomodel"),
                ("team", "model", "gomodel"),
                ("openai/gpt-5.1", "model", "openai"),
                ("openai/gpt-5.1-mini", "model", "openai"),
            ]
            for name in ("normal", "team", "gpt-5.1", "openai/gpt-5.1", "openai/never-listed"):
                assert (await done(client.models.retrieve(name))).id == name
            with pytest.raises(openai.NotFoundError) as missing:
                await done(client.models.retrieve("nowhere/x"))
            assert (missing.value.code, missing.value.param) == ("model_not_found", "model")

    run(scenario())


# ---- errors ---------------------------------------------------------------------------------------------------------

RAISED: list[tuple[Reply, type[openai.APIStatusError]]] = [
    (openai_error(400, "messages.0: invalid", None, "invalid_request_error"), openai.BadRequestError),
    (openai_error(400, "too long", "context_length_exceeded", "invalid_request_error"), openai.BadRequestError),
    (openai_error(404, "no such model", "model_not_found", "invalid_request_error"), openai.NotFoundError),
    (openai_error(409, "conflict"), openai.ConflictError),
    (openai_error(413, "too large"), openai.APIStatusError),
    (openai_error(422, "unprocessable"), openai.UnprocessableEntityError),
    (openai_error(429, "slow down", "rate_limit_exceeded", "requests", (("retry-after", "7"),)), openai.RateLimitError),
    (openai_error(500, "broken"), openai.InternalServerError),
    (openai_error(503, "overloaded", "overloaded", "server_error", (("retry-after", "9"),)), openai.InternalServerError),
]


async def failure_of(call: Call, client: Any, model: str, expected: type[Exception]) -> Any:
    with pytest.raises(expected) as caught:
        await call(client, model)
    assert type(caught.value) is expected
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [chat, chat_stream, responses, embeddings_as_floats], ids=lambda call: call.__name__)
def test_an_upstreams_refusal_is_raised_as_without_the_gateway(call: Call, kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        for reply, expected in RAISED:
            fake.answer(reply, reply)
            # A model for each: what one refusal does to a target's health is not the next one's business.
            name = f"openai/refused-{kind}-{call.__name__}-{expected.__name__}-{reply.status}-{len(reply.body)}"
            async with both_ways(kind, fake, gateway, name) as (straight, through):
                direct = await failure_of(call, straight.client, straight.model, expected)
                relayed = await failure_of(call, through.client, through.model, expected)
            for field in ("status_code", "message", "code", "param", "type", "body"):
                assert getattr(relayed, field) == getattr(direct, field)
            assert relayed.response.headers.get("retry-after") == direct.response.headers.get("retry-after")

    run(scenario())


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (
            openai_error(401, "Incorrect API key provided: prov****-key", "invalid_api_key", "invalid_request_error"),
            "upstream_authentication",
        ),
        (openai_error(403, "no access", None, "invalid_request_error"), "upstream_authentication"),
        (openai_error(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "upstream_account"),
    ],
)
def test_a_fault_of_the_gateways_account_is_not_taken_for_the_clients_and_not_retried(
    reply: Reply, code: str, fake: FakeUpstream, gateway: GatewayProcess
) -> None:
    fake.answer(reply)
    asked = len(fake.requests)
    with client_of("sync", gateway.url, GATEWAY_KEY, max_retries=2) as client, pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=f"openai/account-{code}-{reply.status}", messages=[USER])
    assert (caught.value.status_code, caught.value.code) == (502, code)
    assert "'openai'" in caught.value.message
    assert PROVIDER_KEY not in str(caught.value.body)
    assert len(fake.requests) == asked + 1


def test_the_gateways_own_refusals_are_the_right_exceptions(gateway: GatewayProcess) -> None:
    with client_of("sync", gateway.url, "wrong") as stranger, pytest.raises(openai.AuthenticationError) as unknown:
        stranger.chat.completions.create(model="normal", messages=[USER])
    assert (unknown.value.status_code, unknown.value.code) == (401, "invalid_api_key")
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        with pytest.raises(openai.NotFoundError) as missing:
            client.chat.completions.create(model="no-such-model", messages=[USER])
        assert (missing.value.code, missing.value.param, missing.value.type) == ("model_not_found", "model", "not_found_error")
        assert "no-such-model" in missing.value.message
        with pytest.raises(openai.NotFoundError) as route:
            client.images.generate(model="normal", prompt="a cat")
        assert route.value.code == "unknown_url"
        with pytest.raises(openai.BadRequestError) as unsupported:
            client.chat.completions.create(model="anthropic/claude-opus-4-6", messages=[USER], n=2)
        assert (unsupported.value.code, unsupported.value.param) == ("unsupported_by_target", "n")
        with pytest.raises(openai.BadRequestError) as nameless:
            client.responses.create(input="hi")
        assert (nameless.value.code, nameless.value.param) == ("missing_model", "model")
        with pytest.raises(openai.APIStatusError) as large:
            client.chat.completions.create(model="normal", messages=[{"role": "user", "content": "x" * 300_000}])
        assert large.value.status_code == 413


def test_the_sdk_tries_again_by_itself_only_where_that_helps(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    soon = (("retry-after-ms", "5"),)
    asked = len(fake.requests)
    with client_of("sync", gateway.url, GATEWAY_KEY, max_retries=2) as client:
        # A conflict is the request's own: the gateway says that trying again will not help, and the SDK heeds it.
        fake.answer(openai_error(409, "conflict", headers=soon))
        with pytest.raises(openai.ConflictError):
            client.chat.completions.create(model="openai/again-409", messages=[USER])
        assert len(fake.requests) == asked + 1
        fake.answer(openai_error(500, "broken", headers=soon))
        assert client.chat.completions.create(model="openai/again-500", messages=[USER]).choices[0].message.content == TEXT
        assert len(fake.requests) == asked + 3


def test_what_the_client_is_told_to_wait_for_never_disagrees_with_itself(fake: FakeUpstream, gateway: GatewayProcess) -> None:
    soon = (("retry-after-ms", "5"),)
    told = []
    with client_of("sync", gateway.url, GATEWAY_KEY) as client:
        for _ in range(2):
            fake.answer(openai_error(429, "slow down", headers=soon))
            with pytest.raises(openai.RateLimitError) as limited:
                client.chat.completions.create(model="openai/waits", messages=[USER])
            headers = limited.value.response.headers
            told.append((headers.get("retry-after-ms"), headers.get("retry-after")))
    # The first is the provider's word; the second the gateway's, whose only target is cooling by now: SDKs would heed the milliseconds.
    assert told == [("5", "1"), (None, "30")]


STREAM_ERROR = b'data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":"server_error"}}\n\n'


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_inside_a_stream_is_raised_after_what_came_before(kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    begun = openai_replies.chat({"model": "gpt-5.1", "stream": True}).pieces[:3]

    async def read(client: Any, model: str, got: list[str]) -> None:
        async for chunk in each(await done(client.chat.completions.create(model=model, messages=[USER], stream=True))):
            got.append(chunk.choices[0].delta.content or "")

    async def texts(client: Any, model: str) -> tuple[str, openai.APIError]:
        got: list[str] = []
        with pytest.raises(openai.APIError) as caught:
            await read(client, model, got)
        return "".join(got), caught.value

    async def scenario() -> None:
        reply = sse_reply([piece for piece in begun if isinstance(piece, bytes)] + [STREAM_ERROR])
        fake.answer(reply, reply)
        async with both_ways(kind, fake, gateway, f"openai/stream-error-{kind}") as (straight, through):
            direct = await texts(straight.client, straight.model)
            relayed = await texts(through.client, through.model)
        assert relayed[0] == direct[0] == "Hello from "
        assert (type(relayed[1]), relayed[1].message, relayed[1].code) == (type(direct[1]), "The server had an error", "server_error")

    run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_cut_raises_an_api_error_that_says_so(kind: str, fake: FakeUpstream, gateway: GatewayProcess) -> None:
    fake.answer(openai_replies.chat({"model": "gpt-5.1", "stream": True}).cut_after(3))

    async def scenario() -> None:
        async with opened(client_of(kind, gateway.url, GATEWAY_KEY)) as client:
            stream = await done(client.chat.completions.create(model=f"openai/cut-{kind}", messages=[USER], stream=True))
            with pytest.raises(openai.APIError) as caught:
                await all_of(stream)
        assert (caught.value.code, caught.value.message) == ("stream_incomplete", "The upstream ended before its answer was complete.")

    run(scenario())


def test_twenty_asynchronous_calls_at_once_get_each_their_own_answer(gateway: GatewayProcess) -> None:
    async def scenario() -> None:
        async with client_of("async", gateway.url, GATEWAY_KEY) as client:

            async def one(number: int) -> str:
                answer = await client.responses.create(model="openai/gpt-5.1", input="hi", prompt_cache_key=f"k{number}")
                return str(answer.prompt_cache_key)

            found = await asyncio.gather(*(one(number) for number in range(20)))
        assert found == [f"k{number}" for number in range(20)]

    run(scenario())
