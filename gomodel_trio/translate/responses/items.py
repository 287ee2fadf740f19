"""The items of `input`, as turns.

Layer: translate; pure. Source: OpenAI API reference (responses: input items); behaviour.md §7.

Items know no turns: what the model said in one answer is a row of them. Thoughts, text and calls that follow one another are one turn of
the assistant, results of calls that follow one another one turn of the user's; messages of the user and the system stay as they were sent.
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from gomodel_trio.translate.canonical import (
    Audio,
    Data,
    Document,
    FileId,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Want,
)
from gomodel_trio.translate.fields import NULL, decoded, malformed
from gomodel_trio.translate.responses.sealed import unsealed
from gomodel_trio.translate.responses.tools import flat_name


class _Item(msgspec.Struct):
    """All fields of the kinds that are translated; Raw where kinds differ."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    content: msgspec.Raw = NULL
    summary: msgspec.Raw = NULL
    encrypted_content: msgspec.Raw = NULL
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = NULL
    output: msgspec.Raw = NULL


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: "_Audio | None" = None


class _Audio(msgspec.Struct):
    data: str
    format: str


_INPUT: "msgspec.json.Decoder[str | list[_Item]]" = msgspec.json.Decoder(str | list[_Item])
_CONTENT: "msgspec.json.Decoder[str | list[_Part] | None]" = msgspec.json.Decoder(str | list[_Part] | None)
_TEXT: "msgspec.json.Decoder[str | None]" = msgspec.json.Decoder(str | None)

_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_PDF: Final = "application/pdf"


def read_input(raw: msgspec.Raw) -> tuple[list[Message], list[Want]]:
    """Read `input`: its turns, and what is not every dialect's.

    Raises:
        Malformed: an item of a known kind has a wrong shape.
    """
    found = decoded(_INPUT, raw, "input")
    if isinstance(found, str):
        return [Message("user", (Text(found),))], []
    reader = _Reader()
    for index, item in enumerate(found):
        reader.take(item, f"input[{index}]")
    return reader.finish(), reader.wants


class _Reader:
    """Collects turns. `_is_open`: the last turn takes more of its kind."""

    def __init__(self) -> None:
        self.wants: list[Want] = []
        self._messages: list[Message] = []
        self._role: Role = "user"
        self._parts: list[Part] = []
        self._is_open = False

    def take(self, item: _Item, path: str) -> None:
        kind = item.type or ("message" if item.role is not None else "item_reference")
        match kind:
            case "message":
                self._take_message(item, path)
            case "function_call":
                name = flat_name(item.namespace, _needed(item.name, f"{path}.name"))
                arguments = decoded(_TEXT, item.arguments, f"{path}.arguments") or ""
                self._add("assistant", [ToolCall(_needed(item.call_id, f"{path}.call_id"), name, arguments)])
            case "function_call_output":
                parts = self._result_parts(item, f"{path}.output")
                self._add("user", [ToolResult(_needed(item.call_id, f"{path}.call_id"), parts)])
            case "reasoning":
                text = self._thoughts(item.content, f"{path}.content") or self._thoughts(item.summary, f"{path}.summary")
                opaque = decoded(_TEXT, item.encrypted_content, f"{path}.encrypted_content")
                self._add("assistant", [unsealed(text, opaque, item.id)])
            case _:
                self.wants.append(Want(f"{path}.type" if item.type else path, kind))

    def finish(self) -> list[Message]:
        self._close()
        return self._messages

    def _take_message(self, item: _Item, path: str) -> None:
        role = _ROLES.get(_needed(item.role, f"{path}.role"))
        if role is None:
            raise malformed(f"{path}.role", f"unknown role {item.role!r:.40}")
        parts = self._content(item.content, f"{path}.content")
        if role == "assistant":
            self._add(role, parts)
        else:
            self._close()
            self._messages.append(Message(role, tuple(parts)))

    def _add(self, role: Role, parts: list[Part]) -> None:
        """Add to the turn that is open, or begin one."""
        if self._is_open and self._role != role:
            self._close()
        self._role = role
        self._parts += parts
        self._is_open = True

    def _close(self) -> None:
        if self._is_open:
            self._messages.append(Message(self._role, tuple(self._parts)))
            self._parts = []
            self._is_open = False

    def _content(self, raw: msgspec.Raw, path: str) -> list[Part]:
        content = decoded(_CONTENT, raw, path)
        if content is None or isinstance(content, str):
            return [Text(content)] if content else []
        parts = (self._part(part, f"{path}[{index}]") for index, part in enumerate(content))
        return [part for part in parts if part is not None]

    def _part(self, part: _Part, path: str) -> Part | None:
        match part.type:
            case "input_text" | "output_text" | "text":
                return Text(_present(part.text, f"{path}.text"))
            case "refusal":
                return Refusal(_present(part.refusal, f"{path}.refusal"))
            case "input_image":
                return Image(self._image_source(part, path), part.detail)
            case "input_file":
                return Document(self._file_source(part, path), part.filename)
            case "input_audio":
                if part.input_audio is None:
                    raise malformed(f"{path}.input_audio", "it is missing")
                return Audio(part.input_audio.data, part.input_audio.format)
        self.wants.append(Want(f"{path}.type", part.type))
        return None

    def _image_source(self, part: _Part, path: str) -> Url | Data | FileId:
        if part.image_url:
            return _data(part.image_url) or Url(part.image_url)
        if part.file_id:
            return self._file_id(part.file_id, path)
        raise malformed(f"{path}.image_url", "the image is missing")

    def _file_source(self, part: _Part, path: str) -> Url | Data | FileId | Text:
        if part.file_data:
            found = _data(part.file_data) or Data(_PDF, part.file_data)
            return _plain_text(found) or found
        if part.file_url:
            return Url(part.file_url)
        if part.file_id:
            return self._file_id(part.file_id, path)
        raise malformed(f"{path}.file_data", "the file is missing")

    def _file_id(self, file_id: str, path: str) -> FileId:
        self.wants.append(Want(f"{path}.file_id", "file_id"))
        return FileId(file_id)

    def _result_parts(self, item: _Item, path: str) -> tuple[Text | Image | Document, ...]:
        parts: list[Text | Image | Document] = []
        for index, part in enumerate(self._content(item.output, path)):
            if not isinstance(part, Text | Image | Document):
                raise malformed(f"{path}[{index}].type", "a result holds text, images and files")
            parts.append(part)
        return tuple(parts)

    def _thoughts(self, raw: msgspec.Raw, path: str) -> str:
        content = decoded(_CONTENT, raw, path)
        if content is None or isinstance(content, str):
            return content or ""
        return thoughts(part.text for part in content)


def thoughts(texts: Any) -> str:
    """The pieces of a summary, or of thoughts, as one text; None and empty ones are left out."""
    return "\n\n".join(text for text in texts if text)


def written_thoughts(part: Reasoning) -> list[dict[str, str]]:
    """The summary of a reasoning item."""
    return [{"type": "summary_text", "text": part.text}] if part.text else []


def _needed(value: str | None, field: str) -> str:
    if not value:
        raise malformed(field, "it is missing")
    return value


def _present(value: str | None, field: str) -> str:
    if value is None:
        raise malformed(field, "it is missing")
    return value


def _data(url: str) -> Data | None:
    """What a data URL in base64 holds; None if it is another URL."""
    if url[:5].lower() != "data:":
        return None
    head, comma, content = url.partition(",")
    media_type, *parameters = head[5:].split(";")
    is_base64 = bool(comma) and any(parameter.strip().lower() == "base64" for parameter in parameters)
    return Data(media_type.lower(), content) if is_base64 else None


def _plain_text(found: Data) -> Text | None:
    """A document of plain text, for what takes such as text."""
    if found.media_type != "text/plain":
        return None
    try:
        return Text(base64.b64decode(found.base64, validate=True).decode())
    except (binascii.Error, ValueError):
        return None
