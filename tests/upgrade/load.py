"""Callers that never stop while services come and go, and turns that last longer than any of them.

Each call has an idempotency key and is made again, at whichever gateway runs, until it has its answer, as a client
behind a load balancer would. What has happened is in a file, a line for each effect.
"""

import asyncio
import itertools
import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.e2e import wire
from tests.upgrade.world import World

KEY = "pallas/idempotency-key"
_PAUSE = 0.1
_CALLERS = 3


@dataclass
class Load:
    """`answers` are those of short calls by their line."""

    world: World
    answers: dict[str, str] = field(default_factory=dict[str, str])
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def file(self) -> Path:
        """Where effects are written down."""
        return self.world.folder / "effects"

    def effects(self) -> list[tuple[str, str]]:
        """What has happened, in order: a line, and the release of the worker that wrote it down."""
        rows = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        return [(row.partition("\t")[0], row.rsplit("-", 2)[1]) for row in rows]

    def lines(self) -> Counter[str]:
        """What has happened, and how often."""
        return Counter(line for line, _ in self.effects())

    async def keep_calling(self) -> None:
        """Make short calls until `stopping` is set."""

        async def caller(name: int) -> None:
            for number in itertools.count():
                if self.stopping.is_set():
                    return
                line = f"note-{name}-{number}"
                self.answers[line] = await self.call("note", line)
                await asyncio.sleep(_PAUSE)

        await asyncio.gather(*map(caller, range(_CALLERS)))

    def long_turn(self, name: str) -> "LongTurn":
        """Begin a turn that ends when its gate is opened."""
        gate = self.world.folder / f"{name}.gate"
        return LongTurn(self, name, gate, asyncio.create_task(self.call("tick", name, gate=str(gate))))

    async def call(self, tool: str, line: str, **arguments: str) -> str:
        """The text that a tool of the ledger answers."""
        given = {"file": str(self.file), "line": line, **arguments}
        result = await self.tool("rolling", "ledger", tool, given, key=line)
        return result["content"][0]["text"]

    async def tool(self, team: str, agent: str, tool: str, arguments: dict[str, Any], *, key: str) -> dict[str, Any]:
        """The result of a call, repeated until there is one."""
        params = {"name": tool, "arguments": arguments, "_meta": {KEY: key}}
        while True:
            gateway = random.choice(self.world.bases("agent-gateway"))
            result: dict[str, Any] | None = None
            with suppress(httpx.TransportError):
                result = await self._once(f"{gateway}/teams/{team}/mcp/{agent}", params)
            if result is not None and not _to_be_repeated(result):
                assert not result.get("isError"), result
                return result
            await asyncio.sleep(_PAUSE)

    async def _once(self, url: str, params: dict[str, Any]) -> dict[str, Any] | None:
        body, headers = wire.modern("tools/call", params)
        answer = await self.world.http.post(url, json=body, headers=headers, timeout=60)
        if not answer.is_success:
            return None
        found = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("data: {", "{"))]
        return json.loads(found[-1]).get("result") if found else None


@dataclass
class LongTurn:
    """A turn that ticks until `gate` exists."""

    load: Load
    name: str
    gate: Path
    task: "asyncio.Task[str]"

    @property
    def ticks(self) -> int:
        """How often it has ticked."""
        return sum(line.startswith(f"{self.name} ") for line in self.load.lines())

    async def end(self) -> list[str]:
        """Open the gate: each tick has happened once, in order. Returns the releases of its workers, in order."""
        self.gate.touch()
        ticks = int(await self.task)
        happened = [(line, release) for line, release in self.load.effects() if line.startswith(f"{self.name} ")]
        assert [line for line, _ in happened] == [f"{self.name} {number}" for number in range(ticks)]
        return [release for release, _ in itertools.groupby(release for _, release in happened)]


def _to_be_repeated(result: dict[str, Any]) -> bool:
    """Whether the call was refused for a moment."""
    return bool(result.get("isError")) and result.get("_meta", {}).get("pallas/error", {}).get("code") == "busy"
