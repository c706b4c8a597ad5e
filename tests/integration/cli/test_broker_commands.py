"""`pallas agents` and `pallas turns` against a real broker."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer, free_port
from tests.waiting import soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_cli.commands.agents import retire_team, show_agent, show_agents
from pallas_cli.refused import Refused
from pallas_cli.turns.tail import tail
from pallas_contracts.agents import ModelDependency, WorkerPresence
from pallas_contracts.catalog import AGENTS, BUCKETS, CLI, HEALTH, STREAMS, WORKERS
from pallas_contracts.errors import Unavailable
from pallas_contracts.health import AgentHealth
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed
from pallas_turns.claims import TurnRef, claim
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turns import read_turn
from pallas_turns.queue import ensure_consumer, queue_state, submit

PALLAS = str(Path(sys.executable).parent / "pallas")

type Printed = Callable[[], str]


@pytest.fixture
async def platform(nats_server: NatsServer, bus: Connecting) -> Bus:
    """A broker with two teams that both have a harper; one of them is hosted by two workers."""
    owners = {thing.owner for thing in (*STREAMS, *BUCKETS)}
    for owner in owners:
        owned = [thing for thing in (*STREAMS, *BUCKETS) if thing.owner == owner]
        await declare(await bus(owner, url=nats_server.url), *owned)
    connection = await bus(CLI, url=nats_server.url)
    model = ModelDependency(provider="offline", model="offline", key="a-digest")
    for team, agent, needed in (("red", "harper", model), ("red", "research", None), ("blue", "harper", None)):
        definition = agent_definition(team, agent, version="1.2.0", model=needed)
        await kv.put(connection, AGENTS, definition, team=team, agent=agent)
    for worker in ("w1", "w2"):
        presence = WorkerPresence(worker=worker, slots=4, agents=("red.harper", "red.research"), at=utc_now())
        await kv.put(connection, WORKERS, presence, worker=worker)
    slow = AgentHealth(
        team="red", agent="harper", status="degraded", message="argos slow", workers=2, interval=15, at=utc_now()
    )
    await kv.put(connection, HEALTH, slow, team="red", agent="harper")
    return connection


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Returns the output since its last call."""
    return lambda: capsys.readouterr().out


async def test_the_list_of_agents_has_their_health_and_workers(platform: Bus, printed: Printed) -> None:
    await show_agents(platform, as_json=False)
    head, *rows = [line.split() for line in printed().splitlines()]
    assert head == ["agent", "version", "kind", "model", "workers", "health"]
    assert rows == [
        ["blue/harper", "1.2.0", "llm", "-", "0", "unknown"],
        ["red/harper", "1.2.0", "llm", "offline", "2", "degraded:", "argos", "slow"],
        ["red/research", "1.2.0", "llm", "-", "2", "unknown"],
    ]


async def test_the_list_of_agents_is_available_as_json(platform: Bus, printed: Printed) -> None:
    await show_agents(platform, as_json=True)
    rows: list[dict[str, Any]] = json.loads(printed())
    assert [(row["team"], row["agent"], row["status"], row["workers"]) for row in rows] == [
        ("blue", "harper", None, 0),
        ("red", "harper", "degraded", 2),
        ("red", "research", None, 2),
    ]


async def test_the_list_of_agents_may_be_empty(nats_server: NatsServer, bus: Connecting, printed: Printed) -> None:
    connection = await bus(CLI, url=nats_server.url)
    await show_agents(connection, as_json=False)
    assert printed() == "There are no agents yet.\n"
    await show_agents(connection, as_json=True)
    assert json.loads(printed()) == []


async def test_an_agent_is_shown_by_name_while_unique_and_otherwise_by_team_and_name(
    platform: Bus, printed: Printed
) -> None:
    await show_agent(platform, "research", as_json=False)
    assert printed().startswith("red/research: Research, version 1.2.0\n")
    with pytest.raises(Refused, match="several teams have an agent 'harper': blue/harper, red/harper"):
        await show_agent(platform, "harper", as_json=False)
    await show_agent(platform, "red/harper", as_json=False)
    assert "health: degraded: argos slow" in printed()
    with pytest.raises(Refused, match="there is no agent 'nobody'"):
        await show_agent(platform, "nobody", as_json=False)


async def test_control_characters_of_an_agent_do_not_reach_the_terminal(platform: Bus, printed: Printed) -> None:
    hostile = {"title": "a\x1b]0;b\x07", "description": "c\x00", "version": "9" * 900}
    definition = agent_definition("evil", "nul", **hostile)
    await kv.put(platform, AGENTS, definition, team="evil", agent="nul")
    await show_agent(platform, "evil/nul", as_json=False)
    await show_agents(platform, as_json=False)
    text = printed()
    assert r"a\x1b]0;b\x07" in text
    assert r"description: c\x00" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("evil/nul ")] == ["9" * 79 + "…"]
    assert not set("\x00\x07\x1b") & set(text)
    await show_agent(platform, "evil/nul", as_json=True)
    assert hostile.items() <= json.loads(printed()).items()


async def test_an_agent_as_json_has_its_definition_and_health(platform: Bus, printed: Printed) -> None:
    await show_agent(platform, "red/harper", as_json=True)
    document = json.loads(printed())
    assert (document["team"], document["tools"][0]["name"], document["health"]["status"]) == (
        "red",
        "harper",
        "degraded",
    )


async def test_a_team_without_workers_is_retired_with_its_queues(platform: Bus, printed: Printed) -> None:
    await ensure_consumer(platform, "blue", "harper", max_concurrency=None)
    waiting = turn_requested("blue")
    await submit(platform, waiting)
    await retire_team(platform, "blue", as_json=False)
    assert printed() == "Retired harper of blue; 1 waiting turns were cancelled.\n"
    turn = await read_turn(platform, waiting.turn_id)
    assert turn is not None
    assert (turn.state, turn.request) == ("cancelled", None)
    assert sorted(await kv.snapshot(platform, AGENTS)) == ["red.harper", "red.research"]
    with pytest.raises(Unavailable):
        await queue_state(platform, "blue", "harper")


async def test_retiring_a_hosted_or_unknown_team_is_refused(platform: Bus) -> None:
    with pytest.raises(Refused, match="a worker still hosts team 'red'"):
        await retire_team(platform, "red", as_json=False)
    with pytest.raises(Refused, match="there is no team 'green'"):
        await retire_team(platform, "green", as_json=True)
    with pytest.raises(Refused, match=r"is an agent, and only a whole team can be retired: .* retire blue`$"):
        await retire_team(platform, "blue/harper", as_json=False)
    assert len(await kv.snapshot(platform, AGENTS)) == 3


async def test_the_tail_has_the_events_of_the_given_team(platform: Bus, capsys: pytest.CaptureFixture[str]) -> None:
    tailing = asyncio.create_task(tail(platform, wanted=TurnFilter(team="red"), as_json=True))
    heard = ""
    async with asyncio.timeout(10):
        while not heard:
            for team in ("blue", "red"):
                claimed = Claimed(attempt=1, worker="w1", at=utc_now())
                await claim(platform, TurnRef.of(turn_requested(team)), claimed, after=0)
            await platform.client.flush()
            heard += capsys.readouterr().out
    tailing.cancel()
    with suppress(asyncio.CancelledError):
        await tailing
    first = json.loads(heard.splitlines()[0])
    assert (first["contract"], first["team"], first["claim"]["worker"]) == ("turn.claim", "red", "w1")
    assert '"team": "blue"' not in heard


async def test_the_tail_command_runs_until_ctrl_c(platform: Bus, nats_server: NatsServer) -> None:
    process = await asyncio.create_subprocess_exec(
        PALLAS, "turns", "tail", "--nats", nats_server.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    reading = asyncio.create_task(process.stdout.readline())
    async with asyncio.timeout(20):
        while not reading.done():
            claimed = Claimed(attempt=1, worker="w1", at=utc_now())
            await claim(platform, TurnRef.of(turn_requested("red")), claimed, after=0)
            await asyncio.wait({reading}, timeout=0.1)
    assert reading.result().decode().rstrip().endswith("attempt 1 by w1")
    process.send_signal(signal.SIGINT)
    assert await soon(process.wait()) == 130


async def test_an_unreachable_broker_is_reported_in_one_line_with_exit_code_3() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PALLAS_NATS_URL"}
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "agents", "list", "--nats", f"nats://127.0.0.1:{free_port()}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    )
    out, err = await soon(process.communicate(), 20)
    assert (process.returncode, out) == (3, b"")
    [line] = err.decode().splitlines()
    assert line.startswith("pallas: cannot connect to NATS at nats://127.0.0.1:")
    assert "pallas up" in line
