"""`create_agent`: makes a workspace whose agent begins with its specification.

The first run on the specification is a task like any other. An attempt that takes over adopts the workspace that the
one before has made.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.coder.client import PROMPT, Coder
from fleet.coder.model import Role, Template, Workspace
from fleet.handlers.delete_agent import DeleteAgent
from fleet.handlers.show import agent_view
from fleet.handlers.start_task import Telling, check_text, failure_of_build
from fleet.names import check_name
from fleet.owners import Sources, owner_of
from fleet.running.finding import new_agent, summary_of, with_task
from fleet.running.typing import submit_task, task_request
from fleet.seeing.fleet import Fleet, is_going
from fleet.seeing.status import find_project, find_role, project_name
from pallas_bus.connection import Bus
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.fleet import LONGEST_SPEC, FleetAgent
from pallas_contracts.ids import child_id
from pallas_hosting.functions.context import CallContext
from pallas_turns.runtime import Turn

_SKEW = timedelta(minutes=1)
"""How much Coder's clock may be behind."""


@dataclass(frozen=True)
class CreateAgent:
    """Makes agents: at most `most`. It waits for `seconds` until a workspace is provisioned."""

    bus: Bus
    fleet: Fleet
    coder: Coder
    deleting: DeleteAgent
    sources: Sources
    most: int
    seconds: float

    async def create(self, ctx: CallContext, name: str, project: str, role: str, spec: str) -> JsonObject:
        """Make an agent.

        Raises:
            Rejected: a parameter is invalid, there is an agent of this name, or the fleet is full.
            Unavailable: Coder does not answer, or could not provision the workspace.
        """
        check_name(name)
        spec = check_text("spec", spec, LONGEST_SPEC)
        began = ctx.now()
        await ctx.side_effect("create")
        try:
            template = find_project(await self.coder.templates(), project)
        except NotFound as error:
            raise Rejected(error.message, field="project") from error
        chosen = find_role(await self.coder.roles(template), role, project_name(template))
        takes = await self.coder.takes_prompt(template)
        workspace = await self._workspace(ctx.turn, name, template, chosen, spec, began, takes=takes)
        entry = await self._enter(ctx.turn, workspace, template, chosen, spec)
        given = await self.coder.prompt(workspace) == spec
        if takes and not given:
            await self._give_up(ctx, entry)
            text = f"Coder has dropped the specification: project '{entry.project}' does not take '{PROMPT}'."
            raise Rejected(text, code="specification_dropped", field="project")
        await self._begin_task(ctx.turn, entry, None if given else spec)
        await self._provisioned(ctx, entry, workspace)
        self.fleet.forget()
        return {"agent": agent_view(entry, workspace), "message": f"Agent '{entry.name}' created successfully"}

    async def _workspace(
        self, turn: Turn, name: str, template: Template, role: Role, spec: str, began: datetime, *, takes: bool
    ) -> Workspace:
        """Make the workspace, or take the one that an earlier attempt has made.

        Coder gives the specification to its agent if the template `takes` it as a parameter, or is for Coder's tasks.
        Else the agent's first task types it.
        """
        full = self.fleet.prefix + name
        known = await self.fleet.snapshots.get(0)
        taken = next((it for it in known if it.name.lower() == full.lower()), None)
        if taken is not None and turn.attempt > 1 and await self._is_ours(turn, taken, spec, began):
            return taken
        if taken is not None:
            raise _exists(name, "; it is being deleted" if is_going(taken) else "")
        if len(self.fleet.agents_of(known)) >= self.most:
            raise Rejected(f"The fleet is full: it has {self.most} agents. Delete one first.", most=self.most)
        parameters = ({PROMPT: spec} if takes else {}) | dict([role.parameter] if role.parameter is not None else ())
        try:
            if not parameters:  # a task of Coder has none
                made = await self.coder.create_task(full, template, role.preset_id, spec)
                if made is not None:
                    return made
            return await self.coder.create(full, template, preset_id=role.preset_id, parameters=parameters)
        except Conflict as error:
            raise _exists(name) from error
        except Unavailable:
            known = await self.fleet.snapshots.get(0)
            made = next((it for it in known if it.name.lower() == full.lower()), None)
            if made is None or not await self._is_ours(turn, made, spec, began):
                raise
            return made

    async def _is_ours(self, turn: Turn, workspace: Workspace, spec: str, began: datetime) -> bool:
        """Whether a workspace was made since we began, for this specification or, where it is typed, without one."""
        entry = self.deleting.agents.of(self.fleet.name_of(workspace), workspace.id)
        if entry is not None and entry.owner not in (None, owner_of(turn.principal)):
            return False
        return workspace.created_at > began - _SKEW and await self.coder.prompt(workspace) in (spec, "")

    async def _enter(self, turn: Turn, workspace: Workspace, template: Template, role: Role, spec: str) -> FleetAgent:
        """The agent's entry, with the first run on its specification as its task."""
        name, source = self.fleet.name_of(workspace), self.sources.of(turn)
        known = {"role": role.name, "project": project_name(template), "spec": spec, "owner": owner_of(turn.principal)}

        def made(entry: FleetAgent | None) -> FleetAgent:
            if entry is None or entry.workspace_id != workspace.id:
                entry = new_agent(name, workspace)
            entry = entry.model_copy(update=known)
            if entry.tasks:
                return entry  # an earlier attempt was here
            return with_task(entry, child_id(turn.turn_id, "spec"), summary_of(spec), source)

        entry = await self.deleting.agents.change(name, made)
        assert entry is not None
        return entry

    async def _begin_task(self, turn: Turn, entry: FleetAgent, spec: str | None) -> None:
        """Let the first run be watched, once the specification is typed if it is given. To do so again is no error."""
        if entry.task is not None and entry.task.turn_id == child_id(turn.turn_id, "spec"):
            caller, client = turn.principal, turn.client
            made = task_request(
                entry, spec, principal=caller, client=client, parent=turn.turn_id, depth=turn.depth + 1, new=True
            )
            await submit_task(self.bus, made)

    async def _provisioned(self, ctx: CallContext, entry: FleetAgent, workspace: Workspace) -> None:
        """Wait for the build. A workspace whose build fails in this time, or has no coding agent, is deleted."""
        tell = Telling(ctx, f"The workspace of {entry.name}").tell
        why = await failure_of_build(self.coder, workspace.build_id, self.seconds, tell)
        error: PallasError | None = None
        if why is not None:
            text = f"The workspace of agent '{entry.name}' could not be provisioned: {why}"
            error = Unavailable(text, code="provisioning_failed", job_error=why)
        elif self.seconds and not await self._has_terminal(workspace):
            text = f"Project '{entry.project}' has no coding agents: its workspaces have no app of PALLAS_FLEET_APPS."
            error = Rejected(text, code="no_coding_agent", field="project")
        if error is not None:
            await self._give_up(ctx, entry)
            raise error

    async def _give_up(self, ctx: CallContext, entry: FleetAgent) -> None:
        with suppress(PallasError):  # what is left is shown as offline, and can be deleted
            await self.deleting.remove(ctx, entry)

    async def _has_terminal(self, workspace: Workspace) -> bool:
        """Whether there is a coding agent in a workspace. What apps it has is known when its build has succeeded."""
        with suppress(Unavailable):
            now = await self.coder.workspace(workspace.id)
            return now is None or now.job_status != "succeeded" or self.coder.terminal(now) is not None
        return True


def _exists(name: str, more: str = "") -> Rejected:
    return Rejected(f"Agent '{name}' already exists{more}.", field="name")
