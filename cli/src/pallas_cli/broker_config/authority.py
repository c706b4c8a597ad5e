"""A certificate for the broker, signed by an authority that is created for it alone."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pallas_cli.private_files import write_atomically

_YEARS = timedelta(days=3650)
_BOTH_SIDES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
"""Brokers of a cluster connect to each other."""

_SKEW = timedelta(minutes=5)
"""The allowed difference between clocks."""

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"


def make_certificate(folder: Path, hosts: Sequence[str], *, mode: int) -> None:
    """Write the authority's certificate, the broker's certificate for `hosts` and its key, unless a certificate exists.

    The authority's key is not stored, so another certificate has another authority.
    """
    if (folder / CERTIFICATE).exists():
        return
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("Pallas broker authority")
    authority = _builder(issuer, issuer, authority_key).add_extension(x509.BasicConstraints(True, 0), critical=True)
    authority = authority.add_extension(_usage(signs=True), critical=True)
    server = (
        _builder(_name(hosts[0]), issuer, key)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(_BOTH_SIDES), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(_identifies(authority_key), critical=False)
    )
    write_atomically(folder / AUTHORITY, _signed(authority, authority_key), 0o644)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_atomically(folder / KEY, private, mode)
    write_atomically(folder / CERTIFICATE, _signed(server, authority_key), 0o644)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _YEARS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _identifies(authority: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
