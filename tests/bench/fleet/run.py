"""The fleet beside `setup-fleet-mcp`, the server for the same tools, on the same stand-in for Coder.

Both are called by the official client over HTTP. The agents are programs in terminals. What only ours can do is
measured beside it: tasks that survive their process, histories, statuses that others change.
"""

import asyncio
import subprocess
from collections.abc import Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from pydantic import SecretStr
from tests.bench import stack
from tests.bench.fleet.calls import listing, tasks, tools
from tests.bench.fleet.survival import at_once, killed, pages
from tests.bench.fleet.world import PEER, Extent, Report, World
from tests.bench.processes import Process, running

from fleet.coder.client import Coder
from fleet.reaching.http import Http
from pallas_bus.connection import connect
from pallas_contracts.catalog import FLEET, GATEWAY

PYTHON = Path(__file__).parents[3] / ".tools" / "setup-fleet-mcp" / "bin" / "python"
_VERSION = "import importlib.metadata as it; print(it.version('setup-fleet-mcp'))"
_TOKEN = "bench-token"


def measure(folder: Path, extent: Extent, report: Report) -> dict[str, Any]:
    """All figures, and the version of the peer.

    Raises:
        FileNotFoundError: the peer is not installed; `make bench` does that.
    """
    version = subprocess.run([PYTHON, "-c", _VERSION], capture_output=True, text=True, check=True).stdout.strip()
    folder = folder / "fleet"
    folder.mkdir()
    report(f"starting Coder's stand-in, the fleet and {PEER} {version}")
    with ExitStack() as parts:
        nats_url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, nats_url))
        env = {"PALLAS_CODER_TOKEN": _TOKEN}
        options = ("--port", "{port}", "--build-seconds", "0.05", "--no-sandbox", "--folder", str(folder / "agents"))
        coder = parts.enter_context(running("coder", folder, "pallas_demo.coder", *options, env=env)).wait_for("")
        url = f"http://127.0.0.1:{coder.port}"
        fleets = [parts.enter_context(_fleet(folder, nats_url, url, number)) for number in (1, 2)]
        theirs = parts.enter_context(peer(folder, url, _TOKEN))
        figures = asyncio.run(_measured(gateway, theirs, fleets, url, nats_url, extent, report))
    return {"version": version, **figures}


@contextmanager
def _fleet(folder: Path, nats_url: str, coder_url: str, number: int) -> Generator[Process]:
    env = {
        "PALLAS_NATS_URL": nats_url,
        "PALLAS_PORT": "{port}",
        "PALLAS_DRAIN_SECONDS": "1",
        "PALLAS_CODER_URL": coder_url,
        "PALLAS_CODER_TOKEN": _TOKEN,
        "PALLAS_FLEET_MAX_AGENTS": "1000",
        "PALLAS_FLEET_TASKS": "400",
        "PALLAS_FLEET_ALLOW": "peer",
    }
    with running(f"fleet-{number}", folder, "fleet", env=env) as process:
        yield process.wait_for("readyz")


@contextmanager
def peer(folder: Path, coder_url: str, token: str) -> Generator[Process]:
    """The peer at a Coder, answering."""
    env = {"CODER_URL": coder_url, "CODER_SESSION_TOKEN": token, "PYTHONPATH": ""}
    arguments = ("fleet_mcp.__main__:app", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
    with running(PEER, folder, "uvicorn", *arguments, env=env, python=PYTHON) as process:
        yield process.wait_for("")


async def _measured(
    gateway: Process, peer: Process, fleets: list[Process], url: str, nats_url: str, extent: Extent, report: Report
) -> dict[str, Any]:
    async with AsyncExitStack() as parts:
        enter = parts.enter_async_context
        http = Http(url, SecretStr(_TOKEN))
        parts.push_async_callback(http.close)
        bus, log = await enter(connect(nats_url, FLEET)), await enter(connect(nats_url, GATEWAY))
        ours = await enter(Client(f"http://127.0.0.1:{gateway.port}/teams/fleet/mcp/fleet"))
        theirs = await enter(Client(f"http://127.0.0.1:{peer.port}/mcp"))
        world = World(ours, theirs, Coder(http), bus, log, extent, report)
        found: dict[str, Any] = {"list": {}}
        for size in extent.sizes:
            report(f"{size} agents")
            await world.grow(size)
            found["list"][str(size)] = await listing(world)
        report("starts, stops and statuses")
        found["tools"] = await tools(world)
        found["tasks"] = await tasks(world)
        report("histories")
        found["history"] = {str(length): await pages(world, length) for length in extent.histories}
        report("tasks at once")
        found["at_once"] = await at_once(world, fleets)
        report("a replica is killed")
        found["kill"] = await killed(world, fleets)
        return found
