"""Every error of the gateway: whose fault it is, its code and its status.

Layer: the floor; imports nothing of ours. Only `gateway.exchange` and `gateway.app` turn these into bodies (behaviour.md §9).
"""

from dataclasses import dataclass, field

_LONGEST_NAME = 200


class GatewayError(Exception):
    """An error that a client will see as a body of its dialect.

    `status` is the HTTP status, `code` the machine-readable reason, `kind` the dialect-neutral error type in OpenAI's words
    (`invalid_request_error`, `authentication_error`, `not_found_error`, `rate_limit_error`, `api_error`, …).
    """

    status = 500
    code: str | None = "internal_error"
    kind = "api_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        kind: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status if status is not None else type(self).status
        self.code = code if code is not None else type(self).code
        self.kind = kind if kind is not None else type(self).kind
        self.param = param
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry


class ClientFault(GatewayError):
    """The request cannot be served as it was sent."""

    status = 400
    code = "invalid_request"
    kind = "invalid_request_error"


class BodyTooLarge(ClientFault):
    """The body is over `BODY_SIZE_LIMIT`."""

    status = 413
    code = "request_too_large"


class Unauthenticated(ClientFault):
    """No credential, or a wrong one."""

    status = 401
    code = "invalid_api_key"
    kind = "authentication_error"


class Forbidden(ClientFault):
    """Not for whoever asks."""

    status = 403
    code = "forbidden"
    kind = "permission_error"


class NotFound(ClientFault):
    """No such route or model."""

    status = 404
    code = "not_found"
    kind = "not_found_error"


class MethodNotAllowed(ClientFault):
    """The route exists, for the methods in `allowed`."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, *allowed: str) -> None:
        super().__init__(f"{method} is not allowed here: use {' or '.join(allowed)}.")
        self.allowed = allowed


class ModelNotFound(NotFound):
    """The name resolves to no target."""

    code = "model_not_found"


def model_not_found(name: str) -> ModelNotFound:
    """What is told of a name that resolves to nothing, or that the caller may not know of."""
    return ModelNotFound(f"The model {shortened(name)!r} does not exist here, or you may not use it.", param="model")


def shortened(name: str) -> str:
    """A client's own word, cut to what a message needs of it."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def dialect_mismatch(target: str, theirs: str, ours: str) -> ClientFault:
    """What is told where a target speaks the dialect `theirs` and the request is in `ours`."""
    return ClientFault(
        f"The target {shortened(target)!r} speaks the {theirs} dialect and this request is in the {ours} one; they are not translated. "
        "Send the request to an endpoint of the target's dialect.",
        code="dialect_mismatch",
        param="model",
    )


def untranslatable(message: str, field: str) -> ClientFault:
    """What is told where no target can be asked what the client asks, for the sake of the member `field`."""
    return ClientFault(message, code="unsupported_by_target", param=field)


class UpstreamFault(GatewayError):
    """No target could serve the request."""

    status = 502
    code = "upstream_error"
    kind = "api_error"


class Unavailable(GatewayError):
    """Nothing could be tried now: come back later."""

    status = 503
    code = "service_unavailable"
    kind = "api_error"


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


@dataclass(frozen=True)
class ConfigFault:
    """One thing wrong with the configuration: where (a variable, a YAML path) and what."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass
class ConfigurationError(Exception):
    """All faults of a configuration at once."""

    faults: list[ConfigFault] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class AddressUnavailable(ConfigurationError):
    """The configuration may be right, but this machine does not give the address that it names."""
