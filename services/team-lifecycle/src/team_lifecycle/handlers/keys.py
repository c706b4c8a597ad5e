"""Signing keys. The current key signs team JWTs here. Daedalus signs with the keys for per-turn tokens.

A key is for one of the two: with a key for both, Daedalus could sign team JWTs.
"""

from uuid import uuid4

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import KeyPurpose
from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import AddedKey, KeyDetail
from team_lifecycle.handlers.signing import Algorithm, Seal, new_key
from team_lifecycle.model import Decision, Event, signing_key
from team_lifecycle.tables import SigningKey


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
