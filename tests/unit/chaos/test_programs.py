"""The programs of a storm: they compute what they say, and call what they say in the places that they say."""

from collections.abc import Mapping
from random import Random

import pytest
from tests.chaos.programs import Program, program_of
from tests.chaos.script import PROGRAM, ScriptedCall, scripted_calls

from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.evaluate import Calling, evaluate
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse
from pallas_cst.stdlib import STANDARD_FUNCTIONS
from pallas_cst.values import Value

NUMBER, TEXT = t.Record({"number": t.INT}), t.Record({"text": t.STRING})


def tool(name: str, agent: str, returns: t.Type, *parameters: tuple[str, t.Type]) -> Function:
    return Function(name, parameters, returns, f"{agent}.{name}", agent, tool=True, needed=1)


NAME, OPTIONAL = "conversation_id", t.OptionalOf(t.STRING)
KEY, SECONDS = ("key", t.STRING), ("seconds", t.FLOAT)
TOOLS = [
    *(tool("add", f"chaos.{agent}", NUMBER, KEY, SECONDS, ("number", t.INT)) for agent in ("ledger", "notes")),
    *(tool("measure", f"data.{agent}", TEXT, KEY, SECONDS) for agent in ("meter", "gauge")),
    tool("teller", "chaos.teller", t.STRING, ("message", t.STRING), *((it, OPTIONAL) for it in ("images", NAME))),
]
CALLS = [call for call in scripted_calls(Random(1), 300, 12.0) if call.agent == PROGRAM]


async def executed(program: Program, key: str) -> tuple[Mapping[str, Value], dict[str, str]]:
    """The outputs, and the agents that were called by the places of the calls."""
    called: dict[str, str] = {}

    async def call(calling: Calling) -> Value:
        given = calling.function.input_of(calling.arguments)
        if calling.call.options.timeout is not None and calling.call.options.retry is None:
            assert calling.fallback is not None
            return await calling.fallback()
        called[calling.place] = calling.function.namespace or ""
        if calling.function.name == "teller":
            assert given[NAME] == f"{key}.{calling.place}"
            return str(given["message"]).rpartition("/say ")[2]
        assert given["key"] == f"{key}.{calling.place}"
        if calling.function.name == "add":
            return {"number": given["number"] + 1}
        return {"text": f"{given['key']} measured"}

    functions = Functions([*TOOLS, *STANDARD_FUNCTIONS])
    checked = check(parse(program.source), functions)
    return await evaluate(checked, {"key": key}, call), called


@pytest.mark.parametrize("call", CALLS[:20], ids=lambda call: call.key)
async def test_a_program_computes_and_calls_what_it_says(call: ScriptedCall) -> None:
    program = program_of(call)
    assert program_of(call) == program
    outputs, called = await executed(program, call.key)
    assert outputs == program.outputs
    late = {node.place for node in program.nodes if not node.needed}
    wanted = {node.place: node.agent for node in program.nodes if node.taken}
    assert {place: agent.partition(".")[2] for place, agent in called.items()}.items() <= wanted.items()
    assert wanted.keys() - called.keys() <= late
