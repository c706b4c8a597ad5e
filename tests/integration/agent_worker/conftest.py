"""A demo MCP server for each module, others for each test, and a team that uses the demo server."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.runtimes import DemoServer, a_team

from pallas_hosting.folders import HostedTeam

AGENTS = """
name: demo
agents:
  harper:
    servers: [toolbox]
    depends_on: [research]
  research:
    servers: [toolbox]
"""


@pytest.fixture(scope="module")
def module_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[DemoServer]:
    """The module's demo server, as the tests before have left it."""
    server = DemoServer(tmp_path_factory.mktemp("demo") / "demo.log")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def demo_server(module_server: DemoServer) -> DemoServer:
    """The module's demo server, running, with an empty log."""
    module_server.renew()
    return module_server


@pytest.fixture
def legacy_server(tmp_path: Path) -> Generator[DemoServer]:
    """A running server that supports the handshake revisions only."""
    server = DemoServer(tmp_path / "legacy.log", str(Path(__file__).with_name("legacy_server.py")))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def growing_server(tmp_path: Path) -> Generator[DemoServer]:
    """A running server whose list of tools can change."""
    server = DemoServer(tmp_path / "growing.log", str(Path(__file__).with_name("growing_server.py")))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
async def hosted(tmp_path: Path, demo_server: DemoServer) -> AsyncGenerator[HostedTeam]:
    """A team whose agents use the demo server over HTTP."""
    config = f"default_model: offline\nmcp:\n  servers:\n    toolbox:\n      url: {demo_server.url}\n"
    team = await a_team(tmp_path, {"agents.yaml": AGENTS, "fastagent.config.yaml": config})
    try:
        yield team
    finally:
        await team.shared.close()
