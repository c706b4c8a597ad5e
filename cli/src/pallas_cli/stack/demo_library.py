"""What `pallas up` does at its own services as an operator: the demo team's library, and the link to the console.

The demo team is an instance at the console, attached to a workspace, with a library of a few documents. Each step can
be repeated, and the JWT is stored last, so the next start completes an interrupted one. While the stored JWT is
accepted nothing is changed, so changes of an admin persist.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_cli.libraries import find_files
from pallas_cli.refused import Refused
from pallas_cli.stack.demo_team import DemoTeam

if TYPE_CHECKING:
    from httpx import AsyncClient

USER, LIBRARY, WORKSPACE = "demo", "demo-handbook", "demo"
_ADMIN, _API = "/admin/api", "/api/v1"
_EXISTS, _NOT_FOUND, _UNAUTHORIZED = 409, 404, 401
_LATER = (502, 503)
_TRIES = 4
_SECONDS = 20.0
_INTERVAL, _AFTER_FAILURE = 0.05, 1.0
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")

type Row = dict[str, Any]


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
            _client(operator.team_lifecycle_url, operator) as admin,
            _client(operator.console_url, operator) as console,
        ):
            await _Demo(demo, operator, admin, console).ensure()
    except httpx.HTTPError as error:
        raise Refused(f"team-lifecycle or the console cannot be reached ({type(error).__name__})") from error


async def console_link(operator: Operator) -> str | None:
    """A link with which a person opens the console, and which logs in once; None if the console does not answer."""
    import httpx

    try:
        async with _client(operator.console_url, operator) as console:
            return (await _ask(console, "POST", f"{_API}/login/links"))["url"]
    except (Refused, httpx.HTTPError):
        return None


@dataclass(frozen=True, slots=True)
class _Demo:
    """The demo team at team-lifecycle and at the console, where it is an instance with the same id."""

    demo: DemoTeam
    operator: Operator
    admin: "AsyncClient"
    console: "AsyncClient"

    async def ensure(self) -> None:
        """Make what is missing. The JWT is stored last."""
        if await self._accepted() and await self._is_registered():
            return
        team = await _ask(self.admin, "GET", f"{_ADMIN}/teams/{self.demo.team_id}/", also=(_NOT_FOUND,))
        if not team.get("active", True):
            raise Refused("the demo team was deleted at team-lifecycle")
        await _ask(self.admin, "POST", f"{_ADMIN}/users", {"name": USER})
        library = {"uid": LIBRARY, "name": "Handbook of the demo", "workspace_id": WORKSPACE, "owner": USER}
        await _ask(self.admin, "POST", f"{_ADMIN}/libraries", library, also=(_EXISTS,))
        adding = asyncio.create_task(self._add_documents())
        try:
            jwt = await self._provisioned(team.get("workspace_ids", ()))
            await adding
        finally:
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)
        if jwt is not None:
            self.demo.keep_jwt(jwt)

    async def _accepted(self) -> bool:
        """Whether library-search accepts the stored JWT. If that cannot be checked right now, it counts as accepted."""
        import httpx

        if (jwt := self.demo.kept_jwt()) is None:
            return False
        headers = {"Authorization": f"Bearer {jwt}", "Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
            question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            try:
                answer = await http.post(f"{self.operator.library_search_url}/mcp", json=question, headers=headers)
            except httpx.HTTPError:
                return True
        return answer.status_code != _UNAUTHORIZED

    async def _add_documents(self) -> None:
        from pallas_cli.libraries import Target, upload

        target = Target(self.operator.library_search_url, self.operator.admin_password, LIBRARY, "default")
        for left in range(_TRIES, 0, -1):
            try:
                outcomes = await upload(target, find_files([self.demo.documents]))
            except Refused:
                # library-search learns of a new library a moment later, and waits for it itself.
                if left == 1:
                    raise
            else:
                if failed := [outcome for outcome in outcomes if outcome.status == "failed"]:
                    raise Refused(*(outcome.line() for outcome in failed))
                return

    async def _is_registered(self) -> bool:
        """Whether the instance is there, with this registry. Its address changes with the ports of the stack."""
        row = await _ask(self.console, "GET", self._path, also=(_NOT_FOUND,))
        found = row.get("id") == self.demo.team_id
        if found and row["registry_url"] != self._registry:
            await _ask(self.console, "PATCH", self._path, {"registry_url": self._registry})
        return found

    async def _provisioned(self, others: Collection[str]) -> str | None:
        """Register the instance and attach it to the workspace, and to `others` that an admin gave its team.

        Returns its JWT if that has to be stored, which it does not if the stored one is accepted.
        """
        attached = sorted({WORKSPACE, *filter(_ID.fullmatch, others)})
        for workspace in attached:
            body = {"id": workspace, "name": "Demo" if workspace == WORKSPACE else workspace}
            await _ask(self.console, "POST", f"{_API}/workspaces", body, also=(_EXISTS,))
        if not await self._is_registered():
            await self._register()
        await self._until(lambda row: row["status"] == "provisioned")
        for workspace in attached:
            await _ask(self.console, "POST", f"{_API}/workspaces/{workspace}/pallas/{self.demo.team_id}")
        row = await self._until(lambda row: set(attached) <= set(row["pushed_workspaces"] or ()))
        if row["jwt"] != "ready":
            if await self._accepted():
                return None
            await _ask(self.console, "POST", f"{self._path}/rotate")
        return (await _ask(self.console, "POST", f"{self._path}/reveal"))["jwt"]

    async def _register(self) -> None:
        body = {"registry_url": self._registry, "name": "Demo", "id": self.demo.team_id}
        answer = await _ask(self.console, "POST", f"{_API}/pallas", body, also=(_EXISTS,))
        if answer.get("code") == "id_taken":
            raise Refused("the demo team was deleted at the console")
        if answer.get("id") != self.demo.team_id:
            raise Refused(f"its registry is registered at the console as another instance: {answer.get('error')}")

    async def _until(self, enough: Callable[[Row], bool]) -> Row:
        """The instance, once it is as it should be.

        Raises:
            Refused: its team cannot be provisioned, or this takes too long.
        """
        deadline = asyncio.get_running_loop().time() + _SECONDS
        while True:
            row = await _ask(self.console, "GET", self._path)
            if enough(row):
                return row
            if asyncio.get_running_loop().time() > deadline:
                raise Refused(f"its team is {row['status']}: {row['status_reason'] or 'no reason is known'}")
            if row["status"] == "failed":
                await _ask(self.console, "POST", f"{self._path}/provision")
            await asyncio.sleep(_AFTER_FAILURE if row["status"] == "failed" else _INTERVAL)

    @property
    def _path(self) -> str:
        return f"{_API}/pallas/{self.demo.team_id}"

    @property
    def _registry(self) -> str:
        return f"{self.operator.registry_url}/teams/{self.demo.summary.name}"


def _client(url: str, operator: Operator) -> "AsyncClient":
    import httpx

    return httpx.AsyncClient(base_url=url, auth=("admin", operator.admin_password), timeout=_SECONDS, trust_env=False)


async def _ask(
    http: "AsyncClient", method: str, path: str, body: Row | None = None, *, also: Collection[int] = ()
) -> Row:
    """The answer of a request, which is repeated while it is 502 or 503. Statuses in `also` count as success.

    Raises:
        Refused: the request failed.
    """
    answer = await http.request(method, path, json=body)
    for _ in range(_TRIES - 1):
        if answer.status_code not in _LATER:
            break
        await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
        answer = await http.request(method, path, json=body)
    if not (answer.is_success or answer.status_code in also):
        raise Refused(f"{method} {path} failed with status {answer.status_code}: {answer.text[:200]}")
    return answer.json() if answer.content else {}
