"""A lab for pipelines: replicas of the service, an agent whose functions count their calls, and executions."""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from tests.builders import turn_requested
from tests.integration.agent_worker.lab import Followed
from tests.integration.real_parts import listening_service, until

from pallas_bus import kv
from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect
from pallas_bus.reads import read_all
from pallas_contracts.agents import AgentDefinition, JsonObject, Limits
from pallas_contracts.catalog import (
    AGENTS,
    CONSTELLATION,
    GATEWAYS,
    PIPELINES_TEAM,
    TURN_CLAIM,
    TURN_LOG,
    TURN_OUTCOME,
    WORKER,
    WORKERS,
)
from pallas_contracts.ids import child_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Principal, Result, TurnClaim, TurnOutcome, TurnRequested
from pallas_hosting.functions.agent import FunctionAgent
from pallas_hosting.functions.context import CallContext
from pallas_hosting.functions.runtime import FunctionRuntime
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process
from pallas_runtime.settings import ExecutorSettings
from pallas_turns.calls import Calls, make_calls
from pallas_turns.claims import TurnRef, request_cancel
from pallas_turns.definitions import publish_definition
from pallas_turns.executor import Executor, Troubles, execute_turns
from pallas_turns.feeds import TurnFeeds
from pallas_turns.metrics import make_call_metrics, make_metrics
from pallas_turns.queue import submit
from pallas_turns.runtime import HostedAgent
from pipelines.app import Pipelines, build
from pipelines.settings import PipelinesSettings

ALICE = Principal(type="user", id="usr_alice", name="alice")
BOB = Principal(type="user", id="usr_bob", name="bob")

type Function = Callable[[JsonObject], Awaitable[Any]]

NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@dataclass
class Replica:
    """A running replica of the service."""

    service: Pipelines
    process: Process

    @property
    def url(self) -> str:
        """The base address of its HTTP API."""
        return f"http://127.0.0.1:{self.process.port}"


@asynccontextmanager
async def a_replica(nats_url: str, **settings: str) -> AsyncGenerator[Replica]:
    """A replica that listens on a free port. `settings` are its variables without their prefix."""
    given = {"nats_url": nats_url, "drain_seconds": "5", **settings}
    async with listening_service("pipelines", PipelinesSettings, build, given) as (service, process):
        yield Replica(service, process)


@dataclass
class Counted:
    """An agent of the test: each of its tools is a function of this class's user. `calls` counts what was called."""

    team: str
    agent: str
    calls: Counter[str] = field(default_factory=Counter[str])
    made: FunctionAgent = field(default_factory=FunctionAgent)

    @property
    def namespace(self) -> str:
        """Its name in the language."""
        return f"{self.team}.{self.agent}"

    def tool(
        self,
        name: str,
        function: Function,
        *,
        takes: JsonObject = NUMBER,
        answers: JsonObject | None = None,
        annotations: JsonObject | None = None,
    ) -> None:
        """Add a tool. Without `answers` its answer is a text."""

        @self.made.tool(name, input_schema=takes, output_schema=answers, annotations=annotations)
        async def _call(ctx: CallContext, arguments: JsonObject) -> Result | str:
            self.calls[name] += 1
            answer = await function(arguments)
            return str(answer) if answers is None else Result(structured=answer)

    def definition(self, **fields: Any) -> AgentDefinition:
        """Its definition."""
        return AgentDefinition(
            team=self.team,
            agent=self.agent,
            kind="function",
            title=self.agent,
            tools=tuple(tool.definition for tool in self.made.tools.values()),
            limits=Limits(turn_timeout=20.0),
            updated_at=utc_now(),
        ).model_copy(update=fields)


@dataclass
class Lab:
    """Replicas, an agent and executions of one test. `bus` is a gateway's connection."""

    bus: Bus
    feeds: TurnFeeds
    nats_url: str
    stack: AsyncExitStack
    counted: Counted = field(default_factory=lambda: Counted(f"t{uuid.uuid4().hex[:8]}", f"a{uuid.uuid4().hex[:8]}"))

    async def replica(self, **settings: str) -> Replica:
        """Run one more replica, until the end of the test. Its agent can be called."""
        made = await self.stack.enter_async_context(a_replica(self.nats_url, **settings))

        async def hosted() -> bool:
            presence = await kv.get(self.bus, WORKERS, worker=made.process.instance)
            definition = await kv.get(self.bus, AGENTS, team=PIPELINES_TEAM, agent=CONSTELLATION)
            return presence is not None and bool(presence.agents) and definition is not None

        await until(hosted)
        return made

    async def host(self, counted: Counted | None = None, *, content_seconds: float = 60.0, **fields: Any) -> Executor:
        """Run one more worker with the agent, until the end of the test, and publish its definition."""
        counted = counted or self.counted
        process = Process("agent-worker", f"worker-{uuid.uuid4().hex[:8]}", 0, Probes())
        enter = self.stack.enter_async_context
        given = {"PALLAS_NATS_URL": self.nats_url, "PALLAS_CONTENT_SECONDS": str(content_seconds)}
        settings = ExecutorSettings.from_env(given)
        bus = await enter(connect(Access.of(settings), WORKER, instance=process.instance))
        executor = await enter(execute_turns(bus, settings, process, make_metrics(process.probes.metrics), slots=200))
        definition = counted.definition(**fields)
        runtime = FunctionRuntime(counted.agent, counted.made)
        await publish_definition(bus, definition)
        await executor.host(counted.team, [HostedAgent(definition, runtime)])
        await enter(process.running(executor.send_presence(Troubles()), "presence"))
        return executor

    async def publish(self, definition: AgentDefinition) -> None:
        """Publish a definition that nobody hosts."""
        await kv.put(self.bus, AGENTS, definition, team=definition.team, agent=definition.agent)

    async def known(self, replica: Replica, counted: Counted | None = None) -> None:
        """Wait until a replica knows the agent."""
        wanted = counted or self.counted

        async def look() -> bool:
            return replica.service.engine.catalogue.definition(wanted.team, wanted.agent) is not None

        await until(look)

    def request(self, tool: str, arguments: JsonObject, principal: Principal = ALICE) -> TurnRequested:
        """A call of the agent `constellation`."""
        request = turn_requested(PIPELINES_TEAM, CONSTELLATION, tool=tool, arguments=arguments)
        return request.model_copy(update={"principal": principal})

    async def start(self, tool: str, arguments: JsonObject, principal: Principal = ALICE) -> Followed:
        """Submit a call and follow it."""
        return await self.submit(self.request(tool, arguments, principal))

    async def submit(self, request: TurnRequested) -> Followed:
        """Submit a turn and follow it."""
        followed = Followed(request, self.feeds.open(TurnRef.of(request)))
        await submit(self.bus, request)
        return followed

    async def calls(self) -> Calls:
        """What a gateway follows turns with: it also finds workers that are lost."""
        gateways = await self.stack.enter_async_context(kv.watch(self.bus, GATEWAYS))
        workers = await self.stack.enter_async_context(kv.watch(self.bus, WORKERS))
        metrics = make_call_metrics(CollectorRegistry())
        return await self.stack.enter_async_context(make_calls(self.bus, gateways, workers, metrics))

    async def cancel(self, followed: Followed) -> None:
        """Cancel an execution for good."""
        await request_cancel(self.bus, followed.ref, "a test cancels it")

    async def children(self, request: TurnRequested) -> list[Claimed]:
        """The last claims of the turns that an execution has made."""
        subject = TURN_CLAIM.template.filter(team=self.counted.team, agent=self.counted.agent)
        claims = [TurnClaim.model_validate_json(it.data) for it in await read_all(self.bus, TURN_LOG.name, subject)]
        made = {child_id(request.turn_id, f"{n}.1") for n in range(1, 101)}
        return [it.claim for it in claims if it.turn_id in made and isinstance(it.claim, Claimed)]

    async def children_end(self, request: TurnRequested, status: str, count: int) -> None:
        """Wait until that many children of an execution have ended with a status."""
        subject = TURN_OUTCOME.template.filter(team=self.counted.team, agent=self.counted.agent)
        made = {child_id(request.turn_id, f"{n}.1") for n in range(1, 101)}

        async def look() -> bool:
            records = await read_all(self.bus, TURN_LOG.name, subject)
            ended = [TurnOutcome.model_validate_json(record.data) for record in records]
            return sum(it.turn_id in made and it.status == status for it in ended) == count

        await until(look)

    async def call(self, tool: str, arguments: JsonObject, principal: Principal = ALICE) -> JsonObject:
        """The structured answer of a call."""
        followed = await self.start(tool, arguments, principal)
        outcome = await followed.outcome()
        assert outcome.status == "completed", (outcome, followed.text)
        return json.loads(followed.text)

    async def fails(self, tool: str, arguments: JsonObject, principal: Principal = ALICE) -> tuple[str | None, str]:
        """Code and message of a call that fails."""
        followed = await self.start(tool, arguments, principal)
        outcome = await followed.outcome()
        return outcome.code, followed.text

    async def run(self, source: str, **inputs: Any) -> JsonObject:
        """The answer of `execute`."""
        return await self.call("execute", {"source": source, "inputs": inputs})


def chain(namespace: str, tools: Sequence[str]) -> str:
    """A program that calls tools one after the other; each takes a number and answers `{number}`."""
    lines = ["in x: Int", "v0 = { number: x }"]
    lines += [f"v{n} = {namespace}.{tool}(v{n - 1}.number)" for n, tool in enumerate(tools, 1)]
    return "\n".join([*lines, f"result = v{len(tools)}.number", "out result"])


async def gather[T](*waiting: Awaitable[T]) -> list[T]:
    """Wait for all."""
    return list(await asyncio.gather(*waiting))
