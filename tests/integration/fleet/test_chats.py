"""A Coder that has chats in place of tasks and AgentAPI: agents are used as before."""

from tests.integration.fleet.lab import Lab
from tests.integration.fleet.test_releases import a_coder
from tests.integration.fleet.test_tools import failure


async def test_an_agent_without_a_terminal_is_used_by_its_chat(lab: Lab) -> None:
    async with a_coder(lab, release=37, generation="chats") as now:
        name = await now.create(spec="say hello", role="operator")
        handle = now.coder.agent(name)
        assert handle.prompts == ["say hello"]
        started = await now.call("start_agent_task", agent_name=name, task_description="work 60 s")
        conflict = await now.error("start_agent_task", agent_name=name, task_description="say no")
        assert failure(conflict) == ("conflict", 409)
        stopped = await now.call("stop_agent_task", agent_name=name)
        assert (stopped["task"]["id"], stopped["message"]) == (started["task"]["id"], "Task stopped successfully")
        assert (handle.status, handle.escapes) == ("stable", 1)
        await now.call("start_agent_task", agent_name=name, task_description="say bye")
        await now.idle(name)
        assert handle.prompts == ["say hello", "work 60 s", "say bye"]
        rows = [(row["summary"], row["status"]) for row in await now.history(name)]
        assert rows == [("say bye", "completed"), ("work 60 s", "stopped"), ("say hello", "completed")]
        [chat] = now.coder.workspaces.world.chats.values()
        assert (chat.workspace, chat.archived) == (handle.workspace.id, False)
        await now.call("delete_agent", agent_name=name)
        assert chat.archived


async def test_any_template_will_do(lab: Lab) -> None:
    async with a_coder(lab, release=37, generation="chats") as now:
        refused = await now.error("create_agent", name="plain", project="Broken", spec="say hello")
        assert failure(refused) == ("service_unavailable", 503)
        await now.call("create_agent", name="bare", project="DataOne", spec="say hello")
        await now.idle("bare")
        assert now.coder.agent("bare").prompts == ["say hello"]
