"""Notices the end of an outage: hooks that wait for their next try are then due at once.

While Mnemosyne cannot be reached it is asked about one team, once a second. Hooks wait up to a minute, so without this
they would learn of its return that much later.
"""

import logging
import time
from contextlib import suppress

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import PallasError, Unavailable
from pallas_postgres.engine import writing
from workspaces.hooks.due import LONGEST_DELAY, reconciler
from workspaces.hooks.reconciler import make_due_for_reconciler
from workspaces.mnemosyne.reading import MnemosyneAway
from workspaces.mnemosyne.teams import Teams

log = logging.getLogger(__name__)

ASK_SECONDS = 1.0


class Outage:
    """The outage as one runner sees it."""

    def __init__(self, engine: AsyncEngine, teams: Teams) -> None:
        self._engine = engine
        self._teams = teams
        self._team: str | None = None
        self._ask_at = 0.0
        self._pause = ASK_SECONDS

    def begin(self, team_id: str, reason: str | None) -> None:
        """A hook has failed, and will be tried again."""
        if self._team is None:
            self._team, self._ask_at = team_id, time.monotonic() + self._pause
            log.warning("Mnemosyne fails, and is asked until it answers again", extra={"reason": reason})

    def end(self) -> None:
        """A hook went well."""
        self._team, self._pause = None, ASK_SECONDS

    def is_time(self) -> bool:
        """Whether to `ask` now."""
        return self._team is not None and time.monotonic() >= self._ask_at

    async def ask(self) -> None:
        """Ask about a team. If Mnemosyne answers, all hooks are due now, and all teams are compared.

        If they fail again all the same, the next question waits longer.
        """
        team, self._ask_at = self._team or "", float("inf")
        try:
            await self._teams.get(team, correlation="outage")
        except MnemosyneAway:
            self._ask_at = time.monotonic() + ASK_SECONDS
            return
        except PallasError:
            pass
        self._team, self._pause = None, min(LONGEST_DELAY, 2 * self._pause)
        log.info("Mnemosyne answers again")
        with suppress(Unavailable):
            async with writing(self._engine) as session:
                await make_due_for_reconciler(session, reconciler())
