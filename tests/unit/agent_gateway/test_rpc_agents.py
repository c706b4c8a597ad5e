"""Which agent an `agent_id` names, for which caller, and what a caller is told of the agents that it may use."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.builders import agent_definition

from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.metrics import make_metrics
from agent_gateway.rpc.agents import CallableAgents, RpcCaller, UnknownAgent
from agent_gateway.rpc.discover import discover
from pallas_contracts.agents import Allow, ToolDefinition
from pallas_contracts.turns import Principal

ALICE = RpcCaller(Principal(type="user", id="alice"), "http://gateway.example/rpc")
HIDDEN = Allow(types=("team",))


@pytest.fixture
def agents(endpoints: Endpoints) -> CallableAgents:
    """The agents of a user."""
    return CallableAgents(endpoints, make_metrics(CollectorRegistry()), ALICE)


def add(agents: CallableAgents, team: str, agent: str = "news", **fields: Any) -> None:
    """Publish an agent."""
    agents.endpoints.changed(f"{team}.{agent}", agent_definition(team, agent, **fields))


def found(agents: CallableAgents, agent_id: str, team: str | None = None) -> str:
    """The team of the agent, or why there is none."""
    try:
        return replace(agents, caller=replace(ALICE, team=team)).find(agent_id).definition.team
    except UnknownAgent as error:
        return f"{error.reason}: {error.known}"


async def test_the_only_one_of_a_name_is_found_and_a_data_agent_takes_no_name_from_a_team(
    agents: CallableAgents,
) -> None:
    add(agents, "data")
    assert found(agents, "news") == "data"
    add(agents, "red")
    assert found(agents, "news") == "red"
    assert found(agents, "data/news") == "data"
    agents.endpoints.changed("red.news", None)
    assert found(agents, "news") == "data"


async def test_what_a_caller_may_not_use_keeps_its_name_before_data_agents(agents: CallableAgents) -> None:
    add(agents, "data")
    add(agents, "red", allow=HIDDEN)
    assert found(agents, "news") == "unknown agent: ['data/news']"


async def test_a_name_that_several_teams_have_needs_the_team(agents: CallableAgents) -> None:
    add(agents, "red")
    add(agents, "blue")
    assert found(agents, "news") == "several teams have an agent of this name: ['blue/news', 'red/news']"
    assert found(agents, "blue/news") == "blue"


async def test_the_path_of_a_team_knows_the_agents_of_this_team_only(agents: CallableAgents) -> None:
    add(agents, "red")
    add(agents, "data")
    assert found(agents, "news", "red") == "red"
    assert found(agents, "news", "blue") == "unknown agent: []"
    assert found(agents, "data/news", "red") == "unknown agent: ['news']"


@pytest.mark.parametrize("agent_id", ["news", "data/news", "blue/news", "/", "a/b/c", "", "news/", "/news"])
async def test_an_agent_that_the_caller_may_not_use_is_unknown(agents: CallableAgents, agent_id: str) -> None:
    add(agents, "red", "other")
    before = found(agents, agent_id)
    add(agents, "data", allow=HIDDEN)
    add(agents, "blue", allow=HIDDEN)
    assert found(agents, agent_id) == before == "unknown agent: ['other']"


async def test_hidden_agents_of_the_same_name_are_in_nobodys_way(agents: CallableAgents) -> None:
    add(agents, "data", allow=HIDDEN)
    add(agents, "blue", allow=HIDDEN)
    add(agents, "red")
    assert found(agents, "news") == "red"


async def test_every_listed_id_finds_its_agent(agents: CallableAgents) -> None:
    for team, agent in (("data", "news"), ("red", "news"), ("red", "chief"), ("blue", "chief"), ("blue", "only")):
        add(agents, team, agent)
    listed = agents.by_id()
    assert set(listed) == {"news", "data/news", "red/chief", "blue/chief", "only"}
    assert {agent_id: agents.find(agent_id).definition for agent_id in listed} == listed


LOCAL: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://somewhere.example/",
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}, "$ref": {"const": {"$ref": "#/not/one"}}},
    "$defs": {"node": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#"}]}}},
}


async def test_references_of_a_schema_are_to_its_place_in_the_document(agents: CallableAgents) -> None:
    add(agents, "data", tools=(ToolDefinition(name="walk", input_schema=LOCAL), ToolDefinition(name="a b/ü")))
    place = "#/components/schemas/data.news.walk.input"
    schemas = discover(agents)["components"]["schemas"]
    assert schemas["data.news.walk.input"] == {
        "type": "object",
        "properties": {"node": {"$ref": f"{place}/$defs/node"}, "$ref": {"const": {"$ref": "#/not/one"}}},
        "$defs": {"node": {"type": "array", "items": {"anyOf": [{"$ref": f"{place}/$defs/node"}, {"$ref": place}]}}},
    }
    assert set(schemas) == {"data.news.walk.input", "data.news.function.1.input"}


async def test_the_document_has_what_the_caller_may_use_and_nothing_else(agents: CallableAgents) -> None:
    output = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}
    tool = ToolDefinition(name="price", output_schema=output, meta={"pallas/wrapped": True})
    facts = {"resources": ["api"], "constraints": {"timeout": 5}, "heartbeat_interval": 60}
    add(agents, "data", kind="data", tools=(tool,), facts=facts)
    add(agents, "data", "hidden", allow=HIDDEN)
    add(agents, "data", "broken", unusable="it is too large")
    [news] = discover(agents)["x-agents"]
    assert {name: news[name] for name in ("agent_id", "team", *facts)} == {"agent_id": "news", "team": "data", **facts}
    assert news["functions"] == [
        {
            "name": "price",
            "description": "",
            "input": {"$ref": "#/components/schemas/data.news.price.input"},
            "output": {"$ref": "#/components/schemas/data.news.price.output/properties/result"},
        }
    ]


async def test_the_methods_of_data_agents_are_those_of_their_team(agents: CallableAgents) -> None:
    def methods(team: str | None) -> set[str]:
        document = discover(replace(agents, caller=replace(ALICE, team=team)))
        return {method["name"] for method in document["methods"]}

    assert methods(None) == methods("data")
    assert methods("red") == {"agent.execute", "rpc.discover"}
    assert methods(None) - methods("red") == {"server.register", "agent.heartbeat", "server.unregister"}
