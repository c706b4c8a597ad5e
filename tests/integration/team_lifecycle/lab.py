"""team-lifecycle as its process builds it, in the test's process, with real servers."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from argon2 import PasswordHasher
from cryptography.fernet import Fernet

from pallas_runtime.http.listener import bind, listening
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process
from team_lifecycle.app import build
from team_lifecycle.settings import TeamLifecycleSettings

TEAMS = "/mcp_server/api/teams/"
ADMIN = "/admin/api"
SERVICE_PASSWORD, ADMIN_PASSWORD = "correct horse", "battery staple"
FERNET_KEY = Fernet.generate_key().decode()
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
_HASHES = {
    "PALLAS_SERVICE_PASSWORD_HASH": _CHEAP.hash(SERVICE_PASSWORD),
    "PALLAS_ADMIN_PASSWORD_HASH": _CHEAP.hash(ADMIN_PASSWORD),
}
CONTENT = ("tokens", "libraries", "users", "teams")
"""The tables to empty, in this order, for a service without teams, users, libraries and tokens."""
HISTORY = ("signing_keys", "changes", "unsettled")
"""The other tables. Only without a running service may they be emptied."""


def environment(**urls: str) -> dict[str, str]:
    """The variables of a service, for a process or for `TeamLifecycleSettings`."""
    return {
        **_HASHES,
        "PALLAS_FERNET_KEYS": FERNET_KEY,
        "PALLAS_DRAIN_SECONDS": "2",
        **{f"PALLAS_{name.upper()}": value for name, value in urls.items()},
    }


@dataclass(frozen=True)
class Lifecycle:
    """A running service. `daedalus` and `admin` are clients with their accounts, `stranger` has none.

    `settings` are those of `a_lifecycle`, for replicas and for clients of the same servers.
    """

    settings: dict[str, str]
    process: Process
    base: str
    daedalus: httpx.AsyncClient
    admin: httpx.AsyncClient
    stranger: httpx.AsyncClient

    async def team(self, name: str = "Kottos") -> tuple[str, str]:
        """Create a team. Returns its id and JWT."""
        team_id = str(uuid.uuid4())
        created = await self.daedalus.post(TEAMS, json={"id": team_id, "name": name})
        assert created.status_code == 201, created.text
        return team_id, created.json()["jwt"]

    async def attach(self, team_id: str, *workspaces: str) -> None:
        """Attach a team to these workspaces and no others."""
        answer = await self.daedalus.put(f"{TEAMS}{team_id}/workspaces/", json={"workspace_ids": workspaces})
        assert answer.status_code == 200, answer.text

    async def user(self, *names: str) -> None:
        for name in names:
            assert (await self.admin.post(f"{ADMIN}/users", json={"name": name})).status_code == 201

    async def library(self, uid: str, workspace: str | None = None, owner: str | None = None) -> None:
        body = {"uid": uid, "name": uid, "workspace_id": workspace, "owner": owner}
        created = await self.admin.post(f"{ADMIN}/libraries", json=body)
        assert created.status_code == 201, created.text

    async def grant(self, library: str, user: str, role: str, by: str | None = None) -> httpx.Response:
        """Grant a role, as an admin or as user `by`."""
        return await self.admin.put(f"{ADMIN}/memberships/{library}/{user}/{role}", headers=acting(by))

    async def revoke(self, library: str, user: str, role: str, by: str | None = None) -> httpx.Response:
        """Revoke a role, as an admin or as user `by`."""
        return await self.admin.delete(f"{ADMIN}/memberships/{library}/{user}/{role}", headers=acting(by))

    async def token(self, user: str, *libraries: str, by: str | None = None, **fields: Any) -> httpx.Response:
        """Request a token, as an admin or as user `by`."""
        body = {"user": user, "name": "a token", "allowed_libraries": libraries, **fields}
        return await self.admin.post(f"{ADMIN}/tokens", json=body, headers=acting(by))

    def measured(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return self.process.probes.metrics.get_sample_value(metric, labels) or 0.0


def acting(user: str | None) -> dict[str, str]:
    """The header with which an admin acts for a user."""
    return {"X-Pallas-User": user} if user else {}


@asynccontextmanager
async def a_lifecycle(**settings: str) -> AsyncGenerator[Lifecycle]:
    """Run the service. `settings` are its variables without their prefix, the three addresses among them."""
    listener = bind("127.0.0.1", 0)
    process = Process("team-lifecycle", f"lifecycle-{uuid.uuid4().hex[:8]}", listener.getsockname()[1], Probes())
    base = f"http://127.0.0.1:{process.port}"
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(
            build(TeamLifecycleSettings.from_env(environment(**settings)), process)
        )
        process.probes.started = True
        app = with_probes(process.probes, lambda: service.http)
        await stack.enter_async_context(listening(app, listener, drain_seconds=1))

        async def client(auth: tuple[str, str] | None) -> httpx.AsyncClient:
            made = httpx.AsyncClient(base_url=base, auth=auth, trust_env=False, verify=False, timeout=30)
            return await stack.enter_async_context(made)

        yield Lifecycle(
            settings,
            process,
            base,
            daedalus=await client(("daedalus-service", SERVICE_PASSWORD)),
            admin=await client(("admin", ADMIN_PASSWORD)),
            stranger=await client(None),
        )
        assert not process.failed.is_set(), "a vital task has ended"
