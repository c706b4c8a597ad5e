"""Many conversations at once: none hears of another, and their turns leave nothing behind in the worker."""

import asyncio
import os
from typing import Any

import psutil
import pytest
from mcp import Client
from tests.e2e.calls import call
from tests.integration.fast_agent_worker.stage import Stage, python

python()

CONVERSATIONS = int(os.environ.get("PALLAS_TEST_CONVERSATIONS", "25"))
TURNS = int(os.environ.get("PALLAS_TEST_TURNS", "2"))


async def say(client: Client, message: str, **more: Any) -> str:
    """The answer of the agent. A caller that is refused because the platform is busy is told to try again."""
    while (answer := await call(client, "research", message, **more)).result.is_error:
        assert answer.error["code"] == "busy", answer.text
        await asyncio.sleep(0.2)
    return answer.text


async def converse(stage: Stage, number: int) -> None:
    """Hold a conversation in which every turn is told the words of those before it."""
    said: list[dict[str, str]] = []
    async with stage.client("research") as client:
        for turn in range(TURNS):
            word = f"word-{number}-{turn}"
            answer = await say(client, word, history=said)
            assert answer.split("\n") == [*(row["content"] for row in said), word]
            said.append({"role": "user", "content": word})
            tool = f'***CALL_TOOL ledger__balance {{"account": "{word}"}}'
            assert f"{word}: 42" in await say(client, tool)


def left(processes: list[psutil.Process]) -> tuple[int, int, int]:
    """How many processes a worker has, their open files and connections, and their threads."""
    return len(processes), sum(it.num_fds() for it in processes), sum(it.num_threads() for it in processes)


def processes_of(stage: Stage) -> list[psutil.Process]:
    """The worker, with the processes of its programs and servers."""
    worker = psutil.Process(stage.worker.process.pid)
    return [worker, *worker.children(recursive=True)]


@pytest.mark.timeout(600)
async def test_conversations_share_nothing_and_leave_nothing(stage: Stage) -> None:
    await asyncio.gather(*(converse(stage, number) for number in range(CONVERSATIONS)))
    workers = processes_of(stage)
    before, memory = left(workers), sum(it.memory_info().rss for it in workers)
    await asyncio.gather(*(converse(stage, number) for number in range(CONVERSATIONS)))
    workers = processes_of(stage)
    after, grown = left(workers), sum(it.memory_info().rss for it in workers) / memory
    print(f"{before} {after} {memory / 1e6:.0f} MB, then {grown:.3f} of it")
    assert all(now - was <= most for now, was, most in zip(after, before, (0, 4, 2), strict=True))
    assert grown < 1.1
