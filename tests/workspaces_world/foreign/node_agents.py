"""Agents made with the official TypeScript SDK, each in a process of its own."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.node import NODE, NodePackages
from tests.waiting import soon

PACKAGES = NodePackages(Path(__file__).parent / "node")

type Era = Literal["modern", "legacy"]


@dataclass(frozen=True)
class NodeAgent:
    """A running agent. `research` is its tool in the modern era, `infra` in the other."""

    url: str
    process: Process

    async def says(self) -> str:
        """The next line that it writes."""
        assert self.process.stdout is not None
        return (await soon(self.process.stdout.readline())).decode().strip()

    async def forget_sessions(self) -> None:
        """Let it forget its sessions, as a server does that was started again."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"forget\n")
        await self.process.stdin.drain()


@asynccontextmanager
async def a_node_agent(era: Era) -> AsyncGenerator[NodeAgent]:
    """Run an agent until the block ends."""
    await asyncio.to_thread(PACKAGES.install)
    process = await asyncio.create_subprocess_exec(
        NODE, f"{era}.mjs", cwd=PACKAGES.folder, stdin=PIPE, stdout=PIPE, env={**os.environ, "NODE_ENV": "test"}
    )
    try:
        assert process.stdout is not None
        port = (await soon(process.stdout.readline())).decode().strip()
        yield NodeAgent(f"http://127.0.0.1:{port}/mcp", process)
    finally:
        process.kill()
        await process.wait()
