"""Keys and certificates of one simulated cluster.

Two authorities: one for the Kubernetes API (its server, its clients, what the cluster signs for others), one
that only etcd and the API server know, so that a client certificate of the cluster opens no way to the stored
data. All files are readable by their owner only. They last ten years: a sandbox is thrown away, not renewed. A third one may be
trusted by the API server beside its own: that of the sandbox's Entra ID (sandbox/clouds/entra.py), whose clients last minutes.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIFETIME = dt.timedelta(days=3650)
_CLOCK_SKEW = dt.timedelta(days=1)
_API_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class Pki:
    """Where the keys and certificates of a cluster lie (PEM files)."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        """Return the path of a file, such as "ca.crt"."""
        return self.folder / name

    def text(self, name: str) -> str:
        """Return the content of a file."""
        return self[name].read_text(encoding="ascii")


@dataclass(frozen=True)
class _Authority:
    """A certificate that may sign others, with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_pki(folder: Path, service_address: str) -> Pki:
    """Create all keys and certificates of a cluster, unless they are there.

    An authority (ca.crt and ca.key) that lies there already is used: Magnum makes that of its clusters itself.

    Args:
        folder: where the files go.
        service_address: the cluster IP of the `kubernetes` service.

    Returns:
        The files: ca, apiserver, admin, etcd-ca, etcd (each .crt and .key), sa.key, sa.pub.

    Raises:
        SandboxError: when they cannot be written.
    """
    pki = Pki(folder)
    # Written last: with it there, everything is.
    if pki["sa.pub"].exists():
        return pki
    make_folder(folder)
    addresses = ("127.0.0.1", service_address)
    cluster = _given_authority(pki, "ca") or _make_authority(pki, "ca", "gpu-pools sandbox cluster")
    _issue(pki, cluster, "apiserver", _name("kube-apiserver"), _alternatives(_API_NAMES, addresses), client=False)
    _issue(pki, cluster, "admin", _name("admin", "system:masters"), None, client=True)
    storage = _make_authority(pki, "etcd-ca", "gpu-pools sandbox etcd")
    _issue(pki, storage, "etcd", _name("etcd"), _alternatives(("localhost",), ("127.0.0.1",)), client=True)
    service_accounts = ec.generate_private_key(ec.SECP256R1())
    _write_key(pki["sa.key"], service_accounts)
    public = service_accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_atomic(pki["sa.pub"], public.decode())
    return pki


def make_server_pki(folder: Path, stem: str, addresses: tuple[str, ...]) -> Pki:
    """Create an authority (ca) and the certificate of one server, unless they are there.

    Args:
        folder: where the files go.
        stem: of the server's files.
        addresses: under which it is reached.
    """
    pki = Pki(folder)
    if not pki[f"{stem}.key"].exists():
        make_folder(folder)
        authority = _make_authority(pki, "ca", f"gpu-pools sandbox {stem}")
        _issue(pki, authority, stem, _name(stem), _alternatives(("localhost",), addresses), client=False)
    return pki


def make_authority(pki: Pki, stem: str, common_name: str) -> str:
    """Create an authority for clients, unless it is there, and return its certificate."""
    if not (pki[f"{stem}.crt"].exists() and pki[f"{stem}.key"].exists()):
        _make_authority(pki, stem, common_name)
    return pki.text(f"{stem}.crt")


def short_lived_client(
    pki: Pki, authority: str, user: str, groups: Sequence[str], lifetime: dt.timedelta
) -> tuple[str, str, dt.datetime]:
    """A client's certificate and key, written nowhere, and when they end.

    Args:
        pki: where the authority lies.
        authority: its stem.
        user: who the client is.
        groups: what he is in.
        lifetime: from now on.
    """
    signer = _given_authority(pki, authority)
    if signer is None:
        message = f"{pki.folder}: there is no {authority}.crt with its key."
        raise SandboxError(message, "Start over: make clean, then make up.")
    key, until = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC) + lifetime
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    subject = x509.Name([*attributes, *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups)])
    certificate = _leaf(signer, key, subject, [ExtendedKeyUsageOID.CLIENT_AUTH], until).sign(signer.key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), _key_pem(key), until


def _given_authority(pki: Pki, stem: str) -> _Authority | None:
    """Read an authority that somebody put there; None when it is not there whole."""
    if not (pki[f"{stem}.crt"].exists() and pki[f"{stem}.key"].exists()):
        return None
    key = serialization.load_pem_private_key(pki[f"{stem}.key"].read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        message = f"{pki[f'{stem}.key']}: a {type(key).__name__} cannot sign a cluster's certificates."
        raise SandboxError(message, "Put an RSA or EC key there, or none.")
    return _Authority(x509.load_pem_x509_certificate(pki[f"{stem}.crt"].read_bytes()), key)


def _make_authority(pki: Pki, stem: str, common_name: str) -> _Authority:
    """Create and write a self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_pair(pki, stem, certificate, key)
    return _Authority(certificate, key)


def _issue(
    pki: Pki,
    authority: _Authority,
    stem: str,
    subject: x509.Name,
    alternatives: x509.SubjectAlternativeName | None,
    *,
    client: bool,
) -> None:
    """Create and write a certificate: for a server when it has alternative names, for a client when asked."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] if client else []
    if alternatives is not None:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _leaf(authority, key, subject, purposes)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    _write_pair(pki, stem, builder.sign(authority.key, hashes.SHA256()), key)


def _leaf(
    authority: _Authority,
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    purposes: Sequence[x509.ObjectIdentifier],
    until: dt.datetime | None = None,
) -> x509.CertificateBuilder:
    # Strict verifiers, such as Python's since 3.13, insist on the two key identifiers.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        _builder(subject, authority.certificate.subject, key.public_key(), until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(signer, critical=False)
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, until: dt.datetime | None = None
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until or now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _alternatives(names: tuple[str, ...], addresses: tuple[str, ...]) -> x509.SubjectAlternativeName:
    dns = [x509.DNSName(name) for name in names]
    ips = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    return x509.SubjectAlternativeName([*dns, *ips])


def _write_pair(pki: Pki, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_atomic(pki[f"{stem}.crt"], certificate.public_bytes(serialization.Encoding.PEM).decode())
    _write_key(pki[f"{stem}.key"], key)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_atomic(path, _key_pem(key))


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    # The traditional form ("EC PRIVATE KEY") is the one that every reader of kubeconfigs knows.
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return pem.decode()
