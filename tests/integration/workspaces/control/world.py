"""The service between a Mnemosyne and a registry that are not ours."""

import copy
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy import text
from tests.integration.real_parts import until
from tests.integration.workspaces.lab import API, Lab, a_workspaces, empty
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE, soon
from tests.workspaces_world.mnemosyne import PASSWORD, Mnemosyne
from tests.workspaces_world.registry import DOCUMENT, Registry

from pallas_postgres.engine import reading
from workspaces.live.hub import ALL

LIBRARY = "https://mnemosyne.example.helu.ca/mcp/"


@dataclass(frozen=True)
class World:
    """The three of them. `http` is a client with an account."""

    lab: Lab
    mnemosyne: Mnemosyne
    registry: Registry

    @property
    def http(self) -> httpx.AsyncClient:
        """The client of an operator."""
        return self.lab.command_line

    async def empty(self, postgres: PostgresServer) -> None:
        """Delete all content, once no team is being compared."""
        await self.until_quiet()
        await empty(postgres, self.lab.settings["postgres_url"])
        for kept in (self.mnemosyne.teams, self.mnemosyne.jwts, self.mnemosyne.asked, self.mnemosyne.modes):
            kept.clear()
        self.registry.asked.clear()
        self.registry.servers = copy.deepcopy(DOCUMENT["servers"])
        self.mnemosyne.mode = self.registry.mode = "well"

    async def register(self, name: str = "Kottos", **fields: Any) -> str:
        """Register an instance, with an address of its own. Returns its id."""
        url = f"{self.registry.base}/teams/{uuid.uuid4().hex[:8]}"
        answer = await self.http.post(f"{API}/pallas", json={"registry_url": url, "name": name, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def provisioned(self, name: str = "Kottos") -> str:
        """Register an instance and wait until its team is provisioned. Returns its id."""
        instance = await self.register(name)
        await self.until(instance, lambda one: one["status"] == "provisioned")
        return instance

    async def settled(self, name: str = "Kottos") -> str:
        """The same, until there is nothing more to tell Mnemosyne."""
        instance = await self.provisioned(name)
        await self.until_quiet()
        return instance

    async def accepted(self, instance: str) -> str:
        """Reveal the JWT of an instance, which Mnemosyne accepts. Returns it."""
        jwt = (await self.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
        assert self.mnemosyne.accepts(jwt)
        return jwt

    async def told(self, *attached: str) -> str:
        """Create a workspace with these instances and wait until Mnemosyne has been told. Returns its id."""
        workspace = await self.workspace(*attached)
        await self.until_quiet()
        return workspace

    async def workspace(self, *attached: str) -> str:
        """Create a workspace and attach these instances. Returns its id."""
        answer = await self.http.post(f"{API}/workspaces", json={"name": "A workspace"})
        assert answer.status_code == 201, answer.text
        workspace = answer.json()["id"]
        if attached:
            await self.attach(workspace, *attached)
        return workspace

    async def attach(self, workspace: str, *instances: str) -> dict[str, Any]:
        """Attach these instances to a workspace, and no others."""
        answer = await self.http.put(f"{API}/workspaces/{workspace}/pallas", json={"instance_ids": instances})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def instance(self, instance: str) -> dict[str, Any]:
        """An instance as it is shown."""
        answer = await self.http.get(f"{API}/pallas/{instance}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, instance: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until an instance is as it should be."""
        async with self.lab.service.parts.hub.subscribe(ALL) as told:
            while not enough(shown := await self.instance(instance)):
                await soon(anext(told), PATIENCE)
        return shown

    async def until_quiet(self) -> None:
        """Wait until no team is due or being compared. The end of what was in order is not told."""

        async def quiet() -> bool:
            return not await self.rows("select id from mnemosyne_teams where claim is not null or due_at <= now()")

        await until(quiet)

    async def deliveries(self, **params: Any) -> list[dict[str, Any]]:
        """The teams that are not known to be in sync."""
        answer = await self.http.get(f"{API}/deliveries", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()["deliveries"]

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query in the service's database."""
        async with reading(self.lab.service.parts.engine) as session:
            return [tuple(row) for row in await session.execute(text(statement), values)]

    async def execute(self, statement: str, **values: Any) -> None:
        """Run a statement in the service's database."""
        async with self.lab.service.parts.engine.begin() as connection:
            await connection.execute(text(statement), values)

    async def set_teams(self, values: str) -> None:
        """Set columns of all teams, which are locked in the order that the service locks them in."""
        locked = "select id from mnemosyne_teams order by id for no key update"
        await self.execute(f"update mnemosyne_teams set {values} where id in ({locked})")

    async def reconcile(self) -> None:
        """Make a cycle of the reconciler, and wait until its work is done."""
        answer = await self.http.post(f"{API}/deliveries/reconcile")
        assert answer.status_code == 202, answer.text
        await self.until_quiet()


@asynccontextmanager
async def a_world(postgres_url: str, **settings: str) -> AsyncGenerator[World]:
    """Run all three."""
    async with Mnemosyne() as mnemosyne, Registry() as registry:
        given = {"teams_url": mnemosyne.base, "teams_password": PASSWORD, "library_url": LIBRARY}
        async with a_workspaces(postgres_url=postgres_url, **{**given, **settings}) as lab:
            yield World(lab, mnemosyne, registry)
