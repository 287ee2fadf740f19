"""The HTTP/2 state machine: h2's, with the settings of this server, and kept from ending a connection over one bad request.

Layer: listen. Source: RFC 9113 §6.5.2, §8.1.1; RFC 7541 §4.2; h2's documentation.

What is set apart from h2's defaults, found by reading and trying:
- h2 treats a wrong content-length, and a `:status` in a request, as the whole connection's fault; so it does not get to see them;
- it enforces the bound of concurrent streams as if a client knew it from its first byte, and ends the connection; so it is told of none
  and the connection refuses single streams;
- it keeps the ends of 65 536 streams a connection, and lets the client choose any size for the table that answers are compressed with.
"""

from collections.abc import Iterable
from typing import Final, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack.hpack import Decoder
from hpack.struct import HeaderTuple

from gomodel_trio.gateway.http import Headers
from gomodel_trio.listen.h2_limits import Http2Limits

_HIDDEN: Final = b"\x00"
"""Put before a name that h2 must not know; and, so that it stays clear, before one that begins with it."""
_UNKNOWN_TO_H2: Final = frozenset({b"content-length", b":status"})
_TABLE_BYTES: Final = 4096
_INITIAL_WINDOW_BYTES: Final = 65535
_UNBOUNDED: Final = 2**31 - 1


class Machine(H2Connection):
    """h2's connection with fewer memories."""

    MAX_CLOSED_STREAMS = 4096

    def bound_table(self) -> None:
        """Keep the table of our encoder small, whatever the client allows."""
        self.encoder.header_table_size = min(self.encoder.header_table_size, _TABLE_BYTES)


def new_machine(limits: Http2Limits) -> Machine:
    """A server's machine with its first SETTINGS and the connection's window ready to be sent."""
    machine = Machine(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    decoder = _Decoder()
    # Twice what is advertised is decoded, so that a head that is only somewhat too large gets an answer.
    decoder.max_header_list_size = 2 * limits.head_bytes
    machine.decoder = decoder
    machine.local_settings = _settings(limits, limits.streams)
    machine.initiate_connection()
    machine.local_settings = _settings(limits, _UNBOUNDED)
    if limits.connection_window_bytes > _INITIAL_WINDOW_BYTES:
        machine.increment_flow_control_window(limits.connection_window_bytes - _INITIAL_WINDOW_BYTES)
    return machine


def revealed(fields: Iterable[tuple[bytes, bytes] | tuple[str, str]]) -> Headers:
    """The fields of an event as the client sent them."""
    return [(_bytes(name).removeprefix(_HIDDEN), _bytes(value)) for name, value in fields]


class _Decoder(Decoder):
    """hpack's decoder; hides what h2 must not see."""

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        fields = cast("Iterable[tuple[bytes, bytes]]", super().decode(data, raw=raw))
        return [HeaderTuple(_hidden(name), value) for name, value in fields]


def _hidden(name: bytes) -> bytes:
    return _HIDDEN + name if name in _UNKNOWN_TO_H2 or name.startswith(_HIDDEN) else name


def _settings(limits: Http2Limits, streams: int) -> Settings:
    return Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: limits.head_bytes,
            SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
        },
    )


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
