"""Signing keys. The current key signs team JWTs here. Daedalus signs with the keys for per-turn tokens.

A key is for one of the two: with a key for both, Daedalus could sign team JWTs.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

import jwt
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import OKPAlgorithm
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import KeyPurpose
from pallas_contracts.errors import Conflict, NotFound, PallasError
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import AddedKey, KeyDetail
from team_lifecycle.model import Decision, Event, signing_key
from team_lifecycle.tables import SigningKey

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


async def add_key(
    session: AsyncSession, purpose: KeyPurpose, algorithm: Algorithm, *, current: bool, seal: Seal
) -> Decision[AddedKey]:
    """Create a key. Only this answer has the secret of a key for per-turn tokens.

    Raises:
        Conflict: a key for per-turn tokens cannot be current.
    """
    if current and purpose == "turn":
        raise _signs_elsewhere()
    made = new_key(algorithm)
    if current:
        await _unset_current(session)
    key = SigningKey(
        kid=f"{purpose}-{uuid4().hex[:16]}",
        purpose=purpose,
        algorithm=algorithm,
        # Verifying takes the secret with HS256, but only the public key with EdDSA.
        sealed=None if (purpose, algorithm) == ("turn", "EdDSA") else seal.close(made.secret),
        public=made.public,
        current=current,
        created_at=utc_now(),
    )
    session.add(key)
    await session.flush()
    detail = KeyDetail.model_validate(key)
    added = AddedKey(**dict(detail), secret=made.secret if purpose == "turn" else None)
    # Nobody can have looked up a new key, so there is nothing to invalidate.
    return Decision(added, _event("added", key))


async def make_current(session: AsyncSession, kid: str) -> Decision[KeyDetail]:
    """Make this the key that signs team JWTs. JWTs signed with other keys stay valid.

    Raises:
        NotFound: there is no such key.
        Conflict: the key is retired, or is for per-turn tokens.
    """
    key = await _find(session, kid)
    if key.purpose == "turn":
        raise _signs_elsewhere()
    if key.retired_at is not None:
        raise Conflict(f"key {kid!r} is retired", code="key_retired")
    if key.current:
        return Decision(KeyDetail.model_validate(key))
    await _unset_current(session)
    key.current = True
    await session.flush()
    return Decision(KeyDetail.model_validate(key), _event("made_current", key))


async def retire_key(session: AsyncSession, kid: str) -> Decision[KeyDetail]:
    """Retire a key: all JWTs signed with it become invalid. This cannot be undone.

    Raises:
        NotFound: there is no such key.
        Conflict: the key is current; make another one current first.
    """
    key, keys = await _find(session, kid), frozenset({signing_key(kid)})
    if key.retired_at is not None:
        return Decision(KeyDetail.model_validate(key), keys=keys)
    if key.current:
        raise Conflict(f"key {kid!r} is the current one; make another one current first", code="key_current")
    key.retired_at = utc_now()
    await session.flush()
    return Decision(KeyDetail.model_validate(key), _event("retired", key), keys)


async def reseal_keys(session: AsyncSession, *, seal: Seal) -> Decision[None]:
    """Encrypt all secrets with the first Fernet key, so that the others can be removed."""
    found = list(await session.scalars(select(SigningKey).where(SigningKey.sealed.is_not(None))))
    for key in found:
        key.sealed = seal.reseal(key.sealed or "")
    event = Event("key", "resealed", "all", {"count": len(found)})
    return Decision(None, event, frozenset(signing_key(key.kid) for key in found))


async def ensure_current_key(session: AsyncSession, algorithm: Algorithm, *, seal: Seal) -> Decision[None]:
    """Create a current key, unless there is one for the algorithm of the settings."""
    key = await session.scalar(select(SigningKey).where(SigningKey.current))
    if key is not None and key.algorithm == algorithm:
        return Decision(None)
    added = await add_key(session, "team", algorithm, current=True, seal=seal)
    return Decision(None, added.event)


async def _find(session: AsyncSession, kid: str) -> SigningKey:
    if (key := await session.get(SigningKey, kid)) is None:
        raise NotFound(f"there is no key {kid!r}", code="no_key")
    return key


async def _unset_current(session: AsyncSession) -> None:
    await session.execute(update(SigningKey).where(SigningKey.current).values(current=False))


def _event(action: str, key: SigningKey) -> Event:
    data = {"purpose": key.purpose, "algorithm": key.algorithm, "current": key.current}
    return Event("key", action, key.kid, data | {"retired": key.retired_at is not None})


def _signs_elsewhere() -> Conflict:
    return Conflict("a key for per-turn tokens cannot be current: Daedalus signs with it", code="key_purpose")
