"""The broker stops or is killed, then comes back: every service reports it and recovers, and no turn is lost.

It may come back without its streams: they are made again, and what processes know of budgets and holds is stored again.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import a_lab, until
from tests.waiting import Collected, soon

from pallas_bus.connection import Bus
from pallas_bus.kv import get, put
from pallas_bus.reads import read
from pallas_bus.streams import stream_name, stream_names
from pallas_contracts.backups import Hold
from pallas_contracts.catalog import AGENTS, BUDGETS, CLI, HOLDS, PROBES, TURN_LOG, TURN_QUEUE
from pallas_contracts.contract import Stream
from pallas_contracts.costs import GrantedBudget
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TurnOutcome

RECOVERS_WITHIN = 30.0
SUBMITTERS = 4


@dataclass
class Stack:
    """All services as processes, on a broker of their own."""

    server: NatsServer
    team: str
    folder: Path
    services: dict[str, Service]

    def client(self, agent: str) -> Client:
        """The official client of an agent, not yet connected."""
        return Client(f"{self.services['gateway'].base}/teams/{self.team}/mcp/{agent}")

    async def all_ready(self) -> None:
        """Wait until every service is ready, and is still the process that was started."""
        await asyncio.gather(*(each.ready(RECOVERS_WITHIN) for each in self.services.values()))

    async def none_ready(self) -> None:
        """Wait until the readiness of every service reports the missing broker."""
        for each in self.services.values():

            async def misses_the_broker(service: Service = each) -> bool:
                return (await service.missing() or {}).get("broker") == "not connected"

            await until(misses_the_broker)


@pytest.fixture
async def stack(nats_server: NatsServer, team: str, tmp_path: Path) -> AsyncGenerator[Stack]:
    """Gateway, worker, registry and monitor, ready."""
    folder = a_lab(tmp_path / "team", team)
    settings: dict[str, tuple[str, dict[str, str]]] = {
        "gateway": ("agent_gateway", {"agent_ports": "false"}),
        "worker": ("agent_worker", {"teams": str(folder)}),
        "registry": ("registry", {}),
        "monitor": ("health_monitor", {"teams": str(folder), "probe_interval": "1"}),
    }
    async with AsyncExitStack() as opened:
        services = {
            name: await opened.enter_async_context(a_service(module, nats_server.url, tmp_path, name, **given))
            for name, (module, given) in settings.items()
        }
        made = Stack(nats_server, team, tmp_path, services)
        await asyncio.gather(*(each.ready() for each in services.values()))
        yield made


def text_of(result: CallToolResult) -> str:
    """The text of the one block."""
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@dataclass
class Waiting:
    """A call of a tool that waits for a file, with the caller's progress messages."""

    file: Path
    messages: Collected[str]
    calling: asyncio.Task[CallToolResult]

    @classmethod
    async def begin(cls, client: Client, file: Path, begins: str) -> "Waiting":
        """Call, and return once the progress message `begins` has arrived."""
        messages = Collected[str]()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            messages.add(message or "")

        calling = asyncio.create_task(
            client.call_tool("late_effect", {"file": str(file)}, progress_callback=on_progress)
        )
        await messages.until(lambda lines: begins in lines, 30)
        return cls(file, messages, calling)

    async def ends_well(self) -> None:
        """Wait for the answer. Fails unless the tool ran once."""
        assert text_of(await soon(self.calling, RECOVERS_WITHIN)).startswith("waited in attempt")
        assert len(self.file.with_suffix(".effects").read_text("utf-8").split()) == 1


@dataclass
class Submitting:
    """Callers that make one call after the other. `ends` has `ok` or the error code of each."""

    client: Client
    ends: Collected[str] = field(default_factory=Collected[str])
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def submit(self) -> None:
        """Make calls until the test stops them."""
        while not self.stop.is_set():
            result = await soon(self.client.call_tool("say", {"text": "here"}), RECOVERS_WITHIN)
            self.ends.add((result.meta or {})["pallas/error"]["code"] if result.is_error else "ok")

    async def more(self, end: str, number: int = SUBMITTERS) -> None:
        """Wait until `number` more calls have ended with `end`."""
        enough = self.ends.items.count(end) + number
        await self.ends.until(lambda ends: ends.count(end) >= enough, RECOVERS_WITHIN)


async def ends_of(bus: Bus, team: str, agent: str) -> dict[str, list[str]]:
    """All outcomes in the log of each claimed or cancelled turn of an agent, by its id."""
    ends: dict[str, list[str]] = {}
    async for record in read(bus, TURN_LOG.name, f"pallas.v1.turn.*.{team}.{agent}.*"):
        found = ends.setdefault(record.subject.rpartition(".")[2], [])
        if ".outcome." in record.subject:
            found.append(TurnOutcome.model_validate_json(record.data).status)
    return ends


GRANTED = GrantedBudget(kind="every", name="team", tokens_per_day=1_000_000, set_at=utc_now())
HELD = Hold(backup="none", taken_at=utc_now(), restored_at=utc_now(), restored_by="tests", released_at=utc_now())


@pytest.mark.parametrize("how", ["deleted", "store lost"])
async def test_streams_that_the_broker_has_lost_are_named_and_made_again_and_calls_are_answered(
    stack: Stack, bus: Connecting, how: str
) -> None:
    operator = await bus(CLI, url=stack.server.url)
    await put(operator, BUDGETS, GRANTED, kind="every", name="team")
    await put(operator, HOLDS, HELD, hold="restore")
    async with stack.client("sure") as client:
        assert text_of(await client.call_tool("say", {"text": "before"})).startswith("before")
        if how == "deleted":
            for name in await stream_names(operator):
                await operator.api(f"STREAM.DELETE.{name}", {})
        else:
            await asyncio.to_thread(stack.server.kill9)
            shutil.rmtree(stack.server.folder / "store")
            await asyncio.to_thread(stack.server.start)
        uses = {"gateway": TURN_LOG, "worker": TURN_QUEUE, "registry": AGENTS, "monitor": PROBES}

        async def says(service: str, stream: str) -> bool:
            # As its readiness does, which a busy machine may look at too late.
            said = stack.services[service].log.read_text("utf-8").splitlines()
            return any(stream in line for line in said if "the broker has lost streams" in line)

        await asyncio.gather(*(until(partial(says, name, stream_name(used))) for name, used in uses.items()))
        await stack.all_ready()

        async def answered() -> bool:
            result = await soon(client.call_tool("say", {"text": "after"}), RECOVERS_WITHIN)
            return not result.is_error and text_of(result).startswith("after")

        await until(answered, RECOVERS_WITHIN)
    assert await get(operator, BUDGETS, kind="every", name="team") == GRANTED
    assert await get(operator, HOLDS, hold="restore") == HELD


@pytest.mark.parametrize("streams", [(TURN_LOG,), (TURN_LOG, TURN_QUEUE)])
async def test_a_turn_whose_log_was_lost_is_not_executed_again_and_its_caller_is_told(
    stack: Stack, bus: Connecting, streams: tuple[Stream, ...]
) -> None:
    operator, file = await bus(CLI, url=stack.server.url), stack.folder / "go"
    async with stack.client("bench") as bench:
        running = await Waiting.begin(bench, file, "waiting in attempt 1")
        for stream in streams:
            await operator.api(f"STREAM.DELETE.{stream.name}", {})
        end = await soon(running.calling, RECOVERS_WITHIN)
        assert (end.meta or {})["pallas/error"]["code"] == "worker_lost"
        assert "Whether the turn took effect is unknown" in text_of(end)
        assert not [line for line in running.messages.items if "attempt 2" in line]
        await stack.all_ready()
        again = await Waiting.begin(bench, stack.folder / "again", "waiting in attempt 1")
        again.file.touch()
        await again.ends_well()
        assert not file.with_suffix(".effects").exists()


async def test_turns_survive_an_outage_of_the_broker_and_every_service_reports_it_and_recovers(
    stack: Stack, bus: Connecting
) -> None:
    async with AsyncExitStack() as clients:
        bench, once, sure = [
            await clients.enter_async_context(stack.client(agent)) for agent in ("bench", "once", "sure")
        ]
        submitting = Submitting(sure)
        submitters = [asyncio.create_task(submitting.submit()) for _ in range(SUBMITTERS)]
        for number, end in enumerate((stack.server.stop, stack.server.kill9)):
            files = [stack.folder / f"go{number}{name}" for name in "abc"]
            running = await Waiting.begin(bench, files[0], "waiting in attempt 1")
            holding = await Waiting.begin(once, files[1], "waiting in attempt 1")
            queued = await Waiting.begin(once, files[2], "once queued: 0 ahead")
            await submitting.more("ok")

            await asyncio.to_thread(end)
            await stack.none_ready()
            files[0].touch()  # it ends while the broker is away

            async def known_as_stale() -> bool:
                health = json.loads(text_of(await soon(bench.call_tool("get_health", {}))))
                return health["status"] == "degraded" and "stale" in health["message"]

            await until(known_as_stale, 20)
            # Callers that wait for a turn get its end when the broker is back, which may be all of them.
            submitters += [asyncio.create_task(submitting.submit()) for _ in range(SUBMITTERS)]
            await submitting.more("busy")
            async with httpx.AsyncClient(trust_env=False) as http:
                listed = await http.get(f"{stack.services['registry'].base}/.well-known/mcp/server.json")
            assert listed.is_success

            await asyncio.to_thread(stack.server.start)
            await stack.all_ready()
            await running.ends_well()
            files[1].touch()
            await holding.ends_well()
            files[2].touch()
            await queued.ends_well()
            await submitting.more("ok")
        submitting.stop.set()
        await asyncio.gather(*submitters)

    log = await bus(CLI, url=stack.server.url)

    async def queue_is_empty() -> bool:
        return not [record async for record in read(log, TURN_QUEUE.name, ">")]

    await until(queue_is_empty, RECOVERS_WITHIN)
    ended = await ends_of(log, stack.team, "sure")
    assert all(len(ends) == 1 for ends in ended.values()), "every turn has one end"
    assert sum(ends == ["completed"] for ends in ended.values()) == submitting.ends.items.count("ok")
    assert set(submitting.ends.items) == {"ok", "busy"}
    waited = (await ends_of(log, stack.team, "bench")) | (await ends_of(log, stack.team, "once"))
    assert list(waited.values()) == [["completed"]] * 6
