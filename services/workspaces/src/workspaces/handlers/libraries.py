"""What the teams of a workspace read. Mnemosyne is asked with the JWT of each team, as the team itself would ask."""

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from sqlalchemy import select

from pallas_contracts.errors import NotFound, PallasError, Unavailable
from pallas_mcp_calls.late import LateCalls
from pallas_mcp_calls.model import CallFailed, Target
from pallas_postgres.engine import reading
from workspaces.answers import LibraryView, Passage, Passages, TeamLibraries, WorkspaceLibraries
from workspaces.handlers.control import Control
from workspaces.handlers.workspaces import get_workspace
from workspaces.origins import reached
from workspaces.tables import Assignment, PallasInstance

MOST_TEAMS = 20
MOST_PASSAGES = 5
SECONDS = 10.0
LONGEST_PASSAGE = 600


class _Listed(BaseModel):
    """What `list_libraries` answers."""

    libraries: tuple[LibraryView, ...] = ()


class _Hit(BaseModel):
    title: str | None = None
    library_name: str | None = None
    text: str = ""


class _Found(BaseModel):
    """What `search` answers."""

    results: tuple[_Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class _Team:
    id: str
    name: str
    sealed: str | None


@dataclass(frozen=True)
class Libraries:
    """Reads libraries as teams do. `origins` say where the address of the MCP server is reached."""

    control: Control
    calls: LateCalls
    origins: Any

    async def of(self, workspace_id: str) -> WorkspaceLibraries:
        """The libraries that each team of a workspace reads, also those of its other workspaces.

        Raises:
            NotFound: there is no such workspace.
        """
        teams = await self._teams(workspace_id)
        return WorkspaceLibraries(teams=tuple(await asyncio.gather(*map(self._of_team, teams))))

    async def search(self, workspace_id: str, words: str) -> Passages:
        """What a team of the workspace finds, the first one that has an answer.

        Raises:
            NotFound: there is no such workspace, or it has no team that could search (`no_team`).
            Unavailable: Mnemosyne does not answer (`no_library`).
        """
        error: PallasError = NotFound("no team of this workspace can search yet", code="no_team")
        for team in await self._teams(workspace_id):
            try:
                found = await self._call(team, "search", {"query": words, "limit": MOST_PASSAGES}, _Found)
            except PallasError as failure:
                error = failure
                continue
            passages = [
                Passage(title=one.title or "", library=one.library_name or "", text=one.text[:LONGEST_PASSAGE])
                for one in found.results
            ]
            return Passages(team=team.name, passages=tuple(passages))
        raise error

    async def _teams(self, workspace_id: str) -> list[_Team]:
        await get_workspace(self.control, workspace_id)
        wanted = (
            select(PallasInstance.id, PallasInstance.name, PallasInstance.team_jwt_encrypted)
            .join(Assignment, Assignment.pallas_instance_id == PallasInstance.id)
            .where(Assignment.workspace_id == workspace_id)
            .order_by(PallasInstance.name)
            .limit(MOST_TEAMS)
        )
        async with reading(self.control.engine) as session:
            return [_Team(*row) for row in await session.execute(wanted)]

    async def _of_team(self, team: _Team) -> TeamLibraries:
        try:
            found = await self._call(team, "list_libraries", {}, _Listed)
        except PallasError as error:
            return TeamLibraries(instance_id=team.id, name=team.name, error=error.message)
        return TeamLibraries(instance_id=team.id, name=team.name, libraries=found.libraries)

    async def _call[T: BaseModel](self, team: _Team, tool: str, arguments: dict[str, Any], shape: type[T]) -> T:
        """The answer of a tool for a team, which has this shape.

        Raises:
            PallasError: there is none; the message says why.
        """
        _, url = self.control.library
        if url is None:
            raise Unavailable("the address of the libraries is not set (PALLAS_LIBRARY_URL)", code="no_library")
        if team.sealed is None:
            raise Unavailable("the libraries do not know this team yet", code="no_library")
        target = Target(reached(url, self.origins), self.control.vault.open(team.sealed))
        try:
            async with asyncio.timeout(SECONDS):
                answer = await (await self.calls()).call(target, tool, arguments)
        except (CallFailed, TimeoutError) as error:
            raise Unavailable(f"the libraries cannot be asked: {error or 'no answer'}", code="no_library") from error
        if answer.failed:
            raise Unavailable("the libraries have refused the team", code="no_library")
        try:
            return shape.model_validate_json(answer.text)
        except ValidationError as error:
            raise Unavailable("the libraries have answered in an unknown form", code="no_library") from error
