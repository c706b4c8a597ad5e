"""A worker is killed while callers have open streams: the events they get, and how their turns end."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_types import CallToolResult, TextContent
from tests.integration.agent_gateway.conftest import SLOW_MACHINE, Platform, error_of
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import Front, a_lab
from tests.waiting import Collected, soon

NOTICED_WITHIN = 3.0
"""Maximum seconds from a kill to the caller's next event."""

STREAM_ENDS_WITHIN = 40.0

WORKS = {1: "waiting in attempt 1", 2: "waiting in attempt 2"}
"""The progress message of a tool that begins to wait, by attempt."""

type Era = Literal["auto", "legacy"]


@dataclass
class Caller:
    """A call with an open stream: its progress messages, with the time of each."""

    agent: str
    tool: str
    file: Path
    lines: Collected[tuple[float, str]]
    calling: asyncio.Task[CallToolResult]

    @property
    def messages(self) -> list[str]:
        """The lines, without those about the queue."""
        return [line for _, line in self.lines.items if " queued: " not in line]

    async def until_line(self, line: str, within: float = 20.0) -> float:
        """Wait for a line and return when it came."""
        lines = await self.lines.until(lambda lines: any(text == line for _, text in lines), within)
        return next(at for at, text in lines if text == line)

    async def result(self) -> CallToolResult:
        """Wait for the end of the stream."""
        return await soon(self.calling, STREAM_ENDS_WITHIN)

    async def text(self) -> str:
        """The text of the answer."""
        [block] = (await self.result()).content
        assert isinstance(block, TextContent)
        return block.text

    @property
    def effects(self) -> list[str]:
        """The attempts in which the tool had its effect."""
        found = self.file.with_suffix(".effects")
        return found.read_text("utf-8").split() if found.exists() else []


async def call(stack: AsyncExitStack, platform: Platform, front: Front, era: Era, agent: str, tool: str) -> Caller:
    """Call a tool that waits for a file."""
    client = await stack.enter_async_context(front.client(platform.team, agent, era))
    file, lines = platform.file(), Collected[tuple[float, str]]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        lines.add((time.monotonic(), message or ""))

    calling = asyncio.create_task(client.call_tool(tool, {"file": str(file)}, progress_callback=on_progress))
    return Caller(agent, tool, file, lines, calling)


async def kill(worker: Service) -> float:
    """Kill a worker with SIGKILL. Returns the time."""
    worker.process.kill()
    at = time.monotonic()
    await worker.process.wait()
    return at


async def test_a_callers_stream_goes_on_when_its_worker_is_killed(platform: Platform, tmp_path: Path) -> None:
    folder = a_lab(platform.folder, platform.team)
    async with AsyncExitStack() as stack:
        doomed = await stack.enter_async_context(
            a_service("agent_worker", platform.url, tmp_path, "doomed", teams=str(folder))
        )
        await doomed.ready()
        front = await platform.gateway()
        for agent in ("bench", "sure"):
            await platform.served(front, agent)
        eras: tuple[Era, ...] = ("auto", "legacy")
        untouched = [await call(stack, platform, front, era, "bench", "late_effect") for era in eras]
        unsafe = [await call(stack, platform, front, era, "bench", "effect") for era in eras]
        safe = [await call(stack, platform, front, era, "sure", "effect") for era in eras]
        for caller in (*untouched, *unsafe, *safe):
            await caller.until_line(WORKS[1])
        await platform.worker()
        at = await kill(doomed)

        for caller in (*untouched, *safe):
            taken_up = await caller.until_line(f"{caller.agent} attempt 2: taken up again")
            assert taken_up - at < NOTICED_WITHIN * SLOW_MACHINE
            await caller.until_line(WORKS[2])
            caller.file.touch()
            assert await caller.text() == "waited in attempt 2"
        again, written = "attempt 2: taken up again", "write: started"
        for caller in untouched:
            assert caller.messages == [WORKS[1], f"bench {again}", WORKS[2], f"bench/{written}"]
            assert caller.effects == ["2"], "nothing had started, so it was done once"
        for caller in safe:
            assert caller.messages == [f"sure/{written}", WORKS[1], f"sure {again}", f"sure/{written}", WORKS[2]]
            assert caller.effects == ["1", "2"], "its agent says that this is safe"
        for caller in unsafe:
            error = error_of(await caller.result())
            assert (error["code"], error["retryable"]) == ("worker_lost", False)
            assert "bench/write had started" in await caller.text()
            assert caller.messages == [f"bench/{written}", WORKS[1]], "it was not taken up again"
            assert caller.effects == ["1"]
