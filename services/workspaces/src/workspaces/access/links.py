"""Links that log in once, such as the one that `pallas up` prints."""

import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.message import utc_now
from pallas_postgres.engine import postgres_errors
from workspaces.access.sessions import digest_of
from workspaces.tables import LoginLink

LIVES = timedelta(minutes=10)


async def make_link(engine: AsyncEngine, account: str) -> tuple[str, datetime]:
    """Make a link. Returns its token, and when it expires.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    token, expires_at = secrets.token_urlsafe(32), utc_now() + LIVES
    async with postgres_errors(), engine.begin() as connection:
        await connection.execute(delete(LoginLink).where(LoginLink.expires_at <= func.now()))
        made = insert(LoginLink).values(digest=digest_of(token), account=account, expires_at=expires_at)
        await connection.execute(made)
    return token, expires_at


async def use_link(engine: AsyncEngine, token: str) -> str | None:
    """Use a link up. Returns its account, None if it is unknown, used or expired.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    used = delete(LoginLink).where(LoginLink.digest == digest_of(token), LoginLink.expires_at > func.now())
    async with postgres_errors(), engine.begin() as connection:
        account: str | None = await connection.scalar(used.returning(LoginLink.account))
    return account
