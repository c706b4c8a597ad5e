"""`pallas turns list`, `show` and `cancel`, on a real log."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import TOOL, attempt_of, result, step

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_bus.turn_claims import claim_state
from pallas_bus.turn_queue import submit
from pallas_cli.moments import moment_of
from pallas_cli.refused import Refused
from pallas_cli.turns_view import cancel, show_turn, show_turns
from pallas_contracts.catalog import GATEWAY, TURN_LOG, TURN_QUEUE
from pallas_contracts.turns import CancelRequested, TurnRequested

type Said = Callable[[], str]


async def show(platform: Bus, *, team: str | None = None, state: str | None = None, as_json: bool = False) -> None:
    """`pallas turns list` of the last hour."""
    await show_turns(platform, since="1h", team=team, agent=None, state=state, caller=None, limit=50, as_json=as_json)


@pytest.fixture
async def platform(nats_server: NatsServer, bus: Connecting) -> Bus:
    connection = await bus(GATEWAY, url=nats_server.url)
    await declare(connection, TURN_QUEUE, TURN_LOG)
    return connection


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What has been printed since it was last asked for."""
    return lambda: capsys.readouterr().out


async def ended(platform: Bus, team: str) -> TurnRequested:
    """A turn that was taken, called a tool and answered."""
    request = turn_requested(team)
    writer = await attempt_of(platform, request)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    writer.emit(result("done"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    return request


async def test_the_list_tells_waiting_running_and_ended_turns_apart(platform: Bus, said: Said) -> None:
    waiting, running, over = turn_requested("red"), turn_requested("red"), await ended(platform, "blue")
    await submit(platform, waiting)
    await attempt_of(platform, running)
    await show(platform, as_json=True)
    states = {row["turn"]: row["state"] for row in json.loads(said())}
    assert states == {waiting.turn_id: "waiting", running.turn_id: "running", over.turn_id: "completed"}


async def test_the_list_can_be_narrowed(platform: Bus, said: Said) -> None:
    over = await ended(platform, "blue")
    await attempt_of(platform, turn_requested("red"))
    for team, state in (("blue", None), (None, "completed")):
        await show(platform, team=team, state=state)
        head, *rows = said().splitlines()
        assert head.split() == ["turn", "agent", "caller", "requested", "state", "attempts", "took"]
        assert [row.split()[0] for row in rows] == [over.turn_id]
    await show(platform, state="failed")
    assert said() == "No turns since 1h.\n"


async def test_a_turn_is_shown_with_its_timeline_and_without_its_content(platform: Bus, said: Said) -> None:
    over = await ended(platform, "blue")
    await show_turn(platform, over.turn_id, as_json=True)
    shown = json.loads(said())
    assert (shown["team"], shown["state"], shown["attempts"]) == ("blue", "completed", 1)
    what = [entry["what"] for entry in shown["timeline"]]
    assert what[:1] == ["taken by w1"]
    assert {"harper step 1 (llm)", "demo/add: started", "result", "completed"} <= set(what)
    assert "done" not in json.dumps(shown)


async def test_a_running_turn_is_cancelled_once_and_an_ended_one_not(platform: Bus, said: Said) -> None:
    running, over = turn_requested("red"), await ended(platform, "red")
    writer = await attempt_of(platform, running)
    await cancel(platform, running.turn_id, as_json=False)
    await cancel(platform, running.turn_id, as_json=True)
    first, second = said().splitlines()
    assert first == f"Turn {running.turn_id} cancelled."
    assert json.loads(second) == {"turn": running.turn_id, "cancelled": True, "first": False}
    assert isinstance((await claim_state(platform, writer.address)).claim, CancelRequested)
    with pytest.raises(Refused, match="is over: completed"):
        await cancel(platform, over.turn_id, as_json=False)


async def test_a_turn_the_log_does_not_have_is_refused(platform: Bus) -> None:
    with pytest.raises(Refused, match="the log has no turn 'nothing'"):
        await show_turn(platform, "nothing", as_json=False)


def test_a_moment_is_a_span_back_or_a_time() -> None:
    assert abs(datetime.now(UTC) - timedelta(minutes=30) - moment_of("30m")) < timedelta(seconds=5)
    assert moment_of("2026-11-03T09:15:00") == datetime(2026, 11, 3, 9, 15, tzinfo=UTC)
    with pytest.raises(Refused, match="'yesterday' is neither"):
        moment_of("yesterday")
