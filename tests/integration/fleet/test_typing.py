"""Each prompt is typed once: also if its answer is lost or late, and if the process dies that typed it."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.integration.fleet.lab import QUICK, Lab, result_of
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import soon

from fleet.running import typing, watching
from fleet.storing.agents import Agents
from fleet.terminal.agent_api import Said, Terminal
from pallas_contracts.fleet import FleetAgent
from pallas_demo.coder import CoderStandIn, Fault, StandInSettings

TEXT = "work 0.3 s"


async def typed_once(lab: Lab, name: str) -> None:
    """The prompt was typed once and its task has ended well."""
    await lab.idle(name)
    rows = [(row["summary"], row["status"]) for row in await lab.history(name)]
    assert rows == [(TEXT, "completed"), ("say hello", "completed")]
    assert lab.coder.agent(name).prompts == ["say hello", TEXT]


@requirement("F-run-1")
@pytest.mark.parametrize("delay", [0.0, 1.5])
async def test_an_answer_that_is_lost_or_late(lab: Lab, delay: float) -> None:
    _, name = await lab.with_agent()
    await lab.coder.fault(Fault(mode="lose_answer", times=1, delay=delay))
    await lab.call("start_agent_task", agent_name=name, task_description=TEXT)
    await typed_once(lab, name)


async def test_coder_that_goes_away_right_after_the_prompt_was_typed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is lost, and nobody can be asked for a while."""
    _, name = await lab.with_agent()
    say, said = Terminal.say, asyncio.Event()

    async def cut_off(terminal: Terminal, text: str) -> None:
        await lab.coder.fault(Fault(mode="lose_answer", times=1))
        try:
            await say(terminal, text)
        finally:
            if not said.is_set():
                await lab.coder.stop_listening()
                said.set()

    monkeypatch.setattr(Terminal, "say", cut_off)
    followed = await lab.start("start_agent_task", agent_name=name, task_description=TEXT)
    await soon(said.wait())
    await asyncio.sleep(1)  # longer than a request is tried again
    await lab.coder.listen()
    result = await result_of(followed)
    assert not result.is_error, result.content
    await typed_once(lab, name)


async def test_a_prompt_that_did_not_get_through_is_typed_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "_QUIET_SECONDS", 0.3)
    _, name = await lab.with_agent()
    await lab.coder.fault(Fault(mode="reset", path="/message$", times=1))
    await lab.call("start_agent_task", agent_name=name, task_description=TEXT)
    await typed_once(lab, name)


SILENT = """
import os, sys, time, tty
os.makedirs(".demo-agent", exist_ok=True)
tty.setraw(0)
os.write(1, b"> ")
while True:
    line = b""
    while not line.endswith(b"\\r"):
        line += os.read(0, 1)
        if sys.argv[1] == "echo" and line[-1:] != b"\\r":
            os.write(1, line[-1:])
    if line.strip():
        with open(".demo-agent/prompts", "ab") as prompts:
            prompts.write(line.strip() + b"\\n")
        silent, _, answer = line.strip().decode().partition(" ")
        time.sleep(float(silent))
        if answer:
            os.write(1, b"\\r\\n" + answer.encode() + b"\\r\\n> ")
"""
"""An agent that shows nothing for the seconds with which a prompt begins, and then says the rest of it."""


@pytest.mark.parametrize("echo", ["echo", "silent"])
async def test_a_prompt_whose_agent_shows_nothing_for_long_is_typed_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, echo: str
) -> None:
    """AgentAPI has typed it, says that it failed, and keeps no message of it."""
    monkeypatch.setattr(typing, "_QUIET_SECONDS", 0.2)
    async with a_silent_coder(lab, echo) as silent:
        name = await silent.create(spec="0 ready")
        started = await silent.call("start_agent_task", agent_name=name, task_description="1.5 done")
        assert started["task"]["status"] == "running"
        assert [it.text for it in await said(silent, name) if it.role == "user"] == ["0 ready"]
        await silent.idle(name)
        rows = [(row["summary"], row["status"]) for row in await silent.history(name)]
        assert rows == [("1.5 done", "completed"), ("0 ready", "completed")]
        assert silent.coder.agent(name).prompts == ["0 ready", "1.5 done"]


async def test_a_prompt_that_perhaps_nobody_got_is_neither_typed_again_nor_called_completed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typing, "_QUIET_SECONDS", 0.2)
    monkeypatch.setattr(watching, "_UNNOTICED_SECONDS", 0.5)
    async with a_silent_coder(lab, "silent") as silent:
        name = await silent.create(spec="0 ready")
        await silent.call("start_agent_task", agent_name=name, task_description="600")
        await silent.idle(name)
        assert (await silent.history(name))[0]["status"] == "failed"
        assert silent.coder.agent(name).prompts == ["0 ready", "600"]


@asynccontextmanager
async def a_silent_coder(lab: Lab, echo: str) -> AsyncGenerator[Lab]:
    """A Coder whose agents are `SILENT`, and whose AgentAPI is not as patient as it is."""
    terminal = replace(QUICK, echo_timeout=0.3, start_timeout=0.6, enter_again=0.4)
    program = (sys.executable, "-c", SILENT, echo)
    async with CoderStandIn(StandInSettings(build_seconds=0.02, program=program, terminal=terminal)) as coder:
        silent = replace(lab, coder=coder, replicas=[])
        await silent.replica()
        yield silent


async def said(lab: Lab, name: str) -> list[Said]:
    """The conversation of an agent."""
    terminal = lab.any.coder.terminal(await lab.workspace(name))
    assert terminal is not None
    return await terminal.messages()


async def test_a_process_that_dies_between_typing_and_the_journal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, name = await lab.with_agent()
    typed, type_once = asyncio.Event(), typing.type_once

    async def stuck(
        terminal_of: Callable[[], Awaitable[Terminal]], text: str, before: typing.Before, *, again: bool
    ) -> int | None:
        found = await type_once(terminal_of, text, before, again=again)
        if not typed.is_set():
            typed.set()
            await asyncio.get_running_loop().create_future()
        return found

    monkeypatch.setattr("fleet.running.run_task.type_once", stuck)
    followed = await lab.start("start_agent_task", agent_name=name, task_description=TEXT)
    await soon(typed.wait())
    await lab.replica()
    await first.end()
    result = await result_of(followed)
    assert not result.is_error, result.content
    await typed_once(lab, name)


async def test_a_call_that_lost_its_process_tells_of_its_task(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task was typed and has ended, before another process could answer it: it is not to be repeated."""
    first, name = await lab.with_agent()
    until_it_is, stuck = Agents.until, asyncio.Event()

    async def never(self: Agents, name: str, enough: Callable[[FleetAgent | None], bool], seconds: float) -> bool:
        if stuck.is_set():
            return await until_it_is(self, name, enough, seconds)
        stuck.set()
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Agents, "until", never)
    followed = await lab.start("start_agent_task", agent_name=name, task_description=TEXT)
    await soon(stuck.wait())

    async def ended() -> bool:
        entry = lab.known(name)
        return entry is not None and (entry.tasks, entry.task) == (2, None)

    await until(ended)
    await lab.replica()
    await lab.coder.stop_listening()  # Coder is not needed to tell
    await first.end()
    result = await result_of(followed)
    await lab.coder.listen()
    assert not result.is_error, result.content
    await typed_once(lab, name)
