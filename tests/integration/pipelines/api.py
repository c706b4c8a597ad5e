"""A client of the HTTP API, for tests."""

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from tests.integration.pipelines.lab import Lab, Replica
from tests.integration.real_parts import until

from pallas_contracts.agents import JsonObject

ADD = "use stdlib.math\nin a: Int\nin b: Int\nsum = add(a, b)\nout sum"
SUBTRACT = ADD.replace("add(", "subtract(")
ANSWERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@dataclass(frozen=True)
class Api:
    """Sends requests to a replica. `user` is the one in the label of its requests, if they have one."""

    http: httpx.AsyncClient
    user: str = ""

    async def get(self, path: str, status: int = 200) -> Any:
        """The document at a path."""
        return await self.asks("GET", path, None, status)

    async def post(self, path: str, body: JsonObject | None = None, status: int = 200) -> Any:
        """The answer of a request."""
        return await self.asks("POST", path, body, status)

    async def asks(self, method: str, path: str, body: JsonObject | None = None, status: int = 200) -> Any:
        """The answer of a request, which has this status."""
        found = await self.http.request(method, path, json=body)
        assert found.status_code == status, (path, found.status_code, found.text)
        assert found.headers["content-type"] == "application/json"
        return found.json()

    async def events(self, execution: str, **headers: str) -> list[tuple[str | None, JsonObject]]:
        """The events of an execution to its end: their ids and data."""
        found = await self.http.get(f"/executions/{execution}/events", headers=headers)
        assert found.headers["content-type"].startswith("text/event-stream"), found.text
        blocks = [block.splitlines() for block in found.text.split("\n\n") if block and not block.startswith(":")]
        lines = [dict(line.split(": ", 1) for line in block) for block in blocks]
        return [(each.get("id"), json.loads(each["data"])) for each in lines]

    async def ends(self, execution: str, status: str) -> None:
        """Wait until an execution has ended like this."""

        async def look() -> bool:
            found = await self.http.get(f"/executions/{execution}")
            return found.status_code == 200 and found.json()["status"] == status

        await until(look)


@asynccontextmanager
async def api_of(replica: Replica, **headers: str) -> AsyncGenerator[Api]:
    """A client of a replica."""
    async with httpx.AsyncClient(base_url=replica.url, trust_env=False, timeout=20, headers=headers) as http:
        yield Api(http)


@asynccontextmanager
async def served(lab: Lab, **settings: str) -> AsyncGenerator[Api]:
    """A client of a replica that knows the agent of the lab. Its label has a user of its own."""
    replica = await lab.replica(**settings)
    await lab.host()
    await lab.known(replica)
    user = f"u{uuid.uuid4().hex[:8]}"
    async with api_of(replica, **{"X-Constellation-Agent": f"tests:{user}"}) as api:
        yield Api(api.http, user)
