"""`delete_agent`: destroys an agent's workspace, whatever the agent does.

Its task is cancelled, and nobody waits for that. What is known of the agent goes when its workspace is gone.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.handlers.start_task import Telling, failure_of_build
from fleet.running.finding import new_agent
from fleet.running.reconciling import Reconcile
from fleet.running.typing import task_ref
from fleet.seeing.fleet import Fleet
from fleet.storing.agents import Agents
from pallas_bus.connection import Bus
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.fleet import FleetAgent
from pallas_hosting.functions.context import CallContext
from pallas_hosting.functions.durable import StepFailed
from pallas_turns.claims import request_cancel

SECONDS = 30.0
"""Seconds that it waits for the workspace to be destroyed. Coder goes on after them."""

_PAUSE = 0.5
_KINDS = {kind.__name__: kind for kind in (NotFound, Unavailable)}


@dataclass(frozen=True)
class DeleteAgent:
    """Deletes agents."""

    bus: Bus
    fleet: Fleet
    coder: Coder
    agents: Agents
    reconcile: Reconcile

    async def delete(self, ctx: CallContext, name: str) -> JsonObject:
        """Delete an agent.

        Raises:
            NotFound: there is no such agent.
            Unavailable: Coder does not answer, or could not delete the workspace.
        """
        found = await self._found(ctx, name)
        name, workspace_id = found["name"], found["workspace_id"]
        await ctx.side_effect("delete")
        entry = await self._mark(name, workspace_id)
        if entry is not None:
            try:
                await self.remove(ctx, entry)
            except BaseException:
                self.bus.spawn(self._unmark(name, workspace_id))
                raise
        elif ctx.turn.attempt == 1:
            raise NotFound(f"Agent '{name}' does not exist.", agent_name=name)
        deleted = {"name": name, "workspace_id": workspace_id}
        return {"message": f"Agent '{name}' deleted successfully", "deleted_agent": deleted}

    async def remove(self, ctx: CallContext, entry: FleetAgent) -> None:
        """Destroy a workspace, and forget what is known of its agent.

        Raises:
            Unavailable: Coder does not answer, or could not delete the workspace.
        """
        if entry.task is not None:
            await request_cancel(self.bus, task_ref(entry.task.turn_id), "its agent is deleted")
        tell = Telling(ctx, f"Deleting the workspace of {entry.name}").tell
        workspace = await self.coder.workspace(entry.workspace_id)
        try:
            build = await self._start(entry.workspace_id)
            why = await failure_of_build(self.coder, build, SECONDS, tell) if build is not None else None
        except (Rejected, TimeoutError) as error:
            why = error.message if isinstance(error, Rejected) else f"another build of it takes more than {SECONDS:g} s"
        self.fleet.forget()
        if why is not None:
            raise Unavailable(
                f"The workspace of agent '{entry.name}' could not be deleted: {why}",
                code="deletion_failed",
                job_error=why,
            )
        if workspace is not None:
            with suppress(PallasError):  # it is only kept
                await self.coder.forget(workspace)
        now = await self.agents.read(entry.name)
        await self.reconcile.forget(now if now is not None and now.workspace_id == entry.workspace_id else entry)

    async def _start(self, workspace_id: str) -> str | None:
        """Begin the deletion, or find the one that has begun. None: the workspace is gone."""
        cancelled = ""
        async with asyncio.timeout(SECONDS):
            while True:
                workspace = await self.coder.workspace(workspace_id)
                if workspace is None:
                    return None
                under_way = workspace.job_status in ("pending", "running", "canceling")
                if workspace.transition == "delete" and under_way:
                    return workspace.build_id
                if under_way and cancelled != workspace.build_id:
                    cancelled = workspace.build_id
                    await self.coder.cancel_build(cancelled)
                try:
                    return await self.coder.start_build(workspace_id, "delete")
                except NotFound:
                    return None
                except Conflict:  # another build is under way
                    await asyncio.sleep(_PAUSE)

    async def _found(self, ctx: CallContext, name: str) -> JsonObject:
        """Name and workspace of the agent, as the first attempt found them: a later one may not."""

        why: PallasError | None = None

        async def find() -> JsonObject:
            nonlocal why
            try:
                seen = await self.fleet.find(name, ctx.turn.principal)
            except PallasError as error:
                why = error  # what is recorded has no facts
                raise
            return {"name": seen.name, "workspace_id": seen.workspace.id}

        try:
            return await ctx.step("find", find)
        except StepFailed as error:
            raise why or _KINDS.get(error.kind, PallasError)(error.message) from error

    async def _mark(self, name: str, workspace_id: str) -> FleetAgent | None:
        """From here on the agent gets no task. None: it is gone."""
        workspace = await self.coder.workspace(workspace_id)

        def marked(entry: FleetAgent | None) -> FleetAgent | None:
            if entry is not None and entry.workspace_id == workspace_id:
                return entry.model_copy(update={"deleting": True})
            if workspace is None:
                return entry
            return new_agent(name, workspace).model_copy(update={"deleting": True})

        entry = await self.agents.change(name, marked)
        return entry if entry is not None and entry.workspace_id == workspace_id else None

    async def _unmark(self, name: str, workspace_id: str) -> None:
        def unmarked(entry: FleetAgent | None) -> FleetAgent | None:
            if entry is None or entry.workspace_id != workspace_id:
                return entry
            return entry.model_copy(update={"deleting": False})

        await self.agents.change(name, unmarked)
