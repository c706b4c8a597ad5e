"""Signing keys, and the team JWTs that they sign (contract, section 5.2).

The secret of an HS256 key is 64 hex digits, which stand for 32 bytes. That of an EdDSA key is a private key in PEM.
Secrets are stored encrypted with Fernet: the first key of the settings encrypts, all of them decrypt.
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
    """Encrypts the secrets of signing keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def close(self, secret: str) -> str:
        """Encrypt."""
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """Decrypt.

        Raises:
            PallasError: no Fernet key of the settings decrypts it (`sealed_by_another`).
        """
        try:
            return self._fernet.decrypt(sealed).decode()
        except InvalidToken as error:
            raise _foreign() from error

    def reseal(self, sealed: str) -> str:
        """Encrypt again, with the first key.

        Raises:
            PallasError: as for `open`.
        """
        try:
            return self._fernet.rotate(sealed).decode()
        except InvalidToken as error:
            raise _foreign() from error


def _foreign() -> PallasError:
    return PallasError(
        "a signing key is encrypted with a key that is not in PALLAS_FERNET_KEYS", code="sealed_by_another"
    )


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A new key: its secret in text, and for EdDSA the public key in PEM."""

    secret: str = field(repr=False)
    public: str | None = None


def new_key(algorithm: Algorithm) -> KeyPair:
    """Create a key."""
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
    """A public key as a JWK."""
    algorithm = OKPAlgorithm()
    return OKPAlgorithm.to_jwk(algorithm.prepare_key(public), as_dict=True) | {
        "kid": kid,
        "alg": "EdDSA",
        "use": "sig",
    }
