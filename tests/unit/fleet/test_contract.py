"""The tools against the contract as it is written: names, arguments, answers and examples."""

from typing import Any

import jsonschema
import pytest
from tests.requirements import requirement
from tests.unit.fleet.contract import block, optional, tools

from fleet.agent.schemas import callers_of, fleet_definition, tasks_definition
from fleet.agent.tools import Handlers, make_agent
from pallas_contracts.agents import Allow, JsonObject
from pallas_contracts.bounds import Json
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal

CONTRACT = tools()
AGENT = make_agent(Handlers.__new__(Handlers), extras=False)
DEFINITION = fleet_definition(AGENT, Allow(types=("user",)))


def outline(schema: JsonObject) -> Any:
    """A schema as the contract writes it."""
    match schema.get("type"):
        case "object":
            return {name: outline(each) for name, each in schema["properties"].items()}
        case "array":
            return [outline(schema["items"])]
        case ["string", "null"]:
            return "str | None"
        case "integer":
            return "int"
        case _:
            only = schema.get("enum", ())
            return only[0] if len(only) == 1 else "str"


def written(value: Json) -> Json:
    """What the contract writes. A new agent has no task, which is one of the values that a task can have."""
    if isinstance(value, dict):
        return {name: written(each) for name, each in value.items()}
    if isinstance(value, list):
        return [written(each) for each in value]
    return "str | None" if value == "None" else value


def missing_allowed(schema: JsonObject) -> set[str]:
    """The names in a schema that are not required."""
    found = set(schema.get("properties", ())) - set(schema.get("required", ()))
    parts = [*schema.get("properties", {}).values(), schema.get("items", {})]
    return found.union(*(missing_allowed(part) for part in parts if part))


@requirement("F-common-1")
def test_the_nine_tools_are_listed_in_the_contracts_order() -> None:
    assert [tool.name for tool in DEFINITION.tools] == [
        "create_agent",
        "list_agents",
        "show_agent",
        "show_agent_task_history",
        "delete_agent",
        "start_agent_task",
        "stop_agent_task",
        "list_agent_roles",
        "list_agent_projects",
    ]
    assert [tool.name for tool in DEFINITION.tools] == list(CONTRACT)
    more = [tool for tool in make_agent(Handlers.__new__(Handlers), extras=True).tools if tool not in AGENT.tools]
    assert more == ["wait_agent_task"]


@pytest.mark.parametrize("name", CONTRACT)
def test_arguments_are_those_of_the_contract(name: str) -> None:
    given, schema = block(CONTRACT[name]["Input Parameters"]), AGENT.tools[name].definition.input_schema
    assert outline(schema) == given
    assert set(schema["properties"]) - set(schema["required"]) == optional(CONTRACT[name]["Input Parameters"])
    checked = {key for each in schema["properties"].values() for key in each}
    assert checked <= {"type", "description", "default"}, "only presence and types: handlers check the rest"


@requirement("F-common-5")
@pytest.mark.parametrize("name", CONTRACT)
def test_answers_are_those_of_the_contract(name: str) -> None:
    text, schema = CONTRACT[name]["Output"], AGENT.tools[name].definition.output_schema
    assert schema is not None
    assert outline(schema) == written(block(text))
    assert missing_allowed(schema) == optional(text)


@pytest.mark.parametrize("name", [name for name in CONTRACT if "Example Output" in CONTRACT[name]])
def test_examples_of_answers_fit_the_schema(name: str) -> None:
    schema = AGENT.tools[name].definition.output_schema
    assert schema is not None
    jsonschema.validate(block(CONTRACT[name]["Example Output"]), schema)


@pytest.mark.parametrize("name", [name for name in CONTRACT if "Example Input" in CONTRACT[name]])
def test_examples_of_arguments_fit_the_schema(name: str) -> None:
    jsonschema.validate(block(CONTRACT[name]["Example Input"]), AGENT.tools[name].definition.input_schema)


@pytest.mark.parametrize("tool", DEFINITION.tools, ids=lambda tool: tool.name)
def test_annotations_say_what_a_tool_changes(tool: Any) -> None:
    reads = tool.name.startswith(("list_", "show_"))
    destroys = tool.name.startswith(("delete_", "stop_"))
    assert tool.annotations["readOnlyHint"] is reads
    assert tool.annotations.get("destructiveHint", False) is destroys
    assert tool.annotations.get("idempotentHint", False) is destroys


def test_later_names_of_the_same_tools_are_aliases() -> None:
    later = {"start_task", "cancel_task", "cancel_agent_task", "list_roles", "list_projects", "show_task_history"}
    for name in later:
        assert DEFINITION.tool(name) is not None, name
    assert later.isdisjoint(tool.name for tool in DEFINITION.tools)


def test_tasks_are_turns_that_nobody_may_make() -> None:
    tasks = tasks_definition(200)
    assert tasks.hidden
    assert not DEFINITION.hidden
    assert (tasks.limits.turn_timeout, tasks.limits.max_concurrency, tasks.retry) == (86_400, 200, "safe")
    assert (DEFINITION.limits.turn_timeout, DEFINITION.retry) == (60, "safe")


def test_who_may_use_the_fleet() -> None:
    assert callers_of("X", ()) == Allow()
    allowed = callers_of("X", ("user", "team:t1", "token:k1"))
    assert allowed == Allow(types=("user",), teams=("t1",), tokens=("k1",))
    definition = fleet_definition(AGENT, allowed)
    assert definition.allows(Principal(type="team", id="t1"))
    assert not definition.allows(Principal(type="team", id="t2"))


@pytest.mark.parametrize("name", ["users", "team:", "user:u1", "peer:x"])
def test_a_caller_that_cannot_be_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(Rejected, match=r"^PALLAS_FLEET_ALLOW: "):
        callers_of("PALLAS_FLEET_ALLOW", (name,))
