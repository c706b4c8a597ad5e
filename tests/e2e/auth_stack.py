"""A stack with its auth services, as Daedalus, admins, third-party clients and callers of agents see it."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import httpx2
import psutil
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.e2e.calls import call
from tests.e2e.lab import Era
from tests.e2e.stack import PALLAS, Stack, wait_until

_TRIES = 3
_TEAMS, _DEMO = Path(__file__).parent / "teams", Path(__file__).parents[2] / "teams" / "demo"
TEAMS, ADMIN, API = "/mcp_server/api/teams/", "/admin/api", "/api/v1"


@dataclass(frozen=True)
class AuthStack:
    """A running stack. `daedalus` and `admin` are clients of team-lifecycle with their accounts, `console` one of the
    console. `teams` has the folders of its teams besides the demo, which a test may edit.

    Its first start was killed when it had made everything: `before` are its processes. `secrets` are those of that
    start and of the one that goes on.
    """

    stack: Stack
    ready: dict[str, Any]
    teams: Path
    admin_password: str
    daedalus: httpx.Client
    admin: httpx.Client
    console: httpx.Client
    before: list[psutil.Process]
    secrets: tuple[dict[str, str], dict[str, str]]

    def add_library(self, uid: str, workspace: str | None, page: str, folder: Path) -> None:
        """Create a library of the demo's user, and ingest one document by the command."""
        body = {"uid": uid, "name": uid.title(), "workspace_id": workspace, "owner": "demo"}
        done(self.admin.post(f"{ADMIN}/libraries", json=body))
        (folder / f"{uid}.md").write_text(page)
        words = (
            "libraries",
            "ingest",
            str(folder / f"{uid}.md"),
            "--library",
            uid,
            "--url",
            self.ready["library_search"],
        )
        env = {**os.environ, "PALLAS_ADMIN_PASSWORD": self.admin_password}
        subprocess.run([PALLAS, *words], env=env, capture_output=True, timeout=60, check=True)

    def demo_team(self) -> dict[str, Any]:
        """The registered team of the demo's agents."""
        [team] = [it for it in done(self.admin.get(f"{ADMIN}/teams/"))["items"] if it["name"] == "Demo"]
        return team

    def demo_instance(self) -> dict[str, Any]:
        """The demo team at the console."""
        [instance] = [it for it in done(self.console.get(f"{API}/pallas"))["instances"] if it["name"] == "Demo"]
        return instance

    def attach(self, *workspaces: str) -> None:
        """Attach the demo team to these workspaces and no others at the console, and wait until Mnemosyne knows."""
        instance = self.demo_instance()
        for workspace in set(workspaces) - set(instance["workspace_ids"]):
            self.console.post(f"{API}/workspaces", json={"id": workspace, "name": workspace})
            done(self.console.post(f"{API}/workspaces/{workspace}/pallas/{instance['id']}"))
        for workspace in set(instance["workspace_ids"]) - set(workspaces):
            done(self.console.delete(f"{API}/workspaces/{workspace}/pallas/{instance['id']}"))
        wait_until(lambda: self.demo_instance()["pushed_workspaces"] == sorted(workspaces), "Mnemosyne was told")

    async def found_by_agent(
        self, query: str, era: Era = "auto", *, team: str = "demo", agent: str = "research"
    ) -> set[str]:
        """The libraries in which an agent finds something."""
        arguments = json.dumps({"query": query})
        async with Client(f"{self.ready['gateway']}/teams/{team}/mcp/{agent}", mode=era) as client:
            answer = await call(client, agent, f"/tool library-search/search {arguments}")
        return libraries_of(json.loads(answer.text))

    async def found_by(self, bearer: str, query: str, era: Era = "auto", **narrowed: Any) -> set[str]:
        """The libraries in which a client with this bearer finds something."""
        async with self.client(bearer, era) as client:
            result = await client.call_tool("search", {"query": query, **narrowed})
        assert result.structured_content is not None, result.content
        return libraries_of(result.structured_content)

    @asynccontextmanager
    async def client(self, bearer: str, era: Era = "auto") -> AsyncGenerator[Client]:
        """The official client, connected to the library search."""
        url, headers = f"{self.ready['library_search']}/mcp", {"Authorization": f"Bearer {bearer}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=era) as client,
        ):
            yield client


class Repeating(httpx.HTTPTransport):
    """Retries a request that got a 503, after the time in `Retry-After`."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the first answer that is not a 503, or the last one of them."""
        for _ in range(_TRIES):
            answer = super().handle_request(request)
            if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                return answer
            answer.close()
            time.sleep(float(answer.headers["Retry-After"]))
        return super().handle_request(request)


def done(answer: httpx.Response) -> Any:
    """The JSON of a response. Fails unless it is a success."""
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def libraries_of(found: dict[str, Any]) -> set[str]:
    """The libraries of a search's results."""
    return {passage["library"] for passage in found["results"]}


@contextmanager
def running_auth_stack(folder: Path) -> Generator[AuthStack]:
    """Run the demo team, and the team `scholars` that nobody has registered, with all services."""
    teams = folder / "teams"
    shutil.copytree(_TEAMS / "scholars", teams / "scholars")
    hosted = ("--teams", str(_DEMO), "--teams", str(teams / "scholars"))
    with Stack(folder, "--no-turn", *hosted, auth=True) as first:
        wait_until(lambda: "jwt" in secrets_of(folder), "the demo team's JWT, which is stored last", 90)
        before, made = [psutil.Process(pid) for pid in first.children()], secrets_of(folder)
        first.kill9()
    with Stack(folder, "--no-turn", *hosted, auth=True) as stack:
        ready = stack.until_ready()
        secrets = secrets_of(folder)
        admin, daedalus = secrets["admin-password"], secrets["daedalus-service-password"]
        base: dict[str, Any] = {"base_url": ready["team_lifecycle"], "timeout": 30}
        with (
            httpx.Client(transport=Repeating(), auth=("daedalus-service", daedalus), **base) as service,
            httpx.Client(transport=Repeating(), auth=("admin", admin), **base) as people,
            httpx.Client(base_url=ready["workspaces"], timeout=30, auth=("admin", admin)) as console,
        ):
            yield AuthStack(stack, ready, teams, admin, service, people, console, before, (made, secrets))


def secrets_of(folder: Path) -> dict[str, str]:
    """The secrets in the data folder by name, with the demo team's JWT once it is there."""
    kept, team = folder / "data" / "secrets", folder / "data/teams/demo/fastagent.secrets.yaml"
    secrets = {path.name: path.read_text() for path in kept.iterdir() if path.is_file()} if kept.exists() else {}
    if team.exists():
        [secrets["jwt"]] = re.findall(r"Bearer (\S+)", team.read_text())
    return secrets
