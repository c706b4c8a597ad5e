"""Turns as operators see them: real turns of real workers, through the API of the console."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import OWNED, until
from tests.integration.workspaces.lab import API, Lab
from tests.integration.workspaces.turns_lab import Stage, a_console

from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from pallas_turns.claims import TurnRef
from pallas_turns.expiry import erase_content
from workspaces.tables import ChatMessage, Conversation, Workspace
from workspaces.turns import day
from workspaces.turns.again import Again
from workspaces.turns.broker import Broker


@pytest.fixture
async def stage(lab: Lab, bus: Connecting, nats_url: str, team: str, tmp_path: Path) -> AsyncGenerator[Stage]:
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(a_console(lab, await bus("workspaces")))
        yield Stage(gateway, nats_url, team, tmp_path, stack, http)


def kinds(view: dict[str, Any]) -> list[str]:
    return [bar["kind"] for bar in view["bars"]]


async def test_a_turn_with_a_sub_agent_is_a_waterfall_with_its_tokens(stage: Stage) -> None:
    await stage.worker()
    request = await stage.turn("chief", message='/tool plain {"message": "/say inside"}\n/say outside')
    view = await stage.get(f"/{request.turn_id}", content=True)
    line = view["turn"]
    assert (line["state"], view["model"], line["attempts"], line["code"]) == ("completed", "offline", 1, None)
    assert line["took_ms"] >= view["times"]["models"] > 0
    assert view["times"]["model_calls"] == 3
    bars = {bar["id"]: bar for bar in view["bars"]}
    [agent] = [bar for bar in bars.values() if bar["kind"] == "agent"]
    assert agent["what"].startswith("plain")
    inside = [bar for bar in bars.values() if bar["parent"] == agent["id"]]
    assert [bar["kind"] for bar in inside] == ["step"]
    models = [bar for bar in bars.values() if bar["kind"] == "model"]
    assert all(bar["input_tokens"] > 0 and bar["took_ms"] is not None for bar in models)
    assert bars[models[1]["parent"]]["id"] == inside[0]["id"]
    assert (kinds(view)[0], kinds(view)[-1]) == ("queue", "outcome")
    assert view["content"]["asked"] == request.arguments
    assert view["content"]["text"].endswith("outside")
    assert (view["content"]["expired"], view["can_replay"], view["why_not"]) == (False, True, None)
    without = await stage.get(f"/{request.turn_id}")
    assert without["content"] is None
    assert "outside" not in str(without)


async def test_a_turn_leads_back_to_the_message_that_has_its_answer(stage: Stage, lab: Lab) -> None:
    await stage.worker()
    request = await stage.turn(message="/say hello")
    conversation, message = str(uuid.uuid4()), str(uuid.uuid4())
    async with AsyncSession(lab.service.parts.engine) as session, session.begin():
        session.add(Workspace(id="ws_1", name="One"))
        await session.flush()
        session.add(Conversation(id=conversation, workspace_id="ws_1"))
        await session.flush()
        answered = {"seq": 2, "role": "assistant", "status": "answered", "turn_id": request.turn_id}
        session.add(ChatMessage(id=message, conversation_id=conversation, **answered))
    view = await stage.get(f"/{request.turn_id}")
    assert (view["message_id"], view["conversation_id"], view["workspace_id"]) == (message, conversation, "ws_1")


async def test_a_running_turn_has_bars_without_an_end(stage: Stage, tmp_path: Path) -> None:
    await stage.worker()
    go = tmp_path / "go"
    request = await stage.ask("bench", "effect", file=str(go))

    async def started() -> bool:
        return "tool" in kinds(await stage.get(f"/{request.turn_id}"))

    await until(started)
    view = await stage.get(f"/{request.turn_id}", content=True)
    lasting = {bar["kind"]: bar["took_ms"] for bar in view["bars"]}
    assert lasting["queue"] is not None
    assert lasting["attempt"] is None
    assert "outcome" not in lasting
    assert (view["turn"]["state"], view["turn"]["ended_at"], view["can_replay"]) == ("running", None, False)
    assert view["content"]["asked"] == request.arguments
    refused = await stage.again(request, 409)
    assert (refused["code"], "is running" in refused["error"]) == ("not_ended", True)
    listed = await stage.get("", state="running", team=stage.functions)
    assert [line["id"] for line in listed["turns"]] == [request.turn_id]
    assert (await stage.get(f"/{request.turn_id}/compare/{request.turn_id}"))["equal"] is None
    go.touch()
    await stage.ended(request)


async def test_an_expired_turn_keeps_its_bars_and_says_why_it_cannot_be_executed_again(stage: Stage) -> None:
    await stage.worker()
    request = await stage.turn(message="/say a secret")
    await erase_content(stage.bus, TurnRef.of(request))
    view = await stage.get(f"/{request.turn_id}", content=True)
    assert {"queue", "attempt", "step", "model", "outcome"} <= set(kinds(view))
    assert (view["content"]["asked"], view["content"]["answer"], view["content"]["expired"]) == (None, None, True)
    assert (view["can_replay"], "no longer stored" in view["why_not"]) == (False, True)
    assert "secret" not in str(view)
    assert (await stage.again(request, 409))["code"] == "content_expired"
    assert (await stage.get(f"/{request.turn_id}/compare/{request.turn_id}"))["equal"] is None


async def test_of_a_forgotten_turn_its_conversation_says_what_was_asked_and_answered(stage: Stage, lab: Lab) -> None:
    await stage.worker()
    request = await stage.turn(message="/say a word")
    await erase_content(stage.bus, TurnRef.of(request))
    async with AsyncSession(lab.service.parts.engine) as session:
        session.add(Workspace(id=request.team, name="Any"))
        await session.flush()
        session.add(conversation := Conversation(id=str(uuid.uuid4()), workspace_id=request.team))
        await session.flush()
        common = {"conversation_id": conversation.id, "status": "answered"}
        session.add(ChatMessage(id=str(uuid.uuid4()), seq=1, role="user", content="Say it.", **common))
        answer = {"role": "assistant", "content": "A word.", "turn_id": request.turn_id}
        session.add(ChatMessage(id=str(uuid.uuid4()), seq=2, **answer, **common))
        await session.commit()
    view = await stage.get(f"/{request.turn_id}", content=True)
    content = view["content"]
    assert (content["asked"], content["text"], content["expired"]) == ({"message": "Say it."}, "A word.", False)


async def test_turns_that_failed_have_no_answers_to_compare(stage: Stage) -> None:
    await stage.worker()
    old = await stage.turn(message="/fail broken")
    new = (await stage.again(old))["turn_id"]
    await stage.ended(new)
    compared = await stage.get(f"/{old.turn_id}/compare/{new}")
    assert (compared["old"]["turn"]["state"], compared["equal"]) == ("failed", None)


async def test_a_turn_is_executed_again_and_compared(stage: Stage) -> None:
    await stage.worker()
    old = await stage.turn(message="/say good day")
    new = (await stage.again(old))["turn_id"]
    await stage.ended(new)
    both = await stage.get(f"/{old.turn_id}/compare/{new}")
    assert both["equal"] is True
    assert (both["old"]["turn"]["id"], both["new"]["turn"]["replay_of"]) == (old.turn_id, old.turn_id)
    assert both["new"]["turn"]["caller"] == "peer:pallas-console"
    assert both["new"]["content"]["text"] == both["old"]["content"]["text"] == "good day"
    other = await stage.turn(message="/say good night")
    assert (await stage.get(f"/{old.turn_id}/compare/{other.turn_id}"))["equal"] is False


async def test_a_turn_can_be_executed_with_another_model_or_agent(stage: Stage) -> None:
    await stage.worker()
    offered = await stage.get("/models")
    assert {"offline", "generic.gone"} <= set(offered["models"])
    own = [it for it in offered["agents"] if it["team"] == stage.team]
    models = {"broken": "generic.gone", "chief": "offline", "plain": "offline"}
    assert {it["agent"]: it["model"] for it in own} == models
    failed = await stage.turn("broken", message="hello")
    view = await stage.get(f"/{failed.turn_id}")
    assert (view["turn"]["state"], view["turn"]["code"]) == ("failed", "model_failed")
    assert view["fault"]
    by_model = (await stage.again(failed, model="offline"))["turn_id"]
    by_agent = (await stage.again(failed, agent="plain"))["turn_id"]
    for turn, agent in ((by_model, "broken"), (by_agent, "plain")):
        await stage.ended(turn)
        view = await stage.get(f"/{turn}", content=True)
        assert (view["turn"]["state"], view["turn"]["agent"], view["model"]) == ("completed", agent, "offline")
        assert view["content"]["text"] == "Echo: hello"


async def test_tools_with_effects_are_called_again_only_if_that_is_confirmed(stage: Stage, tmp_path: Path) -> None:
    await stage.worker()
    go = tmp_path / "go"
    go.touch()
    old = await stage.turn("bench", "effect", file=str(go))
    refused = await stage.again(old, 409)
    assert (refused["code"], "bench/write" in refused["error"]) == ("needs_confirmation", True)
    await stage.ended((await stage.again(old, confirmed=True))["turn_id"])
    safe = await stage.turn("sure", "effect", file=str(go))
    await stage.ended((await stage.again(safe))["turn_id"])


async def test_the_log_says_whether_a_retry_may_repeat_an_effect(stage: Stage, tmp_path: Path) -> None:
    await stage.worker()
    (tmp_path / "go").touch()
    turns = [await stage.turn(agent, "effect", file=str(tmp_path / "go")) for agent in ("bench", "sure")]
    turns.append(await stage.turn("plain", message="hello"))
    broker = Broker()
    again = Again(broker)
    assert await again.repeats(turns[0].turn_id) is None, "the broker is away"
    with broker.using(stage.bus):
        assert [await again.repeats(turn.turn_id) for turn in turns] == [True, False, False]
        assert await again.repeats("unknown") is None


async def test_what_cannot_be_executed_again_is_refused_with_the_reason(stage: Stage) -> None:
    await stage.worker()
    old = await stage.turn("bench", "say", text="hi")
    assert (await stage.again(turn_requested("red"), 404))["code"] == "unknown_turn"
    nobody = await stage.again(old, 422, agent="nobody")
    assert (nobody["code"], nobody["field"]) == ("unknown_agent", "agent")
    model = await stage.again(old, 422, model="offline")
    assert (model["code"], model["field"]) == ("unknown_model", "model")


async def test_turns_are_listed_and_filtered(stage: Stage) -> None:
    await stage.worker()
    first = await stage.turn(message="/say one")
    second = await stage.turn("bench", "say", text="two")

    async def listed(**params: Any) -> set[str]:
        found = {line["id"] for line in (await stage.get("", **params))["turns"]}
        return found & {first.turn_id, second.turn_id}

    assert await listed() == {first.turn_id, second.turn_id}
    assert await listed(team=stage.team) == {first.turn_id}
    assert await listed(team=stage.functions, agent="bench", state="completed") == {second.turn_id}
    assert await listed(state="failed") == set()
    assert await listed(caller="peer:unknown") == {first.turn_id, second.turn_id}
    assert await listed(caller="nobody at all") == set()
    [line] = (await stage.get("", team=stage.functions, agent="bench"))["turns"]
    assert (line["tool"], line["worker"] is not None, line["queued_ms"] >= 0) == ("say", True, True)
    one = await stage.get("", team=stage.functions, limit=1)
    assert [line["id"] for line in one["turns"]] == [second.turn_id]
    assert one["next"] is None


async def test_of_a_turn_with_very_much_content_the_end_is_shown(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.worker()
    request = await stage.turn("chief", message='/tool plain {"message": "/say inside"}\n/say outside')
    whole = await stage.get(f"/{request.turn_id}", content=True)
    monkeypatch.setattr("workspaces.turns.log.MOST_CONTENT", 100)
    less = await stage.get(f"/{request.turn_id}", content=True)
    assert less["content"] == whole["content"]
    assert (less["bars"], less["times"]) == (whole["bars"], whole["times"])


HOSTILE = ["a.b", "*", ">", "a b", "x" * 65, "..", "é", "%00"]


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_id_is_refused_and_its_field_named(stage: Stage, name: str) -> None:
    for path, field in (
        (f"/{name}", "turn"),
        (f"/{name}/compare/t1", "turn"),
        (f"/t1/compare/{name}", "other"),
    ):
        if name == "..":
            continue
        answer = await stage.http.get(f"{API}/turns{path}")
        assert (answer.status_code, answer.json()["field"]) == (422, field), path
    for field in ("team", "agent"):
        assert (await stage.get("", 422, **{field: name}))["field"] == field
        assert (await stage.get("/events", 422, **{field: name}))["field"] == field
    assert (await stage.again(turn_requested("red"), 422, agent=name))["field"] == "agent"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"state": "odd"}, "state"),
        ({"caller": ""}, "caller"),
        ({"caller": "x" * 300}, "caller"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "until"),
        ({"until": "9999-12-31T23:59:59-14:00"}, "until"),
        ({"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"order": "desc"}, "order"),
    ],
)
async def test_a_bad_filter_is_refused_and_its_field_named(stage: Stage, params: dict[str, str], field: str) -> None:
    assert (await stage.get("", 422, **params))["field"] == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"model": ""}, "model"), ({"model": "a b"}, "model"), ({"confirmed": "perhaps"}, "confirmed"), ({"a": 1}, "a")],
)
async def test_bad_changes_are_refused_and_their_field_named(stage: Stage, changes: dict[str, Any], field: str) -> None:
    assert (await stage.again(turn_requested("red"), 422, **changes))["field"] == field


async def test_an_unknown_turn_is_not_found(stage: Stage) -> None:
    assert (await stage.get("/0198f3b2c0de7a5b8c1d2e3f40516273", 404))["code"] == "unknown_turn"


async def test_the_live_list_has_every_change_of_the_turns_that_are_wanted(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with stage.events(team=stage.functions) as events, stage.events(team=stage.team) as others:
        await stage.worker()
        request = await stage.ask("bench", "wait", file=str(go))
        running = await events.until("turn", state="running")
        assert (running["id"], running["tool"], running["ended_at"]) == (request.turn_id, "wait", None)
        go.touch()
        over = await events.until("turn", state="completed")
        assert (over["id"], over["attempts"], over["took_ms"] > 0) == (request.turn_id, 1, True)
        other = await stage.turn(message="/say hi")
        name, line = await others.next()
        assert (name, line["id"]) == ("turn", other.turn_id)


async def test_the_end_of_a_turn_that_began_before_the_live_list_has_all_its_facts(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.worker()
    go = tmp_path / "go"
    request = await stage.ask("bench", "wait", file=str(go))

    async def runs() -> bool:
        return (await stage.history(request)).state == "running"

    await until(runs)
    async with stage.events(caller="peer:unknown", state="running") as events:
        go.touch()
        line = await events.until("turn", id=request.turn_id)
        assert (line["state"], line["tool"], line["caller"]) == ("completed", "wait", "peer:unknown")
        assert line["worker"] is not None


async def test_of_many_changes_at_once_a_reader_is_told_to_load_its_list_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workspaces.turns.live.MOST_AT_ONCE", 5)
    async with stage.events(team=stage.team) as events:
        await asyncio.gather(*(stage.ask(message="hello") for _ in range(50)))
        await events.until("resync")
        last = await stage.ask(message="hello")
        assert (await events.until("turn", id=last.turn_id))["state"] == "waiting"


async def test_without_a_broker_there_are_no_turns_and_the_reason_is_said(lab: Lab) -> None:
    async with a_console(lab, None) as http:
        for path in ("", "/t1", "/models", "/events", "/t1/compare/t2"):
            answer = await http.get(f"{API}/turns{path}")
            assert (answer.status_code, answer.json()["code"]) == (503, "no_broker"), path
            assert "broker" in answer.json()["error"]
        again = await http.post(f"{API}/turns/t1/again", json={})
        assert (again.status_code, again.json()["code"]) == (503, "no_broker")
        assert (await http.get(f"{API}/session")).json()["turns"] is False


async def test_a_lost_broker_is_said_and_readers_load_their_lists_again_when_it_is_back(
    lab: Lab, nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path
) -> None:
    gateway, own = await bus(GATEWAY, url=nats_server.url), await bus("workspaces", url=nats_server.url)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(a_console(lab, own))
        stage = Stage(gateway, nats_server.url, team, tmp_path, stack, http)
        async with stage.events() as events:
            nats_server.stop()

            async def away() -> bool:
                return not own.connected

            await until(away)
            assert (await stage.get("", 503))["code"] == "no_broker"
            nats_server.start()
            await events.until("resync")
            request = await stage.ask(message="hello")
            await events.until("turn", id=request.turn_id)


async def test_the_live_list_ends_with_its_connection_to_the_broker(lab: Lab, nats_url: str, bus: Connecting) -> None:
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack:
        closing = await stack.enter_async_context(AsyncExitStack())
        first = await closing.enter_async_context(connect(nats_url, "workspaces"))
        http = await stack.enter_async_context(a_console(lab, first))
        async with Stage(gateway, "", "", Path(), stack, http).events() as events:
            await closing.aclose()
            assert await events.next() == ("bye", {})


async def test_the_live_list_ends_when_the_service_drains(lab: Lab, bus: Connecting) -> None:
    gateway, stopping = await bus(GATEWAY), asyncio.Event()
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(a_console(lab, await bus("workspaces"), stopping))
        async with Stage(gateway, "", "", Path(), stack, http).events() as events:
            stopping.set()
            assert await events.next() == ("bye", {})


async def test_the_worst_of_a_day_are_read_once_for_all_who_ask(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.worker()
    slow, failed = await stage.turn(message="/sleep 0.3\n/say late"), await stage.turn("broken", message="hello")
    one, other = await asyncio.gather(stage.get("/day"), stage.get("/day"))
    assert one == other
    assert slow.turn_id in [turn["id"] for turn in one["slowest"]]
    assert (stage.team, "broken", failed.turn_id) in [
        (each["team"], each["agent"], each["latest"]) for each in one["failing"]
    ]
    assert one["shortened"] is False
    await stage.turn(message="/say more")
    assert await stage.get("/day") == one
    monkeypatch.setattr(day, "MOST_SECONDS", 0.0)
    assert (await day.read_day(stage.bus)).shortened is True
