"""The stack that most end-to-end tests share: two gateways, two workers, the teams of `tests/e2e/teams`.

The teams run from copies, so a test may edit them. Downstream servers are processes of the tests, which may stop them.
"""

import os
import shutil
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
from mcp import Client
from pydantic import SecretStr
from tests.e2e.stack import Stack, wait_until
from tests.runtimes import DemoServer

from pallas_bus.access import Access
from pallas_cli.stack.ports import DEFAULT_BASE

type Era = Literal["auto", "legacy"]

ERAS: tuple[Era, ...] = ("auto", "legacy")
"""The mode of the official client: `auto` finds the modern revision, `legacy` makes a handshake."""

_TEAMS = Path(__file__).parent / "teams"


@dataclass
class Lab:
    """A running stack as its callers see it. Replicas are counted from 0."""

    stack: Stack
    teams: Path
    toolbox: DemoServer
    shaky: DemoServer
    agent_port: int

    @property
    def registry(self) -> str:
        """Base address of the registry."""
        return self.stack.ready()["registry"]

    @property
    def nats(self) -> Access:
        """The broker, for reading the log as an operator does."""
        ready = self.stack.ready()
        return Access(ready["nats"], SecretStr(Path(ready["nats_seed_file"]).read_text("ascii")))

    def url(self, agent: str, team: str = "lab", *, replica: int = 0) -> str:
        """The MCP endpoint of an agent at one of the gateways."""
        return f"{self.stack.ready()['gateways'][replica]}/teams/{team}/mcp/{agent}"

    def client(self, agent: str, era: Era = "auto", *, team: str = "lab", replica: int = 0, **options: Any) -> Client:
        """The official client, not yet connected."""
        return Client(self.url(agent, team, replica=replica), mode=era, **options)

    def logs(self, service: str) -> str:
        """The log lines of all replicas of a service."""
        return "\n".join(path.read_text() for path in sorted(Path(self.stack.ready()["log"]).glob(f"{service}-*.log")))

    def pid_of(self, service: str, instance: str) -> int:
        """The process with the name `instance` in its log."""
        ready = self.stack.ready()
        for number, pid in enumerate(ready["pids"][service], 1):
            if instance in (Path(ready["log"]) / f"{service}-{number}.log").read_text():
                return pid
        raise LookupError(instance)

    def answers(self) -> bool:
        """Whether the registry and every gateway are ready."""
        ready = self.stack.ready()
        try:
            return all(
                httpx.get(f"{url}/readyz", verify=False).is_success for url in (ready["registry"], *ready["gateways"])
            )
        except httpx.TransportError:
            return False

    @contextmanager
    def replaced(self, service: str, pid: int, number: signal.Signals) -> Generator[None]:
        """Send a signal to a process. It ends inside the block; after the block its successor is ready."""
        os.kill(pid, number)
        yield
        wait_until(lambda: pid not in self.stack.ready()["pids"][service], f"another {service}", 60)
        # The ready file names a successor as soon as it runs, when another process has become ready meanwhile.
        wait_until(self.answers, "all to answer", 60)


@contextmanager
def running_lab(folder: Path) -> Generator[Lab]:
    """Run the stack."""
    toolbox, shaky = DemoServer(folder / "toolbox.log"), DemoServer(folder / "shaky.log")
    teams = folder / "teams"
    shutil.copytree(_TEAMS, teams, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--no-turn", "--gateways", "2", "--workers", "2")
    stack = Stack(folder, *options, "--teams", str(teams / "lab"), "--teams", str(teams / "live"))
    agent_port = stack.base + 3
    stack.set_env(
        PALLAS_TEST_TOOLBOX_URL=toolbox.url,
        PALLAS_TEST_SHAKY_URL=shaky.url,
        # Dedicated ports move with the ports of the stack.
        PALLAS_TEST_AGENT_PORT=str(DEFAULT_BASE + 3),
        PALLAS_PROBE_INTERVAL="1",
    )
    try:
        toolbox.start()
        shaky.start()
        with stack:
            stack.until_ready()
            yield Lab(stack, teams, toolbox, shaky, agent_port)
    finally:
        toolbox.kill()
        shaky.kill()
