"""`pallas events tail` and `replay`, on real streams."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import attempt_of, step
from tests.waiting import PATIENCE, Collected, soon

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_cli.commands.events import document_of, line_of
from pallas_cli.commands.events import follow as tail
from pallas_cli.commands.events import publish as replay
from pallas_cli.refused import Refused
from pallas_contracts.catalog import DEAD_LETTERS, GATEWAY, TURN_LOG, TURN_QUEUE
from pallas_contracts.message import utc_now
from pallas_turns.history.replays import Recorded
from pallas_turns.history.tail import tail_streams
from pallas_turns.queue import submit

PALLAS = str(Path(sys.executable).parent / "pallas")


@pytest.fixture
async def platform(nats_server: NatsServer, bus: Connecting) -> Bus:
    connection = await bus(GATEWAY, url=nats_server.url)
    await declare(connection, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)
    return connection


async def a_turn(platform: Bus, team: str = "red", *, pause: float = 0.0) -> str:
    """A turn that was queued, claimed and ended: four messages."""
    request = turn_requested(team)
    await submit(platform, request)
    writer = await attempt_of(platform, request)
    await asyncio.sleep(pause)
    writer.emit(step(1))
    await writer.conclude(turn_outcome(request, events=1))
    return request.turn_id


async def publish(
    platform: Bus,
    *,
    since: str = "1h",
    until: str | None = None,
    subject: str = ">",
    fast: bool = True,
    to: str | None = None,
    dry_run: bool = False,
) -> None:
    """`pallas events replay`."""
    await replay(platform, since=since, until=until, subject=subject, fast=fast, to=to, dry_run=dry_run)


async def subscribed(platform: Bus, subject: str) -> Collected[Msg]:
    received = Collected[Msg]()

    async def on_message(message: Msg) -> None:
        received.add(message)

    await platform.subscribe(subject, on_message)
    await platform.client.flush()
    return received


async def taken(queue: asyncio.Queue[Recorded], count: int) -> list[Recorded]:
    return [await soon(queue.get()) for _ in range(count)]


def names(messages: list[Recorded]) -> set[str]:
    return {f"{it.stream} {it.record.subject.split('.')[3]}" for it in messages}


WHOLE = {"TURN_QUEUE requested", "TURN_LOG claim", "TURN_LOG event", "TURN_LOG outcome"}


async def test_the_tail_has_the_messages_of_all_streams_once(platform: Bus) -> None:
    async with tail_streams(platform, "pallas.v1.>") as messages:
        await a_turn(platform)
        first = await taken(messages, 4)
        await platform.put("pallas.v1.dead.letter.red.harper.l1", b"{}")
        [letter] = await taken(messages, 1)
        assert names(first) == WHOLE
        assert (letter.stream, letter.record.data) == ("DEAD_LETTERS", b"{}")
        assert messages.empty()


async def test_the_tail_can_start_in_the_past_and_goes_on_without_a_gap(platform: Bus) -> None:
    turns = [await a_turn(platform) for _ in range(3)]
    async with tail_streams(
        platform, "pallas.v1.turn.outcome.red.>", since=utc_now() - timedelta(minutes=1)
    ) as messages:
        turns.append(await a_turn(platform))
        await a_turn(platform, "blue")
        found = await taken(messages, 4)
        assert [it.record.subject.rpartition(".")[2] for it in found] == turns
        assert messages.empty()


async def test_the_tail_reads_the_messages_it_missed_while_the_broker_was_away(
    platform: Bus, nats_server: NatsServer, bus: Connecting
) -> None:
    watcher = await bus("cli", url=nats_server.url)
    async with tail_streams(watcher, "pallas.v1.turn.claim.>") as messages:
        before = await a_turn(platform)
        await taken(messages, 1)
        nats_server.restart(kill=True)
        other = await bus(GATEWAY, url=nats_server.url)
        after = [await a_turn(other) for _ in range(3)]
        found = await taken(messages, 3)
        assert [it.record.subject.rpartition(".")[2] for it in found] == after
        assert before not in after


async def test_a_message_is_a_line_without_its_body_or_a_json_document_with_it(platform: Bus) -> None:
    async with tail_streams(platform, "pallas.v1.turn.requested.>") as messages:
        turn = await a_turn(platform)
        [message] = await taken(messages, 1)
    line = line_of(message).split()
    assert line[1:3] == ["TURN_QUEUE", "1"]
    assert "hello" not in line_of(message)
    document = document_of(message)
    assert (document["stream"], document["position"]) == ("TURN_QUEUE", 1)
    assert isinstance(document["body"], dict)
    assert document["body"]["turn_id"] == turn


async def test_the_tail_command_prints_stored_messages(platform: Bus, capsys: pytest.CaptureFixture[str]) -> None:
    turn = await a_turn(platform)
    tailing = asyncio.create_task(tail(platform, subject="turn.outcome.>", since="1m", as_json=True))
    output = ""
    async with asyncio.timeout(10):
        while not output:
            await asyncio.sleep(0.01)
            output = capsys.readouterr().out
    tailing.cancel()
    with suppress(asyncio.CancelledError):
        await tailing
    [line] = output.splitlines()
    assert json.loads(line)["body"]["turn_id"] == turn


@pytest.mark.parametrize(("subject", "reason"), [("turn..x", "is empty"), ("nothing.>", "no stream has")])
async def test_a_filter_that_matches_nothing_is_refused(platform: Bus, subject: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        await tail(platform, subject=subject, since=None, as_json=False)
    with pytest.raises(Refused, match=reason):
        await publish(platform, subject=subject)


async def test_recorded_messages_are_published_at_their_original_intervals(platform: Bus) -> None:
    for pause in (0.15, 0.3):
        await a_turn(platform, pause=pause)
    received = Collected[tuple[float, datetime]]()

    async def on_message(message: Msg) -> None:
        recorded_at = datetime.fromisoformat((message.headers or {})["Pallas-Time"])
        received.add((asyncio.get_running_loop().time(), recorded_at))

    await platform.subscribe("pallas.v1.replayed.>", on_message)
    await platform.client.flush()
    began = asyncio.get_running_loop().time()
    await publish(platform, fast=False)
    messages = await received.count(8)
    _, first = messages[0]
    assert [then for _, then in messages] == sorted(then for _, then in messages)
    assert (messages[-1][1] - first).total_seconds() > 0.4
    for now, then in messages:
        assert -0.05 <= (now - began) - (then - first).total_seconds() < PATIENCE


async def test_a_replayed_message_has_its_body_and_original_subject_and_is_not_stored(platform: Bus) -> None:
    turn = await a_turn(platform)
    received = await subscribed(platform, "pallas.v1.replayed.>")
    before = await platform.api(f"STREAM.INFO.{TURN_LOG.name}", {})
    await publish(platform, subject="turn.outcome.>")
    [message] = await received.count(1)
    [record] = [it async for it in read(platform, TURN_LOG.name, "pallas.v1.turn.outcome.>")]
    headers = message.headers or {}
    assert message.subject == f"pallas.v1.replayed.turn.outcome.red.harper.{turn}"
    assert message.data == record.data
    assert (headers["Pallas-Stream"], headers["Pallas-Subject"]) == (TURN_LOG.name, record.subject)
    assert (headers["Pallas-Position"], headers["Pallas-Time"]) == (str(record.seq), record.time.isoformat())
    after = await platform.api(f"STREAM.INFO.{TURN_LOG.name}", {})
    assert after["state"]["messages"] == before["state"]["messages"]


async def test_messages_outside_the_time_span_are_not_published(
    platform: Bus, capsys: pytest.CaptureFixture[str]
) -> None:
    await a_turn(platform)
    middle = utc_now()
    inside = await a_turn(platform)
    end = utc_now()
    await a_turn(platform)
    received = await subscribed(platform, "copy")
    narrowed = partial(publish, platform, since=middle.isoformat(), until=end.isoformat(), subject="turn.claim.>")
    await narrowed(dry_run=True)
    assert capsys.readouterr().err.startswith("done: 1 messages counted, at TURN_LOG 4")
    await narrowed(to="copy")
    [message] = await received.count(1)
    assert inside in (message.headers or {})["Pallas-Subject"]
    assert capsys.readouterr().err.startswith("done: 1 messages published")
    with pytest.raises(Refused, match="is before --since"):
        await publish(platform, since="1m", until="2m")


async def test_a_target_subject_that_a_stream_would_store_is_refused(platform: Bus) -> None:
    await platform.api("STREAM.CREATE.FOREIGN", {"name": "FOREIGN", "subjects": ["foreign.*"], "storage": "memory"})
    for target, reason in (
        ("foreign.>", "the stream FOREIGN"),
        ("pallas.v1.turn.claim.red.harper.t1", "as if it had happened"),
        ("$SYS.x", "reserved for the broker"),
    ):
        with pytest.raises(Refused, match=reason):
            await publish(platform, to=target)


async def test_a_replay_ends_cleanly_on_ctrl_c(platform: Bus, nats_server: NatsServer) -> None:
    await a_turn(platform, pause=1.0)
    received = await subscribed(platform, "pallas.v1.replayed.>")
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "events", "replay", "--since", "1h", "--nats", nats_server.url), stderr=subprocess.PIPE
    )
    await received.count(2)
    process.send_signal(signal.SIGINT)
    _, err = await soon(process.communicate())
    assert process.returncode == 130
    assert err.decode().splitlines() == ["stopped: 2 messages published, at TURN_LOG 1"]
