"""The nine tools as a state machine: any calls in any order, with a small model of what the fleet has to be."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.integration.fleet.lab import Lab
from tests.waiting import eventually, soon

from pallas_contracts.agents import JsonObject

NAMES = st.sampled_from(("papi", "sony"))
LONG, SHORT = "work 60 s", "say done"
_STEP_SECONDS = 60.0


@dataclass
class Agent:
    """What the model knows of an agent: its tasks, the latest first."""

    tasks: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def busy(self) -> bool:
        """Whether it has a task."""
        return self.tasks[0][1] == "running"


class FleetMachine(RuleBasedStateMachine):
    """Calls of one caller. Names are given in any case."""

    runner: asyncio.Runner
    lab: Lab

    def __init__(self) -> None:
        super().__init__()
        self.agents: dict[str, Agent] = {}

    def do[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out a call."""
        return self.runner.run(soon(work, _STEP_SECONDS))

    def call(self, wanted: int, tool: str, **arguments: Any) -> JsonObject:
        """Call a tool, which has to answer with this status; 200 is its answer."""
        if wanted == 200:
            return self.do(self.lab.call(tool, **arguments))
        error = self.do(self.lab.error(tool, **arguments))
        assert error["details"]["status"] == wanted, error
        return error

    @rule(name=NAMES, works=st.booleans())
    def create(self, name: str, works: bool) -> None:
        """The agent begins with its specification."""
        spec = LONG if works else SHORT
        self.call(400 if name in self.agents else 200, "create_agent", name=name, project="Setup", spec=spec)
        if name not in self.agents:
            self.agents[name] = Agent([(spec, "running")])
            self.do(self.lab.status(name, "busy") if works else self.ended(name))

    async def ended(self, name: str) -> None:
        """A short task ends by itself."""
        summary, _ = self.agents[name].tasks[0]
        await self.lab.coder.agent(name).until("stable")
        await self.lab.idle(name)
        self.agents[name].tasks[0] = (summary, "completed")

    @rule(name=NAMES, works=st.booleans())
    def start(self, name: str, works: bool) -> None:
        """One task at a time."""
        agent, text = self.agents.get(name), LONG if works else SHORT
        status = 404 if agent is None else 409 if agent.busy else 200
        self.call(status, "start_agent_task", agent_name=name.upper(), task_description=text)
        if agent is not None and status == 200:
            agent.tasks.insert(0, (text, "running"))
            if not works:
                self.do(self.ended(name))

    @rule(name=NAMES)
    def stop(self, name: str) -> None:
        """Only what runs is stopped."""
        agent = self.agents.get(name)
        answer = self.call(200 if agent is not None and agent.busy else 404, "stop_agent_task", agent_name=name)
        if agent is not None and agent.busy:
            agent.tasks[0] = (agent.tasks[0][0], "stopped")
            assert answer["task"]["summary"] == agent.tasks[0][0]
            assert self.lab.coder.agent(name).status == "stable"

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        """A deleted agent is gone with its history, whatever it did."""
        self.call(200 if name in self.agents else 404, "delete_agent", agent_name=name)
        self.agents.pop(name, None)

    @rule(name=NAMES)
    def show(self, name: str) -> None:
        """Status and task of an agent."""
        answer = self.call(200 if name in self.agents else 404, "show_agent", agent_name=name)
        if (agent := self.agents.get(name)) is not None:
            shown = answer["agent"]
            assert (shown["status"], shown["current_task"]) == _seen(agent), shown

    @rule()
    def look_around(self) -> None:
        """Projects and roles."""
        projects = [each["name"] for each in self.call(200, "list_agent_projects")["projects"]]
        assert "Setup" in projects
        assert self.call(200, "list_agent_roles", project="Setup")["roles"]

    @invariant()
    def the_fleet_is_the_model(self) -> None:
        """Agents, statuses, histories, and the prompts in the terminals."""
        listed = self.call(200, "list_agents")["agents"]
        assert {it["name"]: (it["status"], it["current_task"]) for it in listed} == {
            name: _seen(agent) for name, agent in self.agents.items()
        }
        for name, agent in self.agents.items():
            rows = self.call(200, "show_agent_task_history", agent_name=name)["tasks"]
            assert [(row["summary"], row["status"]) for row in rows] == agent.tasks
            self.do(self.has_typed(name, [text for text, _ in reversed(agent.tasks)]))

    async def has_typed(self, name: str, prompts: list[str]) -> None:
        """An agent is busy a moment before its terminal has the specification."""
        await eventually(lambda: self.lab.coder.agent(name).prompts == prompts)

    def teardown(self) -> None:
        """Leave nothing for the next run."""
        for name in list(self.agents):
            self.delete(name)


def _seen(agent: Agent) -> tuple[str, str | None]:
    return ("busy", agent.tasks[0][0]) if agent.busy else ("idle", None)
