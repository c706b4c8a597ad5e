"""Everything that can happen to a conversation as a state machine: replicas come and go, people decide, agents work.

The machine keeps a model of what the replies have to be. After each step they have to be that, and at the end a reader
of the events, who went from replica to replica, has to have each message in its last state, and no revision twice.
"""

import asyncio
import json
import uuid
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import AsyncMock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.integration.real_parts import a_process, until
from tests.integration.workspaces.chat.talk import attach
from tests.integration.workspaces.lab import a_hub
from tests.waiting import PATIENCE, soon
from tests.workspaces_world.agent import Agent, Work

from pallas_contracts.errors import Conflict, Denied
from workspaces.agents.start import Agents
from workspaces.answers import SettingsView
from workspaces.chat.choosing import Wanted
from workspaces.chat.model import NewMessage
from workspaces.chat.room import Chat, open_chat
from workspaces.metrics import Metrics
from workspaces.tables import AgentConnection, Assignment, ChatMessage, Conversation, PallasInstance, Workspace

KEYED, PLAIN = "harper", "scribe"
RUNNING = ("sending", "asking")


@dataclass
class Stage:
    """What replicas share, in a thread of its own."""

    loop: asyncio.AbstractEventLoop
    engine: AsyncEngine
    database: str
    metrics: Metrics
    agents: Agents
    defaults: SettingsView
    peers: dict[str, Agent]

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the thread, and wait for it."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return done.result(2 * PATIENCE)


@dataclass
class Replica:
    """One replica, until `close`."""

    chat: Chat
    close: AsyncExitStack


@dataclass
class Expected:
    """A reply as it has to be. `begun` is how often an agent may have begun to work for it."""

    agent: str
    text: str
    status: str = "sending"
    content: str = ""
    begun: int = 1


@dataclass
class Seen:
    """What a reader of the events has."""

    messages: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    revision: int = 0


class Talks(RuleBasedStateMachine):
    """One conversation with two agents: one keeps keys, one does not. At most two replicas."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.replicas = list[Replica]()
        self.replies = dict[str, Expected]()
        self.attached = True
        self.asking: asyncio.Task[dict[str, Any]] | None = None
        self.seen = Seen()
        self.reading: asyncio.Task[None] | None = None

    @property
    def current(self) -> tuple[str, Expected] | None:
        """The reply that an agent is called for."""
        return next(((name, one) for name, one in self.replies.items() if one.status in RUNNING), None)

    @property
    def lost(self) -> list[str]:
        """Replies that can be tried again."""
        return [name for name, one in self.replies.items() if one.status in ("failed", "cancelled")]

    @initialize()
    def begin(self) -> None:
        """Begin a conversation, with one replica."""
        self.stage.run(self._begin())

    @precondition(lambda self: self.replicas)
    @rule(agent=st.sampled_from((KEYED, KEYED, PLAIN)))
    def send(self, agent: str) -> None:
        """Send a message."""
        self.stage.run(self._send(agent))

    @precondition(lambda self: self.replicas and self.current)
    @rule(end=st.sampled_from(("answer", "answer", "fail", "ask", "text")))
    def work(self, end: str) -> None:
        """The agent does something."""
        self.stage.run(self._work(end))

    @precondition(lambda self: self.replicas and self.current and self.current[1].status == "asking")
    @rule()
    def answer_question(self) -> None:
        """The person answers a question."""
        self.stage.run(self._answer_question())

    @precondition(lambda self: self.replicas and self.current)
    @rule()
    def cancel(self) -> None:
        """The person cancels."""
        self.stage.run(self._cancel())

    @precondition(lambda self: self.replicas and self.lost and not self.current)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The person tries again."""
        self.stage.run(self._retry(data.draw(st.sampled_from(self.lost))))

    @precondition(lambda self: len(self.replicas) < 2)
    @rule()
    def start_replica(self) -> None:
        self.stage.run(self._start())

    @precondition(lambda self: self.replicas)
    @rule(which=st.integers(0, 1))
    def kill_replica(self, which: int) -> None:
        """A replica is gone, without a word."""
        self.stage.run(self._kill(which))

    @precondition(lambda self: self.replicas and not (self.current and self.current[1].agent == PLAIN))
    @rule(which=st.integers(0, 1))
    def stop_replica(self, which: int) -> None:
        """A replica drains."""
        self.stage.run(self._stop(which))

    @rule()
    def detach(self) -> None:
        """The team is detached, or attached again."""
        self.stage.run(self._detach())

    def teardown(self) -> None:
        """Let everything end, and compare."""
        self.stage.run(self._end())

    async def _begin(self) -> None:
        async with AsyncSession(self.stage.engine) as session:
            for table in (Conversation, PallasInstance, Workspace):
                await session.execute(delete(table))
            await session.commit()
        for peer in self.stage.peers.values():
            peer.works.items.clear()
        await attach(self.stage.engine, *self.stage.peers.values(), instance=str(uuid.uuid4()))
        await self._start()
        self.conversation = (await self.replicas[0].chat.conversations.create("ws", "", None)).id
        self._read()

    async def _send(self, agent: str) -> None:
        text = f"message {len(self.replies) + 1}"
        message = NewMessage(str(uuid.uuid4()), text, (), Wanted(f"pallas-{agent}"))
        sending = self.replicas[-1].chat.sending.send(self.conversation, message)
        refused = Denied if not self.attached else Conflict if self.current else None
        if refused is not None:
            try:
                await sending
            except refused:
                return
            raise AssertionError("it should have been refused")
        sent = await sending
        again = await self.replicas[0].chat.sending.send(self.conversation, message)
        assert again == sent
        self.replies[sent.reply_id] = Expected(agent, text)
        await self._working()

    async def _working(self) -> Work:
        """What the agent has to do for the reply that runs."""
        assert self.current is not None
        _, expected = self.current
        works = self.stage.peers[expected.agent].works
        await works.until(lambda items: self._begun(items, expected.text) >= expected.begun)
        return next(work for work in reversed(works.items) if work.message == expected.text)

    def _begun(self, works: list[Work], text: str) -> int:
        return sum(work.message == text for work in works)

    async def _work(self, end: str) -> None:
        assert self.current is not None
        _, expected = self.current
        if expected.status == "asking":
            return
        work = await self._working()
        match end:
            case "answer":
                expected.status, expected.content = "answered", f"answer to {expected.text}"
                await work.answer(expected.content)
            case "fail":
                expected.status = "failed"
                await work.fail("no")
            case "ask":
                expected.status = "asking"
                self.asking = asyncio.create_task(work.ask("Sure?", "sure"))
            case _:
                await work.text("a piece")
                await work.progress("a step")
        await self._settled()

    async def _answer_question(self) -> None:
        assert self.current is not None
        name, expected = self.current
        asking, self.asking = self.asking, None
        assert asking is not None
        await self.replicas[0].chat.deciding.answer(name, None, "accept", {"sure": "yes"})
        expected.status = "sending"
        if expected.agent == KEYED or not self.replicas:
            assert (await soon(asking))["content"] == {"sure": "yes"}
        else:
            await soon(asking)
        await self._settled()

    async def _cancel(self) -> None:
        assert self.current is not None
        name, expected = self.current
        await self.replicas[0].chat.deciding.cancel(name)
        expected.status = "cancelled"
        self._forget_question()
        await self._settled()

    async def _retry(self, name: str) -> None:
        deciding = self.replicas[0].chat.deciding
        if not self.attached:
            try:
                await deciding.retry(name, None, confirmed=True)
            except Denied:
                return
            raise AssertionError("it should have been refused")
        await deciding.retry(name, None, confirmed=True)
        expected = self.replies[name]
        expected.status, expected.begun = "sending", expected.begun + 1
        await self._working()

    async def _start(self) -> None:
        stage, close = self.stage, AsyncExitStack()
        unknown, hub = AsyncMock(return_value=None), await close.enter_async_context(a_hub(stage.database))
        parts = stage.engine, hub, stage.metrics, stage.agents, stage.defaults, unknown
        chat = await close.enter_async_context(open_chat(a_process("workspaces"), *parts))
        self.replicas.append(Replica(chat, close))
        if self.reading is None:
            self._read()
        await self._settled()

    async def _kill(self, which: int) -> None:
        replica = self.replicas.pop(which % len(self.replicas))
        runs_here = replica.chat.replies.partial_of(self.conversation) is not None
        await replica.close.aclose()
        if runs_here and self.current is not None and self.current[1].agent == PLAIN:
            self.current[1].status = "failed"
            self._forget_question()
        self._read()
        await self._settled()

    async def _stop(self, which: int) -> None:
        replica = self.replicas.pop(which % len(self.replicas))
        await soon(replica.chat.replies.stop())
        await replica.close.aclose()
        self._read()
        await self._settled()

    async def _detach(self) -> None:
        if self.attached:
            async with AsyncSession(self.stage.engine) as session:
                await session.execute(delete(Assignment))
                await session.commit()
        else:
            async with AsyncSession(self.stage.engine) as session:
                instance = (await session.scalars(select(PallasInstance))).one()
                session.add(Assignment(workspace_id="ws", pallas_instance_id=instance.id))
                await session.flush()
                for name, peer in self.stage.peers.items():
                    session.add(
                        AgentConnection(
                            workspace_id="ws",
                            pallas_instance_id=instance.id,
                            server_id=f"pallas-{name}",
                            name=name,
                            title=name,
                            url=peer.url,
                        )
                    )
                await session.commit()
        self.attached = not self.attached

    async def _settled(self) -> None:
        """Wait until the replies are as they have to be, if anybody is there to make them so."""
        if self.replicas:
            wanted = {name: (one.status, one.content) for name, one in self.replies.items()}

            async def as_wanted() -> bool:
                stored = await self._stored("assistant")
                return {
                    name: (one[0], one[1] if one[0] == "answered" else "") for name, one in stored.items()
                } == wanted

            try:
                await until(as_wanted)
            except TimeoutError:
                raise AssertionError(f"{await self._stored('assistant')} is not {wanted}") from None

    async def _stored(self, *roles: str) -> dict[str, tuple[str, str]]:
        async with AsyncSession(self.stage.engine) as session:
            rows = await session.scalars(select(ChatMessage).where(ChatMessage.role.in_(roles)))
            return {row.id: (row.status, row.content) for row in rows}

    def _forget_question(self) -> None:
        if self.asking is not None:
            self.asking.cancel()
            self.asking = None

    def _read(self) -> None:
        """Read the events at a replica, from the last one on that was read."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None
        if self.replicas and hasattr(self, "conversation"):
            self.reading = asyncio.create_task(self._keep_reading(self.replicas[0].chat))

    async def _keep_reading(self, chat: Chat) -> None:
        async with chat.following.follow("admin", self.conversation, self.seen.revision) as told:
            async for event in told:
                if event.kind == "message":
                    assert event.revision is not None
                    assert event.revision > self.seen.revision, "a revision came twice, or too late"
                    message = json.loads(event.data)
                    self.seen.messages[message["id"]] = message["status"], message["content"]
                    self.seen.revision = event.revision

    async def _end(self) -> None:
        try:
            await self._compare()
        finally:
            self._forget_question()
            if self.reading is not None:
                self.reading.cancel()
            for replica in self.replicas:
                await replica.close.aclose()

    async def _compare(self) -> None:
        if not self.replicas:
            await self._start()
        while self.current is not None:
            if self.current[1].status == "asking":
                await self._answer_question()
            await self._work("answer")

        async def all_seen() -> bool:
            if self.reading is not None and self.reading.done():
                self.reading.result()
            return self.seen.messages == await self._stored("user", "assistant")

        await until(all_seen)
        for expected in self.replies.values():
            begun = self._begun(self.stage.peers[expected.agent].works.items, expected.text)
            assert begun == expected.begun, "an agent has worked more often than it was wanted"
