"""Signing keys as they are made and kept, and the team JWTs that they sign (contract, section 5.2).

A secret for HS256 is 64 hex digits: the 32 bytes that they stand for are the key. For EdDSA it is a private key in PEM.
Secrets are sealed by Fernet before they are stored; the first key of the settings seals, all of them open.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import jwt
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import OKPAlgorithm

from pallas_contracts.errors import PallasError

type Algorithm = Literal["HS256", "EdDSA"]

LIFE = timedelta(days=3652)
"""Ten years."""


class Seal:
    """Encrypts what is secret of a key."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def close(self, secret: str) -> str:
        """Encrypt."""
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """Decrypt.

        Raises:
            PallasError: none of our keys has sealed it (`sealed_by_another`).
        """
        try:
            return self._fernet.decrypt(sealed).decode()
        except InvalidToken as error:
            raise _foreign() from error

    def reseal(self, sealed: str) -> str:
        """Encrypt again, by the first key.

        Raises:
            PallasError: as for `open`.
        """
        try:
            return self._fernet.rotate(sealed).decode()
        except InvalidToken as error:
            raise _foreign() from error


def _foreign() -> PallasError:
    return PallasError(
        "a signing key was sealed by a key that PALLAS_FERNET_KEYS does not list", code="sealed_by_another"
    )


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A new key: its secret in text, and for EdDSA the public key in PEM."""

    secret: str = field(repr=False)
    public: str | None = None


def new_key(algorithm: Algorithm) -> KeyPair:
    """Make a key."""
    if algorithm == "HS256":
        return KeyPair(secrets.token_hex(32))
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return KeyPair(secret, public)


def team_jwt(team_id: str, jti: str, now: datetime, *, kid: str, algorithm: str, secret: str) -> str:
    """Sign the JWT of a team."""
    claims = {
        "iss": "mnemosyne",
        "aud": "mnemosyne",
        "sub": f"team:{team_id}",
        "typ": "team",
        "iat": int(now.timestamp()),
        "exp": int((now + LIFE).timestamp()),
        "jti": jti,
    }
    key = bytes.fromhex(secret) if algorithm == "HS256" else secret
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def public_jwk(kid: str, public: str) -> dict[str, Any]:
    """A public key as `jwks.json` has it."""
    algorithm = OKPAlgorithm()
    return OKPAlgorithm.to_jwk(algorithm.prepare_key(public), as_dict=True) | {
        "kid": kid,
        "alg": "EdDSA",
        "use": "sig",
    }
