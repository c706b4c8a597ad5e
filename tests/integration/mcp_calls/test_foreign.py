"""Agents made with the SDKs of others, of both eras: progress, questions, cancelling, health."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.foreign.fast_agent import FastAgent
from tests.workspaces_world.foreign.node_agents import NodeAgent, a_node_agent

from pallas_mcp_calls.calls import AgentCalls
from pallas_mcp_calls.model import CallAnswer, CallFailed, Progress, Question, Reply, Target

HISTORY = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "echo: hello"}]


@pytest.fixture(scope="module")
async def fast() -> AsyncGenerator[FastAgent]:
    """An agent made with FastMCP."""
    async with FastAgent() as agent:
        yield agent


@pytest.fixture(scope="module")
async def old_fast() -> AsyncGenerator[FastAgent]:
    """The same, of the handshake era."""
    async with FastAgent(old=True) as agent:
        yield agent


@pytest.fixture(scope="module")
async def node() -> AsyncGenerator[NodeAgent]:
    """An agent made with the TypeScript SDK."""
    async with a_node_agent("modern") as agent:
        yield agent


@pytest.fixture(scope="module")
async def old_node() -> AsyncGenerator[NodeAgent]:
    """An agent made with the TypeScript SDK of the handshake era."""
    async with a_node_agent("legacy") as agent:
        yield agent


@dataclass(frozen=True)
class Caller:
    """Calls one agent, and keeps what comes."""

    calls: AgentCalls
    target: Target
    name: str
    progress: list[Progress]
    questions: list[Question]

    async def send(self, message: str, reply: Reply | None = None) -> CallAnswer:
        """Send a message as the console does."""

        async def on_progress(progress: Progress) -> None:
            self.progress.append(progress)

        async def on_question(question: Question) -> Reply:
            self.questions.append(question)
            return reply or Reply("accept", {"name": "Ada"})

        arguments: dict[str, Any] = {"message": message, "history": HISTORY, "conversation_id": "c1", "images": []}
        call = self.calls.call(
            self.target, None, arguments, agent=self.name, on_progress=on_progress, on_question=on_question
        )
        return await soon(call)


_NAMES = {"fast": "pallas-harper", "old_fast": "pallas-harper", "node": "pallas-research", "old_node": "pallas-infra"}


@pytest.fixture(params=_NAMES)
def caller(request: pytest.FixtureRequest, calls: AgentCalls) -> Caller:
    return Caller(
        calls, Target(request.getfixturevalue(request.param).url), _NAMES[request.param], list[Progress](), []
    )


@requirement("P-5.17")
async def test_a_message_is_answered_with_progress_on_the_way(caller: Caller) -> None:
    answer = await caller.send("hi")
    assert not answer.failed
    assert answer.text.startswith("echo: hi after 2")
    name = caller.name.removeprefix("pallas-")
    assert [one.progress for one in caller.progress] == [1, 2, 3]
    assert [(one.message or "").startswith(f"{name} step ") for one in caller.progress] == [True] * 3
    assert {one.total for one in caller.progress} == {None}


@pytest.mark.parametrize("caller", ["old_fast", "node", "old_node"], indirect=True)
async def test_a_question_is_put_to_the_person(caller: Caller) -> None:
    answer = await caller.send("ask")
    assert "hello Ada" in answer.text
    [question] = caller.questions
    assert question.message.startswith("Who?")
    assert question.requested_schema is not None
    assert list(question.requested_schema["properties"]) == ["name"]
    caller.questions.clear()
    await caller.send("ask")
    assert caller.questions == [question], "the same call asks the same question under the same id"


async def test_an_agent_that_can_ask_only_in_an_older_revision_is_called_in_it_from_then_on(calls: AgentCalls) -> None:
    async with FastAgent() as agent:
        caller = Caller(calls, Target(agent.url), "pallas-harper", [], [])
        assert not (await caller.send("hi")).failed
        with pytest.raises(CallFailed, match="can ask only in an older revision of MCP") as failed:
            await caller.send("ask")
        assert failed.value.sent, "it is not called again without being told to"
        assert (await caller.send("ask")).text == "accept: hello Ada"
        assert len(caller.questions) == 1


@pytest.mark.parametrize("caller", ["old_fast", "old_node"], indirect=True)
async def test_a_person_may_decline(caller: Caller) -> None:
    assert (await caller.send("ask", Reply("decline"))).text.startswith("decline:")


async def test_a_question_on_the_stream_of_no_call_belongs_to_the_only_one(
    calls: AgentCalls, old_node: NodeAgent
) -> None:
    caller = Caller(calls, Target(old_node.url), "pallas-infra", [], [])
    assert (await caller.send("ask aside")).text == "accept: hello Ada"


@pytest.mark.parametrize("caller", ["node", "old_node"], indirect=True)
async def test_a_page_can_be_visited(caller: Caller) -> None:
    answer = await caller.send("visit")
    assert not answer.failed
    assert [(one.url, one.requested_schema) for one in caller.questions] == [("https://example.org/login", None)]


@pytest.mark.parametrize("caller", ["fast"], indirect=True)
async def test_a_failed_tool_is_an_answer(caller: Caller) -> None:
    answer = await caller.send("fail")
    assert answer.failed
    assert answer.text
    assert answer.code is None


@pytest.mark.parametrize("kind", ["node", "old_node"])
async def test_cancelling_the_task_cancels_the_call_at_the_agent(
    calls: AgentCalls, kind: str, request: pytest.FixtureRequest
) -> None:
    agent: NodeAgent = request.getfixturevalue(kind)
    started = asyncio.Event()

    async def on_progress(_: Progress) -> None:
        started.set()

    call = calls.call(Target(agent.url), None, {"message": "hang"}, agent=_NAMES[kind], on_progress=on_progress)
    running = asyncio.create_task(call)
    await soon(started.wait())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await agent.says() == "cancelled"


async def test_a_session_that_the_server_has_forgotten_is_opened_again(calls: AgentCalls, old_node: NodeAgent) -> None:
    caller = Caller(calls, Target(old_node.url), "pallas-infra", [], [])
    await caller.send("hi")
    await old_node.forget_sessions()
    assert [(await caller.send("hi")).text[:8] for _ in range(2)] == ["echo: hi"] * 2


@requirement("P-4.6")
async def test_their_health_is_read(
    calls: AgentCalls, fast: FastAgent, old_fast: FastAgent, node: NodeAgent, old_node: NodeAgent
) -> None:
    fast.health = {"status": "error", "message": "no index"}
    reports = [await calls.health(Target(agent.url)) for agent in (fast, old_fast, node, old_node)]
    assert [report.status for report in reports] == ["error", "ok", "degraded", "ok"]
    assert [report.message for report in reports] == ["no index", None, "slow index", None]


async def test_many_calls_share_one_connection_and_keep_their_progress_apart(
    calls: AgentCalls, fast: FastAgent
) -> None:
    callers = [Caller(calls, Target(fast.url), "pallas-harper", [], []) for _ in range(30)]
    answers = await asyncio.gather(*(one.send(f"number {index}") for index, one in enumerate(callers)))
    assert [answer.text for answer in answers] == [f"echo: number {index} after 2" for index in range(30)]
    assert {tuple(one.progress for one in caller.progress) for caller in callers} == {(1, 2, 3)}
