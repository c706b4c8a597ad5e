"""Steps of functions: each is made once in a turn, and every attempt gets the same answers."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic_ai.messages import TextPart
from tests.journals import journal_of
from tests.runtimes import Events, a_turn, text_of
from tests.scripted import BOB, CLERK, Scripted, an_agent, call

from agent_worker.llm.runtime import LlmRuntime
from agent_worker.teams import Reach, TurnOutside
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    Continued,
    HandedBack,
    ModelCalled,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject, StepFailed
from pallas_hosting.functions.runtime import FunctionRuntime
from pallas_turns.events import Emitter
from pallas_turns.journal import NO_JOURNAL, Boundary, Journal
from pallas_turns.runtime import Completed, Failed, Outcome, Steps, Turn

type Work = Callable[[CallContext], Awaitable[Any]]


@dataclass
class World:
    """What an attempt did. The tool `broken` has no result, `look` may be repeated; `agents` can be asked."""

    ran: list[str] = field(default_factory=list[str])
    agents: dict[str, LlmRuntime] = field(default_factory=dict[str, LlmRuntime])

    async def do(self, what: str) -> str:
        """Do something that can be counted."""
        self.ran.append(what)
        await asyncio.sleep(0)
        return f"{what} done"

    async def fail(self) -> None:
        """Fail with a text that holds a secret."""
        self.ran.append("fail")
        raise ValueError("no such shelf, api_key=hunter2")

    def open(self, steps: Steps, emit: Emitter) -> "Beyond":
        """What a turn can call."""
        return Beyond(self, steps, emit)


class Beyond(TurnOutside):
    """Real agents, and tools that are not called over MCP."""

    def __init__(self, world: World, steps: Steps, emit: Emitter) -> None:
        super().__init__(Reach({}, world.agents, lambda _server, _tool: False), steps, emit)
        self._world = world

    async def may_repeat(self, server: str, tool: str) -> bool:
        return tool == "look"

    async def call_tool(self, started: ToolStarted, arguments: JsonObject) -> JsonObject:
        self._world.ran.append(f"{started.server}/{started.tool}")
        if started.tool == "broken":
            raise StepFailed("unreachable", "'toolbox' cannot be reached")
        return {"content": [{"type": "text", "text": json.dumps(arguments)}], "isError": started.tool == "refuse"}


async def attempt(
    work: Work,
    world: World | None = None,
    journal: Journal = NO_JOURNAL,
    events: Events | None = None,
    *,
    safe: bool = False,
    **fields: Any,
) -> tuple[Outcome, Events]:
    """An attempt at a turn whose function does this work; its answer is JSON."""
    agent, events = FunctionAgent(), events or Events()

    @agent.tool("go")
    async def go(ctx: CallContext, arguments: JsonObject) -> str:
        return json.dumps(await work(ctx))

    runtime = FunctionRuntime("fixture", agent, (world or World()).open, safe=safe)
    turn: Turn = replace(a_turn("fixture", "go"), journal=journal, **fields)
    return await runtime.run_turn(turn, events), events


def kept(events: Events) -> list[str]:
    return [event.call for event in events.of(Answered)]


def answer_of(outcome: Outcome) -> Any:
    return json.loads(text_of(outcome))


async def caught(step: Awaitable[Any]) -> list[str]:
    with pytest.raises(StepFailed) as failed:
        await step
    return [failed.value.kind, failed.value.message]


def errand(world: World) -> Work:
    """Steps of every kind, all of which may be made again."""

    async def outer(ctx: CallContext, word: str) -> list[str]:
        pair = await asyncio.gather(
            ctx.step("inner", world.do, f"{word} one", retry="safe"),
            ctx.step("inner", world.do, f"{word} two", retry="safe"),
        )
        return [*pair, await ctx.call_agent("clerk", f"/say {word}")]

    async def work(ctx: CallContext) -> Any:
        first = await ctx.step("first", world.do, "first", retry="safe")
        left, right = await asyncio.gather(
            ctx.step("side", world.do, "left", retry="safe"), ctx.step("side", outer, ctx, "right", retry="safe")
        )
        failed = await caught(ctx.step("fail", world.fail, retry="safe"))
        seen = await ctx.call_tool("toolbox", "look", {"at": left})
        asked = await ctx.call_agent("clerk", "/tool nobody\n/say hello")
        return [first, left, right, failed, seen, asked]

    return work


def a_world() -> World:
    return World(agents={agent.name: agent for agent in an_agent(Scripted()).agents})


async def test_wherever_an_attempt_ends_the_next_makes_only_the_steps_without_an_answer() -> None:
    world = a_world()
    whole, first = await attempt(errand(world), world)
    places = ["1", "2", "3", "3.1", "3.2", "3.3", "3.3.1", "4", "5", "6", "6.1", "6.1.1", "6.2"]
    assert sorted(kept(first)) == places
    assert len(world.ran) == 6
    for length in range(len(first.all) + 1):
        journal = journal_of(first.all[:length])
        assert not journal.unknown
        again = a_world()
        outcome, second = await attempt(errand(again), again, journal)
        assert text_of(outcome) == text_of(whole)
        assert sorted({*journal.answers, *kept(second)}) == places
        assert not set(journal.answers) & set(kept(second))
        live = [it.call for it in second.of(ToolStarted) if it.server in ("fixture", "toolbox") and it.call != "3"]
        assert len(again.ran) == len(live)
        assert not {*live, *(it.call for it in second.of(ModelCalled))} & set(journal.answers)


async def test_the_first_attempt_gets_what_later_ones_get() -> None:
    async def make() -> Any:
        return {1: (2, 3), "text": "\ud800"}

    async def work(ctx: CallContext) -> Any:
        made = await ctx.step("make", make)
        return [list(made), type(made["1"]).__name__]

    outcome, first = await attempt(work)
    assert answer_of(outcome) == [["1", "text"], "list"]
    assert text_of((await attempt(work, journal=journal_of(first.all)))[0]) == text_of(outcome)


async def test_the_events_of_a_step_say_what_began_and_how_it_ended() -> None:
    world = World()

    async def work(ctx: CallContext) -> Any:
        await ctx.step("write", world.do, "write")
        await ctx.step("read", world.do, "read", retry="safe")
        await caught(ctx.step("fail", world.fail))
        await ctx.call_tool("toolbox", "look", {})
        refused = await ctx.call_tool("toolbox", "refuse", {})
        return [refused["isError"], await caught(ctx.call_tool("toolbox", "broken", {}))]

    outcome, events = await attempt(work, world)
    assert answer_of(outcome) == [True, ["unreachable", "'toolbox' cannot be reached"]]
    assert [(it.call, it.server, it.tool, it.safe) for it in events.of(ToolStarted)] == [
        ("1", "fixture", "write", False),
        ("2", "fixture", "read", True),
        ("3", "fixture", "fail", False),
        ("4", "toolbox", "look", True),
        ("5", "toolbox", "refuse", False),
        ("6", "toolbox", "broken", False),
    ]
    assert [event.call for event in events.of(ToolCompleted)] == ["1", "2", "4"]
    failed = [("3", "ValueError"), ("5", "tool_error"), ("6", "unreachable")]
    assert [(event.call, event.code) for event in events.of(ToolFailed)] == failed


async def test_a_step_that_began_and_has_no_answer_is_unknown_unless_it_is_safe() -> None:
    world = World()

    async def work(ctx: CallContext) -> Any:
        await ctx.step("read", world.do, "read", retry="safe")
        await ctx.step("write", world.do, "write")
        await ctx.call_tool("toolbox", "look", {})
        await ctx.call_tool("toolbox", "change", {})

    _, events = await attempt(work, world)
    open_after = {
        event.call: list(journal_of(events.all[: number + 1]).unknown)
        for number, event in enumerate(events.all)
        if isinstance(event, ToolStarted)
    }
    assert open_after == {"1": [], "2": ["2"], "3": [], "4": ["4"]}
    assert not journal_of(events.all).unknown


async def test_a_failure_is_the_same_in_later_attempts_and_holds_no_secret() -> None:
    world = World(agents={"harper": an_agent(Scripted("", ""), alone=True)})

    async def outer(ctx: CallContext) -> None:
        await ctx.step("inner", world.fail)

    async def work(ctx: CallContext) -> Any:
        return [
            await caught(ctx.step("outer", outer, ctx)),
            await caught(ctx.call_agent("harper", "ask")),
            await caught(ctx.call_agent("nobody", "ask")),
        ]

    outcome, first = await attempt(work, world)
    inner, agent, nobody = answer_of(outcome)
    assert inner == ["ValueError", "no such shelf, api_key=[redacted]"]
    assert (agent[0], nobody[0]) == ("model_failed", "unknown_agent")
    assert "hunter2" not in str(first.all)
    again, second = await attempt(work, journal=journal_of(first.all))
    assert text_of(again) == text_of(outcome)
    assert (world.ran, second.all) == (["fail"], [])


@pytest.mark.parametrize("value", [{1, 2}, math.nan, object()], ids=["set", "nan", "object"])
async def test_a_result_that_is_no_json_fails_its_step_by_name(value: object) -> None:
    async def make() -> object:
        return value

    async def work(ctx: CallContext) -> Any:
        return await caught(ctx.step("make it", make))

    outcome, first = await attempt(work)
    kind, message = answer_of(outcome)
    assert (kind, "'make it' is no JSON" in message) == ("TypeError", True)
    assert not journal_of(first.all).unknown
    assert text_of((await attempt(work, journal=journal_of(first.all)))[0]) == text_of(outcome)


async def test_time_and_random_numbers_are_those_of_the_first_attempt() -> None:
    async def inner(ctx: CallContext) -> float:
        return ctx.random()

    async def work(ctx: CallContext) -> Any:
        now = ctx.now()
        assert now.tzname() == "UTC"
        return [str(now), ctx.random(), ctx.random(), await ctx.step("inner", inner, ctx), str(ctx.now())]

    outcome, first = await attempt(work)
    values = answer_of(outcome)
    assert len(set(values)) == len(values)
    again, second = await attempt(work, journal=journal_of(first.all))
    assert answer_of(again) == values
    assert second.all == []
    cut, third = await attempt(work, journal=journal_of(first.all[:2]))
    assert answer_of(cut)[:2] == values[:2]
    assert answer_of(cut)[2:] != values[2:]
    assert kept(third) == ["3", "4.1", "4", "5"]


async def test_an_attempt_says_where_it_goes_on() -> None:
    world = World()

    async def outer(ctx: CallContext) -> None:
        await ctx.step("inner", world.do, "a", retry="safe")
        await ctx.step("inner", world.do, "b", retry="safe")

    async def work(ctx: CallContext) -> Any:
        await ctx.step("first", world.do, "first")
        await ctx.step("outer", outer, ctx, retry="safe")

    _, first = await attempt(work, world)
    assert first.of(Continued) == []
    cut = first.all.index(next(event for event in first.of(Answered) if event.call == "2.1")) + 1
    _, second = await attempt(work, world, journal_of(first.all[:cut]))
    assert second.all[0] == Continued(n=2, taken=("1", "2.1"))
    assert world.ran == ["first", "a", "b", "b"]


async def test_an_agent_that_was_half_done_goes_on() -> None:
    def world(*responses: Any) -> World:
        script = Scripted(*responses)
        return World(agents={"harper": an_agent(script)})

    async def work(ctx: CallContext) -> Any:
        return [await ctx.call_agent("harper", "ask"), await ctx.call_agent("harper", "again")]

    turn = [[TextPart("one"), call(CLERK)], [call(BOB)], "two", "three"]
    outcome, first = await attempt(work, world(*turn))
    assert answer_of(outcome) == ["one\n\ntwo", "three"]
    assert [event.n for event in first.of(Step) if event.agent == "harper"] == [1, 2, 3, 4, 5, 6]
    starts = [(it.call, it.server, it.tool, it.leaf) for it in first.of(ToolStarted) if "." not in it.call]
    assert starts == [("1", "harper", "harper__harper", False), ("2", "harper", "harper__harper", False)]
    cut = first.all.index(next(event for event in first.of(Answered) if event.call == "1.1.1")) + 1
    again, second = await attempt(work, world(*turn[1:]), journal_of(first.all[:cut]))
    assert answer_of(again) == answer_of(outcome)
    assert [event.call for event in second.of(ModelCalled) if event.agent == "harper"] == ["1.2", "1.3", "2.1"]
    assert [event.n for event in second.of(Step) if event.agent == "harper"] == [3, 4, 5, 6]


async def test_a_function_that_takes_other_steps_ends_the_turn_even_if_it_catches_that() -> None:
    world, later = World(), World()

    async def before(ctx: CallContext) -> Any:
        await ctx.step("charge", world.do, "charge")
        await ctx.step("send", world.do, "send")

    async def after(ctx: CallContext) -> Any:
        await ctx.step("charge", later.do, "charge")
        for name in ("refund", "send", "write"):
            with pytest.raises(Exception, match="call 2 was 'step send', and is 'step refund' now"):
                await ctx.step(name, later.do, name)
        with pytest.raises(Exception, match="call 2 was"):
            await ctx.side_effect("write")
        with pytest.raises(Exception, match="call 2 was"):
            ctx.random()
        return "fine"

    _, first = await attempt(before, world)
    outcome, second = await attempt(after, later, journal_of(first.all))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("worker_lost", False)
    assert "call 2 was 'step send', and is 'step refund' now" in outcome.message
    assert (later.ran, second.all) == ([], [])


async def test_an_agent_that_has_changed_ends_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    async def work(ctx: CallContext) -> Any:
        return await ctx.call_agent("harper", "ask")

    _, first = await attempt(work, World(agents={"harper": an_agent(Scripted([call(CLERK)], "done"))}))
    cut = first.all.index(next(event for event in first.of(Answered) if event.call == "1.1")) + 1
    changed = World(agents={"harper": an_agent(Scripted("done"), instruction="Be brief.")})
    outcome, second = await attempt(work, changed, journal_of(first.all[:cut]))
    assert isinstance(outcome, Failed)
    assert outcome.code == "worker_lost"
    assert kept(second) == []
    assert [line.message for line in caplog.records] == ["the journal cannot be used"]


async def test_a_superseded_attempt_makes_no_step_and_keeps_no_failure() -> None:
    world, events = World(), Events(superseded=True)

    async def work(ctx: CallContext) -> Any:
        await ctx.step("write", world.do, "write")

    async def outer(ctx: CallContext) -> None:
        events.superseded = True
        await ctx.step("write", world.do, "write")

    with pytest.raises(Superseded):
        await attempt(work, world, events=events)
    assert (world.ran, events.all) == ([], [])
    events.superseded = False
    with pytest.raises(Superseded):
        await attempt(lambda ctx: ctx.step("outer", outer, ctx), world, events=events)
    assert (world.ran, kept(events)) == ([], [])


@pytest.mark.parametrize("inside", [False, True], ids=["around", "inside"])
async def test_a_step_that_the_function_cancelled_is_not_made_again_and_is_cancelled_again(inside: bool) -> None:
    world = World()

    async def never() -> None:
        await world.do("never")
        await asyncio.Event().wait()

    async def limited(ctx: CallContext) -> str:
        try:
            async with asyncio.timeout(0.05):
                await ctx.step("never", never)
        except TimeoutError:
            return "too late"
        return "in time"

    async def work(ctx: CallContext) -> Any:
        said = await ctx.step("limited", limited, ctx) if inside else await limited(ctx)
        return said, await ctx.step("after", world.do, "after")

    first, events = await attempt(work, world)
    assert answer_of(first) == ["too late", "after done"]
    for length in range(1, len(events.all) + 1):
        journal = journal_of(events.all[:length])
        if not journal.unknown:
            outcome, _ = await attempt(work, world, journal)
            assert answer_of(outcome) == ["too late", "after done"]
            assert length < 4 or world.ran.count("never") == 1
    assert journal_of(events.all).unknown == {}


async def test_a_step_whose_function_raises_a_cancellation_that_nobody_asked_for_has_failed() -> None:
    async def gone() -> None:
        raise asyncio.CancelledError("the connection is gone")

    async def work(ctx: CallContext) -> Any:
        return await caught(ctx.step("gone", gone))

    first, events = await attempt(work)
    again, _ = await attempt(work, journal=journal_of(events.all))
    assert answer_of(first) == answer_of(again) == ["CancelledError", "the connection is gone"]


async def test_an_attempt_that_is_cancelled_from_outside_keeps_its_step_unknown() -> None:
    boundary, events = Boundary(), Events()

    async def work(ctx: CallContext) -> Any:
        await ctx.step("never", asyncio.Event().wait)

    running = asyncio.create_task(attempt(work, events=events, boundary=boundary))
    await events.until(ToolStarted)
    boundary.ending = True
    running.cancel()
    await asyncio.wait({running})
    assert list(journal_of(events.all).unknown) == ["1"]


async def test_a_function_that_takes_fewer_steps_than_before_ends_the_turn() -> None:
    async def work(ctx: CallContext, count: int) -> Any:
        return [await ctx.step("one", World().do, str(number)) for number in range(count)]

    _, first = await attempt(lambda ctx: work(ctx, 3))
    outcome, _ = await attempt(lambda ctx: work(ctx, 2), journal=journal_of(first.all))
    assert isinstance(outcome, Failed)
    assert "call 3 was 'step one', and is not made now" in outcome.message


@pytest.mark.parametrize("name", ["", "a\x00b", "\ud800", "x" * 201])
async def test_a_step_needs_a_printable_name(name: str) -> None:
    async def work(ctx: CallContext) -> Any:
        with pytest.raises(ValueError, match="1 to 200 printable characters"):
            await ctx.step(name, World().do, "it")

    _, events = await attempt(work)
    assert events.all == []


async def test_an_exception_of_any_kind_is_the_answer_of_its_step() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def odd() -> None:
        raise Odd

    async def leave() -> None:
        raise SystemExit(3)

    async def work(ctx: CallContext) -> Any:
        return [await caught(ctx.step("odd", odd)), await caught(ctx.step("leave", leave))]

    outcome, events = await attempt(work)
    assert answer_of(outcome) == [["Odd", "RuntimeError in its text"], ["SystemExit", "3"]]
    assert kept(events) == ["1", "2"]


async def test_a_step_that_outlives_its_function_does_not_begin() -> None:
    world, go_on, late = World(), asyncio.Event(), list[asyncio.Task[None]]()

    async def work(ctx: CallContext) -> Any:
        async def later() -> None:
            await go_on.wait()
            with pytest.raises(RuntimeError, match="must wait for all its steps"):
                await ctx.step("late", world.do, "late")

        late.append(asyncio.create_task(later()))

    await attempt(work, world)
    go_on.set()
    await late[0]
    assert world.ran == []


@pytest.mark.parametrize("safe", [False, True])
async def test_steps_and_side_effects_are_as_safe_as_their_agent_unless_they_say_otherwise(safe: bool) -> None:
    async def work(ctx: CallContext) -> Any:
        await ctx.step("default", World().do, "it")
        await ctx.step("safe", World().do, "it", retry="safe")
        await ctx.step("unsafe", World().do, "it", retry="unsafe")
        await ctx.side_effect("effect")

    _, events = await attempt(work, safe=safe)
    assert [(event.tool, event.safe) for event in events.of(ToolStarted)] == [
        ("default", safe),
        ("safe", True),
        ("unsafe", False),
        ("effect", safe),
    ]


# ------------------------------------------------------------------ draining


async def until_stopped(
    running: asyncio.Task[tuple[Outcome, Events]], reached: asyncio.Event, boundary: Boundary
) -> None:
    """Cancel the attempt at its boundary, as a worker does."""
    await reached.wait()
    boundary.ending = True
    running.cancel()
    await asyncio.wait({running})


async def test_a_drain_stops_a_turn_between_its_steps_and_the_next_attempt_finishes_it() -> None:
    boundary, reached, go_on, events, world = Boundary(), asyncio.Event(), asyncio.Event(), Events(), a_world()

    async def outer(ctx: CallContext) -> str:
        await go_on.wait()
        await ctx.step("inner", world.do, "inner")
        return await ctx.call_agent("clerk", "/say inside")

    async def work(ctx: CallContext) -> Any:
        return [await ctx.step("outer", outer, ctx), await ctx.step("last", world.do, "last")]

    running = asyncio.create_task(attempt(work, world, events=events, boundary=boundary))
    await events.until(ToolStarted)
    boundary.stop(reached.set)
    go_on.set()
    await until_stopped(running, reached, boundary)
    assert kept(events) == ["1.1", "1.2.1", "1.2", "1"]
    ended: list[AnyEvent] = [*events.all, HandedBack()]
    outcome, second = await attempt(work, world, journal_of(ended))
    assert answer_of(outcome) == ["inside", "last done"]
    assert (world.ran, kept(second)) == (["inner", "last"], ["2"])


async def test_a_drain_stops_a_turn_between_the_steps_of_its_agent() -> None:
    boundary, reached, events = Boundary(), asyncio.Event(), Events()

    async def work(ctx: CallContext) -> Any:
        return await ctx.call_agent("harper", "ask")

    world = World(agents={"harper": an_agent(Scripted([call(CLERK)], "done"))})
    running = asyncio.create_task(attempt(work, world, events=events, boundary=boundary))
    await events.until(ModelCalled)
    boundary.stop(reached.set)
    await until_stopped(running, reached, boundary)
    assert "1" not in kept(events)
    again = World(agents={"harper": an_agent(Scripted("done"))})
    outcome, _ = await attempt(work, again, journal_of([*events.all, HandedBack()]))
    assert answer_of(outcome) == "done"


async def test_a_drain_stops_branches_that_are_safe_steps_between_the_steps_inside_them() -> None:
    boundary, reached, began, events, world = Boundary(), asyncio.Event(), asyncio.Event(), Events(), World()

    async def act(what: str) -> str:
        began.set()
        return await world.do(what)

    async def branch(ctx: CallContext, name: str) -> list[str]:
        return [await ctx.step("inner", act, f"{name}{number}") for number in range(3)]

    async def work(ctx: CallContext) -> Any:
        return await asyncio.gather(*(ctx.step("branch", branch, ctx, name, retry="safe") for name in "ab"))

    running = asyncio.create_task(attempt(work, world, events=events, boundary=boundary))
    await began.wait()
    boundary.stop(reached.set)
    await until_stopped(running, reached, boundary)
    assert 0 < len(world.ran) < 6
    outcome, _ = await attempt(work, world, journal_of([*events.all, HandedBack()]))
    assert answer_of(outcome) == [[f"{name}{number} done" for number in range(3)] for name in "ab"]
    assert sorted(world.ran) == [f"{name}{number}" for name in "ab" for number in range(3)]


@pytest.mark.parametrize("waits", [False, True], ids=["afterwards", "meanwhile"])
async def test_a_drain_does_not_stop_a_turn_whose_side_effect_has_begun(waits: bool) -> None:
    boundary, reached, began, go_on, world = Boundary(), asyncio.Event(), asyncio.Event(), asyncio.Event(), World()

    async def act(ctx: CallContext) -> None:
        began.set()
        await go_on.wait()
        await ctx.side_effect("write")

    async def work(ctx: CallContext) -> Any:
        acting = asyncio.create_task(ctx.step("act", act, ctx)) if waits else None
        if acting is None:
            await act(ctx)
        await began.wait()
        await ctx.step("last", world.do, "last")
        if acting is not None:
            await acting

    running = asyncio.create_task(attempt(work, world, boundary=boundary))
    await began.wait()
    boundary.stop(reached.set)
    await asyncio.sleep(0)
    assert world.ran == []
    go_on.set()
    outcome, events = await running
    assert isinstance(outcome, Completed)
    assert not outcome.result.is_error
    assert world.ran == ["last"]
    assert not reached.is_set()
    [effect] = [event for event in events.of(ToolStarted) if event.tool == "write"]
    assert (effect.call in journal_of(events.all).unknown) is not waits  # else the step around it was answered
