"""Sessions of browsers. The cookie is a random token, of which only the digest is stored."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.message import utc_now
from pallas_postgres.engine import postgres_errors
from workspaces.tables import Session

LIVES = timedelta(days=30)
"""A session ends when it was not used for so long."""
PROLONGED_EVERY = timedelta(days=1)
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A session. `csrf` has to come with every request that changes something."""

    digest: str
    account: str
    csrf: str


def digest_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


class Sessions:
    """Begins, finds and ends sessions. All methods raise `Unavailable` when Postgres cannot be used."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(self, account: str, *, instead_of: str | None) -> tuple[str, LoggedIn]:
        """Begin a session in place of the one with the token `instead_of`. Returns its token."""
        token = secrets.token_urlsafe(32)
        made = LoggedIn(digest_of(token), account, secrets.token_urlsafe(24))
        old = digest_of(instead_of or "")
        async with postgres_errors(), self._engine.begin() as connection:
            await connection.execute(
                delete(Session).where((Session.digest == old) | (Session.expires_at <= func.now()))
            )
            row = {"digest": made.digest, "account": account, "csrf": made.csrf, "expires_at": utc_now() + LIVES}
            await connection.execute(insert(Session).values(row))
        return token, made

    async def find(self, token: str) -> LoggedIn | None:
        """The session of a cookie, which lives on from now."""
        if not token or len(token) > _LONGEST:
            return None
        wanted = select(Session.digest, Session.account, Session.csrf, Session.expires_at).where(
            Session.digest == digest_of(token), Session.expires_at > func.now()
        )
        async with postgres_errors(), self._engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            found = (await connection.execute(wanted)).one_or_none()
            if found is None:
                return None
            if found.expires_at < utc_now() + LIVES - PROLONGED_EVERY:
                longer = update(Session).where(Session.digest == found.digest).values(expires_at=utc_now() + LIVES)
                await connection.execute(longer)
        return LoggedIn(found.digest, found.account, found.csrf)

    async def end(self, digest: str) -> None:
        """End a session."""
        async with postgres_errors(), self._engine.begin() as connection:
            await connection.execute(delete(Session).where(Session.digest == digest))
