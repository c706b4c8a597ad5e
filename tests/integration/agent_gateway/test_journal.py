"""Turns go on where they stopped: a worker is killed or drains between the steps of an agent, or within one."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from mcp_types import CallToolResult
from tests.integration.agent_gateway.conftest import Platform, error_of
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import Front
from tests.runtimes import DemoServer
from tests.waiting import PATIENCE, Collected, eventually, soon

from pallas_contracts.turns import Claimed, Continued, HandedBack, ModelCalled, ToolStarted
from pallas_turns.executor import Executor
from pallas_turns.history.turns import TurnHistory, read_turn

AGENTS = """
name: {team}
agents:
  plain: {{instruction: Do it., servers: [effects]}}
  told: {{instruction: Do it., servers: [effects], on_unknown_tool_outcome: tell_model}}
  safe: {{instruction: Do it., servers: [effects], tools: {{effects/slow: {{retry: safe}}}}}}
  chief: {{instruction: Ask others., depends_on: [plain]}}
  once: {{instruction: Ask others., depends_on: [plain], max_attempts: 1}}
"""
CONFIG = "default_model: offline\nmcp: {{servers: {{effects: {{transport: http, url: '{url}'}}}}}}\n"

type Era = Literal["auto", "legacy"]


@dataclass
class Stage:
    """A platform with a team of agents on the offline model, and a server whose tools have effects."""

    platform: Platform
    front: Front
    folder: Path
    stack: AsyncExitStack
    effects: Path

    async def worker(self) -> Executor:
        """One more worker, in this process."""
        return await self.platform.worker()

    async def doomed(self) -> Service:
        """A worker that can be killed."""
        made = a_service("agent_worker", self.platform.url, self.folder.parent, "doomed", teams=str(self.folder))
        service = await self.stack.enter_async_context(made)
        await service.ready()
        await self.platform.served(self.front, "chief")
        return service

    async def call(self, agent: str, message: str, era: Era = "auto") -> "Call":
        """Call an agent."""
        client = await self.stack.enter_async_context(self.front.client(self.platform.team, agent, era))
        lines = Collected[str]()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if " queued: " not in (message or ""):
                lines.add(message or "")

        calling = client.call_tool(agent, {"message": message}, progress_callback=on_progress)
        return Call(lines, asyncio.create_task(calling))

    def counted(self) -> Counter[str]:
        """How often each effect happened."""
        return Counter(self.effects.read_text("utf-8").split() if self.effects.exists() else [])

    async def history(self) -> TurnHistory:
        """The only turn of the team."""
        claimed = await self.platform.claim(Claimed)
        found = await read_turn(self.platform.bus, claimed.turn_id)
        assert found is not None
        return found


@dataclass
class Call:
    """A call with an open stream."""

    lines: Collected[str]
    calling: asyncio.Task[CallToolResult]

    async def until(self, line: str) -> None:
        """Wait for a line of progress."""
        await self.lines.until(lambda lines: line in lines)

    async def result(self) -> CallToolResult:
        """Wait for the answer."""
        return await soon(self.calling, PATIENCE)


@pytest.fixture
async def stage(platform: Platform, tmp_path: Path, soon_redelivered: None) -> AsyncGenerator[Stage]:
    effects = tmp_path / "effects"
    server = DemoServer(tmp_path / "server.log", "-m", "tests.integration.agent_gateway.effects_server", str(effects))
    server.start()
    platform.folder.mkdir()
    (platform.folder / "agents.yaml").write_text(AGENTS.format(team=platform.team))
    (platform.folder / "fastagent.config.yaml").write_text(CONFIG.format(url=server.url))
    async with AsyncExitStack() as stack:
        yield Stage(platform, await platform.gateway(), platform.folder, stack, effects)
    server.kill()


def note(key: str) -> str:
    return f'/tool effects/note {{"key": "{key}"}}'


async def kill(worker: Service) -> None:
    worker.process.kill()
    await worker.process.wait()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_no_answered_call_is_repeated_when_a_worker_is_killed_in_a_call_of_the_model(
    stage: Stage, era: Era
) -> None:
    doomed = await stage.doomed()
    inner = note("c").replace("\\", "\\\\").replace('"', '\\"')
    calling = await stage.call("chief", f'/tool plain {{"message": "{inner}"}}\n/sleep 1\n/say done', era)
    await calling.until("chief step 3 (llm)")
    await kill(doomed)  # at once: the model answers after a second
    await stage.worker()
    result = await calling.result()
    assert "done" in str(result.content)
    assert stage.counted() == {"c": 1}
    continues = ["chief continues (attempt 2, step 3)"] if era == "auto" else []
    assert calling.lines.items[-3 - len(continues) :] == [
        "plain/plain__plain: completed",
        "chief step 3 (llm)",
        *continues,
        "chief step 3 (llm)",
    ]
    turn = await stage.history()
    called = [it.call for at in turn.attempts.values() for it in at.in_order() if isinstance(it, ModelCalled)]
    assert called == ["1", "1.1.1", "1.1.2", "2"]
    [went_on] = [it for it in turn.attempts[2].in_order() if isinstance(it, Continued)]
    assert set(went_on.taken) == {"1", "1.1", "1.1.1", "1.1.2", "1.1.1.1"}


async def test_a_tool_that_had_not_answered_is_called_again_only_if_that_is_safe(stage: Stage) -> None:
    doomed = await stage.doomed()
    slow = '/parallel\n{0}\n/tool effects/slow {{"key": "{1}"}}\n/say done'
    calls = {
        agent: await stage.call(agent, slow.format(note(f"{agent}-note"), f"{agent}-slow"))
        for agent in ("plain", "told", "safe")
    }
    hinted = f'/parallel\n{note("hint-note")}\n/tool effects/slow_again {{"key": "hint-slow"}}\n/say done'
    calls["hint"] = await stage.call("plain", hinted)
    for calling in calls.values():
        await calling.until("effects/note: completed")
    await eventually(lambda: sum(stage.counted().values()) == 8)
    await stage.worker()
    await kill(doomed)
    stage.effects.with_name("go").touch()
    lost = await calls["plain"].result()
    assert error_of(lost) == {"code": "worker_lost", "retryable": False} | {"turn_id": error_of(lost).get("turn_id")}
    assert "effects/slow had started" in str(lost.content)
    assert "Whether it took effect is unknown" in str((await calls["told"].result()).content)
    for name in ("safe", "hint"):
        assert f"{name}-slow noted late" in str((await calls[name].result()).content)
    assert stage.counted() == {
        **{f"{name}-note": 1 for name in ("plain", "told", "safe", "hint")},
        "plain-slow": 1,
        "told-slow": 1,
        "safe-slow": 2,
        "hint-slow": 2,
    }


async def test_a_worker_that_drains_gives_its_turns_back_at_a_step_and_none_counts_as_lost(stage: Stage) -> None:
    first = await stage.worker()
    await stage.platform.served(stage.front, "once")
    inner = '/tool effects/slow {\\"key\\": \\"s\\"}\\n/tool effects/note {\\"key\\": \\"n\\"}'
    calling = await stage.call("once", f'/tool plain {{"message": "{inner}"}}\n/say done')
    await eventually(lambda: stage.counted() == {"s": 1})
    draining = asyncio.create_task(first.drain())
    await stage.worker()
    assert not draining.done()
    stage.effects.with_name("go").touch()
    await soon(draining)
    assert "done" in str((await calling.result()).content)
    assert stage.counted() == {"s": 1, "n": 1}
    turn = await stage.history()
    one, two = turn.attempts[1].in_order(), turn.attempts[2].in_order()
    assert isinstance(one[-1], HandedBack)
    called = [it.call for it in (*one, *two) if isinstance(it, ModelCalled)]
    assert called == sorted(set(called))
    started = [it.call for it in (*one, *two) if isinstance(it, ToolStarted) and it.leaf]
    assert started == sorted(set(started))
