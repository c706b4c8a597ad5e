"""A coding agent is its maker's. To others it does not exist, whatever they ask, but to operators."""

import json

import httpx
import pytest
from tests.integration.fleet.lab import ALICE, Lab
from tests.integration.fleet.test_gateway import a_front

from pallas_bus.ask import ask
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TEAM, READ_AGENT
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import Principal

MALLORY = Principal(type="token", id="mallory")
ADMIN = Principal(type="team", id="admins")
PEERS = Principal(type="peer", id="10.0.0.1"), Principal(type="peer", id="10.0.0.2")


async def test_an_agent_is_its_makers_and_to_others_it_does_not_exist(lab: Lab) -> None:
    await lab.replica(fleet_extras="true", fleet_operators="team:admins")
    name = await lab.create()
    [task] = await lab.history(name)
    named: JsonObject = {"agent_name": name}
    calls: list[tuple[str, JsonObject]] = [
        ("show_agent", named),
        ("show_agent_task_history", named),
        ("start_agent_task", named | {"task_description": "say stolen"}),
        ("stop_agent_task", named),
        ("wait_agent_task", named),
        ("delete_agent", named),
    ]
    for caller in (MALLORY, Principal(type="user", id="usr_bob", name="alice"), *PEERS):
        assert await lab.call("list_agents", caller) == {"agents": [], "total_count": 0}
        for tool, given in calls:
            told = await lab.error(tool, caller, **given)
            absent = await lab.error(tool, caller, **given | {"agent_name": "nobody"})
            assert told == json.loads(json.dumps(absent).replace("nobody", name)), (tool, told)
        for uri in (f"fleet://agents/{name}", f"fleet://tasks/{task['id']}"):
            with pytest.raises(PallasError, match=r"does not exist|There is no task"):
                await read(lab, uri, caller)
    for caller in (ALICE, ADMIN):
        assert (await lab.call("list_agents", caller))["total_count"] == 1
        assert (await lab.call("show_agent", caller, **named))["agent"]["name"] == name
    assert lab.coder.agent(name).prompts == ["say hello"]
    await lab.call("delete_agent", ADMIN, **named)


async def test_an_agent_is_its_users_whichever_token_it_uses(lab: Lab) -> None:
    await lab.replica(fleet_operators="")
    one, other, ben = (
        Principal(type="token", id=id_, user=user) for id_, user in (("t1", "ann"), ("t2", "ann"), ("t3", "ben"))
    )
    await lab.call("create_agent", one, name="hers", project="Setup", spec="say hello")
    for caller, seen in ((other, 1), (Principal(type="user", id="ann"), 1), (ben, 0)):
        assert (await lab.call("list_agents", caller))["total_count"] == seen
    await lab.call("delete_agent", other, agent_name="hers")


async def test_callers_without_a_bearer_are_one_owner(lab: Lab) -> None:
    await lab.replica(fleet_operators="")
    one, other = PEERS
    await lab.call("create_agent", one, name="papi", project="Setup", spec="say hello")
    assert (await lab.call("list_agents", other))["total_count"] == 1
    assert (await lab.call("list_agents"))["total_count"] == 0
    await lab.call("delete_agent", other, agent_name="papi")


async def test_a_name_that_somebody_else_has_is_taken(lab: Lab) -> None:
    await lab.replica(fleet_operators="")
    name = await lab.create()
    error = await lab.error("create_agent", MALLORY, name=name, project="Setup", spec="say hello")
    assert error["message"] == f"Agent '{name}' already exists."
    assert (await lab.call("show_agent", agent_name=name))["agent"]["name"] == name


async def test_an_agent_of_coder_is_the_operators(lab: Lab) -> None:
    replica = await lab.replica(fleet_operators="team:admins")
    [template] = [it for it in await replica.coder.templates() if it.display_name == "Setup"]
    await replica.coder.create("theirs", template, preset_id=None, parameters={})
    await lab.coder.agent("theirs").until("stable")
    replica.service.fleet.forget()
    counts = [(await lab.call("list_agents", it))["total_count"] for it in (ADMIN, PEERS[0], ALICE, MALLORY)]
    assert counts == [1, 1, 0, 0]


async def test_nobody_may_use_a_fleet_that_names_nobody(lab: Lab) -> None:
    await lab.replica(fleet_allow="")
    async with a_front(lab) as front, httpx.AsyncClient(verify=False, trust_env=False) as http:
        answer = await http.post(front.url(FLEET_TEAM, FLEET_AGENT), json={})
    assert answer.status_code in (401, 403), answer.text


async def read(lab: Lab, uri: str, caller: Principal) -> JsonObject:
    """Read a resource as a caller."""
    question = AgentRead(
        team=FLEET_TEAM, agent=FLEET_AGENT, method="resources/read", params={"uri": uri}, principal=caller
    )
    answer = await ask(lab.bus, READ_AGENT, question, team=FLEET_TEAM, agent=FLEET_AGENT)
    return answer.result
