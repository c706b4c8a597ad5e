"""Cancels, lost workers, questions to people, and two kinds of workers that share a team."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitRequestParams, ElicitResult
from tests.e2e.calls import Answer, Line, call
from tests.integration.fast_agent_worker.stage import Stage, a_worker_of, python, until_hosted
from tests.integration.processes import Service
from tests.integration.real_parts import a_worker, until

python()

PAY = '***CALL_TOOL ledger__pay {"account": "alice"}'


@pytest.fixture(scope="module")
async def second(stage: Stage) -> AsyncGenerator[Service]:
    """Another worker of the team. The last test kills it."""
    async with a_worker_of(stage.url, stage.folder.parent, stage.folder, "kottos-2") as worker:
        yield worker


async def until_called(stage: Stage, what: str) -> None:
    async def called() -> bool:
        return what in stage.called()

    await until(called)


async def test_a_cancelled_turn_ends_at_once_although_its_tool_does_not(stage: Stage, tmp_path: Path) -> None:
    waits = f"***CALL_TOOL ledger__wait_for {json.dumps({'path': str(tmp_path / 'never')})}"
    async with stage.client("harper") as client:
        calling = asyncio.create_task(call(client, "harper", waits))
        await until_called(stage, "wait_for begins")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    async with asyncio.timeout(5):
        assert (await stage.call("harper", "still here")).text == "still here"


async def test_a_workflow_does_not_go_on_when_it_is_cancelled_while_a_model_is_called(stage: Stage) -> None:
    async def calls() -> float:
        return await stage.counted("pallas_model_calls_total", agent="payer")

    before, thinks = await calls(), asyncio.Event()
    async with stage.client("early") as client:
        calling = asyncio.create_task(
            call(client, "early", "hello", lambda line: is_at(line, "thinker step 1", thinks))
        )
        await thinks.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert (await stage.call("harper", "still here")).text == "still here"
    assert await calls() == before


def is_at(line: Line, step: str, reached: asyncio.Event) -> None:
    """Set the event when a line says that a step has begun."""
    if (line.message or "").startswith(step):
        reached.set()


async def test_an_agent_that_calls_its_model_too_often_is_stopped(stage: Stage) -> None:
    answer = await stage.call("twice", PAY)
    assert answer.error["code"] == "iterations_exceeded"


class Person:
    """A caller that answers questions."""

    def __init__(self, **content: Any) -> None:
        self.content = content
        self.asked: list[ElicitRequestParams] = []

    async def __call__(self, _context: object, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(action="accept", content=self.content)


QUESTION = {"message": "Which size?", "fields": [{"name": "size", "type": "text", "label": "Size", "required": True}]}
ASK = f"***CALL_TOOL __human_input {json.dumps(QUESTION)}"


async def test_a_person_is_asked_and_any_worker_goes_on_with_the_answer(stage: Stage, second: Service) -> None:
    person, first = Person(size="large"), stage.worker

    async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
        first.send(signal.SIGSTOP)  # it may be the one that has asked
        return await person(context, params)

    try:
        async with Client(stage.front.url(stage.team, "harper"), elicitation_callback=answer) as client:
            result = await call(client, "harper", ASK)
    finally:
        first.send(signal.SIGCONT)
    assert second.process.returncode is None
    assert json.loads(result.text) == {"size": "large"}
    [asked] = person.asked
    assert asked.message == "Which size?"


async def test_a_caller_that_cannot_be_asked_is_told_to_the_model(stage: Stage) -> None:
    async with stage.client("harper", "legacy") as client:
        assert (await call(client, "harper", ASK)).text.startswith("No person can be asked here.")


async def test_agents_of_two_kinds_share_a_team(stage: Stage) -> None:
    async with a_worker(stage.url, stage.folder):
        await until_hosted(stage, "plain")
        async with stage.client("plain") as client:
            assert "Echo" in (await call(client, "plain", "hello")).text
        assert (await stage.call("harper", "hello")).text == "hello"


@pytest.fixture(scope="module")
async def after_loss(stage: Stage, second: Service, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, Answer]:
    """The answers of two turns whose worker was killed: while a tool was called, and behind one that had answered."""
    waits = f"***CALL_TOOL ledger__wait_for {json.dumps({'path': str(tmp_path_factory.mktemp('gate') / 'go')})}"
    before, thinks = stage.called().count("wait_for begins"), asyncio.Event()

    async def started() -> bool:
        return stage.called().count("wait_for begins") > before and thinks.is_set()

    stage.worker.send(signal.SIGSTOP)
    try:
        async with stage.client("clerk") as clerk, stage.client("late") as late:
            waiting = asyncio.create_task(call(clerk, "clerk", waits))
            going = asyncio.create_task(call(late, "late", PAY, lambda line: is_at(line, "thinker step 1", thinks)))
            await until(started)
            second.process.kill()
            stage.worker.send(signal.SIGCONT)
            return await waiting, await going
    finally:
        stage.worker.send(signal.SIGCONT)


async def test_a_turn_whose_tool_may_have_had_an_effect_is_not_executed_again(
    stage: Stage, after_loss: tuple[Answer, Answer]
) -> None:
    answer, _ = after_loss
    assert answer.error["code"] == "worker_lost"
    assert stage.called().count("wait_for begins") == 2


async def test_a_turn_goes_on_behind_what_models_and_tools_have_answered(
    stage: Stage, after_loss: tuple[Answer, Answer]
) -> None:
    _, answer = after_loss
    assert json.loads(answer.text) == {"result": "paid alice"}
    assert answer.messages.count("ledger/pay: started") == 1
    assert await stage.counted("pallas_model_calls_total", agent="payer") == 0
