"""A certificate for localhost by an authority of ours, in files as an operator has them, to be exchanged while they are in use."""

import ssl
from pathlib import Path

import trustme


class Certificates:
    """The files of one server, and what its clients trust. Every `issue` is by another authority: who trusts the old one trusts it not."""

    def __init__(self, folder: Path) -> None:
        self.cert_file, self.key_file = folder / "cert.pem", folder / "key.pem"
        self.issue()

    def issue(self, name: str = "localhost") -> None:
        """Write a new certificate and its key."""
        self.authority = trustme.CA()
        leaf = self.authority.issue_cert(name)
        self.cert_file.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        self.key_file.write_bytes(leaf.private_key_pem.bytes())

    @property
    def variables(self) -> dict[str, str]:
        """The gateway's configuration."""
        return {"TLS_CERT_FILE": str(self.cert_file), "TLS_KEY_FILE": str(self.key_file)}

    def client(self, *protocols: str) -> ssl.SSLContext:
        """What a client trusts now, offering these protocols."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context
