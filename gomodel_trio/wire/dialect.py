"""The dialects and the endpoints (APIs) that speak them.

Layer: wire. Source: behaviour.md §1, §7.
"""

from enum import StrEnum
from typing import Final


class Dialect(StrEnum):
    """What a client or a target speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Api(StrEnum):
    """A form of requests that name a model: the gateway's endpoints, and Bedrock's Converse, which only upstreams are asked in."""

    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    MESSAGES = "anthropic.messages"
    COUNT_TOKENS = "anthropic.count_tokens"
    EMBEDDINGS = "openai.embeddings"
    CONVERSE = "bedrock.converse"

    @property
    def dialect(self) -> Dialect:
        """The dialect its requests and errors are in."""
        return Dialect.ANTHROPIC if self in _ANTHROPIC else Dialect.OPENAI

    @property
    def is_scored(self) -> bool:
        """Whether an alias is scored here (elsewhere it means its easy target), pins are kept and estimates fed."""
        return self in _SCORED

    @property
    def path(self) -> str:
        """The path under the base URL's version, e.g. `/chat/completions`."""
        return _PATHS[self]


_ANTHROPIC: Final = frozenset({Api.MESSAGES, Api.COUNT_TOKENS})
_SCORED: Final = frozenset({Api.CHAT, Api.RESPONSES, Api.MESSAGES})
_PATHS: Final = {
    Api.CHAT: "/chat/completions",
    Api.RESPONSES: "/responses",
    Api.MESSAGES: "/messages",
    Api.COUNT_TOKENS: "/messages/count_tokens",
    Api.EMBEDDINGS: "/embeddings",
    Api.CONVERSE: "/converse",
}
API_BY_PATH: Final = {"/v1" + path: api for api, path in _PATHS.items() if api is not Api.CONVERSE}

_BY_NAME: Final = {api.name.lower(): api for api in API_BY_PATH.values()}
API_NAMES: Final = tuple(_BY_NAME)


def named_api(name: str) -> Api | None:
    """The endpoint that an operator calls by its name (`chat`) or its path (`/v1/chat/completions`); None: there is none."""
    return _BY_NAME.get(name) or API_BY_PATH.get("/" + name.partition("?")[0].strip("/"))
