"""Sessions of browsers, and links that log in once. Both are random tokens, of which only the digest is stored.

A browser sends its cookie to every port of a host. So a session needs a second secret, `csrf`, which the page keeps in
the storage of its origin and sends as a header. Whoever has only the cookie gets nothing.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_postgres.engine import Prepared, fetch, postgres_errors, reading
from workspaces.live.hub import Hub
from workspaces.tables import LoginLink, Session

LIVES = timedelta(days=30)
"""A session ends when it was not used for so long."""
PROLONGED_EVERY = timedelta(days=1)
NOTED_EVERY = timedelta(minutes=1)
"""How exactly it is known when a session was used last."""
TOLD_WITHIN = timedelta(minutes=1)
LINK_LIVES = timedelta(minutes=10)
_FOUND = Prepared(
    select(Session.digest, Session.account, Session.csrf, Session.expires_at, Session.used_at).where(
        Session.digest == bindparam("of"), Session.password == bindparam("under"), Session.expires_at > func.now()
    )
)
_USED = Prepared(
    update(Session)
    .where(Session.digest == bindparam("of"))
    .values(expires_at=bindparam("until"), used_at=func.now())
    .returning(Session.digest)
)
_LONGEST = 200
_LONGEST_BROWSER = 300
_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A session. `csrf` has to come with every request."""

    digest: str
    account: str
    csrf: str
    expires_at: datetime = field(default_factory=lambda: utc_now() + LIVES)
    used_at: datetime | None = None

    @property
    def is_new(self) -> bool:
        """Whether `csrf` may be told to whoever has the cookie: right after the login, while nobody has used it."""
        return self.used_at is None and utc_now() < self.expires_at - LIVES + TOLD_WITHIN


@dataclass(frozen=True, slots=True)
class Visit:
    """Where a session is begun: the address and the browser, and the cookie that it has already."""

    address: str
    browser: str = ""
    cookie: str | None = None


def digest_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


class Sessions:
    """Begins, finds and ends sessions. All methods raise `Unavailable` when Postgres cannot be used.

    `password_hash` is that of the account: what was begun under another one is over.
    """

    def __init__(self, engine: AsyncEngine, password_hash: str | None) -> None:
        self._engine = engine
        self._password = digest_of(password_hash or "")

    async def begin(self, account: str, visit: Visit) -> tuple[str, LoggedIn]:
        """Begin a session in place of the one of the visit's cookie. Returns its token."""
        token = secrets.token_urlsafe(32)
        made = LoggedIn(digest_of(token), account, secrets.token_urlsafe(24))
        old = digest_of(visit.cookie or "")
        async with postgres_errors(), self._engine.begin() as connection:
            over = (Session.digest == old) | (Session.expires_at <= func.now())
            for digest in (await connection.scalars(delete(Session).where(over).returning(Session.digest))).all():
                await Hub.tell_in(connection, _topic(digest), "ended", {})
            row = {"digest": made.digest, "account": account, "csrf": made.csrf, "expires_at": made.expires_at}
            where = {"address": visit.address, "browser": visit.browser[:_LONGEST_BROWSER]}
            await connection.execute(insert(Session).values(**row, **where, password=self._password))
        return token, made

    async def find(self, token: str) -> LoggedIn | None:
        """The session of a cookie."""
        if not token or len(token) > _LONGEST:
            return None
        for found in await fetch(self._engine, _FOUND, {"of": digest_of(token), "under": self._password}):
            return LoggedIn(found.digest, found.account, found.csrf, found.expires_at, found.used_at)
        return None

    async def used(self, session: LoggedIn) -> None:
        """Note that a session was used: it lives on from now."""
        now = utc_now()
        noted = session.used_at is not None and session.used_at > now - NOTED_EVERY
        if not noted or session.expires_at < now + LIVES - PROLONGED_EVERY:
            await fetch(self._engine, _USED, {"of": session.digest, "until": now + LIVES})

    async def living(self) -> Sequence[Session]:
        """All sessions, the one that was used last first."""
        valid = Session.password == self._password, Session.expires_at > func.now()
        last = func.coalesce(Session.used_at, Session.created_at)
        async with reading(self._engine) as session:
            return (await session.scalars(select(Session).where(*valid).order_by(last.desc()))).all()

    async def end(self, *which: ColumnElement[bool]) -> int:
        """End these sessions. Returns how many there were."""
        async with postgres_errors(), self._engine.begin() as connection:
            ended = (await connection.scalars(delete(Session).where(*which).returning(Session.digest))).all()
            for digest in ended:
                await Hub.tell_in(connection, _topic(digest), "ended", {})
        return len(ended)

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

    async def make_link(self, account: str) -> tuple[str, datetime]:
        """Make a link. Returns its token, and when it expires."""
        token, expires_at = secrets.token_urlsafe(32), utc_now() + LINK_LIVES
        row = {"digest": digest_of(token), "account": account, "expires_at": expires_at, "password": self._password}
        async with postgres_errors(), self._engine.begin() as connection:
            await connection.execute(delete(LoginLink).where(LoginLink.expires_at <= func.now()))
            await connection.execute(insert(LoginLink).values(row))
        return token, expires_at

    async def use_link(self, token: str) -> str | None:
        """Use a link up. Returns its account, None if it is unknown, used or expired."""
        valid = LoginLink.password == self._password, LoginLink.expires_at > func.now()
        used = delete(LoginLink).where(LoginLink.digest == digest_of(token), *valid)
        async with postgres_errors(), self._engine.begin() as connection:
            account: str | None = await connection.scalar(used.returning(LoginLink.account))
        return account


def _topic(digest: str) -> str:
    return f"session:{digest}"
