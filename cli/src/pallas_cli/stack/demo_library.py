"""The library of the demo team, made through the public APIs as an operator and Daedalus would make it.

Each step can be done again, and the JWT is kept last: a start that was cut off is gone on with by the next one. While
the JWT that was kept is accepted nothing is touched, so what an admin has changed since stays as it is.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pallas_cli.library_files import find_files
from pallas_cli.refused import Refused
from pallas_cli.stack.demo_team import DemoTeam
from pallas_cli.stack.plan import AuthSide

if TYPE_CHECKING:
    from httpx import AsyncClient

USER, LIBRARY, WORKSPACE = "demo", "demo-handbook", "demo"
_TEAMS, _ADMIN = "/mcp_server/api/teams/", "/admin/api"
_TRIES = 4
_SECONDS = 20.0


async def ensure_demo_library(demo: DemoTeam, auth: AuthSide) -> None:
    """Let the demo team read a library with a few documents.

    Raises:
        Refused: it cannot be done, or an admin has deleted the team.
    """
    # Importing it takes a while; the loop goes on watching the processes.
    httpx = await asyncio.to_thread(__import__, "httpx")
    kept = demo.kept_jwt()
    if kept is not None and await _is_accepted(auth, kept):
        return
    try:
        async with (
            _client(auth, "daedalus-service", auth.accounts.service_password) as daedalus,
            _client(auth, "admin", auth.accounts.admin_password) as admin,
        ):
            demo.keep_jwt(await _provide(demo, auth, daedalus, admin))
    except httpx.HTTPError as error:
        raise Refused(f"team-lifecycle cannot be reached ({type(error).__name__})") from error


async def _provide(demo: DemoTeam, auth: AuthSide, daedalus: "AsyncClient", admin: "AsyncClient") -> str:
    """Make what is missing, and return a JWT that is valid."""
    team = await _ask(daedalus, "POST", _TEAMS, {"id": demo.team_id, "name": "Demo"})
    if not team.get("active", True):
        raise Refused("the demo team was deleted at team-lifecycle")
    await _ask(admin, "POST", f"{_ADMIN}/users", {"name": USER})
    library = {"uid": LIBRARY, "name": "Handbook of the demo", "workspace_id": WORKSPACE, "owner": USER}
    await _ask(admin, "POST", f"{_ADMIN}/libraries", library, also=(409,))
    await _add_documents(demo, auth)
    workspaces = sorted({*team.get("workspace_ids", ()), WORKSPACE})
    await _ask(daedalus, "PUT", f"{_TEAMS}{demo.team_id}/workspaces/", {"workspace_ids": workspaces})
    if "jwt" not in team:
        team = await _ask(daedalus, "POST", f"{_TEAMS}{demo.team_id}/rotate/")
    return team["jwt"]


async def _add_documents(demo: DemoTeam, auth: AuthSide) -> None:
    from pallas_cli.library_ingest import Target, hand_over

    target = Target(auth.library_search_url, auth.accounts.admin_password, LIBRARY, "default")
    for left in range(_TRIES, 0, -1):
        try:
            outcomes = await hand_over(target, find_files([demo.documents]))
        except Refused:
            # The search hears of a new library a moment after it was made, and waits for that itself.
            if left == 1:
                raise
        else:
            if failed := [outcome for outcome in outcomes if outcome.status == "failed"]:
                raise Refused(*(outcome.line() for outcome in failed))
            return


async def _is_accepted(auth: AuthSide, jwt: str) -> bool:
    """Whether the library search takes the JWT. One that cannot be judged right now is kept."""
    import httpx

    headers = {"Authorization": f"Bearer {jwt}", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        try:
            answer = await http.post(f"{auth.library_search_url}/mcp", json=question, headers=headers)
        except httpx.HTTPError:
            return True
    return answer.status_code != 401


def _client(auth: AuthSide, name: str, password: str) -> "AsyncClient":
    import httpx

    return httpx.AsyncClient(base_url=auth.team_lifecycle_url, auth=(name, password), timeout=_SECONDS, trust_env=False)


async def _ask(
    http: "AsyncClient", method: str, path: str, body: dict[str, Any] | None = None, *, also: Collection[int] = ()
) -> dict[str, Any]:
    """Ask until it is not answered with "later"; statuses in `also` are as good as success.

    Raises:
        Refused: it is not done.
    """
    answer = await http.request(method, path, json=body)
    for _ in range(_TRIES - 1):
        if answer.status_code == 503:
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
            answer = await http.request(method, path, json=body)
    if not (answer.is_success or answer.status_code in also):
        raise Refused(f"{method} {path} is answered with {answer.status_code}: {answer.text[:200]}")
    return answer.json()
