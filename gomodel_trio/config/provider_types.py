"""The provider types, one explicit table: what each speaks, where it is, how it takes its key.

Layer: config. Source: behaviour.md §7. Nothing is imported by a name found here.
"""

from enum import StrEnum

import msgspec

from gomodel_trio.wire.dialect import Api, Dialect


class KeyHeader(StrEnum):
    """The header a key travels in."""

    BEARER = "authorization"
    X_API_KEY = "x-api-key"
    API_KEY = "api-key"
    NONE = ""


_ALL_OF_OPENAI = (Api.CHAT, Api.RESPONSES, Api.EMBEDDINGS)
_WITHOUT_RESPONSES = (Api.CHAT, Api.EMBEDDINGS)
"""Of providers that have no Responses API: what clients ask in it is translated to chat."""
_ALL_OF_ANTHROPIC = (Api.MESSAGES, Api.COUNT_TOKENS)


class ProviderType(msgspec.Struct, frozen=True, kw_only=True):
    """One type. `base_url` None: the operator must give one. `variable` begins the names of its variables.

    `models` are listed unless the operator lists some. `forms`: what it can be asked in; what comes in another is translated to the first.
    """

    name: str
    dialect: Dialect = Dialect.OPENAI
    base_url: str | None = None
    key_header: KeyHeader = KeyHeader.BEARER
    is_key_required: bool = True
    models: tuple[str, ...] = ()
    is_in_this_version: bool = True
    forms: tuple[Api, ...] = _ALL_OF_OPENAI

    @property
    def variable(self) -> str:
        """The first part of its variables' names: `OPENAI_COMPATIBLE`."""
        return self.name.upper()


_ROWS = (
    ProviderType(name="openai", base_url="https://api.openai.com/v1"),
    ProviderType(
        name="anthropic",
        dialect=Dialect.ANTHROPIC,
        base_url="https://api.anthropic.com/v1",
        key_header=KeyHeader.X_API_KEY,
        forms=_ALL_OF_ANTHROPIC,
    ),
    ProviderType(name="azure", key_header=KeyHeader.API_KEY),
    ProviderType(name="openrouter", base_url="https://openrouter.ai/api/v1"),
    ProviderType(name="groq", base_url="https://api.groq.com/openai/v1"),
    ProviderType(name="xai", base_url="https://api.x.ai/v1"),
    ProviderType(name="deepseek", base_url="https://api.deepseek.com/v1", forms=_WITHOUT_RESPONSES),
    ProviderType(name="fireworks", base_url="https://api.fireworks.ai/inference/v1"),
    ProviderType(name="mistral", base_url="https://api.mistral.ai/v1", forms=_WITHOUT_RESPONSES),
    ProviderType(name="together", base_url="https://api.together.xyz/v1", forms=_WITHOUT_RESPONSES),
    ProviderType(name="gemini", base_url="https://generativelanguage.googleapis.com/v1beta/openai", forms=_WITHOUT_RESPONSES),
    ProviderType(name="ollama", base_url="http://localhost:11434/v1", is_key_required=False),
    ProviderType(name="vllm", base_url="http://localhost:8000/v1", is_key_required=False),
    ProviderType(name="sglang", base_url="http://localhost:30000/v1", is_key_required=False),
    # llama-server's own default port is ours, 8080: a default here would point the gateway at itself.
    ProviderType(name="llamacpp", is_key_required=False),
    ProviderType(name="openai_compatible", is_key_required=False),
    ProviderType(
        name="echo",
        base_url="echo:",
        key_header=KeyHeader.NONE,
        is_key_required=False,
        models=("echo-small", "echo-large"),
        forms=(*_ALL_OF_OPENAI, *_ALL_OF_ANTHROPIC),
    ),
    ProviderType(name="vertex", is_in_this_version=False),
    ProviderType(name="bedrock", dialect=Dialect.ANTHROPIC, is_in_this_version=False),
)
_NAMES_OF_GOMODEL = (
    "audiocpp", "bailian", "bedrock_mantle", "chatgpt", "chutes", "cohere", "edenai", "elevenlabs", "hetzner", "jev", "kilo", "kimi",
    "kimicode", "llmd", "meta", "minimax", "opencode_go", "oracle", "xiaomi", "zai",
)  # fmt: skip
"""Types of GoModel's that this version lacks: a configuration that names them must still start."""

PROVIDER_TYPES = {row.name: row for row in (*_ROWS, *(ProviderType(name=name, is_in_this_version=False) for name in _NAMES_OF_GOMODEL))}
"""Every known type by name."""

SUPPORTED_TYPES = tuple(row.name for row in _ROWS if row.is_in_this_version)
"""The names of the types of this version, in the order of the documentation."""

TYPES_BY_VARIABLE = sorted(PROVIDER_TYPES.values(), key=lambda row: len(row.name), reverse=True)
"""Longest name first: `OPENAI_COMPATIBLE_API_KEY` is no suffix of `openai`."""


def find_type(name: str) -> ProviderType | None:
    """The type of that name; case does not matter and a hyphen stands for an underscore."""
    return PROVIDER_TYPES.get(name.strip().lower().replace("-", "_"))
