"""Checks at the start that what is encrypted in the database can be opened, and encrypts it with the first key.

So a Fernet key is replaced by putting the new one in front, starting the service, and removing the old one.
"""

import logging
from dataclasses import dataclass, field

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import PallasError, Rejected
from pallas_postgres.engine import postgres_errors
from workspaces.mnemosyne.vault import Vault
from workspaces.tables import PallasInstance

log = logging.getLogger(__name__)

LOST = "its JWT was lost with the key that it was encrypted with"
_SEALED = (PallasInstance.team_jwt_encrypted, PallasInstance.agent_token_encrypted)


@dataclass
class _Found:
    lost_jwts: list[str] = field(default_factory=list[str])
    lost_tokens: list[str] = field(default_factory=list[str])


async def check_sealed_rows(engine: AsyncEngine, vault: Vault, *, accept_lost: bool) -> None:
    """Check all rows. With `accept_lost`, what cannot be opened is given up: teams get new JWTs by the reconciler.

    Raises:
        Rejected: rows cannot be opened, and this is not accepted.
        Unavailable: Postgres cannot be used right now.
    """
    async with postgres_errors(), AsyncSession(engine) as session:
        sealed = select(PallasInstance.id, *_SEALED).where(or_(*(column.is_not(None) for column in _SEALED)))
        found = _Found()
        for instance_id, jwt, token in (await session.execute(sealed.with_for_update())).all():
            values = {
                **_resealed(vault, "team_jwt_encrypted", jwt, instance_id, found.lost_jwts),
                **_resealed(vault, "agent_token_encrypted", token, instance_id, found.lost_tokens),
            }
            if values:
                await session.execute(update(PallasInstance).where(PallasInstance.id == instance_id).values(**values))
        if found.lost_jwts or found.lost_tokens:
            await _give_up(session, found, accept_lost=accept_lost)
        await session.commit()


def _resealed(vault: Vault, column: str, sealed: str | None, instance_id: str, lost: list[str]) -> dict[str, str]:
    """What to write so that the first key opens it."""
    if sealed is None:
        return {}
    try:
        resealed = vault.reseal(sealed)
    except PallasError:
        lost.append(instance_id)
        return {}
    return {column: resealed} if resealed != sealed else {}


async def _give_up(session: AsyncSession, found: _Found, *, accept_lost: bool) -> None:
    counts = f"{len(found.lost_jwts)} team JWTs and {len(found.lost_tokens)} agent tokens"
    if not accept_lost:
        raise Rejected(
            f"{counts} cannot be opened: they were encrypted with a key that is neither in MNEMOSYNE_FERNET_KEY nor "
            "made of SECRET_KEY. Give the old key, too, or give them up with --accept-lost-jwts",
            code="lost_jwts",
        )
    log.warning("giving up secrets that cannot be opened", extra={"lost": counts})
    lost = {"team_jwt_encrypted": None, "pallas_team_mnemosyne_status": "failed", "status_reason": LOST}
    await session.execute(update(PallasInstance).where(PallasInstance.id.in_(found.lost_jwts)).values(**lost))
    tokens = update(PallasInstance).where(PallasInstance.id.in_(found.lost_tokens))
    await session.execute(tokens.values(agent_token_encrypted=None))
