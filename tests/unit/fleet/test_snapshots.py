"""The list of workspaces is read once for all calls that come together, and again after a change."""

import asyncio
from typing import Any, Literal

import pytest
from tests.unit.fleet.seen import a_workspace

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.seeing.fleet import Snapshots
from fleet.seeing.status import Terminals
from fleet.terminal.agent_api import Terminal
from pallas_contracts.errors import Unavailable


class ACoder(Coder):
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.error: Unavailable | None = None

    async def workspaces(self) -> tuple[Workspace, ...]:
        """Named by how often it was asked before."""
        n, self.asked = self.asked, self.asked + 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return (a_workspace(f"n{n}"),)

    def terminal(self, workspace: Workspace) -> Terminal:
        """A terminal whose agent works."""
        coder = self

        class Working(Terminal):
            async def status(self) -> Literal["running", "stable"]:
                coder.asked += 1
                await coder.may_answer.wait()
                return "running"

        return Working.__new__(Working)


async def test_calls_that_come_together_share_a_read_and_its_answer_for_a_while() -> None:
    coder = ACoder()
    snapshots = Snapshots(coder)
    reads = [asyncio.create_task(snapshots.get()) for _ in range(5)]
    await asyncio.sleep(0)
    coder.may_answer.set()
    assert {found[0].name for found in await asyncio.gather(*reads)} == {"n0"}
    assert (await snapshots.get())[0].name == "n0"
    assert (await snapshots.get(0))[0].name == "n1"


async def test_a_read_that_began_before_a_change_is_not_used_after_it() -> None:
    coder = ACoder()
    snapshots = Snapshots(coder)
    before = asyncio.create_task(snapshots.get())
    await asyncio.sleep(0)
    snapshots.forget()
    after = asyncio.create_task(snapshots.get())
    await asyncio.sleep(0)
    coder.may_answer.set()
    assert ((await before)[0].name, (await after)[0].name) == ("n0", "n1")
    assert (await snapshots.get())[0].name == "n1"


async def test_a_call_that_is_given_up_ends_no_read_of_others() -> None:
    coder = ACoder()
    snapshots = Snapshots(coder)
    left, stays = asyncio.create_task(snapshots.get()), asyncio.create_task(snapshots.get())
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    coder.may_answer.set()
    assert (await stays)[0].name == "n0"


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"reason": "refused"}, "degraded"),
        ({"status": 502, "reason": "status"}, "degraded"),
        ({"status": 401, "reason": "unauthorized"}, "error"),
        ({"reason": "not_configured"}, "error"),
    ],
)
async def test_what_is_wrong_with_coder_is_told_until_it_is_back(facts: dict[str, Any], status: str) -> None:
    coder, changes = ACoder(), list[None]()
    snapshots = Snapshots(coder, lambda: changes.append(None))
    coder.may_answer.set()
    coder.error = Unavailable("Coder does not answer.", **facts)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await snapshots.get()
    assert snapshots.trouble is not None
    assert (snapshots.trouble.status, snapshots.trouble.reason, len(changes)) == (status, "Coder does not answer.", 1)
    coder.error = None
    await snapshots.get()
    assert (snapshots.trouble, len(changes)) == (None, 2)


async def test_a_terminal_is_asked_once_and_again_when_its_task_has_changed() -> None:
    coder = ACoder()
    terminals = Terminals(coder)
    asked = [asyncio.create_task(terminals.working(a_workspace())) for _ in range(3)]
    await asyncio.sleep(0)
    coder.may_answer.set()
    assert await asyncio.gather(*asked) == ["running"] * 3
    assert await terminals.working(a_workspace()) == "running"
    assert coder.asked == 1
    terminals.forget("w-papi")
    await terminals.working(a_workspace())
    assert coder.asked == 2
    terminals.keep(set())
    await terminals.working(a_workspace())
    assert coder.asked == 3


async def test_a_terminal_that_does_not_answer_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.seeing.status._PATIENCE", 0.01)
    assert await Terminals(ACoder()).working(a_workspace()) is None
