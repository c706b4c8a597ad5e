"""A lab for the fleet: replicas of the service, the stand-in for Coder, and calls of the agent."""

import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.builders import turn_requested
from tests.integration.agent_worker.lab import Followed
from tests.integration.real_parts import a_process, until

from fleet.app import FleetService, build
from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.settings import FleetSettings
from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_contracts.agents import JsonObject, WorkerPresence
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TEAM, WORKERS
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.turns import InputRequired, Principal, Result, TurnRequested
from pallas_demo.coder import CoderStandIn, TerminalSettings
from pallas_runtime.process import Process
from pallas_turns.claims import TurnRef
from pallas_turns.feeds import TurnFeeds
from pallas_turns.queue import submit

ALICE = Principal(type="user", id="usr_alice", name="alice")

EVERYBODY = "peer,user,team,turn,token"

QUICK = TerminalSettings(stable_after=0.1)
"""Terminals that are sooner stable than AgentAPI's."""

OUTCOME_SECONDS = 30.0


@dataclass
class Replica:
    """A running replica of the service."""

    service: FleetService
    process: Process
    stack: AsyncExitStack
    ended: bool = False

    async def end(self) -> None:
        """End it, as after a drain that took too long: what runs is given back."""
        self.ended = True
        await self.stack.aclose()

    @property
    def coder(self) -> Coder:
        """Its client of Coder."""
        return self.service.fleet.snapshots.coder


@dataclass
class Lab:
    """Replicas, a Coder and calls of one test. `bus` is a gateway's connection."""

    bus: Bus
    feeds: TurnFeeds
    nats_url: str
    coder: CoderStandIn
    stack: AsyncExitStack
    replicas: list[Replica] = field(default_factory=list[Replica])

    async def replica(self, **settings: str) -> Replica:
        """Run one more replica, until the end of the test. It takes turns. By default all callers are operators."""
        process = a_process("fleet")
        given = {"nats_url": self.nats_url, "coder_url": self.coder.url, "coder_token": self.coder.token}
        given |= {"fleet_allow": EVERYBODY, "fleet_operators": EVERYBODY} | settings
        environ = {f"PALLAS_{name.upper()}": value for name, value in given.items()}
        stack = await self.stack.enter_async_context(AsyncExitStack())
        service = await stack.enter_async_context(build(FleetSettings.from_env(environ), process))

        async def hosted() -> bool:
            presence = await kv.get(self.bus, WORKERS, worker=process.instance)
            return presence is not None and len(presence.agents) == 2

        await until(hosted)
        self.replicas.append(Replica(service, process, stack))
        return self.replicas[-1]

    @property
    def any(self) -> Replica:
        """A replica that runs."""
        return next(each for each in self.replicas if not each.ended)

    async def submit(self, request: TurnRequested) -> Followed:
        """Submit a turn and follow it."""
        followed = Followed(request, self.feeds.open(TurnRef.of(request)))
        await submit(self.bus, request)
        return followed

    async def start(
        self,
        tool: str,
        principal: Principal = ALICE,
        *,
        asks: bool = False,
        asked: tuple[InputRequired, JsonObject] | None = None,
        **arguments: Any,
    ) -> Followed:
        """Submit a call and follow it. `asks`: the caller can be asked; `asked`: it was, and has these responses."""
        request = turn_requested(FLEET_TEAM, FLEET_AGENT, tool=tool, arguments=arguments)
        more: JsonObject = {"principal": principal}
        if asks or asked:
            more["client"] = request.client.model_copy(update={"capabilities": {"elicitation": {}}})
        if asked is not None:
            more |= {"request_state": asked[0].request_state, "input_responses": asked[1]}
        return await self.submit(request.model_copy(update=more))

    async def call(self, tool: str, principal: Principal = ALICE, **arguments: Any) -> JsonObject:
        """The structured answer of a call, which is also its text."""
        result = await self.result(tool, principal, **arguments)
        assert not result.is_error, result.content
        assert json.loads(result.content[0]["text"]) == result.structured
        return result.structured

    async def error(self, tool: str, principal: Principal = ALICE, **arguments: Any) -> JsonObject:
        """The error of a call: the same in its text and in its metadata, without structured content."""
        result = await self.result(tool, principal, **arguments)
        assert result.is_error, result.structured
        assert result.structured is None
        [block] = result.content
        told = json.loads(block["text"])
        assert (result.meta or {})["pallas/error"] == told
        assert set(told) == {"error", "message", "details"}
        return told

    async def result(self, tool: str, principal: Principal = ALICE, **arguments: Any) -> Result:
        """The result of a call."""
        return await result_of(await self.start(tool, principal, **arguments))

    async def create(self, name: str | None = None, spec: str = "say hello", **more: Any) -> str:
        """Make an agent and wait until it has done its specification. Returns its name."""
        name = name or f"a{uuid.uuid4().hex[:8]}"
        await self.call("create_agent", name=name, project="Setup", spec=spec, **more)
        await self.idle(name)
        return name

    async def idle(self, name: str) -> None:
        """Wait until an agent is idle."""
        await self.status(name, "idle")

    async def status(self, name: str, wanted: str) -> None:
        """Wait until an agent has a status."""
        fleet = self.any.service.fleet

        async def look() -> bool:
            fleet.forget()  # what Coder said a moment ago
            return (await fleet.find(name, ALICE)).status == wanted

        await until(look, OUTCOME_SECONDS)

    def known(self, name: str) -> FleetAgent | None:
        """What a replica knows of an agent."""
        return next((it for it in self.any.service.fleet.agents.all() if it.name == name), None)

    async def presence(self, replica: Replica) -> WorkerPresence:
        """What a replica says of itself."""
        presence = await kv.get(self.bus, WORKERS, worker=replica.process.instance)
        assert presence is not None
        return presence

    async def workspace(self, name: str) -> Workspace:
        """The workspace of an agent."""
        return (await self.any.service.fleet.find(name, ALICE)).workspace

    async def history(self, name: str) -> list[JsonObject]:
        """The tasks of an agent, the latest first."""
        return (await self.call("show_agent_task_history", agent_name=name, page_size=100))["tasks"]


async def result_of(followed: Followed) -> Result:
    """The result of a call that is followed."""
    outcome = await followed.outcome(OUTCOME_SECONDS)
    assert outcome.status == "completed", (outcome, followed.text)
    return next(message for message in reversed(followed.messages) if isinstance(message, Result))
