"""`pallas deadletters list`, `show`, `retry` and `drop`, on real letters."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Connecting
from tests.integration.agent_worker.lab import Lab
from tests.waiting import soon

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_cli import deadletters
from pallas_cli.deadletters import delete_letter, retry_every_letter, retry_one_letter, show_letter, show_letters
from pallas_cli.refused import Refused
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS, TURN_CLAIM, TURN_LOG, TURN_REQUESTED
from pallas_contracts.errors import Unavailable
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, DeadLetter, TurnClaim, TurnOutcome
from pallas_turns import content
from pallas_turns.claims import TurnRef, claim
from pallas_turns.content import OFFLOAD_ABOVE, offload_request
from pallas_turns.dead_letters import forget_original
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import submit

PALLAS = str(Path(sys.executable).parent / "pallas")
BODY = b'{"arguments": "a secret"}'

type Printed = Callable[[], str]


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab with a worker."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        made = Lab(gateway, feeds, team, tmp_path / "team", stack)
        await made.worker()
        yield made


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Returns the output since its last call."""
    return lambda: capsys.readouterr().out


async def undecodable(lab: Lab, body: bytes = BODY) -> str:
    """Make a dead letter of an unreadable message. Returns its name."""
    ref = TurnRef(lab.team, "bench", new_turn_id())
    feed = lab.feeds.open(ref)
    subject = TURN_REQUESTED.template.subject(team=lab.team, agent="bench", caller="somebody", turn=ref.turn_id)
    await lab.bus.put(subject, body, {"Nats-Msg-Id": f"turn.requested:{ref.turn_id}"})
    [_, *_, outcome] = [message async for message in feed]
    assert isinstance(outcome, TurnOutcome)
    return ref.turn_id


async def used_up(lab: Lab, text: str) -> str:
    """Make a dead letter of a turn that lost its worker too often. Returns its name."""
    turn = lab.follow(lab.request("say", "sure", text=text))
    await claim(lab.bus, turn.ref, Claimed(attempt=3, worker="lost", at=utc_now()), after=0)
    await submit(lab.bus, await offload_request(lab.bus, turn.request))
    await turn.outcome()
    return turn.request.turn_id


async def listed(lab: Lab, printed: Printed, agent: str | None = None) -> list[dict[str, Any]]:
    """`pallas deadletters list --json` of the lab's team."""
    printed()
    await show_letters(lab.bus, team=lab.team, agent=agent, since="1h", as_json=True)
    return json.loads(printed())


async def test_the_list_has_the_turn_the_reason_and_whether_the_original_is_kept(lab: Lab, printed: Printed) -> None:
    first, second = await undecodable(lab), await undecodable(lab)
    await forget_original(lab.bus, first)
    rows = await listed(lab, printed)
    assert [(row["letter"], row["turn"], row["original"]) for row in rows] == [
        (first, first, False),
        (second, second, True),
    ]
    assert set(rows[0]) == {"letter", "team", "agent", "turn", "code", "reason", "attempts", "at", "original"}
    await show_letters(lab.bus, team=lab.team, agent=None, since="1h", as_json=False)
    head, *lines = printed().splitlines()
    assert head.split() == ["letter", "agent", "turn", "code", "when", "original", "reason"]
    assert "gone" in lines[0]
    assert "kept" in lines[1]
    assert "turn_id: Field required" in lines[1]
    assert await listed(lab, printed, agent="sure") == []
    await show_letters(lab.bus, team=lab.team, agent="sure", since="1h", as_json=False)
    assert printed() == "No dead letters in the last hour.\n"


async def test_a_dead_letter_is_shown_without_its_content_unless_asked_for(lab: Lab, printed: Printed) -> None:
    name = await undecodable(lab)
    for as_json in (True, False):
        await show_letter(lab.bus, name, content=False, as_json=as_json)
        assert "a secret" not in printed()
    await show_letter(lab.bus, name, content=True, as_json=True)
    original = json.loads(printed())["original"]
    assert original == {
        "bytes": len(BODY),
        "headers": {"Nats-Msg-Id": f"turn.requested:{name}"},
        "body": BODY.decode(),
    }
    await show_letter(lab.bus, name, content=True, as_json=False)
    assert f"  body: {BODY.decode()}\n" in printed()


async def test_a_body_that_is_not_text_is_shown_in_base64(lab: Lab, printed: Printed) -> None:
    name = await undecodable(lab, b"\xff\xfe")
    await show_letter(lab.bus, name, content=True, as_json=True)
    assert json.loads(printed())["original"]["base64"] == "//4="


async def test_a_readable_dead_letter_is_retried_as_a_new_turn_and_removed(lab: Lab, printed: Printed) -> None:
    name = await used_up(lab, "once more")
    await retry_one_letter(lab.bus, name, as_json=True)
    answer = json.loads(printed())
    assert answer["letter"] == name
    assert answer["turn"] != name
    feed = await lab.feeds.resume(TurnRef(lab.team, "sure", answer["turn"]))
    *_, result, outcome = [each async for each in feed]
    assert isinstance(outcome, TurnOutcome)
    assert outcome.status == "completed"
    assert "once more (attempt 1)" in result.model_dump_json()
    assert await listed(lab, printed) == []
    subject = TURN_CLAIM.template.subject(team=lab.team, agent="sure", turn=answer["turn"])
    [record] = [record async for record in read(lab.bus, TURN_LOG.name, subject)]
    claimed = TurnClaim.model_validate_json(record.data).claim
    assert isinstance(claimed, Claimed)
    assert claimed.replay_of == name


async def test_repeating_a_retry_that_died_before_removing_the_dead_letter_makes_no_second_turn(
    lab: Lab, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(_bus: Bus, _letter: DeadLetter) -> None:
        raise Unavailable("the connection was lost")

    name = await used_up(lab, "once")
    with monkeypatch.context() as patched:
        patched.setattr(deadletters, "drop_letter", dies)
        with pytest.raises(Refused, match="was submitted, but the letter could not be removed") as refused:
            await retry_one_letter(lab.bus, name, as_json=True)
    [turn] = re.findall(r"turn ([0-9a-f]{32})", str(refused.value))
    printed()
    await retry_one_letter(lab.bus, name, as_json=True)
    assert json.loads(printed()) == {"letter": name, "turn": turn}
    feed = await lab.feeds.resume(TurnRef(lab.team, "sure", turn))
    assert sum([isinstance(each, TurnOutcome) async for each in feed]) == 1
    subject = TURN_CLAIM.template.subject(team=lab.team, agent="sure", turn=turn)
    assert len([record async for record in read(lab.bus, TURN_LOG.name, subject)]) == 1


async def test_a_dead_letter_with_offloaded_arguments_is_retried_while_they_are_kept(
    lab: Lab, printed: Printed
) -> None:
    text = "x" * OFFLOAD_ABOVE
    name, late = await used_up(lab, text), await used_up(lab, text)
    await retry_one_letter(lab.bus, name, as_json=True)
    feed = await lab.feeds.resume(TurnRef(lab.team, "sure", json.loads(printed())["turn"]))
    *_, outcome = [each async for each in feed]
    assert isinstance(outcome, TurnOutcome)
    assert outcome.status == "completed"
    await content.drop(lab.bus, TurnRef(lab.team, "sure", late))
    with pytest.raises(Refused, match=f"{late}: content_expired"):
        await retry_one_letter(lab.bus, late, as_json=False)


async def test_retrying_a_dead_letter_that_is_still_unreadable_is_refused_with_its_faults(
    lab: Lab, printed: Printed
) -> None:
    name = await undecodable(lab)
    with pytest.raises(Refused, match="undecodable: turn_id: Field required") as refused:
        await retry_one_letter(lab.bus, name, as_json=False)
    assert refused.value.code == 1
    assert "a secret" not in str(refused.value)
    assert [row["letter"] for row in await listed(lab, printed)] == [name]


async def test_retrying_a_dead_letter_with_an_expired_original_is_refused(lab: Lab) -> None:
    name = await used_up(lab, "gone")
    await forget_original(lab.bus, name)
    with pytest.raises(Refused, match=f"{name}: content_expired"):
        await retry_one_letter(lab.bus, name, as_json=False)


async def test_retrying_all_dead_letters_reports_the_refused_ones(lab: Lab, printed: Printed) -> None:
    good, bad = await used_up(lab, "one"), await undecodable(lab)
    printed()
    with pytest.raises(Refused, match=f"{bad}: undecodable") as refused:
        await retry_every_letter(lab.bus, team=lab.team, agent=None, since="1h", as_json=True)
    assert refused.value.code == 1
    first, second = json.loads(printed())
    assert (first["letter"], first["refused"], second["letter"], second["turn"]) == (good, None, bad, None)
    assert [row["letter"] for row in await listed(lab, printed)] == [bad]
    await retry_every_letter(lab.bus, team=lab.team, agent="sure", since="1h", as_json=False)
    assert printed() == "No dead letters in the last hour.\n"


async def test_deleting_a_dead_letter_removes_it_and_an_unknown_one_is_refused(lab: Lab, printed: Printed) -> None:
    name, stays = await undecodable(lab), await undecodable(lab)
    await delete_letter(lab.bus, name, as_json=False)
    assert printed() == f"Deleted {name}.\n"
    assert [row["letter"] for row in await listed(lab, printed)] == [stays]
    for wrong, reason in ((name, "there is no dead letter"), (">", "letter '>' must be")):
        with pytest.raises(Refused, match=reason):
            await delete_letter(lab.bus, wrong, as_json=True)


async def pallas(*words: str) -> tuple[int | None, str, str]:
    """Run the command as a process. Returns exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(PALLAS, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await soon(process.communicate(), 20)
    return process.returncode, out.decode(), err.decode()


async def test_the_command_exits_with_0_when_done_and_1_when_refused(lab: Lab) -> None:
    name = await undecodable(lab)
    broker = ("--nats", lab.bus_url)
    assert (await pallas("deadletters", "list", "--team", lab.team, *broker))[0] == 0
    code, out, err = await pallas("deadletters", "retry", name, *broker)
    assert (code, out) == (1, "")
    assert err.startswith(f"pallas: {name}: undecodable: turn_id: Field required")
    assert (await pallas("deadletters", "retry", *broker))[0] == 2
    code, out, err = await pallas("deadletters", "delete", name, "--yes", "--json", *broker)
    assert (code, json.loads(out), err) == (0, {"letter": name, "deleted": True}, "")
