"""`pallas turns replay`: real turns of real workers, executed again."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.integration.bus.turns import attempt_of
from tests.integration.real_parts import a_lab, a_worker, until
from tests.waiting import soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_cli.refused import Refused
from pallas_cli.turns.replay import Unconfirmed, replay_turn
from pallas_contracts.catalog import AGENTS, BUCKETS, GATEWAY, KEPT_REQUEST, STREAMS, TURN_LOG
from pallas_contracts.turns import TurnOutcome, TurnRequested
from pallas_turns.claims import TurnRef, stored_outcome
from pallas_turns.content import drop, offload_request
from pallas_turns.feeds import follow_turns
from pallas_turns.history.turns import TurnHistory, read_turn
from pallas_turns.queue import submit

PALLAS = str(Path(sys.executable).parent / "pallas")
AGENTS_FILE = """
name: {team}
agents:
  harper: {{model: offline}}
  research: {{model: offline}}
  broken: {{model: generic.gone}}
"""
CONFIG = "generic:\n  base_url: http://127.0.0.1:9/v1\n"


@dataclass
class Stage:
    """A broker, a team of models and a team of functions with a worker, and what the command has printed."""

    bus: Bus
    url: str
    team: str
    lab: str
    capsys: pytest.CaptureFixture[str]

    async def turn(self, agent: str = "harper", tool: str | None = None, **arguments: Any) -> TurnRequested:
        """Execute a turn to its end."""
        team = self.team if agent in ("harper", "research", "broken") else self.lab
        request = turn_requested(team, agent, tool=tool, arguments=arguments)
        async with follow_turns(self.bus) as feeds:
            await self.bus.flush()
            feed = feeds.open(TurnRef.of(request))
            await submit(self.bus, request)
            async with asyncio.timeout(20):
                async for message in feed:
                    if isinstance(message, TurnOutcome):
                        break
        return request

    async def keep(self, request: TurnRequested) -> None:
        """Store the kept request of a turn."""
        await self.bus.put(TurnRef.of(request).on(KEPT_REQUEST.template), request.model_dump_json().encode())

    async def replay(
        self,
        turn: TurnRequested,
        *,
        agent: str | None = None,
        model: str | None = None,
        compare: bool = False,
        confirmed: bool = False,
        as_json: bool = False,
    ) -> str:
        """Run `pallas turns replay`. Returns its output."""
        again = replay_turn(
            self.bus,
            turn.turn_id,
            agent=agent,
            model=model,
            compare=compare,
            confirmed=confirmed,
            as_json=as_json,
        )
        await soon(again, 20)
        return self.capsys.readouterr().out

    async def replays(self, turn: TurnRequested) -> list[TurnHistory]:
        """The replays of a turn in the log."""
        subject = f"pallas.v1.turn.claim.{turn.team}.*.*"
        names = [it.subject.rpartition(".")[2] async for it in read(self.bus, TURN_LOG.name, subject)]
        found = [await read_turn(self.bus, name) for name in dict.fromkeys(names)]
        return [it for it in found if it is not None and it.replay_of == turn.turn_id]


@pytest.fixture
async def stage(
    bus: Connecting, nats_url: str, team: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncGenerator[Stage]:
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    folder, lab = tmp_path / "team", f"lab-{team}"
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS_FILE.format(team=team))
    (folder / "fastagent.config.yaml").write_text(CONFIG)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(a_worker(nats_url, folder, a_lab(tmp_path / "lab", lab)))
        yield Stage(gateway, nats_url, team, lab, capsys)


async def test_a_replay_is_a_new_turn_and_does_not_change_the_old_one(stage: Stage) -> None:
    old = await stage.turn(message="/say good day")
    before = [it async for it in read(stage.bus, TURN_LOG.name, TurnRef.of(old).everything)]
    await replay_turn(stage.bus, old.turn_id, agent=None, model=None, compare=False, confirmed=False, as_json=False)
    out, err = stage.capsys.readouterr()
    assert out == "good day\n"
    [new] = await stage.replays(old)
    assert (new.state, new.caller, new.turn_id == old.turn_id) == ("completed", "peer:pallas-cli", False)
    assert [it async for it in read(stage.bus, TURN_LOG.name, TurnRef.of(old).everything)] == before
    lines = [line.split(maxsplit=1)[1] for line in err.splitlines()]
    assert lines[0] == f"turn {new.turn_id}: {stage.team}/harper harper, a replay of {old.turn_id}"
    assert "harper step 1 (llm)" in lines
    assert lines[-1] == "completed"


async def test_a_replay_can_compare_answers_and_timelines(stage: Stage) -> None:
    old = await stage.turn(message="/say good day")
    document = json.loads(await stage.replay(old, compare=True, as_json=True))
    assert document["equal"] is True
    assert document["old"]["turn"] == old.turn_id == document["new"]["replay_of"]
    assert document["old"]["content"]["answer"] == document["new"]["content"]["answer"]
    assert {"attempt", "step", "model"} <= {entry["kind"] for entry in document["new"]["timeline"]}
    printed = await stage.replay(old, compare=True)
    assert printed.splitlines()[-1] == "The answers are equal."
    assert printed.count("good day") == 2


async def test_a_replay_can_use_another_model_of_the_team(stage: Stage) -> None:
    old = await stage.turn("broken", message="hello")
    outcome = await stored_outcome(stage.bus, TurnRef.of(old))
    assert outcome is not None
    assert outcome.code == "model_failed"
    document = json.loads(await stage.replay(old, model="offline", compare=True, as_json=True))
    assert (document["equal"], document["old"]["state"], document["new"]["state"]) == (False, "failed", "completed")
    assert document["new"]["content"]["answer"]["content"] == [{"type": "text", "text": "Echo: hello"}]


async def test_a_replay_with_an_unknown_model_fails_the_new_turn_with_its_code(stage: Stage) -> None:
    old = await stage.turn(message="hello")
    with pytest.raises(typer.Exit) as failed:
        await stage.replay(old, model="openai.gpt-5")
    assert failed.value.exit_code == 1
    assert stage.capsys.readouterr().out.startswith("unknown_model: ")
    [new] = await stage.replays(old)
    assert new.outcome is not None
    assert (new.state, new.outcome.code) == ("failed", "unknown_model")


async def test_a_replay_can_use_another_agent_with_its_own_tool(stage: Stage) -> None:
    old = await stage.turn(message="hello")
    document = json.loads(await stage.replay(old, agent="research", as_json=True))
    assert (document["agent"], document["tool"], document["state"]) == ("research", "research", "completed")
    same = await stage.turn("bench", "say", text="hi")
    document = json.loads(await stage.replay(same, agent="sure", as_json=True))
    assert (document["agent"], document["tool"]) == ("sure", "say")


async def test_a_replay_sends_offloaded_arguments_too(stage: Stage) -> None:
    large = "long " * 100_000
    original = turn_requested(stage.team, arguments={"message": f"/say {large}"})
    await submit(stage.bus, await offload_request(stage.bus, original))

    async def over() -> bool:
        return await stored_outcome(stage.bus, TurnRef.of(original)) is not None

    await until(over)
    document = json.loads(await stage.replay(original, compare=True, as_json=True))
    assert document["equal"] is True
    for one in (document["old"], document["new"]):
        assert one["content"]["asked"] == original.arguments
        assert one["content"]["answer"]["content"] == [{"type": "text", "text": large.rstrip()}]
    await drop(stage.bus, TurnRef.of(original))
    with pytest.raises(Refused, match="content_expired"):
        await stage.replay(original)


async def test_a_replay_with_arguments_that_do_not_fit_the_tool_is_refused_with_the_fault(stage: Stage) -> None:
    old = await stage.turn("bench", "say", text="hi")
    await stage.keep(old.model_copy(update={"arguments": {"text": 7}}))
    with pytest.raises(Refused, match="do not fit the tool 'say': text must be of type string"):
        await stage.replay(old)
    assert await stage.replays(old) == []


async def test_a_replay_without_a_kept_request_is_refused(stage: Stage) -> None:
    old = await stage.turn(message="hello")
    document = json.loads(await stage.replay(old, as_json=True))
    assert document["content"]["asked"] == {"message": "hello"}
    kept = TurnRef.of(old).on(KEPT_REQUEST.template)
    await stage.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": kept})
    with pytest.raises(Refused, match="content_expired"):
        await stage.replay(old)


async def test_a_replay_cannot_compare_an_expired_answer(stage: Stage) -> None:
    old = await stage.turn(message="hello")
    content = TurnRef.of(old).on(KEPT_REQUEST.template).replace("kept.request", "turn.content")
    await stage.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": content})
    assert json.loads(await stage.replay(old, compare=True, as_json=True))["equal"] is None


async def test_a_turn_that_cannot_be_replayed_is_refused_with_the_reason(stage: Stage) -> None:
    old = await stage.turn("bench", "say", text="hi")
    running = turn_requested(stage.lab, "bench")
    await attempt_of(stage.bus, running)
    with pytest.raises(Refused, match="is running: only a turn that has ended"):
        await stage.replay(running)
    with pytest.raises(Refused, match="there is no agent 'nobody'"):
        await stage.replay(old, agent="nobody")
    with pytest.raises(Refused, match="unknown_model: 'bench' has no model"):
        await stage.replay(old, model="offline")
    with pytest.raises(Refused, match="the log has no turn"):
        await stage.replay(turn_requested(stage.lab))


async def test_a_replay_executes_tools_only_if_that_is_safe_or_confirmed(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    old = await stage.turn("bench", "effect", file=str(go))
    with pytest.raises(Unconfirmed, match="called the tool bench/write"):
        await stage.replay(old)
    assert await stage.replays(old) == []
    assert await stage.replay(old, confirmed=True) == "waited in attempt 1\n"
    safe = await stage.turn("sure", "effect", file=str(go))
    assert await stage.replay(safe) == "waited in attempt 1\n"


async def test_the_command_needs_yes_without_a_terminal(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    old = await stage.turn("bench", "effect", file=str(go))
    command = (PALLAS, "turns", "replay", old.turn_id, "--nats", stage.url)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await soon(process.communicate(), 20)
    assert (process.returncode, out) == (2, b"")
    assert err.decode().rstrip().endswith("side effects may be repeated, pass --yes: it cannot be undone")
    again = await asyncio.create_subprocess_exec(*command, "--yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, _ = await soon(again.communicate(), 20)
    assert (again.returncode, out) == (0, b"waited in attempt 1\n")


async def test_ctrl_c_cancels_the_new_turn(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    old = await stage.turn("bench", "wait", file=str(go))
    go.unlink()
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "turns", "replay", old.turn_id, "--nats", stage.url), stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while b"progress" not in await process.stderr.readline():
            pass
    process.send_signal(signal.SIGINT)
    _, err = await soon(process.communicate())
    assert process.returncode == 130
    assert err.decode().splitlines()[-1].endswith("cancelled")

    async def cancelled() -> bool:
        return [it.state for it in await stage.replays(old)] == ["cancelled"]

    await until(cancelled)


async def test_a_replay_of_an_agent_without_workers_reports_it_and_is_withdrawn_on_ctrl_c(stage: Stage) -> None:
    old = await stage.turn("bench", "say", text="hi")
    alone = agent_definition(stage.lab, "alone", kind="function")
    await kv.put(stage.bus, AGENTS, alone, team=stage.lab, agent="alone")
    process = await asyncio.create_subprocess_exec(
        *(PALLAS, "turns", "replay", old.turn_id, "--agent", "alone", "--nats", stage.url), stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while b"no worker hosts" not in await process.stderr.readline():
            pass
    process.send_signal(signal.SIGINT)
    await soon(process.communicate())
    assert process.returncode == 130
    waiting = [it async for it in read(stage.bus, "TURN_QUEUE", f"pallas.v1.turn.requested.{stage.lab}.alone.*.*")]
    assert waiting == []
