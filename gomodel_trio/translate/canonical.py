"""The canonical form: what a conversation says, whatever dialect it is said in.

Layer: translate; pure. Source: behaviour.md §7, and the references of the OpenAI chat, OpenAI Responses, Anthropic Messages and Bedrock
Converse APIs.

Theory. Each dialect has a reader (wire → canonical) and a writer (canonical → wire), so n dialects need 2n translators and not n². The form
holds what at least two dialects can say. What only one can say is no part of it: a reader keeps it in `extras` if it is unknown (the next
one may know it), drops it if it is a hint, and otherwise notes it as a `Want`: a writer that cannot serve it refuses, naming the field.

JSON that no one has to understand on its way (schemas, arguments, metadata) stays text (`Raw`, `str`), so that its spelling survives.
"""

from enum import StrEnum
from typing import Literal

import msgspec

Raw = msgspec.Raw
Role = Literal["system", "user", "assistant"]
"""`system` stands for OpenAI's `developer` as well. Tool results are parts of user messages."""

# ---- content --------------------------------------------------------------------------------------------------------


class Url(msgspec.Struct, frozen=True, tag="url"):
    """Content to be fetched by the provider."""

    url: str


class Data(msgspec.Struct, frozen=True, tag="data"):
    """Content in base64. `media_type`: e.g. `image/png`."""

    media_type: str
    base64: str


class FileId(msgspec.Struct, frozen=True, tag="file"):
    """A file that was uploaded to one provider: it means nothing to another."""

    id: str


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Text. `cache_control`: Anthropic's, as JSON; OpenAI's dialects drop it (a hint). `logprobs`: a JSON list, OpenAI's shape."""

    text: str
    cache_control: Raw | None = None
    logprobs: Raw | None = None


class Image(msgspec.Struct, frozen=True, tag="image"):
    """An image. `detail`: OpenAI's hint."""

    source: Url | Data | FileId
    detail: str | None = None
    cache_control: Raw | None = None


class Document(msgspec.Struct, frozen=True, tag="document"):
    """A document: PDF, or plain text as `Text`."""

    source: Url | Data | FileId | Text
    title: str | None = None
    cache_control: Raw | None = None


class Audio(msgspec.Struct, frozen=True, tag="audio"):
    """Spoken input. `format`: `wav`, `mp3`."""

    base64: str
    format: str


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """A call the model made. `arguments`: JSON text as the model wrote it, "" and "{}" both mean none."""

    id: str
    name: str
    arguments: str
    cache_control: Raw | None = None


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """What a call gave."""

    call_id: str
    parts: tuple["Text | Image | Document", ...]
    is_error: bool = False
    cache_control: Raw | None = None


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """The model's thoughts. `signature`: by which its provider knows them again. `redacted`: encrypted ones, without text. `id`: of a
    Responses item. Signatures and encrypted thoughts of another provider are worthless: writers drop what is not theirs
    (`origin` tells: the dialect that made it).
    """

    text: str
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None
    origin: str | None = None


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """The model's refusal in words. Dialects without one say it as text, with the stop reason `refusal`."""

    text: str


Part = Text | Image | Document | Audio | ToolCall | ToolResult | Reasoning | Refusal


class Message(msgspec.Struct, frozen=True):
    """One turn. Readers keep the order and the boundaries of what was sent; writers merge neighbours of one role where they must.

    `name`: OpenAI's participant name, a hint.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None


# ---- requests -------------------------------------------------------------------------------------------------------


class Tool(msgspec.Struct, frozen=True):
    """A function that the model may call. `schema`: JSON Schema of its arguments, None: none given."""

    name: str
    description: str | None = None
    schema: Raw | None = None
    strict: bool | None = None
    cache_control: Raw | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """`mode` named: `name` must be called. `allowed`: only these (OpenAI's allowed_tools), empty: all."""

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None
    allowed: tuple[str, ...] = ()


class OutputFormat(msgspec.Struct, frozen=True):
    """Structured output. `schema` None: any JSON object (JSON mode)."""

    schema: Raw | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ReasoningWish(msgspec.Struct, frozen=True):
    """How much to think. `effort`: none, minimal, low, medium, high, xhigh, max; `budget_tokens`: Anthropic's and Bedrock's; `is_adaptive`:
    thinking of type adaptive; `summary`: Responses' (auto, concise, detailed), or Anthropic's display, as text.
    """

    effort: str | None = None
    budget_tokens: int | None = None
    is_adaptive: bool = False
    is_disabled: bool = False
    summary: str | None = None


class Want(msgspec.Struct, frozen=True):
    """Something the client asked for that not every dialect can serve. `field`: its path in the client's body, e.g. `tools[2].type`.

    `feature`: what a writer must be able to do. `value`: as it came.
    """

    field: str
    feature: str
    value: Raw = Raw(b"null")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a completion.

    `origin`: the dialect it was written in (`canonical.Form`). `stop`: sequences. `max_tokens`: of the answer, thoughts included.
    `namespaced`: Responses' grouped tools, by the flat names they have in `tools` and in calls: namespace and name.
    `parallel_tool_calls` None: the provider's default. `includes_usage`: chat's stream_options.include_usage. `user`: the end user's id
    (`user`, `safety_identifier`, `metadata.user_id`). `metadata`: OpenAI's, a JSON object. `extras`: top-level fields that no reader knows,
    as they came. `wants`: see `Want`.
    """

    origin: "Form"
    model: str
    messages: tuple[Message, ...]
    is_stream: bool = False
    tools: tuple[Tool, ...] = ()
    namespaced: dict[str, tuple[str, str]] = {}
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    output: OutputFormat | None = None
    reasoning: ReasoningWish | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    wants_logprobs: bool = False
    verbosity: str | None = None
    includes_usage: bool = False
    user: str | None = None
    metadata: Raw | None = None
    cache_key: str | None = None
    service_tier: str | None = None
    extras: dict[str, Raw] = {}
    wants: tuple[Want, ...] = ()


class Form(StrEnum):
    """The dialects, as wire forms."""

    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    MESSAGES = "anthropic.messages"
    CONVERSE = "bedrock.converse"


class Untranslatable(Exception):
    """A request cannot be said in a target's dialect without losing its meaning; `field` is its path in the client's body.

    `message` is for the client and names the field and what the target cannot do.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class Malformed(Exception):
    """A request's known field has a value of a wrong shape, so that it cannot be translated (a same-dialect target would judge itself)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


# ---- answers --------------------------------------------------------------------------------------------------------


class StopReason(StrEnum):
    """Why the model stopped. REFUSAL: a content filter, too."""

    END = "end"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    TOOL_CALLS = "tool_calls"
    REFUSAL = "refusal"
    PAUSE = "pause"


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens. `input` holds all of the input, cached ones too; `output` the thoughts too."""

    input: int = 0
    output: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer: the assistant's parts in order. `created_s`: epoch seconds, 0: unknown."""

    id: str
    model: str
    parts: tuple[Part, ...]
    stop: StopReason = StopReason.END
    stop_sequence: str | None = None
    usage: TokenUsage | None = None
    created_s: int = 0
    service_tier: str | None = None


# ---- streams --------------------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """The first event, once. `usage`: Anthropic tells the input's tokens here."""

    id: str
    model: str
    usage: TokenUsage | None = None
    created_s: int = 0


class PartStarted(msgspec.Struct, frozen=True, tag=True):
    """A part begins: Text, Reasoning, Refusal or ToolCall, empty but for ids and names. `index`: counts the parts of the answer from 0.

    Parts may be open side by side (chat's parallel tool calls).
    """

    index: int
    part: Text | Reasoning | Refusal | ToolCall


class PartGrew(msgspec.Struct, frozen=True, tag=True):
    """More of a part: text, thoughts, refusal, or a piece of a call's arguments (any split of the JSON text, none complete by itself)."""

    index: int
    text: str
    logprobs: Raw | None = None


class PartSigned(msgspec.Struct, frozen=True, tag=True):
    """The signature, or the encrypted thoughts, of a Reasoning part."""

    index: int
    signature: str | None = None
    redacted: str | None = None


class PartEnded(msgspec.Struct, frozen=True, tag=True):
    """A part is complete."""

    index: int


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The model stopped; all parts have ended."""

    stop: StopReason
    stop_sequence: str | None = None


class UsageTold(msgspec.Struct, frozen=True, tag=True):
    """The tokens; the last one counts. May come behind `Stopped`."""

    usage: TokenUsage


class Pinged(msgspec.Struct, frozen=True, tag=True):
    """A sign of life."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The upstream reported an error inside the stream. `status`: the HTTP status it stands for."""

    status: int
    message: str
    code: str | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The proper end of the stream, once; nothing follows."""


Event = Started | PartStarted | PartGrew | PartSigned | PartEnded | Stopped | UsageTold | Pinged | Failed | Ended
