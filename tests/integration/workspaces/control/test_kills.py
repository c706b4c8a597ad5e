"""The process is killed (SIGKILL) between the steps of what it does with Mnemosyne; the next one makes it good."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.real_parts import until
from tests.integration.workspaces.control.process import Killable
from tests.integration.workspaces.lab import API
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.mnemosyne import PASSWORD, Mnemosyne
from tests.workspaces_world.registry import Registry


class Killed:
    """The service as a process, which is killed and started again."""

    def __init__(self, replica: Killable, mnemosyne: Mnemosyne, registry: Registry, engine: AsyncEngine) -> None:
        self.replica = replica
        self.mnemosyne = mnemosyne
        self.registry = registry
        self.engine = engine

    @property
    def http(self) -> httpx.AsyncClient:
        """A client with an account."""
        return self.replica.http

    async def register(self) -> str:
        """Register an instance, and wait for the end of nothing else."""
        answer = await self.http.post(f"{API}/pallas", json={"registry_url": self.registry.base, "name": "Kottos"})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def kill_and_start(self) -> None:
        """Kill the process, let its claims end, and start it again."""
        await self.replica.end(signal.SIGKILL)
        async with self.engine.begin() as connection:
            await connection.execute(text("update mnemosyne_teams set claimed_until = now()"))
        await self.replica.start()

    async def until_quiet(self) -> None:
        """Wait until all teams are in sync."""

        async def quiet() -> bool:
            async with self.engine.connect() as connection:
                waiting = text("select count(*) from mnemosyne_teams where since is not null or claim is not null")
                return await connection.scalar(waiting) == 0

        await until(quiet)

    async def shown(self, instance: str) -> dict[str, Any]:
        return (await self.http.get(f"{API}/pallas/{instance}")).json()

    async def revealed(self, instance: str) -> str:
        """The JWT of an instance, seen for the first time."""
        answer = await self.http.post(f"{API}/pallas/{instance}/reveal")
        assert answer.status_code == 200, answer.text
        return answer.json()["jwt"]


@pytest.fixture
async def killed(database: str, engine: AsyncEngine, tmp_path: Path) -> AsyncGenerator[Killed]:
    """A process of the service, with a Mnemosyne and a registry."""
    async with Mnemosyne() as mnemosyne, Registry() as registry:
        settings = {"postgres_url": database, "teams_url": mnemosyne.base, "teams_password": PASSWORD}
        async with Killable(settings, tmp_path / "log") as replica:
            yield Killed(replica, mnemosyne, registry, engine)


@requirement("A-8.0.1", "A-8.1.2")
async def test_whatever_was_interrupted_is_made_good(killed: Killed) -> None:
    # Between the 201 and the store: the answer with the only copy of the JWT is lost.
    done, _ = killed.mnemosyne.hold("POST")
    instance = await killed.register()
    await soon(done.wait())
    await killed.kill_and_start()
    await killed.until_quiet()
    assert killed.mnemosyne.counted()["ROTATE"] == 1
    assert killed.mnemosyne.accepts(await killed.revealed(instance))

    # Between a PUT and what is remembered of it, with a change after it.
    done, _ = killed.mnemosyne.hold("PUT")
    workspaces = [
        (await killed.http.post(f"{API}/workspaces", json={"name": name})).json()["id"] for name in ("One", "Two")
    ]
    await killed.http.post(f"{API}/workspaces/{workspaces[0]}/pallas/{instance}")
    await soon(done.wait())
    await killed.http.post(f"{API}/workspaces/{workspaces[1]}/pallas/{instance}")
    await killed.kill_and_start()
    await killed.until_quiet()
    assert killed.mnemosyne.knows(instance) == (True, sorted(workspaces))
    assert (await killed.shown(instance))["drift"] is None

    # Between a rotation and the store of the new JWT: the stored one is refused by now.
    done, _ = killed.mnemosyne.hold("ROTATE")
    rotating = asyncio.create_task(killed.http.post(f"{API}/pallas/{instance}/rotate"))
    await soon(done.wait())
    await killed.kill_and_start()
    with pytest.raises(httpx.TransportError):
        await rotating
    await killed.until_quiet()
    assert killed.mnemosyne.accepts(await killed.revealed(instance))

    # Between the store of that the JWT was seen and the answer: it is not shown again, and rotating makes another.
    answer = await killed.http.post(f"{API}/pallas/{instance}/rotate")
    assert answer.json()["jwt"] == "ready"
    await killed.revealed(instance)
    await killed.kill_and_start()
    assert (await killed.http.post(f"{API}/pallas/{instance}/reveal")).json()["code"] == "already_revealed"
    assert (await killed.http.post(f"{API}/pallas/{instance}/rotate")).json()["jwt"] == "ready"
    assert killed.mnemosyne.accepts(await killed.revealed(instance))

    # Between a DELETE and what is remembered of it.
    done, _ = killed.mnemosyne.hold("DELETE")
    await killed.http.delete(f"{API}/pallas/{instance}")
    await soon(done.wait())
    await killed.kill_and_start()
    await killed.until_quiet()
    assert killed.mnemosyne.teams[instance].active is False
