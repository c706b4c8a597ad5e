"""Requests to `/rpc`, over plain HTTP."""

from dataclasses import dataclass
from typing import Any

import httpx
from tests.integration.real_parts import Front
from tests.waiting import soon

TASK = "task_001"

type Message = dict[str, Any]


def execute(agent_id: str, function: str, arguments: Message | None = None, **meta: object) -> Message:
    """An `agent.execute` in the dialect of data agents. A `task_id` of None is left out."""
    given = {"task_id": TASK, "timestamp": "2025-05-28T15:00:00Z"} | meta
    params = {
        "agent_id": agent_id,
        "function": function,
        "input": arguments or {},
        "meta": {name: value for name, value in given.items() if value is not None},
    }
    return {"method": "agent.execute", "params": params}


def strict(message: Message, request_id: object = 1) -> Message:
    """The same as JSON-RPC 2.0."""
    return {"jsonrpc": "2.0", "id": request_id, **message}


@dataclass(frozen=True)
class Rpc:
    """`/rpc` of one gateway, or of one team there."""

    http: httpx.AsyncClient
    front: Front
    team: str | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.front.base}/teams/{self.team}/rpc" if self.team else f"{self.front.base}/rpc"

    async def send(self, body: object, **headers: str) -> httpx.Response:
        """Send any JSON. An underscore in the name of a header is a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await soon(self.http.post(self.url, json=body, headers=named))

    async def answer(self, body: object, **headers: str) -> Any:
        """The same; the answer, whose status is 200."""
        response = await self.send(body, **headers)
        assert response.status_code == 200, response.text
        return response.json()
