"""The reconciler (auth contract, section 8.6), in every replica: compares the teams that are due with Mnemosyne.

A change of our tables makes its teams due at once, a timer makes all of them due. Whatever the reason, the same is
done: what holds here now is put there. One that fails is tried again after 1, 2, 4 … 60 s, or when Mnemosyne answers
again; one that is refused is not, before it is changed or the timer comes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import ValidationError
from sqlalchemy import case, func, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.connection import Bus
from pallas_bus.follow import follow
from pallas_bus.reads import Record
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import reading, writing
from workspaces.answers import SettingsView
from workspaces.changes.make import lock_rows
from workspaces.live.hub import RESYNC, WORK, Hub, Live
from workspaces.metrics import Metrics
from workspaces.mnemosyne.reading import MnemosyneRefused
from workspaces.model import Who
from workspaces.reconciling.claims import Claimed, Claims, reconciler
from workspaces.reconciling.sync import LONGEST_DELAY, Syncer
from workspaces.registries.refresh import Refresher
from workspaces.stored_settings import stored_settings
from workspaces.tables import WORKSPACE_IDS, Assignment, MnemosyneTeam, PallasInstance, Setting

log = logging.getLogger(__name__)

LOCK = 0x70616C6C7772
"""The advisory lock of whoever makes a cycle."""
AT_ONCE = 10
"""How many teams a replica compares at once."""
POLL_SECONDS = ASK_SECONDS = 1.0
LOOKED_AFTER = timedelta(days=7)
"""How long a deleted team is looked after, in case Mnemosyne loses that it was deleted."""
_LAST = "last_reconcile"


@dataclass
class Reconciler:
    """Compares teams. Run `run` in a task."""

    engine: AsyncEngine
    hub: Hub
    claims: Claims
    syncer: Syncer
    refresher: Refresher
    defaults: SettingsView
    metrics: Metrics
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: int = 0

    async def run(self) -> None:
        """Compare until cancelled."""
        async with self.hub.subscribe(WORK) as told, asyncio.TaskGroup() as tasks:
            for work in (self._listen(told), self.claims.keep_renewing(), self._keep_time(), self._end_outages()):
                tasks.create_task(work)
            while True:
                with suppress(Unavailable):
                    if due := await self.claims.take(AT_ONCE - self._busy):
                        self._busy += len(due)
                        tasks.create_task(self._sync(due), name="comparing teams")
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._some.wait()
                self._some.clear()

    async def cycle(self, *, early: bool = True) -> bool:
        """Make all teams due; unless `early` only if the last time is as long ago as the settings want.

        Returns whether that was done. The replicas together do it once in each interval.
        """
        async with writing(self.engine) as session:
            lock = func.pg_advisory_xact_lock if early else func.pg_try_advisory_xact_lock
            locked = await session.scalar(select(lock(LOCK)))
            if not early and not (locked and await self._is_time(session)):
                return False
            await wake_all(session, reconciler())
            at = func.jsonb_build_object("at", func.clock_timestamp())
            last = insert(Setting).values(key=_LAST, value=at)
            await session.execute(last.on_conflict_do_update(index_elements=[Setting.key], set_={"value": at}))
        return True

    async def refresh_attached(self) -> None:
        """Fetch the registries of all attached instances again."""
        async with reading(self.engine) as session:
            attached = (await session.scalars(select(Assignment.pallas_instance_id).distinct())).all()
        await self.refresher.refresh(reconciler(), attached)

    async def _listen(self, told: AsyncIterator[Live]) -> None:
        async for item in told:
            if item.kind in ("teams", RESYNC):
                self._some.set()

    async def _sync(self, due: Sequence[Claimed]) -> None:
        """Compare these teams, which are of one claim. Whatever happens, the claim ends."""
        try:
            for synced in await self.syncer.sync(due):
                self.metrics.syncs.labels("ok" if synced.error is None else "failed").inc()
        except Unavailable as error:
            log.warning("comparing teams with Mnemosyne waits for the database", extra={"reason": error.message})
        except Exception:
            log.exception("teams could not be compared with Mnemosyne")
            await asyncio.sleep(POLL_SECONDS)
        finally:
            self._busy -= len(due)
            await self.claims.release(due[0].token)
            self._some.set()

    async def _keep_time(self) -> None:
        """Make cycles at their interval, and count."""
        while True:
            with suppress(Unavailable):
                async with reading(self.engine) as session:
                    waiting = select(func.count()).where(MnemosyneTeam.since.is_not(None))
                    self.metrics.waiting_teams.set(await session.scalar(waiting) or 0)
                if await self.cycle(early=False):
                    await self.refresh_attached()
            await asyncio.sleep(POLL_SECONDS)

    async def _end_outages(self) -> None:
        """While teams wait for their next try, ask about one of them once a second. If Mnemosyne answers, all are due.

        If they fail again all the same, the next question waits longer.
        """
        pause = ASK_SECONDS
        failed = select(MnemosyneTeam.id).where(MnemosyneTeam.tries > 0, MnemosyneTeam.due_at.is_not(None)).limit(1)
        while True:
            await asyncio.sleep(pause)
            with suppress(Unavailable):
                async with reading(self.engine) as session:
                    team = await session.scalar(failed)
                if team is None:
                    pause = ASK_SECONDS
                    continue
                with suppress(MnemosyneRefused):
                    await self.syncer.teams.get(team, correlation="outage")
                await self.cycle()
                pause = min(LONGEST_DELAY, 2 * pause)

    async def _is_time(self, session: AsyncSession) -> bool:
        interval = (await stored_settings(session, self.defaults)).reconcile_interval
        passed = await session.scalar(
            text(
                "select extract(epoch from clock_timestamp() - (value ->> 'at')::timestamptz) "
                "from settings where key = :key"
            ),
            {"key": _LAST},
        )
        return passed is None or not 0 <= passed < interval


async def wake_all(session: AsyncSession, who: Who, *, only: str | None = None) -> None:
    """Make all teams due, or one, with the transaction of the session: also what waits for its next try."""
    team, now = MnemosyneTeam, func.clock_timestamp()
    columns = PallasInstance.id, literal(who.correlation), literal(who.account)
    living = select(*columns).order_by(PallasInstance.id)
    kept = or_(team.deleted_at > now - LOOKED_AFTER, team.since.is_not(None))
    deleted = update(team).where(team.deleted_at.is_not(None), kept)
    if only is not None:
        living, deleted = living.where(PallasInstance.id == only), deleted.where(team.id == only)
    rows = insert(team).from_select(["id", "correlation", "actor"], living)
    due = {"version": team.version + 1, "due_at": func.least(team.due_at, now)}
    quiet = team.since.is_(None)
    sender = {
        "correlation": case((quiet, who.correlation), else_=team.correlation),
        "actor": case((quiet, who.account), else_=team.actor),
    }
    await lock_rows(session, team, *([] if only is None else [team.id == only]))
    await session.execute(rows.on_conflict_do_update(index_elements=[team.id], set_={**due, **sender}))
    await session.execute(deleted.values(**due, **sender))
    await Hub.tell_in(session, WORK, "teams", {})


@dataclass
class TeamEvents:
    """Follows the changes of teams."""

    engine: AsyncEngine

    async def run(self, bus: Bus) -> None:
        """Follow until cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="team"), self)

    async def begin(self, made: str, last: int) -> int:
        """Go on behind the last event: at the start, and after whatever has failed, all teams are compared instead."""
        async with writing(self.engine) as session:
            await wake_all(session, reconciler())
        return last

    async def take(self, record: Record) -> None:
        """Have a team of ours compared, unless it has what it should have."""
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            return
        async with reading(self.engine) as session:
            if await session.get(MnemosyneTeam, event.id) is None:
                return
            attached = await session.scalar(select(WORKSPACE_IDS).where(PallasInstance.id == event.id))
        told = event.data.get("workspace_ids") if event.action == "workspaces_updated" else None
        if told is None or attached is None or set(told) != set(attached):
            async with writing(self.engine) as session:
                await wake_all(session, Who(event.actor, event.correlation), only=event.id)

    def caught_up(self) -> None:
        """Nothing to do."""

    def waits(self) -> None:
        """Nothing to do: the reconciler finds what was missed."""
