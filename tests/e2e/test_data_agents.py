"""Data agents in a whole stack: those of the demo, and the two of the tutorial, which are started as it says."""

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from tests.conformance.node import HERE as PACKAGES
from tests.conformance.node import install
from tests.e2e.auth_stack import AuthStack
from tests.e2e.documents import blocks, lines_to_run, moved, run
from tests.e2e.stack import PALLAS, wait_until
from tests.node import NODE
from tests.requirements import requirement

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DEMO = {"news_fetcher", "feature_extractor", "data_cleaner", "binance_agent", "example_lib"}


@pytest.fixture
def folder(auth_stack: AuthStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader of the tutorial has: an empty folder with the data folder of the stack."""
    (tmp_path / ".pallas").symlink_to(auth_stack.ready["data"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def pallas(stack: AuthStack, *words: str) -> Any:
    """The JSON that a command prints."""
    command = [PALLAS, *words, "--data", stack.ready["data"]]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def rpc(stack: AuthStack, agent: str, function: str, given: dict[str, Any], task: str) -> Any:
    """The result at `/rpc`."""
    params = {"agent_id": agent, "function": function, "input": given, "meta": {"task_id": task}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "agent.execute", "params": params}
    return httpx.post(f"{stack.ready['gateway']}/rpc", json=request, timeout=30).json()["result"]


async def called_in_three_ways(
    stack: AuthStack, agent: str, function: str, given: dict[str, Any], task: str = "a task"
) -> list[Any]:
    """The results over MCP, at `/rpc`, and of `pallas rpc`; the last two belong to the task."""
    async with Client(f"{stack.ready['gateway']}/teams/data/mcp/{agent}") as client:
        over_mcp = (await client.call_tool(function, given)).structured_content
    by_command = pallas(stack, "rpc", agent, function, json.dumps(given), "--task", task)
    return [over_mcp, rpc(stack, agent, function, given, task), by_command]


def listed(stack: AuthStack) -> set[str]:
    """The data agents in the registry, by the ends of their addresses."""
    servers = httpx.get(f"{stack.ready['registry']}/teams/data/.well-known/mcp/server.json").json()["servers"]
    return {entry["server"]["remotes"][0]["url"].rpartition("/")[2] for entry in servers}


@contextmanager
def running(stack: AuthStack, agent: str, *command: str, **env: str) -> Generator[None]:
    """A program that hosts an agent, from when a gateway knows the agent."""
    with subprocess.Popen(command, env={**os.environ, **env}) as program:
        try:
            endpoint = f"{stack.ready['gateway']}/teams/data/mcp/{agent}"
            wait_until(
                lambda: httpx.get(endpoint, verify=False).status_code not in (404, 503), f"the gateway to know {agent}"
            )
            yield
        finally:
            program.terminate()


@pytest.mark.parametrize(
    ("agent", "function", "given", "over_mcp", "result"),
    [
        (
            "news_fetcher",
            "fetch_recent_articles",
            {"symbol": "BTCUSDT"},
            {"articles": ["Bitcoin trades sideways"]},
            {"articles": ["Bitcoin trades sideways"]},
        ),
        ("example_lib", "SumList", {"numbers": [19, 23]}, {"result": 42}, 42),
    ],
    ids=["object", "number"],
)
@requirement("D-5.2", "D-7.3")
async def test_a_data_agent_of_the_demo_is_listed_and_called_and_its_turns_are_found_by_their_task(
    auth_stack: AuthStack, agent: str, function: str, given: dict[str, Any], over_mcp: object, result: object
) -> None:
    assert listed(auth_stack) >= DEMO
    task = f"task-{uuid.uuid4()}"
    assert await called_in_three_ways(auth_stack, agent, function, given, task) == [over_mcp, result, result]
    turns = pallas(auth_stack, "turns", "list", "--json", "--task", task)
    assert [(turn["agent"], turn["tool"], turn["state"]) for turn in turns] == [(agent, function, "completed")] * 2
    assert task not in json.dumps(turns)


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_tutorial_call_its_two_programs(auth_stack: AuthStack) -> None:
    install()
    pool, tutorial = auth_stack.ready["data_pool"], EXAMPLES.parent / "tutorials" / "first-data-agent.md"
    python = (sys.executable, str(EXAMPLES / "prices.py"), pool)
    script = (NODE, str(EXAMPLES / "words.js"), f"{pool.replace('http', 'ws')}/rpc")
    packages = str(PACKAGES / "node_modules")
    with running(auth_stack, "prices", *python), running(auth_stack, "words", *script, NODE_PATH=packages):
        typed = lines_to_run(tutorial, there="a second terminal", behind="curl")
        done = [(line, *run(moved(line, auth_stack.stack))) for line in typed]
        counted = called_in_three_ways(auth_stack, "words", "count_words", {"text": "one two  three"})
        assert asyncio.run(counted) == [{"words": 3}] * 3
        Path("call.py").write_text(moved(blocks(tutorial, "python")[1], auth_stack.stack), "utf-8")
        done.append(("call.py", *run("python call.py")))
    assert [(line, printed) for line, succeeded, printed in done if not succeeded] == []
    assert len([line for line, _, printed in done if re.search(r"averages\W+2\.0,\s*3\.0", printed)]) == 3
