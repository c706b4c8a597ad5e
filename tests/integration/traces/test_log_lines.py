"""The log lines of gateways and workers about turns: each line names its turn, whichever process writes it.

The turns are those of which the background has something to say: left, cancelled, resumed, withdrawn, lost and given
to another, kept for a moment after their end.
"""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e import wire
from tests.embedded import NatsServer
from tests.integration.agent_gateway.streams import Received, counting
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import a_lab, until
from tests.otlp import collecting

TEAM, KEY = "logged", "pallas/idempotency-key"

FACTS = ("trace", "turn", "team", "agent")


@dataclass
class LoggingServices:
    """Two gateways, and workers that a test starts."""

    folder: Path
    nats: str
    http: httpx.AsyncClient
    collector: dict[str, str]
    stack: AsyncExitStack
    services: list[Service]

    async def start(self, module: str, name: str, **settings: str) -> Service:
        """Start a process and wait until it is ready."""
        part = a_service(module, self.nats, self.folder, name, self.collector, **settings)
        service = await self.stack.enter_async_context(part)
        await service.ready()
        self.services.append(service)
        return service

    async def worker(self, name: str) -> Service:
        """Start a worker, and wait until the gateways have its agents."""
        worker = await self.start("agent_worker", name, teams=str(self.folder / TEAM), content_seconds="0")
        for gateway in (0, 1):
            await until(lambda gateway=gateway: self._served(self.url(gateway=gateway)))
        return worker

    def url(self, agent: str = "bench", gateway: int = 0) -> str:
        return f"{self.services[gateway].base}/teams/{TEAM}/mcp/{agent}"

    async def _served(self, url: str) -> bool:
        return (await self.http.put(url)).status_code == 405

    def lines(self) -> list[dict[str, Any]]:
        """All complete log lines."""
        texts = [service.log.read_text("utf-8").rpartition("\n")[0] for service in self.services]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    async def until_logged(self, event: str, times: int = 1) -> None:
        async def look() -> bool:
            return sum(line["event"] == event for line in self.lines()) >= times

        await until(look, 30)


@pytest.fixture
async def services(nats_server: NatsServer, tmp_path: Path) -> AsyncGenerator[LoggingServices]:
    """The running services, without workers."""
    a_lab(tmp_path / TEAM, TEAM)
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(collecting())
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30, trust_env=False))
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.http, "PALLAS_LOG_LEVEL": "DEBUG"}
        services = LoggingServices(tmp_path, nats_server.url, http, environ, stack, [])
        for name in ("gateway-1", "gateway-2"):
            await services.start(
                "agent_gateway", name, agent_ports="false", log_key="one key for both gateways of a test"
            )
        yield services


@asynccontextmanager
async def waiting(services: LoggingServices, file: str, agent: str = "bench", **meta: str) -> AsyncGenerator[None]:
    """A waiting call of the modern revision. Its caller disconnects at the end of the block."""
    about = {"progressToken": "t", **meta}
    params = {"name": "wait", "arguments": {"file": str(services.folder / file)}, "_meta": about}
    async with wire.posted(services.http, services.url(agent), wire.modern("tools/call", params)) as stream:
        messages = stream.messages()
        await anext(messages)
        yield


async def leave_and_cancel(services: LoggingServices) -> None:
    """Disconnect from a running turn, a waiting one, and one with a key, which is then cancelled by it."""
    async with waiting(services, "left"):
        pass
    await services.until_logged("cancel requested", 1)
    async with waiting(services, "first", "once"):
        async with waiting(services, "second", "once"):
            pass
        await services.until_logged("withdrawn")
    async with waiting(services, "keyed", **{KEY: "k"}):
        pass
    cancel = {"name": "wait", "_meta": {KEY: "k", "pallas/cancel": True}}
    await wire.answers(services.http, services.url(), wire.modern("tools/call", cancel))
    await services.until_logged("cancel requested", 3)


async def cancel_by_notification(services: LoggingServices) -> None:
    """Cancel a call of a handshake revision at another gateway."""
    session = await wire.shake_hands(services.http, services.url())
    params = {"name": "wait", "arguments": {"file": str(services.folder / "told")}, "_meta": {"progressToken": "t"}}
    async with wire.posted(services.http, services.url(), wire.legacy("tools/call", params, session)) as stream:
        messages = stream.messages()
        await anext(messages)
        body, headers = wire.legacy("notifications/cancelled", {"requestId": 1}, session, request_id=None)
        assert (await services.http.post(services.url(gateway=1), json=body, headers=headers)).status_code == 202
        async for _ in messages:
            pass


async def resume(services: LoggingServices) -> None:
    """Resume a broken stream at another gateway."""
    received, file = Received(), services.folder / "counted"
    async with counting(services.http, services.url(), file) as stream:
        await received.until(stream, 3)
    file.touch()
    await received.resume(services.http, services.url(gateway=1))
    received.assert_complete()


async def lose_a_worker(services: LoggingServices, worker: Service) -> None:
    """Kill the worker of a turn, which another worker then executes."""
    file = services.folder / "lost"
    params = {"name": "wait", "arguments": {"file": str(file)}, "_meta": {"progressToken": "t"}}
    calling = asyncio.create_task(wire.answers(services.http, services.url(), wire.modern("tools/call", params)))
    await services.until_logged("started")
    await services.worker("worker-2")
    worker.send(signal.SIGKILL)
    await services.until_logged("worker lost; its turn is redelivered")
    await services.until_logged("a further attempt started")
    file.touch()
    assert not (await calling)[-1]["result"]["isError"]


async def test_every_log_line_of_a_turn_names_its_trace_team_and_agent(services: LoggingServices) -> None:
    worker = await services.worker("worker-1")
    await leave_and_cancel(services)
    await cancel_by_notification(services)
    await resume(services)
    crash: wire.Message = {"name": "crash", "arguments": {}}
    await wire.answers(services.http, services.url(), wire.modern("tools/call", crash))
    await lose_a_worker(services, worker)
    lines = services.lines()
    about = [line for line in lines if "turn" in line or ("agent" in line and "trace" in line)]
    assert [line for line in about if not all(line.get(fact) for fact in FACTS)] == []
    assert {line["team"] for line in about} == {TEAM}
    assert {
        "started",
        "a further attempt started",
        "concluded",
        "function crashed",
        "cancel requested",
        "withdrawn",
        "stream resumed",
        "worker lost; its turn is redelivered",
    } <= {line["event"] for line in about}
    of_turn = {line["turn"]: set[str]() for line in about}
    for line in about:
        of_turn[line["turn"]].add(line["trace"])
    assert {len(traces) for traces in of_turn.values()} <= {1, 2}  # a cancel and a resumption are other requests
