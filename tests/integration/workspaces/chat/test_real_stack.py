"""A reply of a real agent, while its gateway, its worker and the service itself are killed. Everything is a process."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import until
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import PASSWORD, client_of, environment
from tests.runtimes import DemoServer

from pallas_postgres.engine import open_engine

AGENTS = "name: demo\nagents:\n  harper: {instruction: Do it., servers: [effects]}\n"
CONFIG = "default_model: offline\nmcp: {{servers: {{effects: {{transport: http, url: '{url}'}}}}}}\n"
LOG_KEY = "a key of the tests, with at least 32 characters"


@dataclass(frozen=True)
class Endpoint:
    """An agent at its gateway."""

    name: str
    url: str


@dataclass
class Platform:
    """The processes, which are started on demand and again on the same port."""

    nats_url: str
    postgres_url: str
    folder: Path
    stack: AsyncExitStack
    started: int = 0

    async def gateway(self, again: Service | None = None) -> Service:
        """Start a gateway, at the port of another one if there was one."""
        same_port = {"port": str(again.port)} if again is not None else {}
        made = await self._start("agent_gateway", agent_ports="false", log_key=LOG_KEY, **same_port)
        service = replace(made, port=again.port) if again is not None else made
        await service.ready()
        return service

    async def worker(self) -> Service:
        """Start a worker."""
        service = await self._start("agent_worker", teams=str(self.folder / "team"))
        await service.ready()
        return service

    async def console(self) -> Service:
        """Start the service."""
        given = environment(postgres_url=self.postgres_url, nats_url=self.nats_url)
        service = await self._start("workspaces", given)
        await service.ready()
        return service

    async def _start(self, module: str, others: dict[str, str] | None = None, /, **settings: str) -> Service:
        self.started += 1
        name = f"{module.replace('_', '-')}-{self.started}"
        made = a_service(module, self.nats_url, self.folder, name, others, **settings)
        return await self.stack.enter_async_context(made)


@pytest.fixture
async def platform(nats_url: str, database: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """Nothing runs yet but a server whose tools have effects."""
    effects = DemoServer(
        tmp_path / "server.log", "-m", "tests.integration.agent_gateway.effects_server", str(tmp_path / "effects")
    )
    effects.start()
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "agents.yaml").write_text(AGENTS)
    (tmp_path / "team" / "fastagent.config.yaml").write_text(CONFIG.format(url=effects.url))
    async with AsyncExitStack() as stack:
        yield Platform(nats_url, database, tmp_path, stack)
    effects.kill()


async def served(gateway: Service) -> str:
    """The agent's endpoint, as soon as the gateway serves it."""
    url = f"{gateway.base}/teams/demo/mcp/harper"

    async def look() -> bool:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            return (await http.post(url, json={})).status_code != 404

    await until(look)
    return url


async def test_the_answer_comes_once_whoever_is_killed(platform: Platform, database: str) -> None:
    gateway, worker, console = await asyncio.gather(platform.gateway(), platform.worker(), platform.console())
    engine = open_engine(database, pool=1, service="tests")
    await attach(engine, Endpoint("harper", await served(gateway)))
    await engine.dispose()
    http = await platform.stack.enter_async_context(client_of(console.base, ("admin", PASSWORD)))
    talk = await begin(http)
    async with talk.following(after=0) as stream:
        note = '/tool effects/note {"key": "noted"}\n/sleep 8\n/say It is done.'
        sent = await talk.send(note)
        await stream.until("progress", message="harper step 3 (llm)")
        gateway.send(signal.SIGKILL)
        await gateway.process.wait()
        await platform.gateway(gateway)
        await stream.until("progress", message="The connection to the agent was lost. Trying again.")
        worker.send(signal.SIGKILL)
        await platform.worker()
        last = await stream.until("message", id=sent["reply_id"])
        console.send(signal.SIGKILL)
        await console.process.wait()
    again = await platform.console()
    http = await platform.stack.enter_async_context(client_of(again.base, ("admin", PASSWORD)))
    there = Talk(http, talk.conversation)
    async with there.following(last=last.id) as stream:
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
    assert "It is done." in reply["content"]
    assert reply["turn_id"] is not None
    assert (platform.folder / "effects").read_text("utf-8").split() == ["noted"]
