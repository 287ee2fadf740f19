"""What is known of one request at its end: for the log line, the metrics, and later the audit.

Layer: gateway. Source: behaviour.md §3 (revision), §8. Never holds a prompt, a key or a whole header.
"""

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from gomodel_trio.route.names import SessionId, TargetId, Tier
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.score import Contribution
from gomodel_trio.translate.translation import StreamTranslation
from gomodel_trio.wire.dialect import Api
from gomodel_trio.wire.observer import Observer


class TierRevision(msgspec.Struct, frozen=True):
    """How smart tier routing rewrote the request. `pinned`: the session's pin alone raised it; `evidence` is a name or a count."""

    alias: str
    tier: Tier
    target: str
    score: int
    threshold: int
    reason: Literal["forced", "explicit_reasoning", "session_pin", "score"]
    contributions: tuple[Contribution, ...]
    pinned: bool
    escalated: bool
    rules_version: str
    bytes_before: int
    bytes_after: int
    rewriter: str = "smart_tier_routing"


@dataclass(slots=True)
class AttemptRecord:
    """One exchange with an upstream. `status` None: no answer came."""

    kind: Literal["primary", "failover", "retry", "key"]
    target: TargetId
    started_s: float
    status: int | None = None
    outcome: Outcome | None = None
    cause: Cause = Cause.NONE
    code: str | None = None
    duration_s: float = 0.0


@dataclass(slots=True)
class RequestRecord:
    """One request from its head to its end. Times are seconds since the gateway's start.

    `open_stream`: what has been seen of a stream that is being relayed, where an event of ours may be put into it. `is_delivered`: the
    client has all of a stream but its framing, so that its departure is none.
    """

    request_id: str
    method: str
    path: str
    started_s: float
    api: Api | None = None
    is_stream: bool = False
    model: str | None = None
    user_path: str = ""
    session: SessionId | None = None
    revision: TierRevision | None = None
    source: str | None = None
    target: TargetId | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    status: int | None = None
    outcome: str = "ok"
    error_code: str | None = None
    first_byte_s: float | None = None
    bytes_out: int = 0
    chunks_out: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    parse_errors: int = 0
    open_stream: Observer | StreamTranslation | None = None
    is_delivered: bool = False

    def note_departure(self) -> None:
        """The client has left."""
        if not self.is_delivered:
            self.outcome, self.status = "client_cancelled", 499
