"""`pallas turns replay`, `cancel` and `forget` of many turns, on a real log with a real worker."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.integration.real_parts import a_lab, a_worker, until
from tests.waiting import soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.reads import read_last
from pallas_bus.streams import declare
from pallas_cli.deadletters import retry_one_letter
from pallas_cli.refused import Refused
from pallas_cli.turns.ending import cancel_many, forget_many
from pallas_cli.turns.listing import Selection, check_model, selection_of, show_turns
from pallas_cli.turns.replay import replay_turn
from pallas_cli.turns.replays import Wish, replay_many
from pallas_contracts.agents import Allow
from pallas_contracts.catalog import (
    AGENTS,
    BUCKETS,
    DEAD_LETTERS,
    DEAD_ORIGINAL,
    GATEWAY,
    KEPT_REQUEST,
    STREAMS,
    TURN_LOG,
    TURN_OUTCOME,
)
from pallas_contracts.ids import new_turn_id, replay_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Principal, TurnRequested
from pallas_turns import replays as engine
from pallas_turns.claims import TurnRef, claim
from pallas_turns.content import offload_request
from pallas_turns.expiry import remove_content
from pallas_turns.history.replays import find_replays
from pallas_turns.history.turn_list import TurnFilter, find_turns
from pallas_turns.history.turns import TurnHistory
from pallas_turns.queue import submit

ANN = Principal(type="user", id="ann")
LARGE = "long " * 100_000
KEEP = "keep: {failed: 1h}"
PALLAS = str(Path(sys.executable).parent / "pallas")


@dataclass
class Stage:
    """A broker and a worker of a lab, and what the commands print."""

    bus: Bus
    team: str
    data: Path
    capsys: pytest.CaptureFixture[str]

    async def turns(self, count: int, tool: str = "give_up", agent: str = "bench", **given: Any) -> list[TurnRequested]:
        """Execute turns of Ann to their ends."""
        made = [self.request(tool, agent, **given) for _ in range(count)]
        for each in made:
            await submit(self.bus, await offload_request(self.bus, each))
        await self.ended(made)
        return made

    def request(self, tool: str, agent: str = "bench", **given: Any) -> TurnRequested:
        """A turn of Ann that is not submitted."""
        return turn_requested(self.team, agent, tool=tool, arguments=given).model_copy(update={"principal": ANN})

    async def ended(self, turns: list[TurnRequested]) -> None:
        """Wait for the outcomes of turns."""

        async def over() -> bool:
            subjects = [TurnRef.of(each).on(TURN_OUTCOME.template) for each in turns]
            return len(await read_last(self.bus, TURN_LOG.name, *subjects)) == len(turns)

        await until(over)

    def filter(self, **options: str) -> Selection:
        """The selection of these options, and of the stage's team."""
        return selection_of((), {"team": self.team, **options}, data=self.data)

    def wish(self, *, rate: float = 500, yes: bool = True, detach: bool = False) -> Wish:
        """The options of `pallas turns replay --json`."""
        return Wish(rate, None, detach=detach, confirmed=yes, as_json=True)

    async def replay(self, selection: Selection | None = None, **wish: Any) -> dict[str, Any]:
        """Run `pallas turns replay --json`. Returns its document."""
        self.capsys.readouterr()
        with suppress(typer.Exit):
            await soon(replay_many(self.bus, selection or self.filter(), self.wish(**wish)), 30)
        return json.loads(self.capsys.readouterr().out)

    async def refused(self, selection: Selection, **wish: Any) -> tuple[str, str]:
        """Run the same, which is refused. Returns the error and the preview."""
        with pytest.raises(Refused) as refusal:
            await soon(replay_many(self.bus, selection, self.wish(**wish)))
        return str(refusal.value), self.capsys.readouterr().err

    async def replays(self, turns: list[TurnRequested]) -> dict[str, TurnHistory]:
        """The first replays of turns, by the id of the turn."""
        return await find_replays(self.bus, [TurnHistory(it.team, it.agent, it.turn_id) for it in turns])

    async def all_turns(self) -> list[TurnHistory]:
        """All turns of the team."""
        return await find_turns(self.bus, TurnFilter(self.team), limit=1000)


@pytest.fixture
async def stage(
    bus: Connecting, nats_url: str, team: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncGenerator[Stage]:
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    folder = a_lab(tmp_path / "lab", team, lambda text: text.replace("version: 1.0.0", KEEP))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(a_worker(nats_url, folder))
        yield Stage(gateway, team, tmp_path, capsys)


def named(turns: list[TurnRequested]) -> Selection:
    """These turns by their ids."""
    return Selection(tuple(each.turn_id for each in turns))


async def test_two_commands_at_a_time_execute_each_turn_again_once_in_the_name_of_its_caller(stage: Stage) -> None:
    old = await stage.turns(6, "say")
    await asyncio.gather(*(replay_many(stage.bus, named(old), stage.wish(rate=40)) for _ in range(2)))
    news = await stage.replays(old)
    assert {name: turn.turn_id for name, turn in news.items()} == {it.turn_id: replay_id(it.turn_id) for it in old}
    facts = {(turn.state, turn.caller, turn.operator, max(turn.attempts)) for turn in news.values()}
    assert facts == {("completed", "user:ann", "peer:pallas-cli", 1)}
    assert len(await stage.all_turns()) == 12
    again = await stage.replay(named(old))
    assert (again["chosen"], again["left_out"], again["replays"]) == (0, {"replayed": 6}, [])


async def test_an_interrupted_command_goes_on_when_it_is_run_again(stage: Stage) -> None:
    old = await stage.turns(6, "say")
    first = asyncio.create_task(replay_many(stage.bus, named(old), stage.wish(rate=20)))

    async def some() -> bool:
        return len(await stage.replays(old)) >= 2

    await until(some)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert "stopped: " in stage.capsys.readouterr().err
    began = len(await stage.replays(old))
    document = await stage.replay(named(old))
    assert began < 6
    assert len(document["replays"]) == 6 - began
    assert len(await stage.all_turns()) == 12


async def test_a_turn_that_was_replayed_is_marked_and_only_its_failed_replay_is_found_again(stage: Stage) -> None:
    [old] = await stage.turns(1)
    await stage.replay()
    failed = TurnFilter(stage.team, state="failed")
    stage.capsys.readouterr()
    await show_turns(stage.bus, wanted=failed, limit=5, as_json=True)
    first, second = json.loads(stage.capsys.readouterr().out)
    assert first["replay"] == {"turn": second["turn"], "state": "failed"}
    assert (second["replay_of"], second["operator"], second["replay"]) == (old.turn_id, "peer:pallas-cli", None)
    await show_turns(stage.bus, wanted=failed, limit=5, as_json=False)
    assert f"{second['turn']} failed" in stage.capsys.readouterr().out
    document = await stage.replay()
    assert document["left_out"] == {"replayed": 1}
    assert [each["turn"] for each in document["replays"]] == [second["turn"]]
    with pytest.raises(typer.Exit):
        await replay_turn(stage.bus, old.turn_id, agent=None, model=None, compare=False, confirmed=True, as_json=True)
    assert len(await stage.all_turns()) == 4


async def test_the_preview_counts_effects_and_says_why_turns_are_left_out(stage: Stage, tmp_path: Path) -> None:
    (go := tmp_path / "go").touch()
    [effect] = await stage.turns(1, "effect", file=str(go))
    [safe] = await stage.turns(1, "effect", "sure", file=str(go))
    [gone] = await stage.turns(1, "say")
    await remove_content(stage.bus, TurnRef.of(gone))
    child = stage.request("say").model_copy(update={"parent": new_turn_id()})
    await submit(stage.bus, child)
    running = stage.request("wait", file=str(tmp_path / "never"))
    await submit(stage.bus, running)
    [closed] = await stage.turns(1, "say", "once")
    await stage.ended([child])
    definition = agent_definition(stage.team, "once", kind="function").model_copy(update={"allow": Allow()})
    await kv.put(stage.bus, AGENTS, definition, team=stage.team, agent="once")
    error, preview = await stage.refused(named([effect, safe, gone, child, running, closed]), yes=False)
    assert error == "to confirm that these turns are executed again, pass --yes: it cannot be undone"
    assert preview.splitlines()[0].startswith("2 turns to execute again")
    assert "  for: user:ann 2" in preview
    assert "  1 called tools that are not marked as safe" in preview
    left = [line.rpartition(": ") for line in preview.splitlines() if line.startswith("  left out")]
    assert {reason.removeprefix("  left out, "): count for reason, _, count in left} == {
        "their request has expired": "1",
        "made by another turn, whose replay makes it again": "1",
        "not ended yet": "1",
        "their caller may no longer use the agent": "1",
    }
    assert await stage.replays([effect, safe, gone, child, running, closed]) == {}


async def test_replays_wait_while_the_queue_of_their_agent_is_full(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_BUSY", 0.02)
    old = await stage.turns(3, "say")
    alone = agent_definition(stage.team, "bench", kind="function")
    limits = alone.limits.model_copy(update={"max_queued": 4})
    definition = (await kv.get(stage.bus, AGENTS, team=stage.team, agent="bench")) or alone
    changed = definition.model_copy(update={"limits": limits})
    await kv.put(stage.bus, AGENTS, changed, team=stage.team, agent="bench")
    waited = list[int]()
    states = iter((9, 1))

    async def state(*_of: object) -> Any:
        waited.append(next(states, 0))
        return type("State", (), {"waiting": waited[-1]})

    monkeypatch.setattr(engine, "queue_state", state)
    document = await stage.replay(named(old))
    assert [each["state"] for each in document["replays"]] == ["completed"] * 3
    assert waited == [9, 1, 0, 0, 0]


async def test_what_failed_turns_were_asked_is_kept_as_long_as_their_agent_says(stage: Stage) -> None:
    failed, completed = [*await stage.turns(1), *await stage.turns(1, text=LARGE)], await stage.turns(1, "say")
    for turns, kept in ((failed, "3600s"), (completed, "900s")):
        for each in turns:
            [record] = await read_last(stage.bus, TURN_LOG.name, TurnRef.of(each).on(KEPT_REQUEST.template))
            assert await ttl_of(stage.bus, TURN_LOG.name, record.seq) == kept
    document = await stage.replay(named(failed))
    assert (document["left_out"], document["refused"]) == ({}, {})
    assert {each["code"] for each in document["replays"]} == {"internal"}


async def ttl_of(bus: Bus, stream: str, position: int) -> str | None:
    """For how long the broker keeps a message."""
    found = await bus.request(f"$JS.API.DIRECT.GET.{stream}", json.dumps({"seq": position}).encode())
    return (found.headers or {}).get("Nats-TTL")


async def test_the_command_previews_and_does_nothing_without_a_terminal(stage: Stage, nats_url: str) -> None:
    failed = await stage.turns(2)
    command = (PALLAS, "turns", "replay", "--team", stage.team, "--nats", nats_url)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await soon(process.communicate(), 20)
    assert (process.returncode, out) == (2, b"")
    assert err.decode().startswith("2 turns to execute again")
    assert err.decode().endswith("pass --yes: it cannot be undone\n")
    assert await stage.replays(failed) == {}


async def test_a_dead_letter_is_kept_as_a_failed_turn_and_not_retried_beside_its_replay(stage: Stage) -> None:
    letters = [stage.request("say", "sure"), stage.request("say", "sure")]
    for each in letters:
        await claim(stage.bus, TurnRef.of(each), Claimed(attempt=3, worker="lost", at=utc_now()), after=0)
        await submit(stage.bus, each)
    await stage.ended(letters)
    first, second = letters
    original = DEAD_ORIGINAL.template.filter(letter=first.turn_id)
    [record] = await read_last(stage.bus, DEAD_LETTERS.name, original)
    assert await ttl_of(stage.bus, DEAD_LETTERS.name, record.seq) == "3600s"
    await retry_one_letter(stage.bus, first.turn_id, as_json=True)
    await stage.replay(named([second]))
    await retry_one_letter(stage.bus, second.turn_id, as_json=True)
    assert {turn.turn_id for turn in await stage.all_turns()} == {
        name for each in letters for name in (each.turn_id, replay_id(each.turn_id))
    }


async def test_turns_that_wait_and_run_are_cancelled_by_a_filter(stage: Stage, tmp_path: Path) -> None:
    turns = [stage.request("wait", "once", file=str(tmp_path / "never")) for _ in range(3)]
    for each in turns:
        await submit(stage.bus, each)

    async def runs() -> bool:
        return "running" in {turn.state for turn in await stage.all_turns()}

    await until(runs)
    other = await stage.turns(1, "say")
    with pytest.raises(Refused, match="pass --yes"):
        await cancel_many(stage.bus, stage.filter(agent="once"), confirmed=False, as_json=True)
    preview = f"3 turns to cancel (waiting 2, running 1)\n  of: {stage.team}/once 3\n  for: user:ann 3\n"
    assert preview == stage.capsys.readouterr().err
    for selection in (stage.filter(), named([*turns, *other])):
        with pytest.raises(typer.Exit):
            await forget_many(stage.bus, selection, confirmed=True, as_json=True)
        document = json.loads(stage.capsys.readouterr().out)
        assert set(document["under_way"]) == {each.turn_id for each in turns}
        assert [each["turn"] for each in document["forgotten"]] == [other[0].turn_id]
    with pytest.raises(Refused, match="pass --yes"):
        await cancel_many(stage.bus, named([*turns, *other]), confirmed=False, as_json=True)
    assert "  left out, ended already: 1\n" in stage.capsys.readouterr().err
    await cancel_many(stage.bus, stage.filter(agent="once"), confirmed=True, as_json=True)
    rows = json.loads(stage.capsys.readouterr().out)["cancelled"]
    assert {(each["turn"], each["ended"]) for each in rows} == {(it.turn_id, "cancelled") for it in turns}
    await cancel_many(stage.bus, stage.filter(), confirmed=False, as_json=False)
    assert stage.capsys.readouterr().out == "0 turns cancelled: nothing to do.\n"
    with pytest.raises(Refused, match="--state completed does not fit"):
        await cancel_many(stage.bus, stage.filter(state="completed"), confirmed=True, as_json=False)
    assert {turn.state for turn in await stage.all_turns() if turn.turn_id == other[0].turn_id} == {"completed"}


async def test_ended_turns_are_forgotten_by_a_filter(stage: Stage) -> None:
    [kept], failed = await stage.turns(1, "say"), await stage.turns(2)
    with pytest.raises(Refused, match="pass --yes"):
        await forget_many(stage.bus, stage.filter(state="failed"), confirmed=False, as_json=False)
    for had in (2, 0):
        await forget_many(stage.bus, stage.filter(state="failed"), confirmed=True, as_json=False)
        assert stage.capsys.readouterr().out == f"2 turns forgotten; {had} had content.\n"
    assert (await stage.replay(named(failed)))["left_out"] == {"content_expired": 2}
    assert (await stage.replay(named([kept])))["replays"][0]["state"] == "completed"
    with pytest.raises(Refused, match="the log has no turn 'unknown'"):
        await forget_many(stage.bus, Selection(("unknown",)), confirmed=True, as_json=False)


@pytest.mark.parametrize("model", ["", "gpt 5", "gpt-5", "openai.", "acme.x"])
def test_a_replay_with_what_is_no_model_is_refused_before_it_begins(model: str) -> None:
    with pytest.raises(Refused, match=r"is not 'offline' or PROVIDER\.NAME of a provider: openai, anthropic, generic"):
        check_model(model)
    check_model("openai.gpt-5")


@pytest.mark.parametrize(
    ("ids", "options", "reason"),
    [
        ((), {}, "name turns, or pass a filter"),
        (("t1",), {"agent": "bench"}, "not --agent as well"),
        ((), {"state": "lost"}, "--state 'lost' is not one of"),
        ((), {"caller": "", "since": "", "state": "failed"}, "--caller is empty; --since is empty"),
        ((), {"since": "tomorrow"}, "--since 'tomorrow' is neither a time span"),
    ],
)
def test_a_selection_is_by_ids_or_by_a_filter(
    ids: tuple[str, ...], options: dict[str, str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=reason):
        selection_of(ids, options, data=tmp_path)
