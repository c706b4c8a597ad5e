"""`pallas turns list`, `show`, `cancel` and `tail`, on a real log."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import TOOL, attempt_of, result, step
from tests.waiting import soon

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_cli.moments import moment_of
from pallas_cli.refused import Refused
from pallas_cli.turns.ending import cancel
from pallas_cli.turns.listing import filter_of, show_turns
from pallas_cli.turns.show import show_turn
from pallas_cli.turns.tail import tail
from pallas_contracts.catalog import GATEWAY, KEPT_REQUEST, TURN_CONTENT, TURN_LOG, TURN_QUEUE
from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, Principal, TextDelta, ToolCompleted, TurnRequested
from pallas_turns.claims import TurnRef, claim, claim_state
from pallas_turns.history.turn_list import TurnFilter, find_turns
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter

type Printed = Callable[[], str]


KEY = LogKey("k" * 32)


class Only(TypedDict, total=False):
    """The options that narrow a list or a tail."""

    team: str
    agent: str
    caller: str
    state: str
    conversation: str
    task: str
    since: str
    until: str


async def show(
    platform: Bus, *, limit: int = 50, after: str | None = None, as_json: bool = False, **only: Unpack[Only]
) -> None:
    """`pallas turns list` of the last hour, or of another span."""
    options: Only = {"since": "1h", **only}
    wanted = filter_of(**options, data=Path("nowhere"))
    await show_turns(platform, wanted=wanted, limit=limit, after=after, as_json=as_json)


@pytest.fixture
async def platform(nats_server: NatsServer, bus: Connecting) -> Bus:
    connection = await bus(GATEWAY, url=nats_server.url)
    await declare(connection, TURN_QUEUE, TURN_LOG)
    return connection


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Returns the output since its last call."""
    return lambda: capsys.readouterr().out


async def ended(
    platform: Bus, team: str, *, caller: str = "10.0.0.1", talk: str | None = None, task: str | None = None
) -> TurnRequested:
    """A completed turn that called a tool."""
    hashed = KEY.conversation(talk) if talk is not None else None
    part_of = KEY.task(task) if task is not None else None
    given = {"principal": Principal(id=caller), "conversation": hashed, "task": task, "task_hash": part_of}
    request = turn_requested(team).model_copy(update=given)
    claimed = Claimed(
        attempt=1,
        worker="w1",
        tool=request.tool,
        principal=request.principal,
        conversation=hashed,
        task_hash=part_of,
        requested_at=request.requested_at,
        at=utc_now(),
    )
    fence = await claim(platform, TurnRef.of(request), claimed, after=0)
    writer = TurnWriter(platform, TurnRef.of(request), 1, fence)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    writer.emit(ToolCompleted(call="1", server="demo", tool="add", duration_ms=3.0))
    writer.emit(TextDelta(agent="harper", text="on the way"))
    writer.emit(result("done"))
    until = {"content_until": utc_now() + timedelta(minutes=15)}
    await writer.conclude(turn_outcome(request, events=writer.last_event).model_copy(update=until))
    return request


async def listed(platform: Bus, printed: Printed, **only: Unpack[Only]) -> list[str]:
    """The ids of the turns that are listed."""
    await show(platform, **only, as_json=True)
    return [row["turn"] for row in json.loads(printed())]


async def test_the_list_distinguishes_waiting_running_and_ended_turns(platform: Bus, printed: Printed) -> None:
    waiting, running, over = turn_requested("red"), turn_requested("red"), await ended(platform, "blue")
    await submit(platform, waiting)
    await submit(platform, running)
    await attempt_of(platform, running)
    await show(platform, as_json=True)
    states = {row["turn"]: row["state"] for row in json.loads(printed())}
    assert states == {waiting.turn_id: "waiting", running.turn_id: "running", over.turn_id: "completed"}
    for turn, state in states.items():
        assert await listed(platform, printed, state=state) == [turn]


async def test_a_turn_that_its_worker_has_given_back_waits_until_another_claims_it(
    platform: Bus, printed: Printed
) -> None:
    turn = turn_requested("red")
    await submit(platform, turn)
    first = await attempt_of(platform, turn)
    first.emit(step(1))
    await first.hand_back()
    assert await listed(platform, printed, state="waiting") == [turn.turn_id]
    await attempt_of(platform, turn, 2, after=first.fence)
    assert await listed(platform, printed, state="running") == [turn.turn_id]


async def test_the_list_can_be_filtered(platform: Bus, printed: Printed) -> None:
    over = await ended(platform, "blue")
    await attempt_of(platform, turn_requested("red"))
    await show(platform, team="blue")
    head, *rows = printed().splitlines()
    assert head.split() == ["turn", "agent", "caller", "requested", "state", "attempts", "took", "tokens", "cost"]
    assert [row.split()[0] for row in rows] == [over.turn_id]
    assert await listed(platform, printed, state="completed") == [over.turn_id]
    await show(platform, state="failed")
    assert printed() == "No turns found.\n"


async def test_turns_are_listed_by_caller_and_by_conversation_id(
    platform: Bus, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ended(platform, "red", caller="10.0.0.7", talk="daily report")
    second = await ended(platform, "blue", caller="10.0.0.8", talk="daily report")
    await ended(platform, "red", caller="10.0.0.9")
    waits = turn_requested("red").model_copy(update={"principal": Principal(id="10.0.0.7")})
    await submit(platform, waits)
    monkeypatch.setenv("PALLAS_LOG_KEY", KEY.secret)
    assert await listed(platform, printed, conversation="daily report") == [first.turn_id, second.turn_id]
    assert await listed(platform, printed, conversation="daily report", agent="harper", team="blue") == [second.turn_id]
    assert await listed(platform, printed, conversation="another") == []
    assert await listed(platform, printed, caller="10.0.0.7") == [first.turn_id, waits.turn_id]
    assert await listed(platform, printed, caller="peer:10.0.0.7", state="completed") == [first.turn_id]


async def test_turns_are_found_by_their_task_which_is_shown_by_its_hash_only(
    platform: Bus, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = await ended(platform, "red", task="task_001")
    await ended(platform, "red", task="task_002")
    await ended(platform, "red", talk="task_001")
    waits = turn_requested("red").model_copy(update={"task": "task_001", "task_hash": KEY.task("task_001")})
    await submit(platform, waits)
    monkeypatch.setenv("PALLAS_LOG_KEY", KEY.secret)
    assert await listed(platform, printed, task="task_001") == [over.turn_id, waits.turn_id]
    await show_turn(platform, over.turn_id, as_json=False)
    shown = printed()
    assert f"task {KEY.task('task_001')}" in shown
    assert "task_001" not in shown


async def test_the_list_for_a_time_span_has_the_turns_with_messages_in_it(platform: Bus, printed: Printed) -> None:
    before = await ended(platform, "red")
    begin = utc_now()
    inside = await ended(platform, "red")
    end = utc_now()
    after = await ended(platform, "red")
    assert await listed(platform, printed, since=begin.isoformat(), until=end.isoformat()) == [inside.turn_id]
    assert await listed(platform, printed, until=begin.isoformat()) == [before.turn_id]
    assert await listed(platform, printed, since=end.isoformat()) == [after.turn_id]


async def test_the_latest_turns_are_found_however_far_back_the_log_goes(
    platform: Bus, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_turns.history.turn_list._FIRST_WINDOW", 4)
    turns = [(await ended(platform, "red", caller=f"caller-{number % 3}")).turn_id for number in range(12)]
    assert await listed(platform, printed) == turns
    assert await listed(platform, printed, caller="caller-1") == turns[1::3]
    await show(platform, limit=3, as_json=True)
    assert [row["turn"] for row in json.loads(printed())] == turns[-3:]
    await show(platform, limit=3, after=turns[-3], as_json=True)
    assert [row["turn"] for row in json.loads(printed())] == turns[-6:-3]


async def test_a_replay_is_listed_as_such(platform: Bus, printed: Printed) -> None:
    waits = turn_requested("red").model_copy(update={"replay_of": "0" * 32})
    await submit(platform, waits)
    await ended(platform, "red")
    await show(platform)
    head, *rows = printed().splitlines()
    assert head.split()[-2:] == ["replay", "of"]
    assert sorted(row.split()[-1] for row in rows) == ["-", "0" * 32]
    await show(platform, as_json=True)
    assert {row["replay_of"] for row in json.loads(printed())} == {None, "0" * 32}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"state": "odd"}, "--state 'odd' is not one of waiting, running"),
        ({"team": "Red Team"}, "--team 'Red Team' must be"),
        ({"since": "1h", "until": "2h"}, "--until 2h is before --since 1h"),
        ({"conversation": "x"}, "PALLAS_LOG_KEY"),
        ({"task": "x"}, "PALLAS_LOG_KEY"),
    ],
)
async def test_an_invalid_option_is_refused_and_named(options: Only, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        filter_of(**options, data=Path("nowhere"))


async def test_a_turn_is_shown_with_its_timeline_and_without_its_content(platform: Bus, printed: Printed) -> None:
    over = await ended(platform, "blue")
    await show_turn(platform, over.turn_id, as_json=True)
    shown = json.loads(printed())
    assert (shown["team"], shown["state"], shown["attempts"]) == ("blue", "completed", 1)
    entries = [(entry["kind"], entry["what"], entry["depth"]) for entry in shown["timeline"]]
    assert entries == [
        ("queue", "waited in the queue", 0),
        ("attempt", "attempt 1 by w1", 0),
        ("step", "harper step 1 (llm)", 1),
        ("tool", "demo/add", 2),
        ("content", "result", 1),
        ("outcome", "completed", 0),
    ]
    assert shown["times"]["tools"] == shown["timeline"][3]["took"] == 0.003
    assert "done" not in json.dumps(shown)
    await show_turn(platform, over.turn_id, as_json=False)
    lines = printed().splitlines()
    assert lines[0] == f"{over.turn_id} blue/harper harper by peer:10.0.0.1: completed"
    assert "content kept until 20" in lines[1]
    assert lines[2].split() == ["after", "took"]
    assert lines[-1].startswith("total ")


async def test_content_is_shown_only_if_asked_for_and_while_it_is_kept(platform: Bus, printed: Printed) -> None:
    over = await ended(platform, "blue")
    await platform.put(TurnRef.of(over).on(KEPT_REQUEST.template), over.model_dump_json().encode())
    await show_turn(platform, over.turn_id, content=True, as_json=True)
    content = json.loads(printed())["content"]
    assert content["asked"] == {"message": "hello"}
    assert content["texts"] == [{"agent": "harper", "text": "on the way"}]
    assert content["answer"]["content"] == [{"type": "text", "text": "done"}]
    for subject in (TURN_CONTENT, KEPT_REQUEST):
        await platform.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": TurnRef.of(over).on(subject.template)})
    await show_turn(platform, over.turn_id, content=True, as_json=False)
    assert "content_expired" in printed()
    await show_turn(platform, over.turn_id, content=True, as_json=True)
    assert json.loads(printed())["content"] == {"asked": None, "texts": [], "answer": None, "expired": True}


async def test_a_running_turn_is_cancelled_once_and_an_ended_one_is_not(platform: Bus, printed: Printed) -> None:
    running, over = turn_requested("red"), await ended(platform, "red")
    await submit(platform, running)
    writer = await attempt_of(platform, running)
    await cancel(platform, running.turn_id, as_json=False, timeout=0.05)
    await cancel(platform, running.turn_id, as_json=True, timeout=0.05)
    first, second = printed().splitlines()
    assert first == f"Turn {running.turn_id} cancelled: it has not ended on w1 yet, but no worker can continue it."
    expected = {"turn": running.turn_id, "cancelled": True, "first": False, "was": "running", "ended": None}
    assert json.loads(second) == expected
    state = await claim_state(platform, writer.ref)
    assert isinstance(state.claim, CancelRequested)
    last = TurnWriter(platform, writer.ref, 1, state.seq)
    await last.conclude(turn_outcome(running, status="cancelled", code="cancelled"))
    with pytest.raises(Refused, match="has already ended: cancelled"):
        await cancel(platform, running.turn_id, as_json=False)
    with pytest.raises(Refused, match="has already ended: completed"):
        await cancel(platform, over.turn_id, as_json=False)


async def test_cancelling_a_waiting_turn_without_a_gateway_ends_it_and_removes_it_from_its_queue(
    platform: Bus, printed: Printed
) -> None:
    talk = KEY.conversation("a talk")
    waiting = turn_requested("red").model_copy(update={"principal": Principal(id="10.0.0.9"), "conversation": talk})
    await submit(platform, waiting)
    await cancel(platform, waiting.turn_id, as_json=False)
    assert printed() == f"Turn {waiting.turn_id} cancelled: it had not started and was removed from its queue.\n"
    assert [record async for record in read(platform, TURN_QUEUE.name, ">")] == []
    assert await listed(platform, printed, state="cancelled") == [waiting.turn_id]
    assert await listed(platform, printed, caller="10.0.0.9") == [waiting.turn_id]
    [turn] = await find_turns(platform, TurnFilter(conversation=talk), limit=1)
    assert (turn.caller, turn.tool, turn.attempts) == ("peer:10.0.0.9", waiting.tool, {})


async def test_an_unknown_turn_is_refused(platform: Bus) -> None:
    with pytest.raises(Refused, match="the log has no turn 'nothing'"):
        await show_turn(platform, "nothing", as_json=False)
    with pytest.raises(Refused, match="turn 'No Turn' must be"):
        await show_turn(platform, "No Turn", as_json=False)


async def tailed(platform: Bus, printed: Printed, **only: Unpack[Only]) -> list[dict[str, Any]]:
    """The lines of `pallas turns tail --json` for the stored messages."""
    options: Only = {"since": "1m", "until": utc_now().isoformat(), **only}
    wanted = filter_of(**options, data=Path("nowhere"))
    await soon(tail(platform, wanted=wanted, as_json=True))
    return [json.loads(line) for line in printed().splitlines()]


async def test_the_tail_of_a_past_time_span_ends(platform: Bus, printed: Printed) -> None:
    waiting, over = turn_requested("red"), await ended(platform, "red")
    await submit(platform, waiting)
    lines = await tailed(platform, printed)
    assert {line["contract"] for line in lines} == {
        *("turn.requested", "turn.claim", "turn.event", "turn.content", "turn.outcome")
    }
    assert {line["turn_id"] for line in lines} == {waiting.turn_id, over.turn_id}


async def test_the_tail_can_be_filtered_like_the_list(
    platform: Bus, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ended(platform, "red", caller="10.0.0.7", talk="daily report")
    second = await ended(platform, "blue", caller="10.0.0.8")
    waits = turn_requested("red").model_copy(update={"principal": Principal(id="10.0.0.7")})
    await submit(platform, waits)
    monkeypatch.setenv("PALLAS_LOG_KEY", KEY.secret)

    async def turns(**only: Unpack[Only]) -> set[str]:
        return {line["turn_id"] for line in await tailed(platform, printed, **only)}

    assert await turns(caller="10.0.0.7") == {first.turn_id, waits.turn_id}
    assert await turns(conversation="daily report") == {first.turn_id}
    assert await turns(team="blue") == {second.turn_id}
    assert await turns(state="waiting") == {waits.turn_id}
    ends = await tailed(platform, printed, state="completed")
    assert [line["contract"] for line in ends] == ["turn.outcome", "turn.outcome"]


def test_a_moment_is_a_duration_before_now_or_a_time() -> None:
    assert abs(datetime.now(UTC) - timedelta(minutes=30) - moment_of("30m")) < timedelta(seconds=5)
    assert moment_of("2026-11-03T09:15:00") == datetime(2026, 11, 3, 9, 15, tzinfo=UTC)
    with pytest.raises(Refused, match="'yesterday' is neither"):
        moment_of("yesterday")
