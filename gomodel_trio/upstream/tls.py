"""TLS on a non-blocking socket: whom to trust, and the handshake.

Layer: upstream. Source: RFC 8446, RFC 9325; performance.md ("TLS upstream": the standard library's socket costs a tenth, a stream over
memory buffers a third). Names are checked, SNI is sent, ALPN offers http/1.1 only.
"""

import contextlib
import os
import socket
import ssl
import sys
from typing import Final

import trio

from gomodel_trio.upstream.transport import TransportError, TransportFault

_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # BSD, macOS
)
"""Where systems keep their authorities: an OpenSSL that was built elsewhere, as in an executable, does not know."""


def system_trust() -> ssl.SSLContext:
    """Trust the system's certificate authorities, or those of SSL_CERT_FILE and SSL_CERT_DIR; where there are none, certifi's.

    Raises:
        OSError: no file can be opened now.
    """
    # OpenSSL would say nothing of files that it cannot open, and trust nobody; that would be kept for good.
    with open(os.devnull, "rb"):
        pass
    is_named = bool(os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"))
    if sys.platform in ("darwin", "win32") and not is_named:
        # Their stores are not files; truststore asks the system itself. Elsewhere it would load the same files anew for each connection.
        with contextlib.suppress(ImportError):
            import truststore

            return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and (paths.capath is None or not os.listdir(paths.capath)):
        _load_bundle(context)
    return context


def _load_bundle(context: ssl.SSLContext) -> None:
    for path in _BUNDLES:
        with contextlib.suppress(OSError):
            context.load_verify_locations(path)
            return
    with contextlib.suppress(ImportError):
        import certifi

        context.load_verify_locations(certifi.where())


async def secure(plain: socket.socket, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    """Do the handshake on a connected socket, which is used up: it is closed if this fails. `session`: one of an earlier connection to it.

    Raises:
        TransportError: TLS, with the reason in words for clients.
    """
    secured: ssl.SSLSocket | None = None
    try:
        context.set_alpn_protocols(["http/1.1"])
        secured = context.wrap_socket(plain, server_hostname=host.rstrip("."), do_handshake_on_connect=False, session=session)
        await _handshake(secured)
    except (OSError, ValueError) as error:
        problem = why_not_secured(error)
    except BaseException:
        _close(secured or plain)
        raise
    else:
        return secured
    _close(secured or plain)
    raise TransportError(TransportFault.TLS, f"The upstream could not be reached safely: {problem}.")


async def _handshake(secured: ssl.SSLSocket) -> None:
    while True:
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            await trio.lowlevel.wait_readable(secured)
        except ssl.SSLWantWriteError:
            await trio.lowlevel.wait_writable(secured)
        else:
            return


def why_not_secured(error: BaseException) -> str:
    """The reason without the name, which is the operator's business."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "the TLS handshake failed"
    told = str(getattr(error, "verify_message", "") or "its issuer is not trusted")
    if "ostname mismatch" in told or "IP address mismatch" in told:
        return "its certificate is for another name"
    return f"its certificate could not be verified ({told})"


def _close(failed: socket.socket) -> None:
    if failed.fileno() >= 0:
        trio.lowlevel.notify_closing(failed)
    failed.close()
