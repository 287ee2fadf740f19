"""TLS for a front door: a certificate and key that can be read anew, and sockets that never block.

Layer: listen. Source: behaviour.md §10 (HUP re-reads certificates); performance.md (non-blocking `ssl.SSLSocket`).
"""

import contextlib
import socket
import ssl
from typing import Final

from gomodel_trio.errors import ConfigFault, ConfigurationError

WANTS_READ: Final = (BlockingIOError, ssl.SSLWantReadError)
"""What a non-blocking socket, plain or TLS, raises where it has to be readable first (plain ones: when receiving)."""
WANTS_WRITE: Final = ssl.SSLWantWriteError
CERT_VARIABLE: Final = "TLS_CERT_FILE"
KEY_VARIABLE: Final = "TLS_KEY_FILE"


class TlsFiles:
    """A certificate chain and its key, PEM. New connections use what was loaded last.

    Raises:
        ConfigurationError: they cannot be read or do not belong together; it names the variable.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._context = self._load()

    def reload(self) -> None:
        """Read the files again; what fails changes nothing.

        Raises:
            ConfigurationError: as at first.
        """
        self._context = self._load()

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Put TLS on a connected socket, which must not block; the handshake is yet to be done."""
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _load(self) -> ssl.SSLContext:
        for variable, path in ((CERT_VARIABLE, self._cert_file), (KEY_VARIABLE, self._key_file)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise ConfigurationError([ConfigFault(variable, f"cannot read {path!r}: {error.strerror}")]) from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password function OpenSSL would ask on the terminal.
            context.load_cert_chain(self._cert_file, self._key_file, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigurationError([_fault(self._cert_file, self._key_file, error)]) from None
        return context


def say_goodbye(sock: socket.socket) -> None:
    """Send TLS's close_notify, as far as that goes without waiting: only then does a client believe in the end of an answer."""
    if isinstance(sock, ssl.SSLSocket):
        with contextlib.suppress(OSError, ValueError):
            sock.unwrap()


def _fault(cert_file: str, key_file: str, error: Exception) -> ConfigFault:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return ConfigFault(KEY_VARIABLE, f"the key {key_file!r} does not belong to the certificate {cert_file!r}")
    return ConfigFault(
        CERT_VARIABLE, f"{cert_file!r} and {key_file!r} are no PEM certificate and unencrypted PEM key ({reason or 'unreadable'})"
    )
