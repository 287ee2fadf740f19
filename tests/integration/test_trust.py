"""Whom both transports trust."""

import os
from pathlib import Path

import pytest
import trustme

from gomodel_trio.upstream import tls


def test_the_system_is_trusted_and_ssl_cert_file_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = tmp_path / "authority.pem"
    trustme.CA(organization_name="ours").cert_pem.write_to_path(str(certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    subjects = [authority["subject"] for authority in tls.system_trust().get_ca_certs()]
    assert any((("organizationName", "ours"),) in subject for subject in subjects)
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("SSL_CERT_DIR", os.fspath(tmp_path / "none"))
    assert len(tls.system_trust().get_ca_certs()) > 50
