"""`pallas turns forget`, on a real log."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import TOOL, result, stored, text

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_cli.refused import Refused
from pallas_cli.turns.ending import forget, hash_of
from pallas_contracts.catalog import (
    DEAD_LETTER,
    DEAD_LETTERS,
    DEAD_ORIGINAL,
    GATEWAY,
    KEPT_REQUEST,
    TURN_LOG,
    TURN_OBJECTS,
    TURN_QUEUE,
)
from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, DeadLetter, DeadOriginal, TurnRequested
from pallas_turns.claims import TurnRef, claim, stored_outcome
from pallas_turns.content import OFFLOAD_ABOVE, objects_of
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter

KEY = LogKey("k" * 32)
MARK = "what was said in confidence "


@pytest.fixture
async def platform(nats_server: NatsServer, bus: Connecting) -> Bus:
    connection = await bus(GATEWAY, url=nats_server.url)
    await declare(connection, TURN_QUEUE, TURN_LOG, DEAD_LETTERS, TURN_OBJECTS)
    return connection


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Returns the output since its last call."""
    return lambda: capsys.readouterr().out


async def begun(platform: Bus, talk: str) -> tuple[TurnRequested, TurnWriter]:
    """A turn of that conversation which runs."""
    request = turn_requested("red", arguments={"message": MARK}).model_copy(
        update={"conversation": KEY.conversation(talk)}
    )
    claimed = Claimed(attempt=1, worker="w1", conversation=request.conversation, at=utc_now())
    fence = await claim(platform, TurnRef.of(request), claimed, after=0)
    return request, TurnWriter(platform, TurnRef.of(request), 1, fence, kept=request)


async def over(platform: Bus, talk: str) -> TurnWriter:
    """A turn of that conversation which has ended, with content of every kind."""
    request, writer = await begun(platform, talk)
    writer.emit(text(MARK))
    await writer.tool_starting(TOOL)
    writer.emit(await writer.offload(result(MARK * (OFFLOAD_ABOVE // 10))))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    await bury(platform, request)
    return writer


async def bury(platform: Bus, request: TurnRequested) -> None:
    """A dead letter of the turn, with its original."""
    team, agent, turn_id = request.team, request.agent, request.turn_id
    letter = DeadLetter(
        letter=turn_id,
        team=team,
        agent=agent,
        turn_id=turn_id,
        subject="s",
        code="worker_lost",
        reason="r",
        at=utc_now(),
    )
    original = DeadOriginal(letter=turn_id, team=team, agent=agent, data=MARK)
    ids = {"team": team, "agent": agent, "letter": turn_id}
    await platform.put(DEAD_LETTER.template.subject(**ids), letter.model_dump_json().encode())
    await platform.put(DEAD_ORIGINAL.template.subject(**ids), original.model_dump_json().encode())


async def held(platform: Bus, ref: TurnRef) -> set[str]:
    """The kinds of stored messages of the turn, in all streams."""
    kinds = {record.subject.split(".")[3] for record in await stored(platform, ref)}
    others = {
        TURN_LOG: ref.on(KEPT_REQUEST.template),
        TURN_OBJECTS: objects_of(ref),
        DEAD_LETTERS: f"pallas.v1.dead.*.*.*.{ref.turn_id}",
    }
    for stream, subject in others.items():
        kinds |= {".".join(record.subject.split(".")[2:4]) async for record in read(platform, stream.name, subject)}
    return kinds


EVENTS = {"claim", "event", "outcome", "dead.letter"}
CONTENT = {"content", "kept.request", "object.part", "dead.original"}


async def test_a_forgotten_turn_keeps_its_events_and_no_content(
    platform: Bus, nats_server: NatsServer, printed: Callable[[], str]
) -> None:
    mine, other = await over(platform, "a"), await over(platform, "a")
    outcome = await stored_outcome(platform, mine.ref)
    assert await held(platform, mine.ref) == EVENTS | CONTENT
    await forget(platform, turn_id=mine.ref.turn_id, conversation=None, as_json=True)
    [row] = json.loads(printed())["forgotten"]
    assert (row["turn"], row["dead_letter"]) == (mine.ref.turn_id, True)
    assert row["messages"] >= 3
    assert row["parts"] >= 2
    assert await held(platform, mine.ref) == EVENTS
    assert await held(platform, other.ref) == EVENTS | CONTENT
    assert await stored_outcome(platform, mine.ref) == outcome
    await forget(platform, turn_id=mine.ref.turn_id, conversation=None, as_json=False)
    assert printed() == f"Turn {mine.ref.turn_id} has no content.\n"


async def test_forgotten_content_is_not_on_the_disk_of_the_broker(platform: Bus, nats_server: NatsServer) -> None:
    writer = await over(platform, "a")
    await forget(platform, turn_id=writer.ref.turn_id, conversation=None, as_json=True)
    nats_server.stop()
    for stream in (TURN_LOG, TURN_OBJECTS):
        files = [path for path in nats_server.folder.rglob("*.blk") if stream.name in str(path)]
        assert not any(MARK.encode() in path.read_bytes() for path in files), stream.name


async def test_all_turns_of_a_conversation_are_forgotten_and_no_others(
    platform: Bus, printed: Callable[[], str]
) -> None:
    mine, foreign = [await over(platform, "a") for _ in range(3)], await over(platform, "b")
    await forget(platform, turn_id=None, conversation=KEY.conversation("a"), as_json=False)
    lines = printed().splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(each.ref.turn_id for each in mine)
    for each in mine:
        assert await held(platform, each.ref) == EVENTS
    assert await held(platform, foreign.ref) == EVENTS | CONTENT


async def test_a_running_turn_is_reported_and_kept_while_others_are_forgotten(
    platform: Bus, printed: Callable[[], str]
) -> None:
    ended = await over(platform, "a")
    running, _ = await begun(platform, "a")
    waiting = turn_requested("red").model_copy(update={"conversation": KEY.conversation("a")})
    await submit(platform, waiting)
    with pytest.raises(typer.Exit) as code:
        await forget(platform, turn_id=None, conversation=KEY.conversation("a"), as_json=False)
    assert code.value.exit_code == 1
    output = printed()
    assert f"Turn {ended.ref.turn_id} forgotten" in output
    for turn, state in ((running, "running"), (waiting, "waiting")):
        assert f"Turn {turn.turn_id} is {state}: cancel it first (pallas turns cancel {turn.turn_id})." in output


async def test_forgetting_an_unknown_turn_is_refused(platform: Bus) -> None:
    with pytest.raises(Refused, match="the log has no turn 'nothing'"):
        await forget(platform, turn_id="nothing", conversation=None, as_json=False)
    with pytest.raises(Refused, match="no turn of that conversation"):
        await forget(platform, turn_id=None, conversation=KEY.conversation("c"), as_json=False)


def test_a_conversation_id_is_hashed_with_the_key_of_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_LOG_KEY", "k" * 32)
    assert hash_of("a", tmp_path) == KEY.conversation("a")
    monkeypatch.delenv("PALLAS_LOG_KEY")
    with pytest.raises(Refused, match="PALLAS_LOG_KEY"):
        hash_of("a", tmp_path)
