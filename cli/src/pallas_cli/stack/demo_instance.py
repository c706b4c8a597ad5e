"""The demo team at the console: an instance, a workspace to which it is attached, and the JWT of its team.

A data folder of an earlier version has the team at Mnemosyne already. It is then taken over with its workspaces, and
gets another JWT.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_cli.refused import Refused
from pallas_cli.stack.asking import ask

if TYPE_CHECKING:
    from httpx import AsyncClient

NAME, WORKSPACE = "Demo", "demo"
_API = "/api/v1"
_NOT_FOUND, _EXISTS = 404, 409
_SECONDS, _INTERVAL, _AFTER_FAILURE = 20.0, 0.05, 1.0
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")

type Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DemoInstance:
    """The instance with the id of the demo's team, and the address of its registry."""

    console: "AsyncClient" = field(repr=False)
    team_id: str
    registry_url: str

    async def is_there(self) -> bool:
        """Whether it is registered, with this registry. Its address changes with the ports of the stack."""
        row = await self._row()
        if row and row["registry_url"] != self.registry_url:
            await ask(self.console, "PATCH", self._path, {"registry_url": self.registry_url})
        return bool(row)

    async def ensure(self, earlier: Collection[str], accepted: Callable[[], Awaitable[bool]]) -> str | None:
        """Register and attach it unless that was done. `earlier` are the workspaces that its team had before.

        Returns its JWT if that has to be stored, which it does not if the stored one is `accepted`.

        Raises:
            Refused: a request failed, or an admin has deleted the team.
        """
        attached = sorted({WORKSPACE, *filter(_ID.fullmatch, earlier)})
        for workspace in attached:
            name = NAME if workspace == WORKSPACE else workspace
            await ask(self.console, "POST", f"{_API}/workspaces", {"id": workspace, "name": name}, also=(_EXISTS,))
        if not await self.is_there():
            await self._register()
        await self._until(lambda row: row["status"] == "provisioned")
        for workspace in attached:
            await ask(self.console, "POST", f"{_API}/workspaces/{workspace}/pallas/{self.team_id}")
        row = await self._until(lambda row: set(attached) <= set(row["pushed_workspaces"] or ()))
        if row["jwt"] != "ready":
            if await accepted():
                return None
            await ask(self.console, "POST", f"{self._path}/rotate")
        return (await ask(self.console, "POST", f"{self._path}/reveal"))["jwt"]

    async def _register(self) -> None:
        body = {"registry_url": self.registry_url, "name": NAME, "id": self.team_id}
        answer = await ask(self.console, "POST", f"{_API}/pallas", body, also=(_EXISTS,))
        if answer.get("code") == "id_taken":
            raise Refused("the demo team was deleted at the console")
        if answer.get("id") != self.team_id:
            raise Refused(f"its registry is registered at the console as another instance: {answer.get('error')}")

    async def _until(self, enough: Callable[[Row], bool]) -> Row:
        """The instance, once it is as it should be.

        Raises:
            Refused: its team cannot be provisioned, or this takes too long.
        """
        deadline = asyncio.get_running_loop().time() + _SECONDS
        while True:
            row = await ask(self.console, "GET", self._path)
            if enough(row):
                return row
            if asyncio.get_running_loop().time() > deadline:
                raise Refused(f"its team is {row['status']}: {row['status_reason'] or 'no reason is known'}")
            if row["status"] == "failed":
                await ask(self.console, "POST", f"{self._path}/provision")
            await asyncio.sleep(_AFTER_FAILURE if row["status"] == "failed" else _INTERVAL)

    async def _row(self) -> Row | None:
        row = await ask(self.console, "GET", self._path, also=(_NOT_FOUND,))
        return row if row.get("id") == self.team_id else None

    @property
    def _path(self) -> str:
        return f"{_API}/pallas/{self.team_id}"
