"""Everything that can happen to teams as a state machine, with a Mnemosyne that fails in every way it can.

The machine keeps a model of which teams are attached to which workspaces. After some steps Mnemosyne works again and a
cycle of the reconciler is made: then it has to know exactly that, and every status has to be true.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, CONTENT
from tests.waiting import PATIENCE
from tests.workspaces_world.mnemosyne import KnownTeam, Mode

MOST = 3
"""Teams and workspaces at a time."""
FAILING: tuple[Mode, ...] = ("page", "page_after", "twice", "forgets", "redirects", "web_page")


class Stage:
    """A world that runs in a thread of its own, so that its reconciler goes on between the steps."""

    def __init__(self, loop: asyncio.AbstractEventLoop, world: World) -> None:
        self._loop = loop
        self.world = world

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the world, and wait for it."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(2 * PATIENCE)

    def stop(self, ended: asyncio.Event) -> None:
        """End the world, which waits for `ended`."""
        self._loop.call_soon_threadsafe(ended.set)


class Teams(RuleBasedStateMachine):
    """Teams, workspaces, and what Mnemosyne is told about them."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.teams = dict[str, set[str]]()
        self.workspaces = list[str]()
        self.deleted = list[str]()
        self.kept: dict[str, KnownTeam] | None = None

    @property
    def world(self) -> World:
        """The world that all runs share."""
        return self.stage.world

    @initialize()
    def begin(self) -> None:
        """Begin without teams and workspaces."""
        self.stage.run(self._begin())

    @rule()
    def register(self) -> None:
        if len(self.teams) < MOST:
            self.teams[self.stage.run(self.world.register())] = set()

    @rule()
    def create_workspace(self) -> None:
        if len(self.workspaces) < MOST:
            self.workspaces.append(self.stage.run(self.world.workspace()))

    @precondition(lambda self: self.teams and self.workspaces)
    @rule(data=st.data())
    def attach(self, data: st.DataObject) -> None:
        """Attach some teams to a workspace, and no others."""
        workspace = data.draw(st.sampled_from(self.workspaces), "workspace")
        chosen = data.draw(st.sets(st.sampled_from(sorted(range(len(self.teams))))), "teams")
        teams = [team for number, team in enumerate(self.teams) if number in chosen]
        self.stage.run(self.world.attach(workspace, *teams))
        for team, attached in self.teams.items():
            (attached.add if team in teams else attached.discard)(workspace)

    @precondition(lambda self: self.workspaces)
    @rule()
    def delete_workspace(self) -> None:
        """Delete the oldest workspace."""
        workspace = self.workspaces.pop(0)
        self.ask("DELETE", f"/workspaces/{workspace}", {204})
        for attached in self.teams.values():
            attached.discard(workspace)

    @precondition(lambda self: self.teams)
    @rule()
    def delete(self) -> None:
        """Delete the oldest team."""
        team = next(iter(self.teams))
        del self.teams[team]
        self.deleted.append(team)
        self.ask("DELETE", f"/pallas/{team}", {204})

    @precondition(lambda self: self.teams)
    @rule(action=st.sampled_from(("rotate", "provision", "check", "reveal", "refresh")))
    def act(self, action: str) -> None:
        """Do what an operator can do with the newest team."""
        self.ask("POST", f"/pallas/{list(self.teams)[-1]}/{action}", {200, 404, 409, 502, 503})

    @rule(mode=st.sampled_from(FAILING), what=st.sampled_from(("POST", "PUT", "ROTATE", "GET", "DELETE")))
    def fail(self, mode: Mode, what: str) -> None:
        """Let Mnemosyne fail from now on."""
        self.world.mnemosyne.modes[what] = mode

    @rule()
    def work(self) -> None:
        """Let Mnemosyne work from now on."""
        self.world.mnemosyne.modes.clear()
        self.stage.run(self.world.mnemosyne.start())

    @rule()
    def stop(self) -> None:
        """Let Mnemosyne refuse connections."""
        self.stage.run(self.world.mnemosyne.stop())

    @rule()
    def keep(self) -> None:
        """Make a backup of Mnemosyne."""
        self.kept = self.world.mnemosyne.snapshot()

    @precondition(lambda self: self.kept is not None)
    @rule()
    def lose(self) -> None:
        """Let Mnemosyne lose what was written since the backup."""
        assert self.kept is not None
        self.world.mnemosyne.teams, self.kept = self.kept, None

    @rule()
    def lose_claims(self) -> None:
        """Let another replica claim all teams, and die."""
        self.stage.run(self.world.set_teams("claim = 'dead', claimed_until = now(), due_at = now()"))

    @rule()
    def become_quiet(self) -> None:
        """Let Mnemosyne work, and compare."""
        self.work()
        self.stage.run(self._compare())

    def teardown(self) -> None:
        """Compare at the end, too."""
        self.become_quiet()

    def ask(self, method: str, path: str, statuses: set[int]) -> None:
        """Make a request, which ends in one of these ways."""
        answer = self.stage.run(self.world.http.request(method, f"{API}{path}"))
        assert answer.status_code in statuses, answer.text

    async def _begin(self) -> None:
        await self.world.mnemosyne.start()
        self.world.mnemosyne.modes.clear()
        await self._until_quiet()
        for table in CONTENT:
            await self.world.execute(f"delete from {table}")
        self.world.mnemosyne.teams.clear()

    async def _until_quiet(self) -> None:
        await self.world.set_teams("due_at = now()")
        await self.world.until_quiet()

    async def _compare(self) -> None:
        await self._until_quiet()
        await self.world.reconcile()
        for team, attached in self.teams.items():
            assert self.world.mnemosyne.knows(team) == (True, sorted(attached))
            shown = await self.world.instance(team)
            assert (shown["status"], shown["workspace_ids"]) == ("provisioned", sorted(attached))
            assert shown["pushed_workspaces"] or not attached
            works = self.world.mnemosyne.accepts(await self._jwt(team))
            assert works == (shown["drift"] is None), shown["drift"]
        for team in self.deleted:
            assert team not in self.world.mnemosyne.teams or not self.world.mnemosyne.teams[team].active

    async def _jwt(self, team: str) -> str:
        [[sealed]] = await self.world.rows("select team_jwt_encrypted from pallas_instances where id = :id", id=team)
        return self.world.lab.service.parts.control.vault.open(sealed)
