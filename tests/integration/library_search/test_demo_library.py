"""The demo team's library, as `pallas up` creates it: once, however often it starts or is killed."""

import itertools
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from tests.integration.library_search.lab import Search
from tests.integration.library_search.services import Services
from tests.integration.team_lifecycle.lab import (
    ADMIN,
    ADMIN_PASSWORD,
    SERVICE_PASSWORD,
    TEAMS,
    Lifecycle,
)
from tests.integration.workspaces.lab import API, Lab, a_workspaces, client_of, empty
from tests.postgres import PostgresServer
from tests.workspaces_world.registry import Registry

from pallas_cli.refused import Refused
from pallas_cli.stack.demo_library import LIBRARY, WORKSPACE, Operator, ensure_demo_library
from pallas_cli.stack.demo_team import DemoTeam
from pallas_cli.team_folders import TeamSummary

TEAM = "0193f2a1-8c1b-7b62-9d3e-1f0a5b6c7d8e"
INSTANCE = f"{API}/pallas/{TEAM}"


@dataclass(frozen=True)
class Parts:
    """The services that a start of the stack uses."""

    lifecycle: Lifecycle
    search: Search
    console: httpx.AsyncClient
    operator: Operator
    demo: DemoTeam
    earlier: int

    async def ensure(self) -> str:
        """Create the library if needed. Returns the stored JWT."""
        await ensure_demo_library(self.demo, self.operator)
        jwt = self.demo.kept_jwt()
        assert jwt is not None
        return jwt

    async def found(self, jwt: str) -> set[str]:
        """The documents that the JWT reads."""
        return {item["path"] for item in (await self.search.call(jwt, "list_items"))["items"]}

    async def changes(self) -> list[str]:
        """All changes after number `earlier`, except those of keys."""
        wanted = {"limit": 1000, "after": self.earlier}
        listed = (await self.lifecycle.admin.get(f"{ADMIN}/changes", params=wanted)).json()["items"]
        return [f"{it['kind']} {it['action']}" for it in listed if it["kind"] != "key"]


@pytest.fixture(scope="module")
async def registry() -> AsyncGenerator[Registry]:
    """A registry that lists agents at each address."""
    async with Registry() as registry:
        yield registry


@pytest.fixture(scope="module")
async def console(running: Services, postgres: PostgresServer) -> AsyncGenerator[Lab]:
    """The console of this module, as the tests before have left it."""
    given = {"teams_url": running.lifecycle.base, "teams_password": SERVICE_PASSWORD}
    hash_ = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(ADMIN_PASSWORD)
    url = await postgres.new_database()
    async with a_workspaces(postgres_url=url, admin_password_hash=hash_, **given) as console:
        yield console


@pytest.fixture
async def parts(
    running: Services, console: Lab, registry: Registry, postgres: PostgresServer, tmp_path: Path
) -> AsyncGenerator[Parts]:
    """The auth services and the console, without teams and libraries, and two documents."""
    await running.empty(postgres)
    await empty(postgres, console.settings["postgres_url"])
    lifecycle, search = running.lifecycle, running.search
    [(last,)] = await postgres.say("select max(number) from changes", lifecycle.settings["postgres_url"])
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("one", "two"):
        (documents / f"{name}.md").write_text(f"# {name}\nWords.\n")
    demo = DemoTeam(TEAM, TeamSummary("demo", tmp_path / "hosted", (), frozenset()), documents)
    operator = Operator(lifecycle.base, search.base, console.base, registry.base, ADMIN_PASSWORD)
    async with client_of(console.base, ("admin", ADMIN_PASSWORD)) as http:
        yield Parts(lifecycle, search, http, operator, demo, last)


ALL_CHANGES = ["user created", "library created", "team provisioned", "team workspaces_updated"]


async def test_the_first_start_creates_the_library_and_the_next_one_changes_nothing(parts: Parts) -> None:
    first = await parts.ensure()
    assert await parts.found(first) == {"one.md", "two.md"}
    assert await parts.changes() == ALL_CHANGES
    assert await parts.ensure() == first
    assert await parts.changes() == ALL_CHANGES


class Killed(BaseException):
    """The process is killed here."""


async def is_cut_off(parts: Parts, after: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Kill a start after so many requests, before it reads the last response. False if it finished earlier."""
    send, sent = httpx.AsyncClient.send, itertools.count(1)

    async def send_and_die(self: httpx.AsyncClient, *words: Any, **options: Any) -> httpx.Response:
        answer = await send(self, *words, **options)
        if next(sent) == after:
            raise Killed
        return answer

    killed = False
    with monkeypatch.context() as patched:
        patched.setattr(httpx.AsyncClient, "send", send_and_die)
        try:
            await parts.ensure()
        except* Killed:
            killed = True
    return killed


async def test_starts_killed_after_any_request_end_in_one_library_and_one_valid_jwt(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = 0
    while await is_cut_off(parts, cuts + 1, monkeypatch):
        cuts += 1
    assert cuts >= 7
    jwt = parts.demo.kept_jwt()
    assert jwt is not None
    assert await parts.found(jwt) == {"one.md", "two.md"}
    assert [change for change in await parts.changes() if change != "team rotated"] == ALL_CHANGES


async def test_a_lost_data_folder_only_rotates_the_jwt(parts: Parts) -> None:
    first = await parts.ensure()
    (parts.demo.folder / "fastagent.secrets.yaml").unlink()
    second = await parts.ensure()
    assert second != first
    assert await parts.found(second) == {"one.md", "two.md"}
    assert await parts.changes() == [*ALL_CHANGES, "team rotated"]


async def test_a_jwt_that_is_refused_is_replaced(parts: Parts) -> None:
    await parts.ensure()
    await parts.lifecycle.daedalus.post(f"{TEAMS}{TEAM}/rotate/")
    assert await parts.found(await parts.ensure()) == {"one.md", "two.md"}


async def test_changes_by_an_admin_are_kept(parts: Parts) -> None:
    jwt = await parts.ensure()
    await parts.lifecycle.attach(TEAM, "elsewhere")
    await parts.lifecycle.admin.put(f"{ADMIN}/libraries/{LIBRARY}/name", json={"name": "Ours"})
    assert await parts.ensure() == jwt
    assert await parts.found(jwt) == set()
    await parts.lifecycle.daedalus.post(f"{TEAMS}{TEAM}/rotate/")
    await parts.ensure()
    team = (await parts.lifecycle.daedalus.get(f"{TEAMS}{TEAM}/")).json()
    assert team["workspace_ids"] == sorted(["elsewhere", WORKSPACE])
    libraries = (await parts.lifecycle.admin.get(f"{ADMIN}/libraries")).json()["items"]
    assert [library["name"] for library in libraries] == ["Ours"]


async def test_a_team_deleted_by_an_admin_is_not_recreated(parts: Parts) -> None:
    await parts.ensure()
    await parts.lifecycle.daedalus.delete(f"{TEAMS}{TEAM}/")
    before = await parts.changes()
    with pytest.raises(Refused, match="was deleted"):
        await parts.ensure()
    assert await parts.changes() == before


async def test_a_wrong_password_is_reported_with_the_request_that_failed(parts: Parts) -> None:
    wrong = replace(parts.operator, admin_password="no")
    with pytest.raises(Refused, match=rf"GET {ADMIN}/teams/{TEAM}/ failed with status 401"):
        await ensure_demo_library(parts.demo, wrong)


async def test_a_team_that_was_deleted_at_the_console_is_not_recreated(parts: Parts) -> None:
    await parts.ensure()
    assert (await parts.console.delete(INSTANCE)).status_code == 204
    with pytest.raises(Refused, match="was deleted"):
        await parts.ensure()


async def test_a_stack_on_other_ports_moves_the_instance_and_nothing_else(parts: Parts, registry: Registry) -> None:
    jwt = await parts.ensure()
    moved = replace(parts.operator, registry_url=f"{registry.base}/elsewhere")
    await ensure_demo_library(parts.demo, moved)
    assert parts.demo.kept_jwt() == jwt
    row = (await parts.console.get(INSTANCE)).json()
    assert row["registry_url"] == f"{registry.base}/elsewhere/teams/demo"
    assert await parts.changes() == ALL_CHANGES
