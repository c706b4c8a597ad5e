"""Checks at the start that what is encrypted in the database can be opened, and encrypts it with the first key.

So a Fernet key is replaced by putting the new one in front, starting the service, and removing the old one.
"""

import logging

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import PallasError, Rejected
from pallas_postgres.engine import writing
from workspaces.mnemosyne.vault import Vault
from workspaces.tables import PallasInstance

log = logging.getLogger(__name__)

LOST = "its JWT was lost with the key that it was encrypted with"


async def check_sealed_rows(engine: AsyncEngine, vault: Vault, *, accept_lost: bool) -> None:
    """Check all rows. With `accept_lost`, what cannot be opened is given up: teams get new JWTs by the reconciler.

    Raises:
        Rejected: rows cannot be opened, and this is not accepted.
    """
    jwts = tokens = 0
    sealed = or_(PallasInstance.team_jwt_encrypted.is_not(None), PallasInstance.agent_token_encrypted.is_not(None))
    async with writing(engine) as session:
        for one in await session.scalars(select(PallasInstance).where(sealed).with_for_update()):
            if not _reseal(vault, one, "team_jwt_encrypted"):
                one.pallas_team_mnemosyne_status, one.status_reason = "failed", LOST
                jwts += 1
            if not _reseal(vault, one, "agent_token_encrypted"):
                tokens += 1
        if jwts or tokens:
            lost = f"{jwts} team JWTs and {tokens} agent tokens"
            if not accept_lost:
                raise Rejected(
                    f"{lost} cannot be opened: they were encrypted with a key that is neither in MNEMOSYNE_FERNET_KEY "
                    "nor made of SECRET_KEY. Give the old key, too, or give them up with --accept-lost-jwts",
                    code="lost_jwts",
                )
            log.warning("giving up secrets that cannot be opened", extra={"lost": lost})


def _reseal(vault: Vault, one: PallasInstance, column: str) -> bool:
    """Encrypt a column with the first key. False: no key opens it, and it is removed."""
    sealed: str | None = getattr(one, column)
    if sealed is None:
        return True
    try:
        setattr(one, column, vault.reseal(sealed))
    except PallasError:
        setattr(one, column, None)
        return False
    return True
