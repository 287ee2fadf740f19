"""What a request says to the gateway: the few top-level members it needs, and the members that are scored.

Layer: wire. Source: behaviour.md §3 (what each signal reads), §9 (which bodies are refused), §7 (`provider`).

Two steps. `decode_envelope` refuses what is no sound JSON object and notes where the members are; no tree is built.
`scored_view` reads those members once and never raises: a member of the wrong type counts as absent, the provider decides on it.
"""

import json
from typing import Any, Final

import msgspec

from gomodel_trio.errors import ClientFault
from gomodel_trio.wire.dialect import Api, Dialect
from gomodel_trio.wire.json_limits import MAX_NESTING, MAX_NUMBER_DIGITS, has_huge_number, is_nested_too_deep, without_lone_surrogates

LONGEST_NAME: Final = 512
"""Characters of a model's or provider's name: what clients ask for becomes a key of tables and a label, which must not be of any length."""

_ABSENT: Final = msgspec.Raw()
_OWN_TEXT_TYPES: Final = frozenset({"text", "input_text"})
_TEXT_TYPES: Final = _OWN_TEXT_TYPES | {"output_text"}
_ATTACHMENT_TYPES: Final = frozenset(
    {"image_url", "input_image", "image", "input_file", "file", "document", "input_audio", "audio", "video"}
)
_OPAQUE_ITEM_TYPES: Final = ("reasoning", "compaction")
_SYSTEM_ROLES: Final = ("system", "developer")


class Members(msgspec.Struct, frozen=True, gc=False):
    """The top-level members that are read, for scoring or to tell the session, as raw JSON; an absent one is empty."""

    model: msgspec.Raw = _ABSENT
    provider: msgspec.Raw = _ABSENT
    stream: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    mcp_servers: msgspec.Raw = _ABSENT
    response_format: msgspec.Raw = _ABSENT
    text: msgspec.Raw = _ABSENT
    output_format: msgspec.Raw = _ABSENT
    output_config: msgspec.Raw = _ABSENT
    reasoning_effort: msgspec.Raw = _ABSENT
    reasoning: msgspec.Raw = _ABSENT
    thinking: msgspec.Raw = _ABSENT
    metadata: msgspec.Raw = _ABSENT
    session_id: msgspec.Raw = _ABSENT
    litellm_session_id: msgspec.Raw = _ABSENT
    prompt_cache_key: msgspec.Raw = _ABSENT
    conversation: msgspec.Raw = _ABSENT


class Envelope(msgspec.Struct, frozen=True):
    """A sound JSON object and what the gateway reads of it at once.

    `model` and `provider` are None unless strings; `has_provider_object` tells a `provider` that is the upstream's own.
    `readable` is the body with lone surrogates as U+FFFD: of the same length, so positions found in it hold for the body as sent;
    it is the body itself where there are none.
    """

    model: str | None
    provider: str | None
    has_provider_object: bool
    stream: bool
    readable: bytes
    members: Members


class ScoredView(msgspec.Struct, frozen=True):
    """The fields that scoring reads.

    `user_turns`: for each item of role user, in order, its own text parts (tool results are not among them); items without are left out.
    `texts`: every text outside of system prompts, tool results included. `char_count`: code points of all text, system prompts too.
    `format_types`: the types of the output formats asked for. `efforts`: the values of the effort fields of OpenAI's dialects.
    """

    user_turns: list[list[str]]
    texts: list[str]
    char_count: int
    attachment_count: int
    item_count: int
    tool_count: int
    format_types: tuple[str, ...]
    efforts: tuple[str, ...]
    reasoning_mode: str | None
    thinking_type: str | None


class _Item(msgspec.Struct, gc=False):
    """One element of `messages` or `input`."""

    role: Any = None
    type: Any = None
    content: Any = None
    output: Any = None


MEMBERS: Final = msgspec.json.Decoder(Members)
_STRING: Final = msgspec.json.Decoder(str)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[_Item])
_ANY: Final = msgspec.json.Decoder()


def decode_envelope(body: bytes) -> Envelope:
    """Read the top level of a request body.

    Raises:
        ClientFault: the body is no JSON object in UTF-8, is nested too deep, or holds too long a number (status 400, code `invalid_json`).
    """
    if not body.isascii():
        _refuse_foreign_encodings(body)
    readable = body
    try:
        members = MEMBERS.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.DecodeError as fault:
        readable = without_lone_surrogates(body)
        if readable is body:
            raise _malformed(body, fault) from None
        members = _decode_again(readable)
    if is_nested_too_deep(readable):
        raise _too_deep()
    if has_huge_number(readable):
        raise _invalid(f"The request body holds a number of more than {MAX_NUMBER_DIGITS} digits.")
    return Envelope(
        model=_string(members.model),
        provider=_string(members.provider),
        has_provider_object=bool(members.provider) and _first_byte(members.provider) == 0x7B,
        stream=bytes(members.stream) == b"true",
        readable=readable,
        members=members,
    )


def require_model(envelope: Envelope) -> str:
    """Tell the name of the model that is asked for.

    Raises:
        ClientFault: there is none, or it is no string, or empty (status 400, code `missing_model`); or it or the provider's name is longer
            than any that is kept (code `name_too_long`).
    """
    if not envelope.model:
        raise ClientFault("The request names no model: `model` must be a non-empty string.", code="missing_model", param="model")
    for member, name in (("model", envelope.model), ("provider", envelope.provider)):
        if name is not None and len(name) > LONGEST_NAME:
            raise ClientFault(
                f"`{member}` is {len(name)} characters long; at most {LONGEST_NAME} are allowed.", code="name_too_long", param=member
            )
    return envelope.model


def scored_view(envelope: Envelope, api: Api) -> ScoredView:
    """Read the scored members of a request to `api`; whatever they hold, it does not raise."""
    members = envelope.members
    is_openai = api.dialect is Dialect.OPENAI
    reader = _Reader()
    if api is Api.RESPONSES:
        reader.read_system(members.instructions)
        reader.read_items(members.input)
    else:
        if not is_openai:
            reader.read_system(members.system)
        reader.read_items(members.messages)
    reasoning = _object(members.reasoning) if is_openai else {}
    efforts = [_string(members.reasoning_effort), _string(reasoning.get("effort", _ABSENT))] if is_openai else []
    return ScoredView(
        user_turns=reader.user_turns,
        texts=reader.texts,
        char_count=reader.system_chars + sum(map(len, reader.texts)),
        attachment_count=reader.attachment_count,
        item_count=reader.item_count,
        tool_count=_tool_count(members),
        format_types=_format_types(members),
        efforts=tuple([effort for effort in efforts if effort is not None]),
        reasoning_mode=_string(reasoning.get("mode", _ABSENT)),
        thinking_type=_string(_object(members.thinking).get("type", _ABSENT)),
    )


class _Reader:
    """Gathers text and counts from the system prompt and the items, in one pass."""

    def __init__(self) -> None:
        self.user_turns: list[list[str]] = []
        self.texts: list[str] = []
        self.system_chars = 0
        self.attachment_count = 0
        self.item_count = 0

    def read_system(self, raw: msgspec.Raw) -> None:
        """Count the text of a system prompt outside of the items."""
        if raw:
            self._read_system_content(_value(raw))

    def _read_system_content(self, content: Any) -> None:
        texts: list[str] = []
        self._read_content(content, texts, None)
        self.system_chars += sum(map(len, texts))

    def read_items(self, raw: msgspec.Raw) -> None:
        """Read `messages` or `input`; a string is one message of the user."""
        if not raw:
            return
        first = _first_byte(raw)
        if first == 0x22:
            text = _STRING.decode(raw)
            self.texts.append(text)
            self.user_turns.append([text])
            self.item_count = 1
        elif first == 0x5B:
            for item in self._items(raw):
                self._read_item(item)

    def _items(self, raw: msgspec.Raw) -> list[_Item]:
        try:
            items = _ITEMS.decode(raw)
        except msgspec.ValidationError:  # an element that is no object, or a number that no machine type holds
            elements = _RAW_LIST.decode(raw)
            self.item_count = len(elements)
            return [_item(element) for element in elements if _first_byte(element) == 0x7B]
        self.item_count = len(items)
        return items

    def _read_item(self, item: _Item) -> None:
        if item.type is not None and type(item.type) is str:
            if item.type in _OPAQUE_ITEM_TYPES:
                return
            if item.type in _ATTACHMENT_TYPES:
                self.attachment_count += 1
                return
        role = item.role
        if role == "user":
            own: list[str] = []
            self._read_content(item.content, self.texts, own)
            if own:
                self.user_turns.append(own)
        elif role in _SYSTEM_ROLES:
            self._read_system_content(item.content)
        else:
            self._read_content(item.content, self.texts, None)
        if item.output is not None:
            self._read_results([item.output], self.texts)

    def _read_content(self, content: Any, texts: list[str], own: list[str] | None) -> None:
        """Read a message's content: a string or a list of parts. What the sender wrote himself goes to `own` too."""
        if type(content) is str:
            texts.append(content)
            if own is not None:
                own.append(content)
        elif type(content) is list:
            results: list[Any] = []
            for part in content:
                if type(part) is str:
                    texts.append(part)
                    if own is not None:
                        own.append(part)
                elif type(part) is dict:
                    text = self._read_part(part, texts, results)
                    if text is not None and own is not None and part["type"] in _OWN_TEXT_TYPES:
                        own.append(text)
            if results:
                self._read_results(results, texts)

    def _read_part(self, part: dict[str, Any], texts: list[str], results: list[Any]) -> str | None:
        """Read one part: the text of a text part; else it is counted as an attachment, or what it holds goes to `results`."""
        kind = part.get("type")
        if type(kind) is not str:
            return None
        if kind in _TEXT_TYPES:
            text = part.get("text")
            if type(text) is str:
                texts.append(text)
                return text
        elif kind in _ATTACHMENT_TYPES:
            self.attachment_count += 1
        elif (nested := part.get("content")) is not None:
            results.append(nested)
        return None

    def _read_results(self, pending: list[Any], texts: list[str]) -> None:
        """Read what tools returned: strings, parts, lists of them, at any depth and without recursion."""
        while pending:
            value = pending.pop()
            if type(value) is str:
                texts.append(value)
            elif type(value) is list:
                pending.extend(value)
            elif type(value) is dict:
                self._read_part(value, texts, pending)
                for stream in ("stdout", "stderr"):
                    if type(value.get(stream)) is str:
                        texts.append(value[stream])


def _item(raw: msgspec.Raw) -> _Item:
    value = _value(raw)
    return _Item(value.get("role"), value.get("type"), value.get("content"), value.get("output"))


def _tool_count(members: Members) -> int:
    tools = _length(members.tools) or _length(members.functions)
    if members.mcp_servers:
        # A server that no toolset among the tools stands for is a tool of its own.
        toolsets = sum(_string(_object(tool).get("type", _ABSENT)) == "mcp_toolset" for tool in _raw_list(members.tools))
        tools += max(0, _length(members.mcp_servers) - toolsets)
    return tools


def _format_types(members: Members) -> tuple[str, ...]:
    formats = [raw for raw in (members.response_format, members.output_format) if raw]
    formats += [_object(holder).get("format", _ABSENT) for holder in (members.text, members.output_config) if holder]
    types = [_string(_object(wanted).get("type", _ABSENT)) for wanted in formats if wanted]
    return tuple([kind for kind in types if kind is not None])


def _first_byte(raw: msgspec.Raw) -> int:
    return memoryview(raw)[0]


def _string(raw: msgspec.Raw) -> str | None:
    if not raw or _first_byte(raw) != 0x22:
        return None
    return _STRING.decode(raw)


def _object(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    if not raw or _first_byte(raw) != 0x7B:
        return {}
    return _OBJECT.decode(raw)


def _raw_list(raw: msgspec.Raw) -> list[msgspec.Raw]:
    if not raw or _first_byte(raw) != 0x5B:
        return []
    return _RAW_LIST.decode(raw)


def _length(raw: msgspec.Raw) -> int:
    return len(_raw_list(raw)) if raw else 0


def _value(raw: msgspec.Raw) -> Any:
    """The value of `raw`, its numbers as 0 where they fit no machine type."""
    try:
        return _ANY.decode(raw)
    except msgspec.ValidationError:
        return json.loads(bytes(raw), parse_int=_zero, parse_float=_zero)


def _zero(_: str) -> int:
    return 0


def _decode_again(readable: bytes) -> Members:
    try:
        return MEMBERS.decode(readable)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.DecodeError as fault:
        raise _malformed(readable, fault) from None


def _refuse_foreign_encodings(body: bytes) -> None:
    if body.startswith(b"\xef\xbb\xbf"):
        raise _invalid("The request body begins with a byte order mark; send JSON in UTF-8 without one.")
    try:
        body.decode()
    except UnicodeDecodeError as fault:
        raise _invalid(f"The request body is not valid UTF-8 (byte {fault.start}).") from None


def _malformed(body: bytes, fault: msgspec.DecodeError) -> ClientFault:
    if isinstance(fault, msgspec.ValidationError):
        return _invalid("The request body must be a JSON object.")
    if not body or body.isspace():
        return _invalid("The request body is empty; a JSON object is expected.")
    return _invalid(f"The request body is not valid JSON: {str(fault).removeprefix('JSON is malformed: ')}.")


def _too_deep() -> ClientFault:
    return _invalid(f"The request body is nested deeper than {MAX_NESTING} levels.")


def _invalid(message: str) -> ClientFault:
    return ClientFault(message, code="invalid_json")
