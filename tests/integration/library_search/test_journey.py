"""A search from end to end (contract, section 14.3): a bearer, the resolver and the search, on real servers."""

import json
import re
import time
import uuid
from pathlib import Path

import jwt as jwt_of
import pytest
from mcp.shared.exceptions import MCPError
from tests.conftest import Connecting
from tests.integration.fast_agent_worker.stage import a_stage, until_hosted
from tests.integration.library_search.lab import Era, Search, structured
from tests.integration.library_search.services import Services
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
LIBRARIES = {"manuals": "ws_work", "papers": "ws_work", "diary": "ws_home"}


@pytest.fixture
async def services(running: Services, postgres: PostgresServer) -> tuple[Lifecycle, Search]:
    """The services, with nothing but three libraries of one document each, which `ann` owns."""
    await running.empty(postgres)
    lifecycle, search = running.lifecycle, running.search
    await lifecycle.user("ann")
    for uid, workspace in LIBRARIES.items():
        await lifecycle.library(uid, workspace, owner="ann")
    for uid in LIBRARIES:
        await search.document(uid, "page.md", f"# Page\nA page of the {uid}.\n")
    return lifecycle, search


async def readable_libraries(search: Search, bearer: str, era: Era = "auto") -> set[str]:
    """The libraries in which a bearer finds documents. Fails if it lists others."""
    found = {passage["library"] for passage in (await search.call(bearer, "search", era, query="page"))["results"]}
    listed = {line["library"] for line in (await search.call(bearer, "list_libraries", era))["libraries"]}
    assert found == listed
    return found


async def assert_refused(search: Search, bearer: str, why: str) -> None:
    """Fail unless a bearer is refused with this message."""
    error = pytest.RaisesExc(MCPError, match=f"^{re.escape(why)}$")
    with pytest.RaisesGroup(error, flatten_subgroups=True):
        async with search.client(bearer) as client:
            await client.list_tools()


@requirement("A-14.3.1")
@ERAS
async def test_a_third_party_client_finds_the_libraries_of_its_token(
    services: tuple[Lifecycle, Search], era: Era
) -> None:
    lifecycle, search = services
    made = (await lifecycle.token("ann", "manuals", "diary")).json()
    nothing = (await lifecycle.token("ann")).json()
    assert await readable_libraries(search, made["token"], era) == {"manuals", "diary"}
    assert await readable_libraries(search, nothing["token"], era) == set()
    assert (await lifecycle.revoke("diary", "ann", "owner")).status_code == 409
    assert (await lifecycle.admin.delete(f"{ADMIN}/libraries/diary")).status_code == 204
    assert await readable_libraries(search, made["token"], era) == {"manuals"}
    assert (await lifecycle.admin.delete(f"{ADMIN}/tokens/{made['id']}")).status_code == 204
    await assert_refused(search, made["token"], "Token has been deactivated.")


@requirement("A-14.3.2", "A-14.3.3", "A-9.3.1")
@ERAS
async def test_a_team_finds_the_libraries_of_its_workspaces_and_none_once_detached(
    services: tuple[Lifecycle, Search], era: Era
) -> None:
    lifecycle, search = services
    team, jwt = await lifecycle.team()
    assert await readable_libraries(search, jwt, era) == set()
    async with search.client(jwt, era) as client:
        for workspaces, wanted in (
            (("ws_work",), {"manuals", "papers"}),
            (("ws_work", "ws_home"), {"manuals", "papers", "diary"}),
            (("ws_home",), {"diary"}),
            ((), set[str]()),
        ):
            await lifecycle.attach(team, *workspaces)
            found = structured(await client.call_tool("search", {"query": "page"}))["results"]
            assert {passage["library"] for passage in found} == wanted
    assert await readable_libraries(search, jwt, era) == set()


async def test_a_moved_library_is_read_by_the_teams_of_its_new_workspace_on_the_next_request(
    services: tuple[Lifecycle, Search],
) -> None:
    lifecycle, search = services
    (work, work_jwt), (home, home_jwt) = await lifecycle.team("Work"), await lifecycle.team("Home")
    await lifecycle.attach(work, "ws_work")
    await lifecycle.attach(home, "ws_home")
    moved = await lifecycle.admin.put(f"{ADMIN}/libraries/papers/workspace", json={"workspace_id": "ws_home"})
    assert moved.status_code == 200
    assert await readable_libraries(search, work_jwt) == {"manuals"}
    assert await readable_libraries(search, home_jwt) == {"diary", "papers"}


@requirement("A-7.2.2")
async def test_the_jwt_of_a_team_that_is_rotated_or_deleted_is_refused_on_the_next_request(
    services: tuple[Lifecycle, Search],
) -> None:
    lifecycle, search = services
    team, first = await lifecycle.team()
    await lifecycle.attach(team, "ws_home")
    assert await readable_libraries(search, first) == {"diary"}
    second = (await lifecycle.daedalus.post(f"{TEAMS}{team}/rotate/")).json()["jwt"]
    await assert_refused(search, first, "Invalid MCP token.")
    assert await readable_libraries(search, second) == {"diary"}
    await lifecycle.daedalus.delete(f"{TEAMS}{team}/")
    await assert_refused(search, second, "Token has been deactivated.")


async def test_a_renamed_library_shows_its_new_name(services: tuple[Lifecycle, Search]) -> None:
    lifecycle, search = services
    token = (await lifecycle.token("ann", "diary")).json()["token"]
    await lifecycle.admin.put(f"{ADMIN}/libraries/diary/name", json={"name": "Journal"})

    async def renamed() -> bool:
        return (await search.call(token, "list_libraries"))["libraries"][0]["name"] == "Journal"

    await until(renamed)


def per_turn(key: dict[str, str], *libraries: str) -> str:
    """A per-turn JWT as Daedalus makes one. Its `iat` is five seconds ahead, so that it is younger than Redis."""
    now = int(time.time()) + 5
    claims = {"iss": "daedalus", "aud": "mnemosyne", "sub": "daedalus-chat", "ws": "ws_work", "libs": libraries}
    claims |= {"iat": now, "exp": now + 600, "jti": str(uuid.uuid4())}
    return jwt_of.encode(claims, bytes.fromhex(key["secret"]), "HS256", {"kid": key["kid"]})


async def test_a_library_that_reuses_a_uid_never_shows_old_documents_even_while_the_stream_is_full(
    services: tuple[Lifecycle, Search], bus: Connecting
) -> None:
    lifecycle, search = services
    key = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn"})).json()
    team, team_jwt = await lifecycle.team()
    await lifecycle.attach(team, "ws_work")
    token = (await lifecycle.token("ann", "manuals", "papers")).json()

    tools = {"search": "results", "list_libraries": "libraries", "list_items": "items"}

    async def found() -> list[set[str]]:
        found: list[set[str]] = []
        for bearer in (team_jwt, token["token"], None):
            for tool, name in tools.items():
                used, query = (
                    bearer or per_turn(key, "manuals", "papers"),
                    {"query": "page"} if tool == "search" else {},
                )
                found.append({line["library"] for line in (await search.call(used, tool, "auto", **query))[name]})
        return found

    assert await found() == [{"manuals", "papers"}] * 9
    await until(lambda: _all_sent(lifecycle))
    operator = await bus("test", url=lifecycle.settings["nats_url"])
    info = await operator.api("STREAM.INFO.CHANGES", {})
    full = {"max_msgs": info["state"]["messages"], "discard": "new"}
    await operator.api("STREAM.UPDATE.CHANGES", {**info["config"], **full})
    assert (await lifecycle.admin.delete(f"{ADMIN}/libraries/manuals")).status_code == 204
    await lifecycle.library("manuals", "ws_work", owner="ann")
    body = {"allowed_libraries": ["manuals", "papers"]}
    assert (await lifecycle.admin.put(f"{ADMIN}/tokens/{token['id']}/libraries", json=body)).status_code == 200
    assert await found() == [{"papers"}] * 9
    await operator.api("STREAM.UPDATE.CHANGES", info["config"])

    async def is_there() -> bool:
        listed = (await search.call(team_jwt, "list_libraries"))["libraries"]
        return {line["library"]: line["documents"] for line in listed} == {"manuals": 0, "papers": 1}

    await until(is_there, within=20)
    await search.document("manuals", "page.md", "# Page\nAnother page.\n")
    assert await found() == [{"manuals", "papers"}] * 9


UPSTREAM = {
    "agents.yaml": "name: kottos\nversion: 1.0.0\nagents:\n  harper: {module: kottos.harper, description: Reads.}\n",
    "kottos/harper.py": "from fast_agent import FastAgent\n\nfast = FastAgent('Harper')\n\n\n"
    "@fast.agent('harper', instruction='You read.', servers=['mnemosyne'])\nasync def main() -> None: ...\n",
    "fastagent.config.yaml": "default_model: passthrough\n"
    "mcp: {servers: {mnemosyne: {transport: http, url: THE_URL}}}\n",
    "fastagent.secrets.yaml": "mcp: {servers: {mnemosyne: {headers: {Authorization: Bearer THE_JWT}}}}\n",
}
"""A team folder of the upstream Pallas, with the JWT of its team."""


async def test_a_team_of_fast_agent_reads_the_libraries_of_its_workspace(
    services: tuple[Lifecycle, Search], tmp_path: Path
) -> None:
    lifecycle, search = services
    team, jwt = await lifecycle.team()
    await lifecycle.attach(team, "ws_home")
    for path, text in UPSTREAM.items():
        (tmp_path / "made" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / path).write_text(text.replace("THE_URL", search.url).replace("THE_JWT", jwt), "utf-8")
    async with a_stage(lifecycle.settings["nats_url"], tmp_path, "kottos", tmp_path / "made") as stage:
        await until_hosted(stage, "harper")
        asked = '***CALL_TOOL mnemosyne__search {"query": "page"}'
        answer = await stage.call("harper", asked)
        assert {each["library"] for each in json.loads(answer.text)["results"]} == {"diary"}
        assert "mnemosyne/search: completed" in answer.messages
        await lifecycle.attach(team, "ws_work")
        answer = await stage.call("harper", asked)
        assert {each["library"] for each in json.loads(answer.text)["results"]} == {"manuals", "papers"}
        assert jwt not in stage.worker.log.read_text("utf-8")


async def _all_sent(lifecycle: Lifecycle) -> bool:
    return lifecycle.measured("pallas_lifecycle_unsent_events") == 0
