"""The executions in the log: whose they are, page by page, and the calls they made."""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.requirements import requirement

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.catalog import (
    CONSTELLATION,
    GATEWAY,
    PIPELINES,
    PIPELINES_TEAM,
    TURN_EVENT,
    TURN_LOG,
    TURN_OUTCOME,
)
from pallas_contracts.errors import Denied, NotFound, Rejected
from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    AnyEvent,
    Claimed,
    Principal,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnEvents,
    TurnRequested,
)
from pallas_turns.claims import TurnRef, claim
from pipelines.storing import history
from pipelines.storing.history import Executions
from pipelines.storing.namespaces import Caller
from pipelines.storing.scopes import Scope

KEY = LogKey("a key of these tests")


@dataclass
class Log:
    """The log of the run's broker."""

    bus: Bus

    @property
    def executions(self) -> Executions:
        """The executions in it."""
        return Executions(self.bus, KEY)

    async def claimed(self, caller: Caller, tool: str = "execute", **fields: Any) -> TurnRequested:
        """A turn of a caller that a worker has claimed."""
        request = turn_requested(PIPELINES_TEAM, CONSTELLATION, tool=tool).model_copy(
            update={
                "principal": caller.principal,
                "conversation": KEY.conversation(caller.label) if caller.label else None,
                **fields,
            }
        )
        await self.claim(request)
        return request

    async def claim(self, request: TurnRequested, attempt: int = 1, after: int = 0) -> int:
        """A claim of a turn, behind another one."""
        claimed = Claimed(
            attempt=attempt,
            worker="w1",
            tool=request.tool,
            principal=request.principal,
            conversation=request.conversation,
            requested_at=request.requested_at,
            at=utc_now(),
        )
        return await claim(self.bus, TurnRef.of(request), claimed, after=after)

    async def ended(self, request: TurnRequested, **fields: Any) -> None:
        """The outcome of a turn."""
        data = turn_outcome(request, **fields).model_dump_json().encode()
        await self.bus.put(TurnRef.of(request).on(TURN_OUTCOME.template), data)

    async def happened(self, request: TurnRequested, *events: AnyEvent, attempt: int = 1) -> None:
        """Events of an attempt."""
        named = {"turn_id": request.turn_id, "team": request.team, "agent": request.agent}
        data = TurnEvents(**named, attempt=attempt, events=events).model_dump_json().encode()
        await self.bus.put(TurnRef.of(request).on(TURN_EVENT.template), data)


@pytest.fixture
async def log(bus: Connecting) -> Log:
    """The log."""
    await declare(await bus(GATEWAY), TURN_LOG)
    return Log(await bus(PIPELINES))


def somebody(scope: Scope = Scope.READ, label: str | None = None) -> Caller:
    """A caller that no other test knows."""
    return Caller(Principal(type="user", id=f'u "{uuid.uuid4().hex}"'), label, scope)


@requirement("C-ph-2")
async def test_a_caller_has_its_own_executions_the_latest_first(log: Log) -> None:
    alice, bob = somebody(), somebody()
    first = await log.claimed(alice)
    await log.claimed(alice, "validate")
    second = await log.claimed(alice, "resume")
    other = await log.claimed(bob)
    await log.ended(first, status="failed", code="node_failed", attempt=2)
    page = await log.executions.page(alice)
    assert [(each.id, each.status, each.code, each.attempts) for each in page.executions] == [
        (second.turn_id, "running", None, 1),
        (first.turn_id, "failed", "node_failed", 2),
    ]
    document = page.executions[1].document()
    assert (document["executionId"], document["tool"], document["status"]) == (first.turn_id, "execute", "failed")
    assert document["durationMs"] >= 0
    everything = await log.executions.page(Caller(alice.principal, None, Scope.ADMIN), limit=100)
    assert {first.turn_id, second.turn_id, other.turn_id} <= {each.id for each in everything.executions}
    with pytest.raises(Denied):
        await log.executions.page(somebody(Scope.NONE))


async def test_pages_follow_each_other_without_gaps_and_repetitions(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_FIRST_WINDOW", 3)
    monkeypatch.setattr(history, "_LARGEST_WINDOW", 4)
    monkeypatch.setattr(history, "_MOST_WINDOWS", 2)
    alice, bob = somebody(), somebody()
    turns = list[TurnRequested]()
    for number in range(7):
        turns.append(await log.claimed(alice))
        for _ in range(number % 4):
            await log.claimed(bob)
    again = turns[2]
    entry = await log.bus.api(
        "STREAM.MSG.GET.TURN_LOG", {"last_by_subj": f"pallas.v1.turn.claim.pipelines.constellation.{again.turn_id}"}
    )
    await log.claim(again, attempt=2, after=entry["message"]["seq"])
    found, cursor = list[str](), None
    while len(found) < len(turns):
        page = await log.executions.page(alice, limit=2, cursor=cursor)
        assert len(page.executions) <= 2
        found += [each.id for each in page.executions]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == [turn.turn_id for turn in reversed(turns)]
    with pytest.raises(Rejected, match="cursor"):
        await log.executions.page(alice, cursor="x y")


async def test_executions_of_one_agent_are_found_by_its_label(log: Log) -> None:
    user = somebody().principal
    claude, cursor = Caller(user, "claude-code:ann", Scope.READ), Caller(user, "cursor:ann", Scope.READ)
    by_claude, by_cursor = await log.claimed(claude), await log.claimed(cursor)

    async def ids(caller: Caller, agent: str | None = None) -> list[str]:
        return [each.id for each in (await log.executions.page(caller, agent=agent)).executions]

    assert await ids(claude) == [by_cursor.turn_id, by_claude.turn_id]
    assert await ids(cursor, "claude-code:ann") == [by_claude.turn_id]
    assert await ids(Caller(somebody().principal, None, Scope.READ), "claude-code:ann") == []


async def test_without_bearers_the_label_says_whose_an_execution_is(log: Log) -> None:
    ann, ben = (f"{name}{uuid.uuid4().hex}" for name in ("ann", "ben"))
    callers = [
        Caller(Principal(id="127.0.0.1"), f"{agent}:{user}", Scope.READ)
        for agent, user in (("claude", ann), ("cursor", ann), ("claude", ben))
    ]
    turns = [await log.claimed(caller) for caller in callers]
    for caller, turn in zip(callers, turns, strict=True):
        assert [each.id for each in (await log.executions.page(caller)).executions] == [turn.turn_id]
    for label, expected in ((f"cursor:{ann}", [turns[1].turn_id]), (f"claude:{ben}", [])):
        assert [each.id for each in (await log.executions.page(callers[0], agent=label)).executions] == expected
    assert (await log.executions.execution(callers[0], turns[0].turn_id)).execution.id == turns[0].turn_id
    with pytest.raises(NotFound):
        await log.executions.execution(callers[2], turns[0].turn_id)


async def test_the_calls_of_an_execution(log: Log) -> None:
    alice = somebody()
    turn = await log.claimed(alice)
    at = int(utc_now().timestamp() * 1000)

    def started(call: str, seq: int) -> ToolStarted:
        return ToolStarted(call=call, server="demo/shelf", tool="find", leaf=False, seq=seq, at=at + seq)

    await log.happened(turn, started("7.3.1", 1), started("2.1", 2), started("9", 3))
    failed = ToolFailed(
        call="7.3.1", server="demo/shelf", tool="find", duration_ms=3.0, code="agent_failed", seq=4, at=at
    )
    completed = ToolCompleted(call="7.3.2", server="demo/shelf", tool="find", duration_ms=5.5, seq=2, at=at)
    await log.happened(turn, failed, started("7.3.2", 5))
    await log.happened(turn, started("7.3.2", 1), completed, attempt=2)
    detail = await log.executions.execution(alice, turn.turn_id)
    assert (detail.execution.status, detail.execution.id) == ("running", turn.turn_id)
    assert [(each.place, each.number, each.status, each.duration_ms, each.code) for each in detail.calls] == [
        ("7.3", 1, "failed", 3.0, "agent_failed"),
        ("2", 1, "started", None, None),
        ("9", 1, "started", None, None),
        ("7.3", 2, "completed", 5.5, None),
    ]
    assert detail.calls[0].at - detail.calls[1].at == timedelta(milliseconds=-1)
    assert detail.calls[3].document() | {"startedAt": ""} == {
        "place": "7.3",
        "try": 2,
        "server": "demo/shelf",
        "tool": "find",
        "status": "completed",
        "startedAt": "",
        "durationMs": 5.5,
    }


async def test_an_execution_of_another_caller_does_not_exist(log: Log) -> None:
    turn, check = await log.claimed(somebody()), await log.claimed(somebody(), "validate")
    for wanted in (turn.turn_id, check.turn_id, "0" * 32, "not.a.token", "x>"):
        with pytest.raises(NotFound) as unknown:
            await log.executions.execution(somebody(), wanted)
        assert unknown.value.message == f"Execution {wanted!r} not found"
    admin = somebody(Scope.ADMIN)
    assert (await log.executions.execution(admin, turn.turn_id)).execution.id == turn.turn_id
