"""How endpoints are found, and which changes of a definition replace them."""

from typing import Any

import pytest
from mcp.server.request_state import RequestStateSecurity
from tests.builders import agent_definition
from tests.unit.agent_gateway.conftest import NO_PLATFORM
from tests.waiting import eventually

from agent_gateway.mcp.endpoints import Endpoint, Endpoints
from agent_gateway.mcp.request import request_token, session_token
from agent_gateway.mcp.server import AgentServer
from pallas_contracts.agents import PromptDefinition, ResourceDefinition, ToolDefinition
from pallas_contracts.ids import check_token
from pallas_contracts.turns import Principal


def add(endpoints: Endpoints, team: str, agent: str = "harper", **fields: Any) -> None:
    endpoints.changed(f"{team}.{agent}", agent_definition(team, agent, **fields))


async def test_an_agent_is_found_by_team_and_name(endpoints: Endpoints) -> None:
    add(endpoints, "red")
    found = endpoints.find("red", "harper")
    assert isinstance(found, Endpoint)
    assert found.agent.definition.team == "red"
    assert endpoints.find("blue", "harper") == "Team 'blue' has no agent 'harper'."


async def test_an_agent_is_found_by_its_name_alone_while_no_other_team_has_it(endpoints: Endpoints) -> None:
    assert endpoints.find_unique("harper") == "There is no agent 'harper'."
    add(endpoints, "red")
    assert isinstance(endpoints.find_unique("harper"), Endpoint)
    add(endpoints, "blue")
    refusal = endpoints.find_unique("harper")
    assert refusal == "Several teams have an agent 'harper': use one of /teams/blue/mcp/harper, /teams/red/mcp/harper."
    endpoints.changed("red.harper", None)
    found = endpoints.find_unique("harper")
    assert isinstance(found, Endpoint)
    assert found.agent.definition.team == "blue"


async def test_a_data_agent_does_not_hide_the_agent_of_a_team_that_has_its_name(endpoints: Endpoints) -> None:
    add(endpoints, "data")
    found = endpoints.find_unique("harper")
    assert isinstance(found, Endpoint)
    assert found.agent.definition.team == "data"
    add(endpoints, "red")
    found = endpoints.find_unique("harper")
    assert isinstance(found, Endpoint)
    assert found.agent.definition.team == "red"


async def test_a_very_long_agent_name_is_cut_in_the_refusal(endpoints: Endpoints) -> None:
    assert len(str(endpoints.find_unique("x" * 5000))) < 100


async def test_a_change_of_tools_keeps_the_endpoint_and_a_new_version_replaces_it(endpoints: Endpoints) -> None:
    add(endpoints, "red")
    before = endpoints.find("red", "harper")
    assert isinstance(before, Endpoint)
    add(endpoints, "red", tools=(ToolDefinition(name="other"),))
    assert endpoints.find("red", "harper") is before
    await eventually(lambda: before.agent.definition.tools[0].name == "other")
    add(endpoints, "red", version="2.0.0")
    assert endpoints.find("red", "harper") is not before


@pytest.mark.parametrize(
    ("fields", "possible"),
    [
        ({}, True),
        ({"tools": ()}, True),
        ({"prompts": (PromptDefinition(name="p"),)}, True),
        ({"port": 24101}, True),
        ({"title": "Other"}, False),
        ({"version": "0.0.1"}, False),
        ({"description": "Other"}, False),
        ({"resources": (ResourceDefinition(uri="a://b", name="b"),)}, False),
        ({"completes": True}, False),
    ],
    ids=["same", "tools", "prompts", "port", "title", "version", "description", "resources", "completion"],
)
async def test_only_changes_of_server_info_and_capabilities_need_a_new_server(
    fields: dict[str, Any], possible: bool
) -> None:
    server = AgentServer(agent_definition("red"), NO_PLATFORM, RequestStateSecurity.ephemeral())
    assert server.can_change_to(agent_definition("red", **fields)) is possible


def test_session_and_request_ids_become_tokens() -> None:
    for token in (
        session_token("A.b*>", Principal()),
        session_token("A.b*>", Principal(type="team", id="a b")),
        session_token("", Principal()),
        request_token("a b"),
        request_token(7),
        request_token(None),
    ):
        assert check_token(token, "token") == token


def test_a_numeric_request_id_differs_from_the_same_digits_as_text() -> None:
    assert request_token(1) != request_token("1")
    assert request_token("x") == request_token("x")
