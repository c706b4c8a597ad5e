"""The nine tools through a real executor and log, with agents in real terminals."""

import pytest
from tests.integration.fleet.lab import Lab


async def test_an_agent_is_created_works_and_is_deleted(lab: Lab) -> None:
    await lab.replica()
    created = await lab.call("create_agent", name="papi", project="setup", role="Operator", spec="work 0.3 s")
    print(created)
    assert created["agent"]["status"] == "idle"
    await lab.idle("papi")
    print(await lab.call("show_agent", agent_name="PAPI"))
    print(await lab.call("list_agents"))
    started = await lab.call("start_agent_task", agent_name="papi", task_description="work 30 s")
    print(started)
    print(await lab.call("list_agents"))
    print(await lab.error("start_agent_task", agent_name="papi", task_description="work 30 s"))
    print(await lab.call("stop_agent_task", agent_name="papi"))
    print(await lab.history("papi"))
    print(await lab.call("list_agent_projects"))
    print(await lab.call("list_agent_roles", project="Setup"))
    print(await lab.call("delete_agent", agent_name="papi"))
    print(await lab.call("list_agents"))
