"""Sessions of browsers, and links that log in once. Both are random tokens, of which only the digest is stored."""

import asyncio
import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_postgres.engine import fetch, postgres_errors
from pallas_postgres.prepared import Prepared
from workspaces.live.hub import Hub
from workspaces.tables import LoginLink, Session

LIVES = timedelta(days=30)
"""A session ends when it was not used for so long."""
PROLONGED_EVERY = timedelta(days=1)
LINK_LIVES = timedelta(minutes=10)
_FOUND = Prepared(
    select(Session.digest, Session.account, Session.csrf, Session.expires_at).where(
        Session.digest == bindparam("of"), Session.expires_at > func.now()
    )
)
_LONGER = Prepared(
    update(Session)
    .where(Session.digest == bindparam("of"))
    .values(expires_at=bindparam("until"))
    .returning(Session.digest)
)
_LONGEST = 200
_RETRY_SECONDS = 2.0


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
            over = (Session.digest == old) | (Session.expires_at <= func.now())
            for digest in (await connection.scalars(delete(Session).where(over).returning(Session.digest))).all():
                await Hub.tell_in(connection, _topic(digest), "ended", {})
            row = {"digest": made.digest, "account": account, "csrf": made.csrf, "expires_at": utc_now() + LIVES}
            await connection.execute(insert(Session).values(row))
        return token, made

    async def find(self, token: str) -> LoggedIn | None:
        """The session of a cookie, which lives on from now."""
        if not token or len(token) > _LONGEST:
            return None
        for found in await fetch(self._engine, _FOUND, {"of": digest_of(token)}):
            if found.expires_at < utc_now() + LIVES - PROLONGED_EVERY:
                await fetch(self._engine, _LONGER, {"of": found.digest, "until": utc_now() + LIVES})
            return LoggedIn(found.digest, found.account, found.csrf)
        return None

    async def end(self, digest: str) -> None:
        """End a session."""
        async with postgres_errors(), self._engine.begin() as connection:
            await connection.execute(delete(Session).where(Session.digest == digest))
            await Hub.tell_in(connection, _topic(digest), "ended", {})

    async def ended(self, digest: str, hub: Hub) -> None:
        """Wait until a session has ended: by a logout or a login in its place at any replica, or by its age."""
        async with hub.subscribe(_topic(digest)) as told:
            while (left := await self._left(digest)) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        if await anext(told, None) is None:  # the process drains, which ends streams by itself
                            await asyncio.Event().wait()

    async def _left(self, digest: str) -> float:
        """Seconds for which a session lives if it is not used; while Postgres cannot say, until the next look."""
        left = select(func.extract("epoch", Session.expires_at - func.now())).where(Session.digest == digest)
        try:
            async with postgres_errors(), self._engine.connect() as connection:
                return float(await connection.scalar(left) or 0)
        except Unavailable:
            return _RETRY_SECONDS


def _topic(digest: str) -> str:
    return f"session:{digest}"


async def make_link(engine: AsyncEngine, account: str) -> tuple[str, datetime]:
    """Make a link. Returns its token, and when it expires."""
    token, expires_at = secrets.token_urlsafe(32), utc_now() + LINK_LIVES
    async with postgres_errors(), engine.begin() as connection:
        await connection.execute(delete(LoginLink).where(LoginLink.expires_at <= func.now()))
        made = insert(LoginLink).values(digest=digest_of(token), account=account, expires_at=expires_at)
        await connection.execute(made)
    return token, expires_at


async def use_link(engine: AsyncEngine, token: str) -> str | None:
    """Use a link up. Returns its account, None if it is unknown, used or expired."""
    used = delete(LoginLink).where(LoginLink.digest == digest_of(token), LoginLink.expires_at > func.now())
    async with postgres_errors(), engine.begin() as connection:
        account: str | None = await connection.scalar(used.returning(LoginLink.account))
    return account
