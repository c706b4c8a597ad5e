"""The library of the demo team, created through the public APIs of operators and Daedalus.

Each step can be repeated, and the JWT is stored last, so the next start completes an interrupted one. While the stored
JWT is accepted nothing is changed, so changes of an admin persist.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_cli.libraries.files import find_files
from pallas_cli.refused import Refused
from pallas_cli.stack.demo_team import DemoTeam

if TYPE_CHECKING:
    from httpx import AsyncClient

USER, LIBRARY, WORKSPACE = "demo", "demo-handbook", "demo"
_TEAMS, _ADMIN = "/mcp_server/api/teams/", "/admin/api"
_TRIES = 4
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Operator:
    """Addresses of team-lifecycle and library-search, with the passwords of their accounts."""

    team_lifecycle_url: str
    library_search_url: str
    admin_password: str = field(repr=False)
    service_password: str = field(repr=False)


async def ensure_demo_library(demo: DemoTeam, operator: Operator) -> None:
    """Give the demo team a library with a few documents.

    Raises:
        Refused: a request failed, or an admin has deleted the team.
    """
    # The import is slow; in a thread it does not block the loop, which watches the processes.
    httpx = await asyncio.to_thread(__import__, "httpx")
    kept = demo.kept_jwt()
    if kept is not None and await _is_accepted(operator, kept):
        return
    try:
        async with (
            _client(operator, "daedalus-service", operator.service_password) as daedalus,
            _client(operator, "admin", operator.admin_password) as admin,
        ):
            demo.keep_jwt(await _provide(demo, operator, daedalus, admin))
    except httpx.HTTPError as error:
        raise Refused(f"team-lifecycle cannot be reached ({type(error).__name__})") from error


async def _provide(demo: DemoTeam, operator: Operator, daedalus: "AsyncClient", admin: "AsyncClient") -> str:
    """Create what is missing, and return a valid JWT."""
    team = await _ask(daedalus, "POST", _TEAMS, {"id": demo.team_id, "name": "Demo"})
    if not team.get("active", True):
        raise Refused("the demo team was deleted at team-lifecycle")
    await _ask(admin, "POST", f"{_ADMIN}/users", {"name": USER})
    library = {"uid": LIBRARY, "name": "Handbook of the demo", "workspace_id": WORKSPACE, "owner": USER}
    await _ask(admin, "POST", f"{_ADMIN}/libraries", library, also=(409,))
    await _add_documents(demo, operator)
    workspaces = sorted({*team.get("workspace_ids", ()), WORKSPACE})
    await _ask(daedalus, "PUT", f"{_TEAMS}{demo.team_id}/workspaces/", {"workspace_ids": workspaces})
    if "jwt" not in team:
        team = await _ask(daedalus, "POST", f"{_TEAMS}{demo.team_id}/rotate/")
    return team["jwt"]


async def _add_documents(demo: DemoTeam, operator: Operator) -> None:
    from pallas_cli.libraries.ingest import Target, upload

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
    async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        try:
            answer = await http.post(f"{operator.library_search_url}/mcp", json=question, headers=headers)
        except httpx.HTTPError:
            return True
    return answer.status_code != 401


def _client(operator: Operator, name: str, password: str) -> "AsyncClient":
    import httpx

    url = operator.team_lifecycle_url
    return httpx.AsyncClient(base_url=url, auth=(name, password), timeout=_SECONDS, trust_env=False)


async def _ask(
    http: "AsyncClient", method: str, path: str, body: dict[str, Any] | None = None, *, also: Collection[int] = ()
) -> dict[str, Any]:
    """Send a request, and retry while the answer is 503. Statuses in `also` count as success.

    Raises:
        Refused: the request failed.
    """
    answer = await http.request(method, path, json=body)
    for _ in range(_TRIES - 1):
        if answer.status_code == 503:
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
            answer = await http.request(method, path, json=body)
    if not (answer.is_success or answer.status_code in also):
        raise Refused(f"{method} {path} failed with status {answer.status_code}: {answer.text[:200]}")
    return answer.json()
