"""Executions: programs whose calls are turns of agents."""

import asyncio
import uuid
from typing import Any

import pytest
from tests.integration.pipelines.lab import ALICE, BOB, NUMBER, Counted, Lab, chain, gather
from tests.requirements import requirement
from tests.waiting import eventually

from pallas_contracts.agents import Allow, Limits
from pallas_contracts.costs import TeamBudget
from pallas_contracts.turns import InputRequired, Principal, ToolCompleted, ToolStarted

LIST = {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}}}


async def add_one(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"number": arguments["number"] + 1}


class Flaky:
    """A function that fails a number of times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        return await add_one(arguments)


async def never(arguments: dict[str, Any]) -> dict[str, Any]:
    await asyncio.Event().wait()
    return arguments


@pytest.fixture
async def ready(lab: Lab) -> Lab:
    """A lab with a replica, and an agent with the tools `add`, `flaky`, `broken` and `never`."""
    lab.counted.tool("add", add_one, answers=NUMBER)
    lab.counted.tool("flaky", Flaky(2), answers=NUMBER)
    lab.counted.tool("broken", Flaky(10**6), answers=NUMBER)
    lab.counted.tool("never", never, answers=NUMBER)
    await lab.host()
    await lab.known(await lab.replica())
    return lab


def program(lab: Lab, *lines: str) -> str:
    """A program in which `t.` stands for the agent of the test."""
    return "\n".join(lines).replace("t.", f"{lab.counted.namespace}.")


async def test_a_program_of_the_standard_library_is_executed(lab: Lab) -> None:
    await lab.replica()
    answer = await lab.run("in x: Int\ny = x * 2 + 1\nout y", x=20)
    assert (answer["success"], answer["status"], answer["outputs"]) == (True, "completed", {"y": 41})
    assert answer["metrics"]["modulesExecuted"] == 0


@requirement("C-run-1", "D-8.3")
async def test_each_call_of_a_tool_is_a_turn(ready: Lab) -> None:
    followed = await ready.start("execute", {"source": chain(ready.counted.namespace, ["add"] * 3), "inputs": {"x": 1}})
    await followed.outcome()
    assert '"result": 4' in followed.text
    started = [event for event in followed.messages if isinstance(event, ToolStarted)]
    assert [event.call for event in started] == ["1.1", "2.1", "3.1"]
    assert {(event.server, event.tool) for event in started} == {(f"{ready.counted.team}/{ready.counted.agent}", "add")}
    assert sum(isinstance(event, ToolCompleted) for event in followed.messages) == 3
    assert ready.counted.calls == {"add": 3}


@requirement("D-8.3")
async def test_calls_that_need_nothing_of_each_other_run_at_the_same_time(lab: Lab) -> None:
    together = asyncio.Barrier(20)

    async def meet(arguments: dict[str, Any]) -> dict[str, Any]:
        await together.wait()
        return arguments

    lab.counted.tool("meet", meet, answers=NUMBER)
    await lab.host()
    await lab.known(await lab.replica())
    lines = ["in x: Int", *(f"v{n} = t.meet(x)" for n in range(20)), *(f"out v{n}" for n in range(20))]
    answer = await lab.run(program(lab, *lines), x=1)
    assert set(answer["outputs"]) == {f"v{n}" for n in range(20)}


async def test_a_branch_that_is_not_taken_calls_nothing(ready: Lab) -> None:
    source = program(ready, "in x: Int", "y = if (x > 0) t.add(x).number else t.broken(x).number", "out y")
    assert (await ready.run(source, x=1))["outputs"] == {"y": 2}
    assert ready.counted.calls == {"add": 1}


@requirement("C-run-5")
async def test_options_retry_fallback_and_stand_in(ready: Lab) -> None:
    source = program(
        ready,
        "in x: Int",
        "a = t.flaky(x) with retry: 3, delay: 1ms, backoff: exponential",
        "b = t.broken(x) with retry: 1, fallback: { number: 7 }",
        "c = t.broken(x) with on_error: skip",
        "d = t.broken(x) with on_error: wrap",
        "e = t.never(x) with timeout: 50ms, on_error: wrap",
        "f = t.broken(x) with on_error: log",
        "g = stdlib.math.divide(x, 0) with on_error: log",
        *("out a", "out b", "out c", "out d", "out e", "out f", "out g"),
    )
    outputs = (await ready.run(source, x=1))["outputs"]
    assert (outputs["a"], outputs["b"], outputs["c"]) == ({"number": 2}, {"number": 7}, {"number": 0})
    assert (outputs["f"], outputs["g"]) == ({"number": 0}, 0)
    assert outputs["d"]["ok"] is False
    assert "tool_error" in outputs["d"]["error"]
    assert "timeout" in outputs["e"]["error"]
    del ready.counted.calls["never"]  # its time may be over before it begins
    assert ready.counted.calls == {"flaky": 3, "broken": 5}


@requirement("C-run-5")
@pytest.mark.parametrize("limit", ["of the call", "of the agent"])
async def test_a_call_that_began_and_ran_out_of_time_is_repeated_only_if_it_may_be(lab: Lab, limit: str) -> None:
    lab.counted.tool("write", never, answers=NUMBER)
    lab.counted.tool("look", never, answers=NUMBER, annotations={"readOnlyHint": True})
    await lab.host(limits=Limits(turn_timeout=20.0 if limit == "of the call" else 1.0))
    await lab.known(await lab.replica())
    options = f"{'timeout: 1s, ' if limit == 'of the call' else ''}retry: 1, on_error: wrap"
    lines = (f"a = t.write(1) with {options}", f"b = t.look(1) with {options}", "out a", "out b")
    outputs = (await lab.run(program(lab, *lines)))["outputs"]
    assert lab.counted.calls == {"write": 1, "look": 2}
    assert "not called again" in outputs["a"]["error"]
    assert "timeout" in outputs["b"]["error"]


async def test_an_execution_makes_only_so_many_calls(ready: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.running.nodes.MOST_TRIES", 5)
    lines = ("a = t.broken(1) with retry: 2147483647, on_error: wrap", "b = t.add(a.ok) with on_error: wrap", "out b")
    source = program(ready, *lines).replace("a.ok", "if (a.ok) 1 else 2")
    outputs = (await ready.run(source))["outputs"]
    assert ready.counted.calls == {"broken": 5}
    assert "has made 5 calls" in outputs["b"]["error"]


async def test_a_call_that_never_began_is_tried_again(lab: Lab) -> None:
    lab.counted.tool("write", never, answers=NUMBER)
    await lab.publish(lab.counted.definition())  # nobody takes its turns
    await lab.known(await lab.replica())
    source = program(lab, "a = t.write(1) with timeout: 50ms, retry: 2, on_error: wrap", "out a")
    followed = await lab.start("execute", {"source": source, "inputs": {}})
    await followed.outcome()
    assert [event.call for event in followed.messages if isinstance(event, ToolStarted)] == ["1.1", "1.2", "1.3"]


@requirement("K-cost-4")
async def test_a_call_in_a_pipeline_is_refused_when_the_budget_of_its_team_is_used_up(lab: Lab) -> None:
    lab.counted.tool("add", _never_called, answers=NUMBER)
    await lab.host(limits=Limits(turn_timeout=20.0, budget=TeamBudget(tokens_per_day=0)))
    await lab.known(await lab.replica())
    source = program(lab, "in x: Int", "y = t.add(x) with on_error: wrap", "out y")
    answer = (await lab.run(source, x=1))["outputs"]["y"]
    assert answer["ok"] is False
    assert "budget_exhausted" in answer["error"]
    assert lab.counted.calls == {}


async def _never_called(_: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError


async def test_a_cached_answer_is_for_one_caller_and_equal_arguments(ready: Lab) -> None:
    source = program(ready, "in x: Int", "y = t.add(x) with cache: 1h", "out y")
    for x in (1, 1, 2):
        await ready.run(source, x=x)
    assert ready.counted.calls == {"add": 2}
    await ready.call("execute", {"source": source, "inputs": {"x": 1}}, BOB)
    assert ready.counted.calls == {"add": 3}
    shared = source.replace("1h", f'{"9" * 17}d, cache_backend: "shared"')
    for _ in range(2):
        await ready.run(shared, x=1)
    assert ready.counted.calls == {"add": 4}


async def test_concurrency_and_throttle_hold_for_a_module(lab: Lab) -> None:
    running = most = 0

    async def counted(arguments: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return arguments

    lab.counted.tool("one", counted, answers=NUMBER)
    await lab.host()
    await lab.known(await lab.replica())
    calls = [f"v{n} = t.one({n}) with concurrency: 1" for n in range(5)]
    await lab.run(program(lab, *calls, *(f"out v{n}" for n in range(5))))
    assert most == 1
    throttled = [f"v{n} = t.one({n}) with throttle: 2/100ms" for n in range(4)]
    answer = await lab.run(program(lab, *throttled, *(f"out v{n}" for n in range(4))))
    assert answer["metrics"]["executeTimeMs"] >= 100


async def test_a_failed_call_fails_the_execution_with_its_place_and_cancels_the_others(ready: Lab) -> None:
    source = program(ready, "in x: Int", "a = t.never(x)", "b = t.broken(x)", "out a", "out b")
    code, message = await ready.fails("execute", {"source": source, "inputs": {"x": 1}})
    assert code == "node_failed"
    assert message.startswith("Line 3, column 5: ")
    assert "broken failed (tool_error)" in message


@requirement("C-run-3")
async def test_a_cancelled_execution_cancels_its_calls(ready: Lab) -> None:
    lines = [*(f"v{n} = t.never(x)" for n in range(20)), *(f"out v{n}" for n in range(20))]
    followed = await ready.start("execute", {"source": program(ready, "in x: Int", *lines), "inputs": {"x": 1}})
    await eventually(lambda: ready.counted.calls["never"] == 20)
    await ready.cancel(followed)
    assert (await followed.outcome()).status == "cancelled"
    await ready.children_end(followed.request, "cancelled", 20)


async def test_programs_with_faults_and_bad_inputs_are_refused_with_their_places(ready: Lab) -> None:
    code, message = await ready.fails("execute", {"source": "in x: Int\ny = nothing(x)\nout y", "inputs": {}})
    assert (code, "line 2, column 5: E002" in message) == ("invalid_arguments", True)
    source = "in x: Int\nin p: { name: String }\nout x\nout p"
    for inputs, reason in (
        ({"x": "one", "p": {"name": ""}}, "x: expected Int"),
        ({"x": 1, "p": {"name": 3}}, "name"),
    ):
        code, message = await ready.fails("execute", {"source": source, "inputs": inputs})
        assert code == "invalid_arguments"
        assert reason in message
    code, message = await ready.fails("execute", {"inputs": {}})
    assert "either source or ref" in message


async def test_a_tool_that_the_caller_may_not_use_is_no_module(lab: Lab) -> None:
    lab.counted.tool("add", add_one, answers=NUMBER)
    await lab.host(allow=Allow(teams=("team-x",)))
    replica = await lab.replica()
    await lab.known(replica)
    source = chain(lab.counted.namespace, ["add"])
    _, forbidden = await lab.fails("execute", {"source": source, "inputs": {"x": 1}})
    unknown = source.replace(lab.counted.agent, "z" * len(lab.counted.agent))
    _, missing = await lab.fails("execute", {"source": unknown, "inputs": {"x": 1}})
    assert forbidden == missing.replace("z" * len(lab.counted.agent), lab.counted.agent)
    names = {module["name"] for module in (await lab.call("list_modules", {}))["modules"]}
    assert not [name for name in names if name.startswith(lab.counted.team)]


@requirement("C-run-4")
async def test_missing_inputs_suspend_the_execution_and_resume_goes_on(ready: Lab) -> None:
    lines = ("in x: Int", "in y: Int", "a = t.add(x)", "b = t.add(a.number + y)", "out a", "out b")
    source = program(ready, *lines)
    first = await ready.run(source, x=1)
    assert (first["status"], first["outputs"]) == ("suspended", {"a": {"number": 2}})
    assert (first["missingInputs"], first["pendingOutputs"]) == ({"y": "Int"}, ["b"])
    resume = {"executionId": first["executionId"], "additionalInputs": {"y": 10}}
    _, unknown = await ready.fails("resume", resume, BOB)
    assert unknown == f"There is no suspended execution '{first['executionId']}'."
    _, changed = await ready.fails("resume", resume | {"additionalInputs": {"x": 2, "y": 10}})
    assert "x was given before" in changed
    last = await ready.call("resume", resume)
    assert (last["status"], last["outputs"]) == ("completed", {"a": {"number": 2}, "b": {"number": 13}})
    assert (last["executionId"], last["resumptionCount"]) == (first["executionId"], 1)
    assert ready.counted.calls == {"add": 2}
    await ready.fails("resume", resume)


async def test_only_so_many_executions_of_a_caller_wait_for_inputs(ready: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.running.suspending.MOST_SUSPENDED", 1)
    caller = Principal(type="user", id=f"usr_{uuid.uuid4().hex[:8]}")
    waits: dict[str, Any] = {"source": "in x: Int\nout x", "inputs": {}}
    assert (await ready.call("execute", waits, caller))["status"] == "suspended"
    assert "wait for inputs already" in (await ready.fails("execute", waits, caller))[1]


async def test_missing_inputs_are_asked_for_if_the_client_can(ready: Lab) -> None:
    source = program(ready, "in x: Int", "in tags: List<String>", "y = t.add(x)", "out y", "out tags")
    arguments: dict[str, Any] = {"source": source, "inputs": {}, "on_missing": "ask"}
    request = ready.request("execute", arguments)
    asks = request.client.model_copy(update={"capabilities": {"elicitation": {}}})
    followed = await ready.submit(request.model_copy(update={"client": asks}))
    asked = await followed.until(InputRequired)
    form = asked.input_requests["inputs"]["params"]["requestedSchema"]
    assert form["properties"]["x"]["type"] == "integer"
    assert (await followed.outcome()).status == "input_required"
    content = {"x": 1, "tags": '["a"]'}
    responses = {"inputs": {"action": "accept", "content": content}}
    again = ready.request("execute", arguments)
    answered = again.model_copy(update={"client": asks, "input_responses": responses})
    followed = await ready.submit(answered)
    assert (await followed.outcome()).status == "completed"
    assert '"tags": ["a"]' in followed.text


@requirement("C-ph-4")
async def test_a_batch_runs_a_program_for_many_inputs(ready: Lab) -> None:
    source = program(ready, "in x: Int", "y = t.add(x).number", "z = 10 / y", "out z")
    items = [{"x": n} for n in (0, -1, 4)] + [{"x": "a"}, {}]
    answer = await ready.call("batch_execute", {"source": source, "inputs": items})
    assert [item["success"] for item in answer["results"]] == [True, False, True, False, False]
    assert [item.get("outputs") for item in answer["results"]][::2] == [{"z": 10}, {"z": 2}, None]
    assert (answer["failed"], answer["metrics"]["modulesExecuted"]) == (3, 2)
    assert ready.counted.calls == {"add": 3}


async def test_a_dry_run_says_what_would_be_called(ready: Lab) -> None:
    source = program(ready, "in x: Int", "y = t.add(x)", "out y")
    answer = await ready.call("execute", {"source": source, "inputs": {}, "dry_run": True})
    [call] = answer["calls"]
    assert (call["tool"], call["line"], call["column"], call["readOnly"]) == ("add", 2, 5, False)
    assert not ready.counted.calls


async def test_a_call_waits_while_its_agent_is_busy(lab: Lab) -> None:
    lab.counted.tool("add", add_one, answers=NUMBER)
    await lab.host(limits=Limits(turn_timeout=20.0, max_rate=20.0))
    await lab.known(await lab.replica())
    lines = ["in x: Int", *(f"v{n} = t.add(x)" for n in range(30)), *(f"out v{n}" for n in range(30))]
    answer = await lab.run(program(lab, *lines), x=1)
    assert len(answer["outputs"]) == 30


async def test_the_calls_of_an_execution_are_made_in_the_name_of_its_caller(lab: Lab) -> None:
    seen: list[str] = []
    other = Counted(lab.counted.team, "other")
    other.tool("add", add_one, answers=NUMBER)
    lab.counted.tool("add", add_one, answers=NUMBER)
    await lab.host()
    await lab.known(await lab.replica())
    followed = await lab.start("execute", {"source": chain(lab.counted.namespace, ["add"]), "inputs": {"x": 1}})
    await followed.outcome()
    [claim] = await lab.children(followed.request)
    assert claim.principal == ALICE
    assert not seen


async def test_many_executions_at_once(ready: Lab) -> None:
    source = chain(ready.counted.namespace, ["add"] * 5)
    answers = await gather(*(ready.run(source, x=n) for n in range(40)))
    assert [answer["outputs"]["result"] for answer in answers] == [n + 5 for n in range(40)]
    assert ready.counted.calls == {"add": 200}
