"""Calls with idempotency keys at two gateways that share a log key."""

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import Front
from tests.waiting import soon

from pallas_turns.queue import queue_state

KEY = "pallas/idempotency-key"
LOG_KEY = "one key for all replicas of a test"


def keyed(name: str, arguments: dict[str, Any], key: object = "a key") -> dict[str, Any]:
    """The params of a call with a key."""
    return {"name": name, "arguments": arguments, "_meta": {"progressToken": "t", KEY: key}}


def fault(result: dict[str, Any]) -> dict[str, Any]:
    """The facts of a tool error."""
    assert result["isError"], result
    return result["_meta"]["pallas/error"]


async def waiting(platform: Platform, number: int) -> bool:
    """Whether so many turns of the bench wait for a worker."""
    return (await queue_state(platform.bus, platform.team, "bench")).waiting == number


@dataclass
class Fronts:
    """Two gateways, and the calls of one caller at them. Results are those of `tools/call` at the agent `bench`."""

    platform: Platform
    http: httpx.AsyncClient
    fronts: tuple[Front, Front]

    @classmethod
    async def of(cls, platform: Platform, http: httpx.AsyncClient) -> "Fronts":
        """Start the gateways."""
        first, second = [await platform.gateway("bench", log_key=LOG_KEY) for _ in range(2)]
        return cls(platform, http, (first, second))

    def url(self, number: int) -> str:
        """The address of the bench at a gateway."""
        return self.fronts[number].url(self.platform.team, "bench")

    async def call(self, number: int, params: dict[str, Any], http: httpx.AsyncClient | None = None) -> dict[str, Any]:
        """Call at a gateway, and return the result."""
        request = wire.modern("tools/call", params)
        return (await soon(wire.answers(http or self.http, self.url(number), request)))[-1]["result"]

    def start(self, number: int, params: dict[str, Any]) -> "asyncio.Task[dict[str, Any]]":
        """Start a call in the background."""
        return asyncio.create_task(self.call(number, params))

    async def leave(self, number: int, params: dict[str, Any]) -> None:
        """Make a call, wait for its first event, and close its stream."""
        async with wire.posted(self.http, self.url(number), wire.modern("tools/call", params)) as stream:
            async for message in stream.messages():
                if "waiting in attempt" in message["params"]["message"]:
                    break

    @property
    def effects(self) -> int:
        """How often the tool `effect` ran for the first file."""
        file = self.platform.files[0].with_suffix(".effects")
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def joined(self) -> float:
        """How many calls have joined an existing turn."""
        labels = {"team": self.platform.team, "agent": "bench"}
        return sum(front.counted("pallas_turns_joined_total", **labels) for front in self.fronts)
