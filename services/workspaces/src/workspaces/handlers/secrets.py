"""The JWT of a team: shown once, and replaced (auth contract, sections 9.1 and 9.4)."""

import logging

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict, NotFound
from workspaces.answers import Revealed
from workspaces.changes.make import Changes, Decision, Event
from workspaces.handlers.control import Control
from workspaces.mnemosyne.vault import Vault
from workspaces.model import Who, no_instance
from workspaces.tables import PallasInstance

log = logging.getLogger(__name__)

UNKNOWN_ADDRESS = "https://mnemosyne.example/mcp/"


async def reveal(control: Control, who: Who, instance_id: str) -> Revealed:
    """Show the JWT of a team, which is done once for each JWT.

    Raises:
        NotFound: there is no such instance, or it has no JWT (`no_jwt`).
        Conflict: it was shown before (`already_revealed`).
    """
    jwt = await reveal_jwt(control.changes, control.vault, who, instance_id)
    server, url = control.library
    return Revealed(jwt=jwt, stanza=stanza(jwt, server, url))


async def reveal_jwt(changes: Changes, vault: Vault, who: Who, instance_id: str) -> str:
    """Mark the JWT as seen, and return it. Of two that try at the same time, one gets it.

    Raises:
        NotFound, Conflict: as for `reveal`.
    """

    async def mark(session: AsyncSession) -> Decision[str]:
        unseen = PallasInstance.id == instance_id, PallasInstance.jwt_revealed_at.is_(None)
        seen = (
            update(PallasInstance)
            .where(*unseen, PallasInstance.team_jwt_encrypted.is_not(None))
            .values(jwt_revealed_at=func.clock_timestamp())
            .returning(PallasInstance.team_jwt_encrypted, PallasInstance.name)
        )
        row = (await session.execute(seen)).one_or_none()
        if row is None:
            raise await _why_not(session, instance_id)
        sealed, name = row
        return Decision(vault.open(sealed or ""), (Event("instance", "revealed", instance_id, {"name": name}),))

    jwt = await changes.make(who, mark)
    extra = {"team": instance_id, "actor": who.account, "address": who.address, "correlation": who.correlation}
    log.info("pallas_team_jwt_revealed", extra=extra)
    return jwt


async def _why_not(session: AsyncSession, instance_id: str) -> NotFound | Conflict:
    found = select(PallasInstance.team_jwt_encrypted.is_not(None)).where(PallasInstance.id == instance_id)
    has_jwt = await session.scalar(found)
    if has_jwt is None:
        return no_instance(instance_id)
    if not has_jwt:
        return NotFound("the team has no JWT yet", code="no_jwt")
    return Conflict("the JWT was shown before; rotate it to get another one", code="already_revealed")


def stanza(jwt: str, server: str, url: str | None) -> str:
    """The YAML for the team's secrets (auth contract, section 9.1)."""
    import yaml  # as long as a start does not need it, it need not take longer

    entry = {"transport": "http", "url": url or UNKNOWN_ADDRESS, "headers": {"Authorization": f"Bearer {jwt}"}}
    return yaml.safe_dump({"mcp": {"servers": {server: entry}}}, sort_keys=False, width=1_000_000)
