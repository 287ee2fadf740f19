"""Which observer watches which API's streams.

Layer: wire. Source: behaviour.md §6.
"""

from gomodel_trio.wire.anthropic_messages import MessagesObserver
from gomodel_trio.wire.bedrock_converse import ConverseObserver
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observer import Observer
from gomodel_trio.wire.openai_chat import ChatObserver
from gomodel_trio.wire.openai_responses import ResponsesObserver


def observer_for(api: Api) -> Observer:
    """Make the observer of one answer; `api` is what the upstream speaks, whatever the client does."""
    if api is Api.RESPONSES:
        return ResponsesObserver()
    if api is Api.CONVERSE:
        return ConverseObserver()
    return MessagesObserver() if api in (Api.MESSAGES, Api.COUNT_TOKENS) else ChatObserver()
