"""Where trust comes from on systems of other kinds, and how a failed handshake is told."""

import ssl
import sys
import types
from pathlib import Path

import certifi
import pytest

from gomodel_trio.upstream import tls


def test_on_systems_whose_store_is_no_file_truststore_asks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setitem(sys.modules, "truststore", types.SimpleNamespace(SSLContext=lambda protocol: made))
    assert tls.system_trust() is made
    monkeypatch.setitem(sys.modules, "truststore", None)
    assert tls.system_trust() is not made


def test_without_a_store_a_known_bundle_is_read_and_without_one_certifis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    (tmp_path / "one.pem").write_bytes(
        Path(certifi.where()).read_bytes().partition(b"-----END CERTIFICATE-----\n")[0] + b"-----END CERTIFICATE-----\n"
    )
    bundle = tmp_path.with_name("bundle.pem")
    (tmp_path / "one.pem").rename(bundle)
    monkeypatch.setattr(tls, "_BUNDLES", (str(tmp_path / "absent"), str(bundle)))
    assert len(tls.system_trust().get_ca_certs()) == 1
    monkeypatch.setattr(tls, "_BUNDLES", ())
    assert len(tls.system_trust().get_ca_certs()) > 50
    monkeypatch.setitem(sys.modules, "certifi", None)
    assert tls.system_trust().get_ca_certs() == []


def test_a_failed_handshake_is_told_without_names() -> None:
    def failure(message: str) -> ssl.SSLCertVerificationError:
        error = ssl.SSLCertVerificationError(1, "certificate verify failed: up.test")
        error.verify_message = message
        return error

    assert tls.why_not_secured(ConnectionResetError("up.test")) == "the TLS handshake failed"
    assert tls.why_not_secured(failure("Hostname mismatch, up.test")) == "its certificate is for another name"
    assert tls.why_not_secured(failure("IP address mismatch")) == "its certificate is for another name"
    assert tls.why_not_secured(failure("expired")) == "its certificate could not be verified (expired)"
    assert tls.why_not_secured(failure("")) == "its certificate could not be verified (its issuer is not trusted)"
