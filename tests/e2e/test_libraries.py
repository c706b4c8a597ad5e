"""Which bearer finds which documents (auth contract, section 14.3), through public interfaces only."""

import json
import re
import uuid
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.e2e.auth_stack import ADMIN, TEAMS, AuthStack, done
from tests.e2e.calls import call_with
from tests.e2e.lab import Era
from tests.requirements import requirement

pytestmark = pytest.mark.timeout(240)

SHELVES = {"guides": "ws_work", "reports": "ws_work", "diary": "ws_home"}


@pytest.fixture(scope="module")
def shelves(auth_stack: AuthStack, tmp_path_factory: pytest.TempPathFactory) -> AuthStack:
    """Three libraries of one page each, in two workspaces, beside the demo's own."""
    folder = tmp_path_factory.mktemp("shelves")
    for uid, workspace in SHELVES.items():
        auth_stack.add_library(uid, workspace, f"# Page\nA quokka in the {uid}.\n", folder)
    return auth_stack


@pytest.fixture
def attached(shelves: AuthStack) -> Generator[AuthStack]:
    """The same. Afterwards the demo team is attached to its own workspace only."""
    yield shelves
    shelves.attach("demo")


async def assert_refused(stack: AuthStack, bearer: str, why: str) -> None:
    """Fail unless the library search refuses a bearer with this message."""
    error = pytest.RaisesExc(MCPError, match=f"^{re.escape(why)}$")
    with pytest.RaisesGroup(error, flatten_subgroups=True):
        async with stack.client(bearer) as client:
            await client.list_tools()


def files_with(text: str, folder: Path) -> list[Path]:
    """The files below a folder that contain a text. Files that disappear meanwhile are skipped."""
    found: list[Path] = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
    return found


@requirement("A-14.3.1")
async def test_a_third_party_client_with_an_opaque_token_searches_the_libraries_of_the_token(
    shelves: AuthStack, era: Era
) -> None:
    tokens = f"{ADMIN}/tokens"
    token = done(
        shelves.admin.post(tokens, json={"user": "demo", "name": "c", "allowed_libraries": ["reports", "diary"]})
    )
    assert await shelves.found_by(token["token"], "quokka", era) == {"reports", "diary"}
    assert await shelves.found_by(token["token"], "quokka", era, libraries=["guides", "diary"]) == {"diary"}
    body = {"allowed_libraries": ["guides"]}
    done(shelves.admin.put(f"{tokens}/{token['id']}/libraries", json=body))
    assert await shelves.found_by(token["token"], "quokka", era) == {"guides"}
    done(shelves.admin.put(f"{tokens}/{token['id']}/libraries", json={"allowed_libraries": []}))
    assert await shelves.found_by(token["token"], "quokka", era) == set()
    done(shelves.admin.delete(f"{tokens}/{token['id']}"))
    await assert_refused(shelves, token["token"], "Token has been deactivated.")


@requirement("A-14.3.2")
async def test_an_agent_with_its_teams_jwt_searches_the_teams_workspaces(attached: AuthStack, era: Era) -> None:
    assert await attached.found_by_agent("quokka", era) == set()
    attached.attach("demo", "ws_work")
    assert await attached.found_by_agent("quokka", era) == {"guides", "reports"}
    assert await attached.found_by_agent("workspaces", era) == {"demo-handbook"}
    attached.attach("ws_home")
    assert await attached.found_by_agent("quokka", era) == {"diary"}


@requirement("A-14.3.3")
async def test_a_detached_workspace_is_not_searched_from_the_next_request_on(attached: AuthStack) -> None:
    for _ in range(5):
        attached.attach("ws_work", "ws_home")
        assert await attached.found_by_agent("quokka") == set(SHELVES)
        attached.attach("ws_home")
        assert await attached.found_by_agent("quokka") == {"diary"}
        attached.attach()
        assert await attached.found_by_agent("quokka") == set()


@requirement("A-14.3.2")
async def test_the_jwt_of_a_new_team_searches_its_workspaces(shelves: AuthStack, era: Era) -> None:
    team = str(uuid.uuid4())
    made = shelves.daedalus.post(TEAMS, json={"id": team, "name": "Kottos"})
    assert made.status_code == 201
    jwt = made.json()["jwt"]
    assert await shelves.found_by(jwt, "quokka", era) == set()
    done(shelves.daedalus.put(f"{TEAMS}{team}/workspaces/", json={"workspace_ids": ["ws_home"]}))
    assert await shelves.found_by(jwt, "quokka", era) == {"diary"}
    done(shelves.daedalus.delete(f"{TEAMS}{team}/"))
    await assert_refused(shelves, jwt, "Token has been deactivated.")


async def test_the_broker_denies_no_request_of_the_auth_services(shelves: AuthStack) -> None:
    token = done(
        shelves.admin.post(f"{ADMIN}/tokens", json={"user": "demo", "name": "d", "allowed_libraries": ["diary"]})
    )
    assert await shelves.found_by(token["token"], "quokka") == {"diary"}
    done(shelves.admin.delete(f"{ADMIN}/tokens/{token['id']}"))
    await assert_refused(shelves, token["token"], "Token has been deactivated.")
    team = str(uuid.uuid4())
    old = done(shelves.daedalus.post(TEAMS, json={"id": team, "name": "Gyges"}))["jwt"]
    done(shelves.daedalus.put(f"{TEAMS}{team}/workspaces/", json={"workspace_ids": ["ws_home"]}))
    jwt = done(shelves.daedalus.post(f"{TEAMS}{team}/rotate/"))["jwt"]
    assert await shelves.found_by(jwt, "quokka") == {"diary"}
    await assert_refused(shelves, old, "Invalid MCP token.")
    assert await shelves.found_by_agent("workspaces") == {"demo-handbook"}
    done(shelves.daedalus.delete(f"{TEAMS}{team}/"))
    assert shelves.stack.denied() == []


async def test_the_agents_of_the_demo_are_healthy_once_the_stack_is_ready(auth_stack: AuthStack) -> None:
    for agent in ("harper", "research", "engineering"):
        async with Client(f"{auth_stack.ready['gateway']}/teams/demo/mcp/{agent}") as client:
            health = json.loads((await call_with(client, "get_health", {})).text)
        assert health["status"] == "ok", health


async def test_the_jwt_of_the_demo_team_is_in_its_secrets_file_only(auth_stack: AuthStack) -> None:
    data = Path(auth_stack.ready["data"])
    secret = data / "teams" / "demo" / "fastagent.secrets.yaml"
    [jwt] = re.findall(r"Bearer (\S+)", secret.read_text())
    assert await auth_stack.found_by(jwt, "workspaces") == {"demo-handbook"}
    assert secret.stat().st_mode & 0o077 == 0
    assert files_with(jwt, data) == [secret]
