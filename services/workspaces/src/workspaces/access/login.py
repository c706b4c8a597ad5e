"""Logs people in, by the password or by a link, and lets the command line in by HTTP Basic."""

import logging
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Unavailable
from pallas_credentials.accounts import Accounts
from workspaces.access.sessions import LoggedIn, Sessions, Visit
from workspaces.metrics import Metrics

log = logging.getLogger(__name__)

ADMIN = "admin"


@dataclass
class Logins:
    """Who may send requests. `password_hash` None: nobody can log in by a password.

    Those that check a password raise `Unavailable` if too many are being checked, of the address or in all.
    """

    engine: AsyncEngine
    metrics: Metrics
    password_hash: str | None = field(repr=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.engine, self.password_hash)
        self._accounts = Accounts({ADMIN: self.password_hash}, slows_guesses=True)

    async def by_password(self, password: str, visit: Visit) -> tuple[str, LoggedIn] | None:
        """Begin a session with the password, in place of that of the visit's cookie; None if the password is wrong.

        Whoever has a session does not wait for others who guess from the same address.
        """
        known = await self.sessions.find(visit.cookie) if visit.cookie else None
        by = f"session {known.digest}" if known else None
        if not await self._is_right("password", ADMIN, password, visit.address, by):
            return None
        return await self._begin("password", ADMIN, visit)

    async def by_link(self, token: str, visit: Visit) -> tuple[str, LoggedIn] | None:
        """Begin a session with a link, which is used up; None if it is not valid (any more)."""
        account = await self.sessions.use_link(token)
        if account is None:
            self._failed("link", visit.address)
            return None
        return await self._begin("link", account, visit)

    async def by_basic(self, name: str, password: str, address: str) -> bool:
        """Whether these are the name and password of the account."""
        return await self._is_right("basic", name, password, address)

    async def _is_right(self, how: str, name: str, password: str, address: str, known: str | None = None) -> bool:
        try:
            right = await self._accounts.has(name, password, known or address)
        except Unavailable as error:
            self.metrics.logins.labels(how, "refused").inc()
            log.warning("login refused: %s", error.code, extra={"how": how, "address": address})
            raise
        if not right:
            self._failed(how, address)
        return right

    async def _begin(self, how: str, account: str, visit: Visit) -> tuple[str, LoggedIn]:
        begun = await self.sessions.begin(account, visit)
        self.metrics.logins.labels(how, "succeeded").inc()
        log.info("login succeeded", extra={"how": how, "account": account, "address": visit.address})
        return begun

    def _failed(self, how: str, address: str) -> None:
        self.metrics.logins.labels(how, "failed").inc()
        log.warning("login failed", extra={"how": how, "address": address})
