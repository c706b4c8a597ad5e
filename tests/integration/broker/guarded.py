"""A broker with the configuration of `pallas broker config`: its users, among them workers of two teams."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nats.aio.msg import Msg
from pydantic import SecretStr
from tests.embedded import NatsServer
from tests.integration.real_parts import a_lab

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect
from pallas_cli.broker_config.users import read_workers
from pallas_cli.broker_config.write import USERS, BrokerFolder

ALPHA, BETA = "alpha", "beta"
TEAMS = (ALPHA, BETA)

_VIOLATION = "permissions violation"


@dataclass
class Guarded:
    """The server, its configuration folder, and the team folders."""

    server: NatsServer
    folder: BrokerFolder
    teams: dict[str, Path]

    def access(self, user: str) -> Access:
        """The address and seed with which a user connects."""
        return Access(self.server.url, SecretStr(self.seed(user)))

    def seed(self, user: str) -> str:
        """The seed of that user."""
        return self.folder.seeds.path(user).read_text("ascii")

    @property
    def violations(self) -> list[str]:
        """The violations that the server has logged so far."""
        return [line for line in self.server.log.splitlines() if "iolation" in line]


def worker(team: str) -> str:
    """The user of the workers that host this team."""
    return f"agent-worker.{team}"


def start(folder: Path, *, edit: Callable[[str], str] = lambda text: text, max_payload: str = "8MB") -> Guarded:
    """Start a broker with workers of two teams. The caller closes its server."""
    teams = {team: a_lab(folder / "teams" / team, team, edit) for team in TEAMS}
    written = BrokerFolder(folder / "broker")
    written.write_users(read_workers([[path] for path in teams.values()], {}))
    server = NatsServer(folder / "broker", further=f"include {USERS}", max_payload=max_payload)
    return Guarded(server.start(), written, teams)


@dataclass
class Trier:
    """A connection that tries what may be denied, and keeps what was."""

    bus: Bus
    denied: set[str] = field(default_factory=set[str])

    async def publish(self, *subjects: str) -> set[str]:
        """Publish on each and return those that were denied."""
        for subject in subjects:
            await self.bus.send(subject, b"")
        return await self._denied(subjects)

    async def subscribe(self, *subjects: str) -> set[str]:
        """Subscribe to each and return those that were denied."""
        for subject in subjects:
            await self.bus.subscribe(subject, _ignore)
        return await self._denied(subjects)

    async def _denied(self, subjects: Sequence[str]) -> set[str]:
        await asyncio.sleep(0)
        await self.bus.flush()
        return {subject for subject in subjects if subject.lower() in self.denied}


async def _ignore(_: Msg) -> None:
    return


@asynccontextmanager
async def trying(access: Access, service: str) -> AsyncGenerator[Trier]:
    """Connect as a user, to try what is denied."""
    denied: set[str] = set()

    async def failed(error: Exception) -> None:
        text = str(error).lower()
        if _VIOLATION in text:
            denied.add(text.split('"')[1])

    async with connect(access, service, options={"error_cb": failed}) as bus:
        yield Trier(bus, denied)
