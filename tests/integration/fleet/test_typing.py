"""Each prompt is typed once: also if its answer is lost or late, and if the process dies that typed it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.integration.fleet.lab import Lab, result_of
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import soon

from fleet.running import typing
from fleet.storing.agents import Agents
from fleet.terminal.agent_api import Terminal
from pallas_contracts.fleet import FleetAgent
from pallas_demo.coder import Fault

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
    await lab.replica()
    name = await lab.create()
    await lab.coder.fault(Fault(mode="lose_answer", times=1, delay=delay))
    await lab.call("start_agent_task", agent_name=name, task_description=TEXT)
    await typed_once(lab, name)


async def test_coder_that_goes_away_right_after_the_prompt_was_typed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is lost, and nobody can be asked for a while."""
    await lab.replica()
    name = await lab.create()
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
    await lab.replica()
    name = await lab.create()
    await lab.coder.fault(Fault(mode="reset", path="/message$", times=1))
    await lab.call("start_agent_task", agent_name=name, task_description=TEXT)
    await typed_once(lab, name)


async def test_a_process_that_dies_between_typing_and_the_journal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await lab.replica()
    name = await lab.create()
    typed, type_once = asyncio.Event(), typing.type_once

    async def stuck(terminal_of: Callable[[], Awaitable[Terminal]], text: str, after: int, *, again: bool) -> int:
        found = await type_once(terminal_of, text, after, again=again)
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
    first = await lab.replica()
    name = await lab.create()
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
