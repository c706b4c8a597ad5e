"""Runs the hooks that are due, in every replica: those of changes at once, those of the reconciler in batches."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Superseded, Unavailable
from pallas_postgres.engine import reading
from workspaces.hooks.conclude import conclude, redo
from workspaces.hooks.due import Due, Leases
from workspaces.hooks.outage import Outage
from workspaces.hooks.settle import Ended, Settler
from workspaces.hooks.state import State, load
from workspaces.live.hub import RESYNC, WORK, Hub, Live
from workspaces.metrics import Metrics
from workspaces.tables import RetiredTeam

log = logging.getLogger(__name__)

AT_ONCE = 10
"""How many instances a replica tells Mnemosyne about at once; as many again for the reconciler."""
POLL_SECONDS = 1.0


class HookRunner:
    """Runs hooks. Run `run` in a task."""

    def __init__(self, engine: AsyncEngine, hub: Hub, leases: Leases, settler: Settler, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._outage = Outage(engine, settler.teams)
        self._hub = hub
        self._leases = leases
        self._settler = settler
        self._some = asyncio.Event()
        self._single = set[asyncio.Task[None]]()
        self._batch: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run hooks until cancelled."""
        try:
            async with self._hub.subscribe(WORK) as told, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(told))
                tasks.create_task(self._leases.keep_renewing())
                while True:
                    with suppress(Unavailable):
                        await self._start_due(tasks)
                    if self._outage.is_time():
                        tasks.create_task(self._outage.ask(), name="the end of an outage")
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_SECONDS):
                            await self._some.wait()
                    self._some.clear()
        finally:
            await self._leases.release_all()

    async def _listen(self, told: AsyncIterator[Live]) -> None:
        async for item in told:
            if item.kind in ("hooks", RESYNC):
                self._some.set()

    async def _start_due(self, tasks: asyncio.TaskGroup) -> None:
        for due in await self._leases.claim(AT_ONCE - len(self._single), reconciling=False):
            task = tasks.create_task(self._run([due]), name=f"hooks of {due.instance_id}")
            self._single.add(task)
            task.add_done_callback(self._ended)
        if self._batch is None and (batch := await self._leases.claim(AT_ONCE, reconciling=True)):
            self._batch = tasks.create_task(self._run(batch), name="hooks of the reconciler")
            self._batch.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._single.discard(task)
        if task is self._batch:
            self._batch = None
        self._some.set()

    async def _run(self, batch: Sequence[Due]) -> None:
        """Run hooks and record how they ended. Whatever happens, the leases end."""
        try:
            states = await load(self._engine, [due.instance_id for due in batch])
            ended = await asyncio.gather(*(self._tell(due, states.get(due.instance_id)) for due in batch))
            known = [one for one in ended if one is not None]
            await conclude(self._engine, known)
            self._note(known)
        except Unavailable as error:
            log.warning("hooks wait for the database", extra={"reason": error.message})
        except Exception:
            log.exception("hooks could not be run")
        finally:
            self._leases.forget(batch)

    def _note(self, ended: Sequence[Ended]) -> None:
        for one in ended:
            for hook in one.due.hooks:
                self._metrics.hook_runs.labels(hook, "ok" if one.error is None else "failed").inc()
            if one.away:
                self._outage.begin(one.due.instance_id, one.error)
            elif one.error is None:
                self._outage.end()

    async def _tell(self, due: Due, state: State | None) -> Ended | None:
        try:
            if state is not None:
                return await self._settler.settle(due, state)
            return await self._settler.delete(due, await self._name_of(due.instance_id))
        except Superseded:
            await redo(self._engine, due)
        return None

    async def _name_of(self, instance_id: str) -> str:
        """The name of a deleted instance."""
        async with reading(self._engine) as session:
            found = select(RetiredTeam.name).where(RetiredTeam.id == instance_id)
            return await session.scalar(found) or instance_id
