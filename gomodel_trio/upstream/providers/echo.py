"""The built-in provider `echo`, which speaks both dialects (see `upstream.echo` for what it says).

Layer: upstream.
"""

from dataclasses import dataclass

from gomodel_trio.config.secret import Secret
from gomodel_trio.upstream.providers.adapter import AtBaseUrl
from gomodel_trio.upstream.transport import Headers


@dataclass(frozen=True, slots=True)
class Echo(AtBaseUrl):
    """The echo provider."""

    def headers(self, passed: Headers, key: Secret | None) -> Headers:  # noqa: ARG002 - the shape of Adapter
        """As they came."""
        return passed
