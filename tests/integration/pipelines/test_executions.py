"""Executions: programs whose calls are turns of agents."""

from typing import Any

from tests.integration.pipelines.lab import NUMBER, Lab, chain


async def add_one(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"number": arguments["number"] + 1}


async def test_a_program_of_the_standard_library_is_executed(lab: Lab) -> None:
    await lab.replica()
    answer = await lab.run("in x: Int\ny = x * 2 + 1\nout y", x=20)
    assert (answer["success"], answer["status"], answer["outputs"]) == (True, "completed", {"y": 41})
    assert answer["metrics"]["modulesExecuted"] == 0


async def test_each_call_of_a_tool_is_a_turn(lab: Lab) -> None:
    lab.counted.tool("add", add_one, answers=NUMBER)
    await lab.host()
    await lab.known(await lab.replica())
    answer = await lab.run(chain(lab.counted.namespace, ["add"] * 10), x=1)
    assert answer["outputs"] == {"result": 11}
    assert answer["metrics"]["modulesExecuted"] == 10
    assert lab.counted.calls == {"add": 10}
