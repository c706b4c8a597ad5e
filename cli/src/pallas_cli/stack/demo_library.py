"""The library of the demo team, created through the APIs of operators.

Each step can be repeated, and the JWT is stored last, so the next start completes an interrupted one. While the stored
JWT is accepted nothing is changed, so changes of an admin persist.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_cli.libraries import find_files
from pallas_cli.refused import Refused
from pallas_cli.stack.asking import SECONDS, ask, client
from pallas_cli.stack.demo_instance import WORKSPACE, DemoInstance
from pallas_cli.stack.demo_team import DemoTeam

if TYPE_CHECKING:
    from httpx import AsyncClient

USER, LIBRARY = "demo", "demo-handbook"
_ADMIN = "/admin/api"
_TRIES = 4
_EXISTS, _NOT_FOUND, _UNAUTHORIZED = 409, 404, 401


@dataclass(frozen=True, slots=True)
class Operator:
    """Addresses of the services that an operator uses, with the password of the account `admin`."""

    team_lifecycle_url: str
    library_search_url: str
    console_url: str
    registry_url: str
    admin_password: str = field(repr=False)


async def ensure_demo_library(demo: DemoTeam, operator: Operator) -> None:
    """Give the demo team a library with a few documents.

    Raises:
        Refused: a request failed, or an admin has deleted the team.
    """
    # The import is slow; in a thread it does not block the loop, which watches the processes.
    httpx = await asyncio.to_thread(__import__, "httpx")
    try:
        async with (
            client(operator.team_lifecycle_url, "admin", operator.admin_password) as admin,
            client(operator.console_url, "admin", operator.admin_password) as console,
        ):
            url = f"{operator.registry_url}/teams/{demo.summary.name}"
            await _ensure(demo, operator, admin, DemoInstance(console, demo.team_id, url))
    except httpx.HTTPError as error:
        raise Refused(f"team-lifecycle or the console cannot be reached ({type(error).__name__})") from error


async def _ensure(demo: DemoTeam, operator: Operator, admin: "AsyncClient", instance: DemoInstance) -> None:
    async def accepted() -> bool:
        kept = demo.kept_jwt()
        return kept is not None and await _is_accepted(operator, kept)

    if await accepted() and await instance.is_there():
        return
    team = await ask(admin, "GET", f"{_ADMIN}/teams/{demo.team_id}/", also=(_NOT_FOUND,))
    if not team.get("active", True):
        raise Refused("the demo team was deleted at team-lifecycle")
    await ask(admin, "POST", f"{_ADMIN}/users", {"name": USER})
    library = {"uid": LIBRARY, "name": "Handbook of the demo", "workspace_id": WORKSPACE, "owner": USER}
    await ask(admin, "POST", f"{_ADMIN}/libraries", library, also=(_EXISTS,))
    adding = asyncio.create_task(_add_documents(demo, operator))
    try:
        jwt = await instance.ensure(team.get("workspace_ids", ()), accepted)
        await adding
    finally:
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
    if jwt is not None:
        demo.keep_jwt(jwt)


async def _add_documents(demo: DemoTeam, operator: Operator) -> None:
    from pallas_cli.libraries import Target, upload

    target = Target(operator.library_search_url, operator.admin_password, LIBRARY, "default")
    for left in range(_TRIES, 0, -1):
        try:
            outcomes = await upload(target, find_files([demo.documents]))
        except Refused:
            # library-search learns of a new library a moment later, and waits for it itself.
            if left == 1:
                raise
        else:
            if failed := [outcome for outcome in outcomes if outcome.status == "failed"]:
                raise Refused(*(outcome.line() for outcome in failed))
            return


async def _is_accepted(operator: Operator, jwt: str) -> bool:
    """Whether library-search accepts the JWT. If that cannot be checked right now, it counts as accepted."""
    import httpx

    headers = {"Authorization": f"Bearer {jwt}", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as http:
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        try:
            answer = await http.post(f"{operator.library_search_url}/mcp", json=question, headers=headers)
        except httpx.HTTPError:
            return True
    return answer.status_code != _UNAUTHORIZED
