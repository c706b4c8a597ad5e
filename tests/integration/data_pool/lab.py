"""A lab for data agents: replicas of the pool, agents that are written with `websockets` alone, and turns."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.builders import turn_requested
from tests.integration.agent_worker.lab import Followed
from tests.integration.real_parts import listening_service, measured, until
from tests.waiting import soon
from websockets.asyncio.client import ClientConnection, connect

from data_pool.app import Pool, build
from data_pool.settings import PoolSettings
from pallas_bus import kv
from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_contracts.agents import AgentDefinition, Trouble
from pallas_contracts.catalog import AGENTS, ASK_POOL, DATA_AGENTS, DATA_TEAM, WORKERS
from pallas_contracts.data_agents import DataAgent, PoolRequest
from pallas_contracts.turns import Principal, TurnRequested
from pallas_runtime.process import Process
from pallas_turns.claims import TurnRef
from pallas_turns.feeds import TurnFeeds
from pallas_turns.queue import submit

type Message = dict[str, Any]

LOCAL = "127.0.0.1/32"
SCHEMA: Message = {"double": {"input": {"number": "int"}, "output": {"doubled": "int"}}}


def a_registration(agent: str, **fields: Any) -> Message:
    """The params of `server.register` in the flat form (section 4): one function, `double`."""
    return {"agent_id": agent, "tools": ["double"], "schema": SCHEMA, **fields}


def nested(agent: str, **fields: Any) -> Message:
    """The same in the nested form (section 3.2)."""
    return {"agent_id": agent, "capabilities": {"tools": ["double"], "schema": SCHEMA}, **fields}


@dataclass
class Agent:
    """A program on a WebSocket of the pool. `strict`: it speaks JSON-RPC 2.0, else the dialect."""

    socket: ClientConnection
    strict: bool = True
    numbered: bool = True
    _last: int = 0

    async def say(self, message: Message | str) -> None:
        """Send a message."""
        await soon(self.socket.send(message if isinstance(message, str) else json.dumps(message)))

    async def hear(self) -> Message:
        """The next message."""
        return json.loads(await soon(self.socket.recv()))

    async def ask(self, method: str, params: Message) -> Message:
        """Call a method of the pool; returns the response."""
        self._last += 1
        version = {"jsonrpc": "2.0"} if self.strict else {}
        number = {"id": f"a{self._last}"} if self.numbered else {}
        await self.say({**version, **number, "method": method, "params": params})
        return await self.hear()

    async def register(self, agent: str, **fields: Any) -> Message:
        """Register an agent with one function; returns the result."""
        answer = await self.ask("server.register", a_registration(agent, **fields))
        assert "result" in answer, answer
        return answer["result"]

    async def answer(self, call: Message, **result: Any) -> None:
        """Answer a call."""
        version = {"jsonrpc": "2.0"} if self.strict else {}
        number = {"id": call["id"]} if self.numbered else {}
        await self.say({**version, **number, "result": result, "meta": {"status": "success", "execution_time_ms": 1}})

    async def double(self) -> Message:
        """Take the next call and answer it; returns the call."""
        call = await self.hear()
        await self.answer(call, doubled=2 * int(call["params"]["input"]["number"]))
        return call


@dataclass
class Replica:
    """A running replica of the pool."""

    pool: Pool
    process: Process
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def url(self) -> str:
        """Where agents connect."""
        return f"ws://127.0.0.1:{self.process.port}/rpc"

    def counted(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return measured(self.process, metric, **labels)


@asynccontextmanager
async def a_pool(nats_url: str, **settings: str) -> AsyncGenerator[Replica]:
    """A replica of the pool that listens on a free port. `settings` are its variables without their prefix."""
    given = {"nats_url": nats_url, "drain_seconds": "5", **settings}
    async with listening_service("data-pool", PoolSettings, build, given, websockets=True) as (pool, process):
        yield Replica(pool, process)


@dataclass
class Lab:
    """Replicas, agents and turns of one test. `bus` is a gateway's connection; `agent` is a name of the test's own."""

    bus: Bus
    feeds: TurnFeeds
    nats_url: str
    stack: AsyncExitStack
    agent: str = field(default_factory=lambda: f"a{uuid.uuid4().hex[:12]}")

    async def pool(self, **settings: str) -> Replica:
        """Run one more replica, until the end of the test."""
        return await self.stack.enter_async_context(a_pool(self.nats_url, **settings))

    async def connect(
        self, replica: Replica | str, *, strict: bool = True, numbered: bool = True, **options: Any
    ) -> Agent:
        """Open a WebSocket to a replica."""
        url = replica if isinstance(replica, str) else replica.url
        opened = connect(url, max_size=None, proxy=None, **options)
        return Agent(await self.stack.enter_async_context(opened), strict, numbered)

    async def registered(self, replica: Replica, **fields: Any) -> Agent:
        """An agent that is registered on a WebSocket, and that the replica says it can reach."""
        agent = await self.connect(replica)
        await agent.register(self.agent, **fields)
        await self.listed(replica)
        return agent

    async def post(self, method: Any, params: Message, principal: Principal | None = None) -> Message:
        """Call a method of the pool as a gateway forwards it."""
        request = PoolRequest(principal=principal or Principal(id="127.0.0.1"), method=method, params=params)
        return (await ask(self.bus, ASK_POOL, request)).result

    def request(self, tool: str = "double", **arguments: Any) -> TurnRequested:
        """A turn to be submitted."""
        return turn_requested(DATA_TEAM, self.agent, tool=tool, arguments=arguments)

    async def call(self, tool: str = "double", **arguments: Any) -> Followed:
        """Submit a turn and follow it."""
        followed = self.follow(self.request(tool, **(arguments or {"number": 21})))
        await submit(self.bus, followed.request)
        return followed

    def follow(self, request: TurnRequested) -> Followed:
        """Follow a turn that has not been submitted yet."""
        return Followed(request, self.feeds.open(TurnRef.of(request)))

    async def listed(self, replica: Replica, *, there: bool = True) -> None:
        """Wait until the presence of a replica has the agent, or has it not."""
        key = f"{DATA_TEAM}.{self.agent}"

        async def look() -> bool:
            presence = await kv.get(self.bus, WORKERS, worker=replica.process.instance)
            return presence is not None and (key in presence.agents) == there

        await until(look)

    async def trouble(self, replica: Replica, accept: Callable[[Trouble | None], bool]) -> Trouble | None:
        """Wait until what a replica reports about the agent is accepted."""
        found: list[Trouble | None] = [None]

        async def look() -> bool:
            presence = await kv.get(self.bus, WORKERS, worker=replica.process.instance)
            found[0] = presence.troubles.get(f"{DATA_TEAM}.{self.agent}") if presence else None
            return presence is not None and accept(found[0])

        await until(look)
        return found[0]

    async def definition(self) -> AgentDefinition | None:
        """The published definition."""
        return await kv.get(self.bus, AGENTS, team=DATA_TEAM, agent=self.agent)


async def entry_of(pool: Bus, agent: str) -> DataAgent | None:
    """The stored registration; `pool` is a connection of the pool."""
    return await kv.get(pool, DATA_AGENTS, agent=agent)


async def both[A, B](first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Wait for both."""
    return await asyncio.gather(first, second)
