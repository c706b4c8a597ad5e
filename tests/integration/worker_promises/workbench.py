"""The MCP server of the team, in the test's process: one tool waits for the test, effects of the other count."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from tests.waiting import Collected

from pallas_runtime.http.listener import bind, listening


@dataclass
class Workbench:
    """What the tools have done, by the key that they were given. `happened` has a line for each beginning and end."""

    url: str = ""
    effects: Counter[str] = field(default_factory=Counter[str])
    happened: Collected[str] = field(default_factory=Collected[str])
    _open: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def open(self, key: str) -> None:
        """Let those that wait with this key go on."""
        self._open[key].set()

    async def until(self, line: str, times: int = 1) -> None:
        """Wait until something has happened."""
        await self.happened.until(lambda lines: lines.count(line) >= times)

    async def wait(self, key: str, context: Context, answer: str = "waited") -> str:
        """Wait for the test."""
        await context.report_progress(1, 2, f"waiting for {key}")
        self.happened.add(f"{key} waits")
        try:
            await self._open[key].wait()
        except asyncio.CancelledError:
            self.happened.add(f"{key} is cancelled")
            raise
        return answer

    async def effect(self, key: str, answer: str = "done") -> str:
        """Have an effect."""
        self.effects[key] += 1
        return answer


@asynccontextmanager
async def a_workbench() -> AsyncGenerator[Workbench]:
    """Serve the tools on a free port. Only `wait` may be called again."""
    bench, server = Workbench(), MCPServer("bench")
    server.add_tool(bench.wait, annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    server.add_tool(bench.effect, structured_output=False)
    listener = bind("127.0.0.1", 0)
    bench.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    app = server.streamable_http_app()
    async with server.session_manager.run(), listening(app, listener, drain_seconds=1):
        yield bench
