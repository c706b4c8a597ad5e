"""Agents and a real downstream server as a child process."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from tests.runtimes import Events, a_team, a_turn, text_of, wait_for

from pallas_hosting.folders import HostedTeam

AGENTS = "name: demo\nagents:\n  harper: {servers: [toolbox]}\n"


def config(command: str) -> str:
    server = f"command: {command}\n      args: [-m, pallas_demo, --stdio]"
    return f"default_model: offline\nmcp:\n  servers:\n    toolbox:\n      transport: stdio\n      {server}\n"


@pytest.fixture
async def hosted(tmp_path: Path) -> AsyncGenerator[HostedTeam]:
    team = await a_team(tmp_path, {"agents.yaml": AGENTS, "fastagent.config.yaml": config(sys.executable)})
    try:
        yield team
    finally:
        await team.shared.close()


def children() -> list[int]:
    """The pids of demo servers that this process runs over stdio."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return [int(line.split()[0]) for line in found.stdout.splitlines() if "pallas_demo" in line and "--stdio" in line]


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_for, condition, what)


async def test_a_stdio_server_is_called_and_reported_and_ends_with_the_runtime(hosted: HostedTeam) -> None:
    await until(lambda: list(hosted.shared.stdio_health().values()) == [None], "it does not answer")
    (dependency,) = hosted.agents[0].definition.dependencies
    assert hosted.shared.stdio_health() == {dependency.key: None}
    text = text_of(await hosted.agents[0].runtime.run_turn(a_turn(message='/tool add {"a": 1, "b": 2}'), Events()))
    assert text == "3"
    assert len(children()) == 1
    await hosted.shared.close()
    assert children() == []


async def test_a_stdio_server_that_dies_is_reported_and_restarted(hosted: HostedTeam) -> None:
    await until(lambda: list(hosted.shared.stdio_health().values()) == [None], "it does not answer")
    (before,) = children()
    os.kill(before, signal.SIGKILL)
    await until(lambda: before not in children() and len(children()) == 1, "it is not started again")
    await until(lambda: list(hosted.shared.stdio_health().values()) == [None], "it does not answer again")
    text = text_of(await hosted.agents[0].runtime.run_turn(a_turn(message='/tool add {"a": 1, "b": 2}'), Events()))
    assert text == "3"


async def test_a_command_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    team = await a_team(tmp_path, {"agents.yaml": AGENTS, "fastagent.config.yaml": config("no-such-command")})
    try:
        words = "the command was not found"
        await until(lambda: list(team.shared.stdio_health().values()) == [words], "it is not reported")
    finally:
        await team.shared.close()
