"""An agent that a test controls step by step, and workers whose deliveries the test makes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from pallas_bus.connection import Bus
from pallas_bus.streams import NANOSECONDS
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.turns import Result, Step, ToolStarted
from pallas_turns.dead_letters import DeadLetters
from pallas_turns.decode import DecodeTurn
from pallas_turns.events import Emitter
from pallas_turns.execute import TakeTurn
from pallas_turns.metrics import make_metrics
from pallas_turns.queue import Delivery, consumer_name
from pallas_turns.runtime import Completed, Failed, HostedAgent, Outcome, Turn
from pallas_turns.settle import Running

PATIENCE = 10.0


@dataclass
class Attempt:
    """One execution that the test controls. `effects` counts the effects of its tool."""

    turn: Turn
    emit: Emitter
    effects: int = 0
    steps: int = 0
    ended: asyncio.Future[Outcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def report(self) -> None:
        """Report something."""
        self.steps += 1
        self.emit.emit(Step(agent=self.turn.agent, n=self.steps, kind="llm"))

    async def use_tool(self, *, safe: bool) -> None:
        """Start a tool and, once that is in the log, have its effect. It is safe if it may be called again.

        Raises:
            Superseded: the attempt does not have the turn any more.
        """
        await self.emit.tool_starting(ToolStarted(call="1", server="demo", tool="pay", safe=safe))
        self.effects += 1

    def answer(self) -> None:
        """End with a result."""
        text = f"attempt {self.turn.attempt}"
        self.ended.set_result(Completed(Result(content=({"type": "text", "text": text},))))

    def fail(self) -> None:
        """End with a failure."""
        self.ended.set_result(Failed("model_failed", "the model failed"))


class Scripted:
    """The runtime: passes every attempt to the test that waits for it."""

    def __init__(self) -> None:
        self.attempts: asyncio.Queue[Attempt] = asyncio.Queue()

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Wait for the script's word on how this attempt ends."""
        attempt = Attempt(turn, emit)
        self.attempts.put_nowait(attempt)
        return await attempt.ended

    async def read(self, question: AgentRead) -> JsonObject:
        """Nothing is read here."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class SlowDelivery(Delivery):
    """A delivery that is given back without delay, and whose acknowledgement waits until `settling` is carried out.

    The broker confirms both, so that what happens next finds them done.
    """

    settling: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])

    async def ack(self) -> None:
        """Keep it for later: a worker may be slow, or stand still between the outcome and this."""
        self.settling.append(lambda: self._confirmed(b"+ACK"))

    async def nak(self, delay: float = 0.0) -> None:
        """At once."""
        await self._confirmed(b"-NAK")

    async def _confirmed(self, word: bytes) -> None:
        await self.bus.request(self.reply, word)


class ScriptedWorker:
    """A worker that takes a turn when the test says so."""

    def __init__(self, bus: Bus, name: str, definition: AgentDefinition) -> None:
        self.bus = bus
        self.name = name
        self.running = Running()
        self.runtime = Scripted()
        hosted = HostedAgent(definition, self.runtime)
        metrics = make_metrics(CollectorRegistry())
        letters = DeadLetters(bus, metrics)
        self.decoding = DecodeTurn(TakeTurn(bus, name, 900.0, lambda _key: hosted, self.running, letters, metrics))

    async def take(self, delivery: Delivery) -> tuple[asyncio.Task[None], Attempt | None]:
        """Take a delivered turn until it runs, or is over here. Returns its task and, when it runs, the attempt."""
        task = asyncio.create_task(self.decoding.take("agent", delivery))
        running = asyncio.create_task(self.runtime.attempts.get())
        await asyncio.wait({task, running}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        if running.done():
            return task, running.result()
        running.cancel()
        assert task.done(), "the worker neither runs the turn nor is done with it"
        return task, None


async def pull(bus: Bus, team: str, agent: str) -> SlowDelivery | None:
    """Ask an agent's queue for a turn that is there."""
    answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()

    async def arrived(message: Msg) -> None:
        if not answer.done():
            answer.set_result(message)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, arrived)
    try:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{consumer_name(team, agent)}"
        await bus.send(subject, b'{"batch": 1, "no_wait": true}', reply=inbox)
        async with asyncio.timeout(PATIENCE):
            message = await answer
    finally:
        await subscription.unsubscribe()
    if message.headers and "Status" in message.headers:
        return None
    delivered, position, _, stored_at, waiting = map(int, message.reply.split(".")[-5:])
    at = datetime.fromtimestamp(stored_at / NANOSECONDS, UTC)
    headers = dict(message.headers or {})
    return SlowDelivery(bus, message.data, headers, message.reply, delivered, waiting, message.subject, position, at)
