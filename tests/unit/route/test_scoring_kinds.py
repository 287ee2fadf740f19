"""What scoring must not be misled by: encoded media, other shapes of the same words, other scripts, words inside words, quoted work."""

import json
import unicodedata
from typing import Any

import pytest

from gomodel_trio.route.features import Features, features
from gomodel_trio.route.keywords import compile_keywords
from gomodel_trio.route.names import Tier
from gomodel_trio.route.policy import SmartRouting
from gomodel_trio.route.score import Verdict, score_request
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.view import decode_envelope, scored_view

MATCHER = compile_keywords()
BLOB = "A" * 250_000


def features_of(api: Api, **members: Any) -> Features:
    return features(scored_view(decode_envelope(json.dumps({"model": "m", **members}).encode()), api), MATCHER)


def verdict_of(text: str, matcher_text: str = "") -> Verdict:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    matcher = compile_keywords(tuple(json.loads(matcher_text))) if matcher_text else MATCHER
    return score_request(decode_envelope(body), Api.CHAT, SmartRouting(), matcher)


def user(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


# ---- media ----------------------------------------------------------------------------------------------------------


TEXT = {"type": "text", "text": "what is this?"}
INPUT_TEXT = {"type": "input_text", "text": "what is this?"}
MEDIA: dict[str, tuple[Api, dict[str, Any]]] = {
    "image_url as an object": (
        Api.CHAT,
        {"messages": user(TEXT, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BLOB}"}})},
    ),
    "image_url as a string": (Api.CHAT, {"messages": user(TEXT, {"type": "image_url", "image_url": f"data:image/png;base64,{BLOB}"})}),
    "input_audio": (Api.CHAT, {"messages": user(TEXT, {"type": "input_audio", "input_audio": {"data": BLOB, "format": "wav"}})}),
    "a file": (Api.CHAT, {"messages": user(TEXT, {"type": "file", "file": {"filename": "a.pdf", "file_data": BLOB}})}),
    "input_image": (Api.RESPONSES, {"input": user(INPUT_TEXT, {"type": "input_image", "image_url": f"data:image/png;base64,{BLOB}"})}),
    "input_file": (Api.RESPONSES, {"input": user(INPUT_TEXT, {"type": "input_file", "filename": "a.pdf", "file_data": BLOB})}),
    "an image of Anthropic's": (
        Api.MESSAGES,
        {"messages": user(TEXT, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BLOB}})},
    ),
    "a document of Anthropic's": (
        Api.MESSAGES,
        {"messages": user(TEXT, {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": BLOB}})},
    ),
    "an image in a tool's result": (
        Api.MESSAGES,
        {
            "messages": user(
                TEXT,
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "base64", "data": BLOB}}]},
            )
        },
    ),
}


@pytest.mark.parametrize("name", MEDIA)
def test_an_encoded_medium_is_an_attachment_and_no_context(name: str) -> None:
    api, members = MEDIA[name]
    got = features_of(api, **members)
    assert (got.char_count, got.attachment_count, got.keyword, got.diagnostic) == (len("what is this?"), 1, None, None)


# ---- shapes ---------------------------------------------------------------------------------------------------------


SHAPES: dict[str, tuple[Api, dict[str, Any]]] = {
    "a string": (Api.CHAT, {"messages": [{"role": "user", "content": "think hard"}]}),
    "a list of parts": (Api.CHAT, {"messages": user({"type": "text", "text": "think hard"})}),
    "parts among malformed ones": (
        Api.CHAT,
        {"messages": ["x", None, {"role": "user", "content": [None, 5, {"type": "text"}, {"type": "text", "text": "think hard"}]}, None]},
    ),
    "input as a string": (Api.RESPONSES, {"input": "think hard"}),
    "input as a list": (Api.RESPONSES, {"input": [{"role": "user", "content": "think hard"}]}),
    "input as typed items": (
        Api.RESPONSES,
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "think hard"}]}]},
    ),
    "messages with a system list": (
        Api.MESSAGES,
        {"system": [{"type": "text", "text": "s"}], "messages": user({"type": "text", "text": "think hard"})},
    ),
    "behind a call turn without content": (
        Api.CHAT,
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [None]}, {"role": "user", "content": "think hard"}]},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_words_are_found_in_every_shape_that_the_dialects_have(name: str) -> None:
    api, members = SHAPES[name]
    assert features_of(api, **members).keyword is not None


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES, Api.MESSAGES])
@pytest.mark.parametrize(
    "members", [{}, {"messages": None, "input": None}, {"messages": []}, {"tools": {}, "messages": [{}]}, {"tools": None}]
)
def test_a_request_without_words_of_a_user_is_scored_by_what_there_is(api: Api, members: dict[str, Any]) -> None:
    got = score_request(decode_envelope(json.dumps({"model": "m", **members}).encode()), api, SmartRouting(), MATCHER)
    assert (got.tier, got.score, got.contributions) == (Tier.EASY, 0, ())


# ---- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "用python写函数, step by step",
        "用python写函数step by step吧",
        "まずstep by stepで考えて",
        "단계별로step by step설명",
        "請think hard一下",
        "คิดstep by stepครับ",
        "Step-by-step, please",
        "step\n  by\tstep",
        "ｓｔｅｐ ｂｙ ｓｔｅｐ",
        "THINK HARDER!",
        "what are the root causes?",
        unicodedata.normalize("NFD", "denk Schritt für Schritt nach: was ist die Ursache"),
        "passo a passo, por favor",
        "paso a paso",
        "étape par étape",
        "passo dopo passo",
        "шаг за шагом",
        "adım adım",
        "请一步一步分析这个死锁",
        "단계별로 생각해 줘",
    ],
)
def test_effort_is_heard_in_any_script_and_spelling(text: str) -> None:
    assert verdict_of(text).tier is Tier.HARD


@pytest.mark.parametrize(
    "text",
    [
        "I rethink hardship",
        "see stepbystep.com",
        "misstep by step",
        "step by steppe",
        "the grassroots causeway",
        "a capital class of merged classical errors about terrorism",
        "`think hard`",
        "> think hard",
        "<system-reminder>think hard</system-reminder>hi",
        "think_hard()",
    ],
)
def test_words_inside_words_and_words_of_others_are_no_effort(text: str) -> None:
    assert verdict_of(text).contributions == ()


def test_an_operator_s_own_phrase_is_heard_in_a_script_without_blanks() -> None:
    assert verdict_of("请逐行检查这个死锁", '["逐行检查"]').tier is Tier.HARD
    assert verdict_of("请逐行检查这个死锁").tier is Tier.EASY


# ---- what the table says, for better or worse -----------------------------------------------------------------------


def test_a_hard_question_without_a_signal_is_easy_and_the_verdict_explains_it() -> None:
    text = (
        "Let n be a positive integer and let S be a set of n points in the plane, no three on a line. Determine, with justification, the "
        "largest number of triangles with vertices in S that contain none of the other points, over all such sets."
    )
    assert verdict_of(text) == Verdict(Tier.EASY, 0, is_explicit_reasoning=False, contributions=())


@pytest.mark.parametrize(
    "text",
    [
        "Write a title for this session:\n```\nTraceback (most recent call last):\n  think hard, step by step\n```",
        "Generate a short title for the conversation.\n> think hard about the root cause\n> panic: runtime error",
        "Summarise in five words: <system-reminder>think very hard, root cause</system-reminder> fix the login page",
    ],
)
def test_a_side_call_that_quotes_a_hard_session_is_not_hard_itself(text: str) -> None:
    got = verdict_of(text)
    assert got.tier is Tier.EASY
    assert {one.signal for one in got.contributions} <= {"code"}
