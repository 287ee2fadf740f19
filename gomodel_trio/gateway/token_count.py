"""The answer to a token count that no target can make: an estimate, marked as one.

Layer: gateway. Source: behaviour.md §1. Exact counts are relayed like any other answer.
"""

import trio

from gomodel_trio.gateway.answers import Answer
from gomodel_trio.gateway.ingress import LONG_BODY_BYTES
from gomodel_trio.wire.token_estimate import estimate_request


async def estimated_count(body: bytes) -> Answer:
    """Answer a request to Anthropic's `count_tokens` without asking anybody."""
    is_short = len(body) <= LONG_BODY_BYTES
    tokens = estimate_request(body) if is_short else await trio.to_thread.run_sync(estimate_request, body)
    headers = [(b"content-type", b"application/json"), (b"x-gomodel-token-count", b"estimate")]
    return Answer(200, headers, b'{"input_tokens":%d}' % tokens)
