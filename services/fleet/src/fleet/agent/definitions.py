"""The definitions of both agents of the fleet."""

from importlib.metadata import version

from fleet.running.requests import RUN_TASK
from pallas_contracts.agents import AgentDefinition, Allow, Limits, ToolDefinition
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TASKS_AGENT, FLEET_TEAM
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_executor.functions.agent import FunctionAgent

CALLS = 100
"""Calls of tools that run at a time."""

_CALL_SECONDS = 60.0
_CALL_ATTEMPTS = 20
"""Every call may be repeated, so only its time is short."""

_DAY = 86_400.0
_MANY = 1_000_000
_TYPES = ("peer", "user", "team", "turn", "token")


def callers_of(setting: str, names: tuple[str, ...]) -> Allow:
    """The callers that a setting names; none: nobody.

    Raises:
        Rejected: a name is no type of callers, and has no id behind `team:` or `token:`.
    """
    types, teams, tokens = list[str](), list[str](), list[str]()
    for name in names:
        kind, _, identity = name.partition(":")
        if name in _TYPES:
            types.append(name)
        elif kind in ("team", "token") and identity:
            (teams if kind == "team" else tokens).append(identity)
        else:
            known = ", ".join(_TYPES)
            raise Rejected(f"{setting}: {name!r} is none of {known}, team:ID and token:ID", code="bad_settings")
    return Allow(types=tuple(types), teams=tuple(teams), tokens=tuple(tokens))


def fleet_definition(agent: FunctionAgent, allow: Allow) -> AgentDefinition:
    """The agent that callers use; its revision is set when it is published."""
    return AgentDefinition(
        team=FLEET_TEAM,
        agent=FLEET_AGENT,
        kind="fleet",
        title="Fleet",
        description="Coding agents in workspaces of Coder: creates and deletes them, gives them tasks and stops them.",
        version=version("pallas-fleet"),
        tools=tuple(tool.definition for tool in agent.tools.values()),
        resources=tuple(resource.definition for resource in agent.resources.values()),
        announces=bool(agent.resources),
        limits=Limits(turn_timeout=_CALL_SECONDS, max_concurrency=CALLS, max_attempts=_CALL_ATTEMPTS),
        retry="safe",
        allow=allow,
        updated_at=utc_now(),
    )


def tasks_definition(tasks: int) -> AgentDefinition:
    """The agent whose turns are tasks, of which `tasks` run at a time. Nobody may call it."""
    return AgentDefinition(
        team=FLEET_TEAM,
        agent=FLEET_TASKS_AGENT,
        kind="fleet",
        title="Tasks of the fleet",
        description="Each turn is a task of a coding agent. Only the fleet makes them.",
        version=version("pallas-fleet"),
        tools=(
            ToolDefinition(name=RUN_TASK, description="Types a task's prompt, and watches until the agent is done."),
        ),
        limits=Limits(turn_timeout=_DAY, max_concurrency=tasks, max_attempts=_MANY),
        retry="safe",
        allow=Allow(),
        updated_at=utc_now(),
    )
