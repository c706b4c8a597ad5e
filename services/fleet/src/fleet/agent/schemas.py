"""Schemas of the tools (`fleet-mcp-tools.md`).

Those of arguments say presence and JSON types only, which `check_given` checks: what a value may be is checked by the
handlers. So all errors have the form of the contract.
"""

from importlib.metadata import version
from typing import Any

from fleet.running.typing import RUN_TASK
from pallas_contracts.agents import AgentDefinition, Allow, JsonObject, Limits, ToolDefinition
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TASKS_AGENT, FLEET_TEAM
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_hosting.functions.agent import FunctionAgent

_TEXT: JsonObject = {"type": "string"}
_OPTIONAL: JsonObject = {"type": ["string", "null"]}
_COUNT: JsonObject = {"type": "integer"}
_TIME: JsonObject = {"type": "string", "description": "UTC, as YYYY-MM-DDTHH:MM:SSZ"}
_MAYBE_TIME: JsonObject = {"type": ["string", "null"], "description": "UTC, as YYYY-MM-DDTHH:MM:SSZ"}
_AGENT_STATUS: JsonObject = {"type": "string", "enum": ["busy", "idle", "offline"]}
_TASK_STATUS: JsonObject = {"type": "string", "enum": ["pending", "running", "completed", "failed", "stopped"]}
_SOURCE: JsonObject = {"type": "string", "enum": ["agent", "human", "ai_controller"]}


def _object(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(of: JsonObject) -> JsonObject:
    return {"type": "array", "items": of}


def _takes(required: tuple[str, ...] = (), **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def _text(description: str, **more: Any) -> JsonObject:
    return {"type": "string", "description": description, **more}


_KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float)}


def check_given(takes: JsonObject, given: JsonObject) -> None:
    """Check the arguments of a call; those that the tool does not know are left alone.

    Raises:
        Rejected: one is missing, or of another JSON type (`field`).
    """
    for name in takes["required"]:
        if name not in given:
            raise Rejected(f"{name} is missing.", field=name)
    for name, kind in ((name, form["type"]) for name, form in takes["properties"].items() if name in given):
        value = int(it) if isinstance(it := given[name], float) and it.is_integer() else it
        if isinstance(value, bool) or not isinstance(value, _KINDS[kind]):
            raise Rejected(f"{name} must be of the JSON type {kind}.", field=name)


_METADATA: JsonObject = {
    "type": "object",
    "description": "What the workspace reports; what it does not report is left out",
    "properties": {
        "fleet_mcp_agent_spec": _TEXT,
        "fleet_mcp_pull_request_url": _TEXT,
        "fleet_mcp_pull_request_status": _TEXT,
        "fleet_mcp_pull_request_check_status": _TEXT,
    },
    "required": ["fleet_mcp_agent_spec"],
    "additionalProperties": _TEXT,
}
_AGENT = _object(
    name=_TEXT,
    workspace_id=_TEXT,
    status=_AGENT_STATUS,
    role=_TEXT,
    project=_TEXT,
    spec=_TEXT,
    current_task=_OPTIONAL,
    created_at=_TIME,
    updated_at=_TIME,
    metadata=_METADATA,
)
_TASK = _object(
    id=_TEXT,
    agent_name=_TEXT,
    summary=_TEXT,
    status=_TASK_STATUS,
    source=_SOURCE,
    created_at=_TIME,
    started_at=_MAYBE_TIME,
    completed_at=_MAYBE_TIME,
)

NOTHING = _takes()
AGENT_NAME = _takes(("agent_name",), agent_name=_text("Name of the agent"))

CREATE = _takes(
    ("name", "project", "spec"),
    name=_text("Unique agent name: 1 to 20 letters, digits and hyphens, such as Papi"),
    project=_text("Project name, which is that of a Coder template, such as Setup"),
    role=_text("Agent role, one of those that list_agent_roles has for the project", default="coder"),
    spec=_text("What the agent is for: objective, context, deliverables. The agent begins with it at once"),
)
_NEW_AGENT = _AGENT | {"properties": _AGENT["properties"] | {"status": {"type": "string", "enum": ["idle"]}}}
CREATED = _object(agent=_NEW_AGENT, message=_TEXT)

LISTED = _object(
    agents=_list(_object(name=_TEXT, status=_AGENT_STATUS, current_task=_OPTIONAL)),
    total_count=_COUNT,
)
SHOWN = _object(agent=_AGENT)

HISTORY = _takes(
    ("agent_name",),
    agent_name=_text("Name of the agent"),
    page={"type": "integer", "description": "Page number, from 1", "default": 1},
    page_size={"type": "integer", "description": "Tasks per page, at most 100", "default": 20},
)
HISTORY_PAGE = _object(tasks=_list(_TASK), total_count=_COUNT, page=_COUNT, page_size=_COUNT, total_pages=_COUNT)

DELETED = _object(message=_TEXT, deleted_agent=_object(name=_TEXT, workspace_id=_TEXT))

START = _takes(
    ("agent_name", "task_description"),
    agent_name=_text("Name of the agent"),
    task_description=_text("What the agent is to do"),
)
STARTED = _object(
    task=_object(
        id=_TEXT,
        agent_name=_TEXT,
        summary=_TEXT,
        status={"type": "string", "enum": ["running"]},
        created_at=_TIME,
        started_at=_TIME,
    ),
    agent_status={"type": "string", "enum": ["busy"]},
    message=_TEXT,
)
STOPPED = _object(
    task=_object(
        id=_TEXT,
        agent_name=_TEXT,
        summary=_TEXT,
        status={"type": "string", "enum": ["stopped"]},
        source=_SOURCE,
        created_at=_TIME,
        started_at=_TIME,
        completed_at=_TIME,
    ),
    agent_status={"type": "string", "enum": ["idle"]},
    message=_TEXT,
)

PROJECT = _takes(("project",), project=_text("Project name, such as Setup"))
ROLES = _object(roles=_list(_object(name=_TEXT, display_name=_TEXT, description=_TEXT)))
PROJECTS = _object(
    projects=_list(_object(name=_TEXT, display_name=_TEXT, description=_TEXT, template_id=_TEXT, template_name=_TEXT))
)

WAIT = _takes(
    ("agent_name",),
    agent_name=_text("Name of the agent"),
    task_id=_text("Id of the task; by default the one that the agent has, or had last"),
    seconds={"type": "number", "description": "How long to wait at most; not more than 50", "default": 30},
)
WAITED = _object(task=_TASK, ended={"type": "boolean"}, reason=_OPTIONAL, asks=_OPTIONAL)


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
